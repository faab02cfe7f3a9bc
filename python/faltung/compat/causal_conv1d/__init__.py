"""Drop-in for the package causal_conv1d (Dao-AILab), by the interface of its version 1.7."""

from .causal_conv1d_interface import causal_conv1d_fn, causal_conv1d_update
from .causal_conv1d_varlen import causal_conv1d_varlen_states

__version__ = "1.7.0"  # what packages that ask for a version are told: the interface that is here
__all__ = ["causal_conv1d_fn", "causal_conv1d_update", "causal_conv1d_varlen_states"]
