"""Drop-in for the package subquadratic_ops_torch, by the interface of its version 0.3: submodules, each with the function of its name. Nothing
is registered under that package's operator names."""

from . import b2b_causal_conv1d, causal_conv1d, fft_causal_conv1d, fft_conv1d, fft_conv2d, fused_fft_conv2d, rearrange

__version__ = "0.3.1"  # what packages that ask for a version are told: the interface that is here
__all__ = ["b2b_causal_conv1d", "causal_conv1d", "fft_causal_conv1d", "fft_conv1d", "fft_conv2d", "fused_fft_conv2d", "rearrange"]
