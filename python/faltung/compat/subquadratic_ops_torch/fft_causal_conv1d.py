"""fft_causal_conv1d: long convolution over time, causal."""

from .. import _calls


def fft_causal_conv1d(x, weight):
    """y of x ``[B, C, L]`` and weight ``[C, K]``; weight[:, 0] multiplies the current token."""
    _calls.expect_rank(x, 3, "x", "[B, C, L]")
    return _calls.long_conv(x, weight, boundary="causal")
