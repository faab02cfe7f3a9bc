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


def causal_conv1d_with_state(x, weight, bias, final_state_out=None, **options):
    """(y, final state [N, D, W-1]), the latter in `final_state_out` if that is given."""
    if final_state_out is None:
        return causal_conv1d(x, weight, bias, return_final_state=True, **options)
    if needs_gradients(x, weight, bias, options.get("initial_state"), final_state_out):
        y, final_state = causal_conv1d(x, weight, bias, return_final_state=True, state_columns=weight.shape[-1] - 1, **options)
        return y, final_state_out.copy_(final_state)  # copy_ carries gradients
    y = torch.empty_like(x)
    causal_conv1d_into(y, final_state_out, x, weight, bias, **options)
    return y, final_state_out


def causal_conv1d_into(
    y, final_state, x, weight, bias=None, *, initial_state=None, cu_seqlens=None, seq_idx=None, activation=None, channels_last=False
):
    """The forward into memory of the caller's, without gradients; final_state may be None."""
    try:
        torch.ops.faltung.causal_conv1d_out(
            x, weight, y, final_state, bias, None, initial_state, cu_seqlens, seq_idx, None, int(activation is not None), channels_last
        )
    except RuntimeError as error:
        tensors = {"x": x, "weight": weight, "y": y, "bias": bias, "final_state": final_state, "initial_state": initial_state}
        other = _errors.translated(error, **tensors, cu_seqlens=cu_seqlens, seq_idx=seq_idx)
        if other is error:
            raise
        raise other from None


def needs_gradients(*tensors):
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def expect_tensor(tensor, name):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(tensor).__name__}")


def expect_rank(tensor, rank, name, shape):
    expect_tensor(tensor, name)
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
