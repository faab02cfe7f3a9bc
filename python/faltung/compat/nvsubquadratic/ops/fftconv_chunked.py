"""The chunked spellings, and the switches for them. Chunks of channels bound the memory that the original's spectra take; here there are none,
so that a switch and a chunk size are kept and change nothing: results are those of the functions without chunks, bit for bit."""

import contextlib

import torch

from ._spellings import check_chunk_size, linear

_enabled = True
_chunk_size = 128


def set_chunking_enabled(enabled):
    global _enabled
    _enabled = enabled


def is_chunking_enabled():
    return _enabled


def set_default_chunk_size(chunk_size):
    global _chunk_size
    check_chunk_size(chunk_size)
    _chunk_size = chunk_size


def get_default_chunk_size():
    return _chunk_size


@contextlib.contextmanager
def chunking_enabled(enabled=True, chunk_size=None):
    """The switches for the time of a block."""
    before = is_chunking_enabled(), get_default_chunk_size()
    set_chunking_enabled(enabled)
    if chunk_size is not None:
        set_default_chunk_size(chunk_size)
    try:
        yield
    finally:
        set_chunking_enabled(before[0])
        set_default_chunk_size(before[1])


def enable_chunking(module_or_flag=None, chunk_size=None):
    """A context manager (no argument), the switch (a bool), or a decorator of an nn.Module class."""
    if module_or_flag is None:
        return chunking_enabled(True, chunk_size)
    if isinstance(module_or_flag, bool):
        set_chunking_enabled(module_or_flag)
        if chunk_size is not None:
            set_default_chunk_size(chunk_size)
        return None
    if isinstance(module_or_flag, type) and issubclass(module_or_flag, torch.nn.Module):
        return module_or_flag  # there is nothing to switch on around its forward
    raise TypeError(f"enable_chunking: expected a bool, an nn.Module class or None, got {type(module_or_flag).__name__}")


causal_fftconv1d_fp32_bhl_chunked = linear("causal_fftconv1d_fp32_bhl_chunked", __name__, axes=1, boundary="causal", chunked=True)
fftconv1d_fp32_bhl_chunked = linear("fftconv1d_fp32_bhl_chunked", __name__, axes=1, chunked=True)
fftconv2d_fp32_bhl_chunked = linear("fftconv2d_fp32_bhl_chunked", __name__, axes=2, chunked=True)
fftconv3d_fp32_bhl_chunked = linear("fftconv3d_fp32_bhl_chunked", __name__, axes=3, chunked=True)
causal_fftconv1d_fp32_blh = linear("causal_fftconv1d_fp32_blh", __name__, axes=1, boundary="causal")
fftconv1d_fp32_blh = linear("fftconv1d_fp32_blh", __name__, axes=1)
fftconv2d_fp32_blh = linear("fftconv2d_fp32_blh", __name__, axes=2)
fftconv3d_fp32_blh = linear("fftconv3d_fp32_blh", __name__, axes=3)
causal_fftconv1d_fp32_bhl_w_reshape = linear("causal_fftconv1d_fp32_bhl_w_reshape", __name__, axes=1, boundary="causal")
fftconv1d_fp32_bhl_w_reshape = linear("fftconv1d_fp32_bhl_w_reshape", __name__, axes=1)
fftconv2d_fp32_bhl_w_reshape = linear("fftconv2d_fp32_bhl_w_reshape", __name__, axes=2)
fftconv3d_fp32_bhl_w_reshape = linear("fftconv3d_fp32_bhl_w_reshape", __name__, axes=3)
causal_fftconv1d_fp32_bhl = linear("causal_fftconv1d_fp32_bhl", __name__, axes=1, boundary="causal")
fftconv1d_fp32_bhl = linear("fftconv1d_fp32_bhl", __name__, axes=1)
fftconv2d_fp32_bhl = linear("fftconv2d_fp32_bhl", __name__, axes=2)
fftconv3d_fp32_bhl = linear("fftconv3d_fp32_bhl", __name__, axes=3)

__all__ = [
    "causal_fftconv1d_fp32_bhl",
    "causal_fftconv1d_fp32_bhl_chunked",
    "causal_fftconv1d_fp32_bhl_w_reshape",
    "causal_fftconv1d_fp32_blh",
    "chunking_enabled",
    "enable_chunking",
    "fftconv1d_fp32_bhl",
    "fftconv1d_fp32_bhl_chunked",
    "fftconv1d_fp32_bhl_w_reshape",
    "fftconv1d_fp32_blh",
    "fftconv2d_fp32_bhl",
    "fftconv2d_fp32_bhl_chunked",
    "fftconv2d_fp32_bhl_w_reshape",
    "fftconv2d_fp32_blh",
    "fftconv3d_fp32_bhl",
    "fftconv3d_fp32_bhl_chunked",
    "fftconv3d_fp32_bhl_w_reshape",
    "fftconv3d_fp32_blh",
    "get_default_chunk_size",
    "is_chunking_enabled",
    "set_chunking_enabled",
    "set_default_chunk_size",
]
