"""What the drop-in modules call: the operators in the dtype of x. The packages that they stand in for know no autocast rule, so none is
applied; errors are in the library's words."""

import torch

from .. import _errors, causal_conv1d as _causal_conv1d_function
from .._long_conv_gradients import differentiable
from ..long_conv import boundary_code


def long_conv(x, k, shortcut=None, *, boundary="zero", channels_last=False, centre=None):
    """faltung.long_conv; `centre`: c of y[i] = sum over m of x[i + c - m] k[m] for each spatial axis, None: that of the boundary."""
    try:
        return differentiable(x, k, shortcut, boundary_code(boundary, x.dim() - 2), channels_last, centre)
    except (RuntimeError, AttributeError) as error:
        other = _errors.translated(error, x=x, k=k, shortcut=shortcut)
        if other is error:
            raise
        raise other from None


def causal_conv1d(x, *arguments, **options):
    """faltung.causal_conv1d."""
    if isinstance(x, torch.Tensor) and x.device.type != "meta" and torch.is_autocast_enabled(x.device.type):
        with torch.autocast(x.device.type, enabled=False):
            return _causal_conv1d_function(x, *arguments, **options)
    return _causal_conv1d_function(x, *arguments, **options)


def expect_rank(tensor, rank, name, shape):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.dim() != rank:
        raise ValueError(f"{name}: expected {shape}, got shape {tuple(tensor.shape)}")


def b2b_causal_conv1d(x, weight_proj, weight_mixer, skip_bias):
    """q (causal_conv1d(a v, weight_mixer) + skip_bias a v), where q, a and v are the channels of causal_conv1d(x, weight_proj) in turn."""
    projected = causal_conv1d(x, weight_proj)
    q, a, v = projected[:, 0::3], projected[:, 1::3], projected[:, 2::3]
    # The skip joins the current token's tap, in a precision that x's may not have: one pass and one rounding less.
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    weight_mixer, skip_bias = weight_mixer.to(wide), skip_bias.to(wide)
    current = weight_mixer[:, -1:] + skip_bias[:, None]
    return q * causal_conv1d(a * v, torch.cat([weight_mixer[:, :-1], current], dim=1))
