"""Fused convolutions whose filters are as large as the grid, or larger (`long_conv`), or a few taps
long with carried state (`causal_conv1d`), for torch.

    y = faltung.long_conv(x, k)                    # y[b, c] = x[b, c] * k[c], same size, 1, 2 or 3 axes
    y = faltung.causal_conv1d(x, weight, bias, activation="silu")
    print(faltung.explain("long_conv", x, k))      # which implementation serves the call, and why no other
"""

import importlib

from . import _library  # loads the operators: before everything else
from . import _causal_conv1d_fake, _long_conv_fake  # noqa: F401  for torch.compile and meta tensors
from .causal_conv1d import causal_conv1d, causal_conv1d_update
from .explain import Explanation, explain
from .long_conv import long_conv
from . import compat  # after the functions that it calls

__version__ = _library.version
__all__ = ["Explanation", "__version__", "causal_conv1d", "causal_conv1d_update", "compat", "explain", "long_conv"]


def __getattr__(name):
    # faltung.compile imports much of torch's compiler, faltung.nn all of torch.nn: when they are asked for.
    if name in ("compile", "nn"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
