"""Drop-in for fla's (flash-linear-attention's) causal_conv1d, by the interface of its version 0.6; nothing else of fla is here."""

from . import modules

__all__ = ["modules"]
