"""fft_conv1d: long convolution over one axis, zero boundary."""

from .. import _calls


def fft_conv1d(x, weight):
    """y of x ``[B, C, L]`` and weight ``[C, K]``, same size; tap floor(K/2) is the centre."""
    _calls.expect_rank(x, 3, "x", "[B, C, L]")
    return _calls.long_conv(x, weight)
