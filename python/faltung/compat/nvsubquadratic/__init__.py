"""Drop-in for the op functions of nvsubquadratic, by the interface of its version 0.2: nvsubquadratic.ops.fftconv and its siblings."""

from . import ops

__version__ = "0.2.0"  # what packages that ask for a version are told: the interface that is here
__all__ = ["ops"]
