"""The functions that the original gives to kernels of subquadratic_ops_torch. The fused ones keep its table of squares and their errors, so that
code which asks first gets the answers that it knows; nothing else of them is limited."""

import torch

from ...subquadratic_ops_torch.fused_fft_conv2d import SIZES, least_size
from ._spellings import check_chunk_size, convolve, linear

FUSED_FFT_SIZE_128_MIN_ARCH = (0, 0)  # of the compute capability that the largest square needs: none

fftconv2d_bhl = linear("fftconv2d_bhl", __name__, axes=2)
fftconv2d_bhl_chunked = linear("fftconv2d_bhl_chunked", __name__, axes=2, chunked=True)
fftconv2d_bhl_w_reshape = linear("fftconv2d_bhl_w_reshape", __name__, axes=2)
fftconv2d_bhl_w_reshape_chunked = linear("fftconv2d_bhl_w_reshape_chunked", __name__, axes=2, chunked=True)
fftconv2d_blh = linear("fftconv2d_blh", __name__, axes=2)
fftconv2d_blh_chunked = linear("fftconv2d_blh_chunked", __name__, axes=2, chunked=True)
causal_fftconv1d_bhl = linear("causal_fftconv1d_bhl", __name__, axes=1, boundary="causal")
causal_fftconv1d_bhl_chunked = linear("causal_fftconv1d_bhl_chunked", __name__, axes=1, boundary="causal", chunked=True)
causal_fftconv1d_bhl_w_reshape = linear("causal_fftconv1d_bhl_w_reshape", __name__, axes=1, boundary="causal")
causal_fftconv1d_bhl_w_reshape_chunked = linear("causal_fftconv1d_bhl_w_reshape_chunked", __name__, axes=1, boundary="causal", chunked=True)
causal_fftconv1d_blh = linear("causal_fftconv1d_blh", __name__, axes=1, boundary="causal")
causal_fftconv1d_blh_chunked = linear("causal_fftconv1d_blh_chunked", __name__, axes=1, boundary="causal", chunked=True)


def resolve_fused_fft_size(x_dim, y_dim, k_x, k_y, fft_size=None):
    """The points T an axis of the square that holds an input of x_dim x y_dim points and a filter of k_x x k_y taps: of SIZES the least with
    T/2 >= x_dim, y_dim, k_x/2, k_y/2. A given fft_size is checked instead. ValueError where there is none."""
    need = max(x_dim, y_dim, -(-k_x // 2), -(-k_y // 2))
    least = least_size(need)
    sizes = f"input of {x_dim} x {y_dim} points with a filter of {k_x} x {k_y} taps"
    if fft_size is None:
        if least > SIZES[-1]:
            raise ValueError(f"{sizes}: expected at most {SIZES[-1] // 2} points an axis and {SIZES[-1]} taps, this needs fft_size={least}")
        return least
    if fft_size not in SIZES:
        raise ValueError(f"fft_size: expected one of {SIZES}, got {fft_size}")
    if fft_size // 2 < need:
        raise ValueError(f"fft_size={fft_size} is too small for an {sizes}: expected at least {least}")
    return fft_size


def fused_fftconv2d_max_spatial():
    """The most points an axis that the fused functions take."""
    return SIZES[-1] // 2


def fused_fftconv2d_supported(x_dim, y_dim, k_x, k_y):
    """Whether resolve_fused_fft_size has an answer."""
    try:
        resolve_fused_fft_size(x_dim, y_dim, k_x, k_y)
    except ValueError:
        return False
    return True


def fused_fftconv2d_arch_supported(device=None, fft_size=128):
    """Whether `device` (None: the current GPU) can run the fused functions: any processor, and any GPU that torch sees."""
    return device is not None and device.type == "cpu" or torch.cuda.is_available()


def load_fused_fft_conv2d():
    """Nothing: importing faltung has registered its operators."""


def _fused(x, kernel, shortcut, fft_size, channels_last):
    rows, columns = x.shape[1:3] if channels_last else x.shape[2:4]
    taps = kernel.shape[-3:-1] if channels_last else kernel.shape[-2:]
    resolve_fused_fft_size(rows, columns, *taps, fft_size)
    return convolve(x, kernel, shortcut, 2, "zero", channels_last)


def fused_fftconv2d_bhl(x, kernel, shortcut=None, fft_size=None):
    """Long convolution over two axes + shortcut x of x [B, H, X, Y] and kernel [1|B, H, Kx, Ky] that fit a square of SIZES."""
    return _fused(x, kernel, shortcut, fft_size, False)


def fused_fftconv2d_blh(x, kernel, shortcut=None, fft_size=None):
    """fused_fftconv2d_bhl of x [B, X, Y, H] and kernel [1|B, Kx, Ky, H]."""
    return _fused(x, kernel, shortcut, fft_size, True)


def fused_fftconv2d_bhl_chunked(x, kernel, shortcut=None, chunk_size=None, fft_size=None):
    """fused_fftconv2d_bhl; chunk_size changes nothing."""
    check_chunk_size(chunk_size)
    return _fused(x, kernel, shortcut, fft_size, False)


def fused_fftconv2d_blh_chunked(x, kernel, shortcut=None, chunk_size=None, fft_size=None):
    """fused_fftconv2d_blh; chunk_size changes nothing."""
    check_chunk_size(chunk_size)
    return _fused(x, kernel, shortcut, fft_size, True)


def fused_fftconv2d_bhl_w_reshape(x, kernel, shortcut=None, fft_size=None):
    """fused_fftconv2d_blh."""
    return _fused(x, kernel, shortcut, fft_size, True)


def fused_fftconv2d_bhl_w_reshape_chunked(x, kernel, shortcut=None, chunk_size=None, fft_size=None):
    """fused_fftconv2d_blh_chunked."""
    return fused_fftconv2d_blh_chunked(x, kernel, shortcut, chunk_size, fft_size)


__all__ = [
    "FUSED_FFT_SIZE_128_MIN_ARCH",
    "causal_fftconv1d_bhl",
    "causal_fftconv1d_bhl_chunked",
    "causal_fftconv1d_bhl_w_reshape",
    "causal_fftconv1d_bhl_w_reshape_chunked",
    "causal_fftconv1d_blh",
    "causal_fftconv1d_blh_chunked",
    "fftconv2d_bhl",
    "fftconv2d_bhl_chunked",
    "fftconv2d_bhl_w_reshape",
    "fftconv2d_bhl_w_reshape_chunked",
    "fftconv2d_blh",
    "fftconv2d_blh_chunked",
    "fused_fftconv2d_arch_supported",
    "fused_fftconv2d_bhl",
    "fused_fftconv2d_bhl_chunked",
    "fused_fftconv2d_bhl_w_reshape",
    "fused_fftconv2d_bhl_w_reshape_chunked",
    "fused_fftconv2d_blh",
    "fused_fftconv2d_blh_chunked",
    "fused_fftconv2d_max_spatial",
    "fused_fftconv2d_supported",
    "load_fused_fft_conv2d",
    "resolve_fused_fft_size",
]
