"""causal_conv1d_fn and causal_conv1d_update over faltung.causal_conv1d, and the two references in plain torch that the original has beside
them. x is [B, D, T] of any strides; states are [B, D, W-1], oldest token first."""

import torch
import torch.nn.functional as F

from ... import causal_conv1d_update as _update
from .. import _calls

_ACTIVATIONS = (None, "silu", "swish")


def _check_activation(activation):
    if activation not in _ACTIVATIONS:
        raise NotImplementedError(f'activation: expected None, "silu" or "swish", got {activation!r}')


def causal_conv1d_fn(
    x, weight, bias=None, seq_idx=None, initial_states=None, return_final_states=False, final_states_out=None, activation=None
):  # fmt: skip
    """Depthwise causal convolution of x ``[B, D, T]`` with weight ``[D, W]``; the last tap multiplies the current token.

    Args:
        bias: ``[D]`` or None.
        seq_idx: ``[B, T]`` int32; a run of equal labels is a sequence of its own.
        initial_states: ``[B, D, W-1]``, the tokens before x.
        return_final_states: also return the last W-1 tokens, written to `final_states_out` if that is given.
        activation: None, "silu" or "swish".

    Returns:
        y, or (y, final_states).
    """
    _check_activation(activation)
    options = {"activation": activation, "initial_state": initial_states, "seq_idx": seq_idx}
    if return_final_states:
        return _calls.causal_conv1d_with_state(x, weight, bias, final_states_out, **options)
    return _calls.causal_conv1d(x, weight, bias, **options)


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, cache_seqlens=None, conv_state_indices=None):
    """The next token(s) x ``[B, D]`` or ``[B, D, T]`` against conv_state ``[slots, D, S]``, S >= W-1, which advances in place.

    Args:
        cache_seqlens: ``[B]`` int32: conv_state is a ring that starts there; None: its last columns are the latest tokens.
        conv_state_indices: ``[B]`` int32, the slot of each row; negative: padding, y is 0.
    """
    _check_activation(activation)
    window = "trailing" if cache_seqlens is None else "ring"
    return _update(
        x, conv_state, weight, bias, activation=activation, cache_seqlens=cache_seqlens, state_indices=conv_state_indices, window=window
    )


# ---- The references: the definition in torch's own operators, for comparison alone


def causal_conv1d_ref(
    x, weight, bias=None, initial_states=None, return_final_states=False, final_states_out=None, activation=None, seq_idx=None
):  # fmt: skip
    """What causal_conv1d_fn computes, in plain torch and in the dtype of `weight`."""
    _check_activation(activation)
    dtype, (channels, width), time = x.dtype, weight.shape, x.shape[-1]
    x = x.to(weight.dtype)
    past = x.new_zeros(x.shape[0], channels, width - 1) if initial_states is None else initial_states.to(x.dtype)
    padded = torch.cat([past, x], dim=-1)
    if seq_idx is None:
        y = F.conv1d(padded, weight[:, None], bias, groups=channels)[..., :time]
    else:
        y = (padded.unfold(2, width, 1) * _same_run(seq_idx, width)[:, None] * weight[:, None]).sum(-1)
        y = y if bias is None else y + bias[:, None]
        y = torch.where(seq_idx[:, None] < 0, 0, y)
    y = (y if activation is None else F.silu(y)).to(dtype)
    if not return_final_states:
        return y
    final_states = padded[..., time:].to(dtype)  # the last width - 1 columns
    return y, final_states if final_states_out is None else final_states_out.copy_(final_states)


def _same_run(seq_idx, width):
    """Whether a tap of a token's window lies in the token's run of equal labels, ``[B, T, W]``; what precedes x belongs to the first run."""
    changes = F.pad((seq_idx[:, 1:] != seq_idx[:, :-1]).long(), (1, 0))
    run = changes.cumsum(1)
    return F.pad(run, (width - 1, 0)).unfold(1, width, 1) == run[..., None]


def causal_conv1d_update_ref(x, conv_state, weight, bias=None, activation=None, cache_seqlens=None):
    """What causal_conv1d_update computes without indices, in plain torch and in the dtype of `weight`; conv_state changes."""
    _check_activation(activation)
    dtype, (channels, width), columns = x.dtype, weight.shape, conv_state.shape[-1]
    tokens = x[..., None] if x.dim() == 2 else x
    count = tokens.shape[-1]
    if cache_seqlens is None:
        window = torch.cat([conv_state, tokens.to(conv_state.dtype)], dim=-1)
        conv_state.copy_(window[..., -columns:])
    else:
        at = (cache_seqlens[:, None].long() + torch.arange(1 - width, count, device=x.device)) % columns
        at = at[:, None].expand(-1, channels, -1)
        window = torch.cat([conv_state.gather(2, at[..., : width - 1]), tokens.to(conv_state.dtype)], dim=-1)
        conv_state.scatter_(2, at[..., width - 1 :], tokens.to(conv_state.dtype))
    y = F.conv1d(window.to(weight.dtype), weight[:, None], bias, groups=channels)[..., -count:]
    y = (y if activation is None else F.silu(y)).to(dtype)
    return y[..., 0] if x.dim() == 2 else y
