"""Modules around the operators: filters as parameters (`LongConv1d`, `LongConv2d`, `LongConv3d`, `CausalConv1d`), filters that a small network
makes out of coordinates (`CKConv1d`, `CKConv2d`, `CKConv3d`), and the Hyena operator, which has both."""

from .causal_conv1d import CausalConv1d
from .ckconv import CKConv1d, CKConv2d, CKConv3d
from .hyena import HyenaOperator
from .long_conv import LongConv1d, LongConv2d, LongConv3d
from .masks import ExponentialMask, GaussianMask
from .siren import Siren

__all__ = [
    "CKConv1d", "CKConv2d", "CKConv3d", "CausalConv1d", "ExponentialMask", "GaussianMask", "HyenaOperator", "LongConv1d", "LongConv2d", "LongConv3d", "Siren",
]  # fmt: skip
