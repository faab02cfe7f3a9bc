"""The op functions, module by module as in the original. Names end in the layout of x and kernel:

..._bhl                  x [B, H, *spatial], kernel [1|B, H, *taps]
..._blh, ..._w_reshape   x [B, *spatial, H], kernel [1|B, *taps, H]
..._chunked              with a chunk_size, which changes nothing: there are no spectra in memory that chunks of channels would save
"""

from . import circular_fftconv, fftconv, fftconv_chunked, fftconv_custom, mixed_fftconv

__all__ = ["circular_fftconv", "fftconv", "fftconv_chunked", "fftconv_custom", "mixed_fftconv"]
