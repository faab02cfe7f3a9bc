"""fla.modules, as far as it convolves."""

from . import causal_conv1d

__all__ = ["causal_conv1d"]
