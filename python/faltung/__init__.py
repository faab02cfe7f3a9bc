"""Fused convolutions whose filters are as large as the grid, or larger (`long_conv`), for torch.

    y = faltung.long_conv(x, k)                    # y[b, c] = x[b, c] * k[c], same size, 1, 2 or 3 axes
    print(faltung.explain("long_conv", x, k))      # which implementation serves the call, and why no other
"""

from . import _library  # loads the operators: before everything else
from . import _long_conv_fake  # noqa: F401  for torch.compile and meta tensors
from .explain import Explanation, explain
from .long_conv import long_conv

__version__ = _library.version
__all__ = ["Explanation", "__version__", "explain", "long_conv"]
