"""Drop-in for the causal convolutions of the cuDNN front end, by the interface of its version 1.32: `cudnn.ops`, and the bulk forward in
`cudnn.causal_conv1d_bulk_sm100`. Nothing else of the front end is here."""

from . import causal_conv1d_bulk_sm100, ops

__version__ = "1.32.0"  # what packages that ask for a version are told: the interface that is here
__all__ = ["causal_conv1d_bulk_sm100", "ops"]
