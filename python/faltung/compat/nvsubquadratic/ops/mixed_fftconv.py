"""Long convolutions with a boundary of its own on each axis: periodic[axis] says whether it wraps."""

from ._spellings import mixed

mixed_fftconv1d_fp32_bhl = mixed("mixed_fftconv1d_fp32_bhl", __name__, axes=1)
mixed_fftconv2d_fp32_bhl = mixed("mixed_fftconv2d_fp32_bhl", __name__, axes=2)
mixed_fftconv3d_fp32_bhl = mixed("mixed_fftconv3d_fp32_bhl", __name__, axes=3)
mixed_fftconv1d_fp32_bhl_w_reshape = mixed("mixed_fftconv1d_fp32_bhl_w_reshape", __name__, axes=1)
mixed_fftconv2d_fp32_bhl_w_reshape = mixed("mixed_fftconv2d_fp32_bhl_w_reshape", __name__, axes=2)
mixed_fftconv3d_fp32_bhl_w_reshape = mixed("mixed_fftconv3d_fp32_bhl_w_reshape", __name__, axes=3)
mixed_fftconv1d_fp32_bhl_chunked = mixed("mixed_fftconv1d_fp32_bhl_chunked", __name__, axes=1, chunked=True)
mixed_fftconv2d_fp32_bhl_chunked = mixed("mixed_fftconv2d_fp32_bhl_chunked", __name__, axes=2, chunked=True)
mixed_fftconv3d_fp32_bhl_chunked = mixed("mixed_fftconv3d_fp32_bhl_chunked", __name__, axes=3, chunked=True)
mixed_fftconv1d_fp32_bhl_w_reshape_chunked = mixed("mixed_fftconv1d_fp32_bhl_w_reshape_chunked", __name__, axes=1, chunked=True)
mixed_fftconv2d_fp32_bhl_w_reshape_chunked = mixed("mixed_fftconv2d_fp32_bhl_w_reshape_chunked", __name__, axes=2, chunked=True)
mixed_fftconv3d_fp32_bhl_w_reshape_chunked = mixed("mixed_fftconv3d_fp32_bhl_w_reshape_chunked", __name__, axes=3, chunked=True)

__all__ = [
    "mixed_fftconv1d_fp32_bhl",
    "mixed_fftconv1d_fp32_bhl_chunked",
    "mixed_fftconv1d_fp32_bhl_w_reshape",
    "mixed_fftconv1d_fp32_bhl_w_reshape_chunked",
    "mixed_fftconv2d_fp32_bhl",
    "mixed_fftconv2d_fp32_bhl_chunked",
    "mixed_fftconv2d_fp32_bhl_w_reshape",
    "mixed_fftconv2d_fp32_bhl_w_reshape_chunked",
    "mixed_fftconv3d_fp32_bhl",
    "mixed_fftconv3d_fp32_bhl_chunked",
    "mixed_fftconv3d_fp32_bhl_w_reshape",
    "mixed_fftconv3d_fp32_bhl_w_reshape_chunked",
]
