"""Long convolutions with a circular boundary on every axis. Filters may be longer than the axis: they wrap and add, where the original asserts."""

from ._spellings import circular

circular_fftconv1d_fp32_bhl = circular("circular_fftconv1d_fp32_bhl", __name__, axes=1)
circular_fftconv2d_fp32_bhl = circular("circular_fftconv2d_fp32_bhl", __name__, axes=2)
circular_fftconv3d_fp32_bhl = circular("circular_fftconv3d_fp32_bhl", __name__, axes=3)
circular_fftconv1d_fp32_bhl_w_reshape = circular("circular_fftconv1d_fp32_bhl_w_reshape", __name__, axes=1)
circular_fftconv2d_fp32_bhl_w_reshape = circular("circular_fftconv2d_fp32_bhl_w_reshape", __name__, axes=2)
circular_fftconv3d_fp32_bhl_w_reshape = circular("circular_fftconv3d_fp32_bhl_w_reshape", __name__, axes=3)

__all__ = [
    "circular_fftconv1d_fp32_bhl",
    "circular_fftconv1d_fp32_bhl_w_reshape",
    "circular_fftconv2d_fp32_bhl",
    "circular_fftconv2d_fp32_bhl_w_reshape",
    "circular_fftconv3d_fp32_bhl",
    "circular_fftconv3d_fp32_bhl_w_reshape",
]
