"""fused_fft_conv2d: circular convolution on a square of T x T points, of which a window is kept."""

from .. import _calls

SIZES = (8, 16, 32, 64, 128)


def fused_fft_conv2d(x, weight, fft_size=None):
    """y[i] = (x convolved circularly with weight on T x T points)[i + T/2] for every point i of x, on both axes.

    Args:
        x: ``[B, H, X, Y]`` with X and Y up to T/2; float32, float16 or bfloat16.
        weight: ``[H, Kx, Ky]`` or ``[1|B, H, Kx, Ky]`` with Kx and Ky up to T, of x's dtype.
        fft_size: T, one of 8, 16, 32, 64, 128; None: twice the least power of two that holds X and Y.
    """
    _calls.expect_rank(x, 4, "x", "[B, H, X, Y]")
    rows, columns = x.shape[2:]
    size = least_size(max(rows, columns)) if fft_size is None else fft_size
    if size not in SIZES:
        asked = f"x of {rows} x {columns} points asks for {size}" if fft_size is None else f"got {fft_size}"
        raise ValueError(f"fft_size: expected one of {SIZES}, {asked}")
    if max(rows, columns) > size // 2:
        raise ValueError(f"fft_size={size}: expected x of at most {size // 2} points an axis, got {rows} x {columns}")
    if max(weight.shape[-2:]) > size:
        raise ValueError(f"fft_size={size}: expected a weight of at most {size} taps an axis, got {tuple(weight.shape[-2:])}")
    if weight.dtype != x.dtype:
        raise TypeError(f"weight: expected the dtype of x, {x.dtype}, got {weight.dtype}")
    # The points i + T/2 - m that the sum reads lie above -T/2, and x ends at T/2: whatever wraps meets zeros.
    return _calls.long_conv(x, weight, centre=[size // 2, size // 2])


def least_size(points):
    """Twice the least power of two that holds `points`, at least the smallest of SIZES."""
    return max(SIZES[0], 2 << max(points - 1, 0).bit_length())
