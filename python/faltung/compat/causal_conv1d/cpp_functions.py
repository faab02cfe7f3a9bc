"""The functions below autograd that packages with a backward of their own (mamba-ssm) call."""

import torch

from ... import _errors
from .. import _calls
from .causal_conv1d_interface import causal_conv1d_update

_backward = torch.ops.faltung.causal_conv1d_backward_detached.default
_backward_out = torch.ops.faltung.causal_conv1d_backward_out.default


def causal_conv1d_fwd_function(x, weight, bias, seq_idx, initial_states, final_states_out, silu_activation):
    """y of x ``[B, D, T]``; the last W-1 tokens go to `final_states_out`, if that is given."""
    y = torch.empty_like(x)
    activation = "silu" if silu_activation else None
    _calls.causal_conv1d_into(y, final_states_out, x, weight, bias, initial_state=initial_states, seq_idx=seq_idx, activation=activation)
    return y


def causal_conv1d_bwd_function(
    x, weight, bias, dout, seq_idx, initial_states, dfinal_states, dx, return_dinitial_states, silu_activation
):  # fmt: skip
    """(dx, dweight, dbias, dinitial_states); written to `dx`, if that is given. dbias is None without a bias, dinitial_states where not asked for."""
    if return_dinitial_states and initial_states is None:
        initial_states = x.new_zeros(x.shape[0], x.shape[1], weight.shape[1] - 1)
    inputs = bias, initial_states, dfinal_states, None, seq_idx, None, int(bool(silu_activation)), False
    needs = True, bias is not None, bool(return_dinitial_states)
    try:
        if dx is None:
            dx, *gradients, _ = _backward(dout, x, weight, *inputs, True, *needs, False)
        else:
            gradients = _backward_out(dout, x, weight, dx, *inputs, *needs)
    except RuntimeError as error:
        other = _errors.translated(error, dout=dout, x=x, weight=weight)
        if other is error:
            raise
        raise other from None
    return dx, *(gradient if needed else None for gradient, needed in zip(gradients, needs))


def causal_conv1d_update_function(x, conv_state, weight, bias, silu_activation, cache_seqlens, conv_state_indices):
    """y of the next token(s) of each row; conv_state advances in place."""
    activation = "silu" if silu_activation else None
    return causal_conv1d_update(x, conv_state, weight, bias, activation, cache_seqlens, conv_state_indices)
