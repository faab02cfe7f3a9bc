"""fft_conv2d: long convolution over two axes, zero boundary."""

from .. import _calls


def fft_conv2d(x, weight):
    """y of x ``[B, C, X, Y]`` and weight ``[C, Kx, Ky]`` or ``[1|B, C, Kx, Ky]``, same size; tap floor(K/2) of each axis is the centre."""
    _calls.expect_rank(x, 4, "x", "[B, C, X, Y]")
    return _calls.long_conv(x, weight)
