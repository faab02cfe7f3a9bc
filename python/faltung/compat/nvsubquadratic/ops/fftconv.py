"""Long convolutions with a zero or, over one axis, a causal boundary. "fp32" in a name is the original's: here sums are at least in float32, and
float64 stays float64."""

from ._spellings import linear

COMPILE_COMPATIBLE = False  # chose between two products of spectra in the original; without effect here

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
    "causal_fftconv1d_fp32_bhl_w_reshape",
    "causal_fftconv1d_fp32_blh",
    "fftconv1d_fp32_bhl",
    "fftconv1d_fp32_bhl_w_reshape",
    "fftconv1d_fp32_blh",
    "fftconv2d_fp32_bhl",
    "fftconv2d_fp32_bhl_w_reshape",
    "fftconv2d_fp32_blh",
    "fftconv3d_fp32_bhl",
    "fftconv3d_fp32_bhl_w_reshape",
    "fftconv3d_fp32_blh",
]
