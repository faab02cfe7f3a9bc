"""causal_conv1d: the short causal depthwise convolution with carried state, for whole sequences and token by token."""

import torch

from . import _errors
from ._causal_conv1d_c_api import ACTIVATIONS, WINDOWS, code
from ._causal_conv1d_gradients import differentiable
from .long_conv import autocast

_update = torch.ops.faltung.causal_conv1d_update.default


def final_columns(weight, initial_state, return_final_state, state_columns):
    """The operators' state_columns: -1 where no final state is wanted."""
    if not return_final_state:
        if state_columns is not None:
            raise ValueError(f"state_columns: expected None without return_final_state, got {state_columns!r}")
        return -1
    width = weight.shape[-1]
    if state_columns is None:
        return width - 1 if initial_state is None else initial_state.shape[-1]
    if state_columns not in (width - 1, width):
        raise ValueError(f"state_columns: expected width - 1 = {width - 1} or width = {width}, got {state_columns!r}")
    return state_columns


def causal_conv1d(
    x,
    weight,
    bias=None,
    *,
    activation=None,
    residual=None,
    initial_state=None,
    return_final_state=False,
    cu_seqlens=None,
    seq_idx=None,
    lengths=None,
    state_columns=None,
    channels_last=False,
    check=False,
):
    """Convolves every channel of `x` along time with its own few taps: y = activation(z) + residual,
    z[t] = bias + sum over j of weight[:, j] xs[t - (W-1) + j], where xs is the initial state (or zeros), then x.

    Args:
        x: ``[B, D, T]``, or ``[B, T, D]`` with `channels_last`; any strides, unit stride on either of the last two axes is fast.
        weight: ``[D, W]``, W from 1 to 256; ``weight[:, W-1]`` multiplies the current token.
        bias: ``[D]`` or None.
        activation: None, "silu" or "swish" (the same).
        residual: like `x` or None; added after the activation.
        initial_state: ``[N, D, W-1]``, the tokens before each sequence, oldest first; or ``[N, D, W]``, whose oldest column is not read.
        return_final_state: also return the last tokens of each sequence, bit for bit, in the dtype of `initial_state` (else of `x`): what
            the next chunk takes as its `initial_state`, and `causal_conv1d_update` as its `state`.
        cu_seqlens: ``[N+1]``, int32 or int64: sequence n is the tokens cu_seqlens[n] up to cu_seqlens[n+1] of the only row. y is 0 and
            gradients are zero for tokens of no sequence. Never read by the host.
        seq_idx: ``[B, T]`` int32: a run of equal labels is a sequence of its own; negative labels are padding. `initial_state` belongs to
            the first run of a row, the final state to the last.
        lengths: ``[B]``, int32 or int64: real tokens of a right-padded batch. y of the padding is 0.
        state_columns: W-1 or W columns of the final state; by default those of `initial_state`, else W-1. With W, column 0 is the
            token before the others, 0 where there is none.
        check: read `cu_seqlens` or `lengths` first, and raise where the content is out of order. Without it such content gives values
            of y that mean nothing, and touches no foreign memory.

    Returns:
        y, with the shape and dtype of `x` and the strides of ``torch.empty_like(x)``; or (y, final_state).

    dtypes: float64, float32, bfloat16, float16; weight, bias and state each have their own. Sums are in float32 (float64 for float64), in a
    fixed order: the bits of a token depend on nothing but its window, so that prefill in chunks equals prefill in one go and equals token by
    token, bit for bit, where the state's dtype holds x exactly. Under autocast `x` and `residual` go to the autocast dtype.
    Gradients, of any order, for x, weight, bias, residual and initial_state; they repeat bit for bit with any number of threads.

    Raises:
        ValueError: a shape or an option does not fit; the message says what was expected and what came.
        TypeError: a dtype or a device does not fit.

    Sources: Gu and Dao 2023, "Mamba" (arXiv:2312.00752); Yang et al. 2024, "Gated Delta Networks" (arXiv:2412.06464).
    """
    try:
        columns = final_columns(weight, initial_state, return_final_state, state_columns)
        kind = code(ACTIVATIONS, activation, "activation")
        if torch.is_autocast_enabled(x.device.type):
            x = autocast(x)
            residual = residual if residual is None else autocast(residual)
        y, final_state = differentiable(
            x, weight, bias, residual, initial_state, cu_seqlens, seq_idx, lengths, kind, columns, channels_last, check
        )
        return (y, final_state) if return_final_state else y
    except (RuntimeError, AttributeError, IndexError) as error:
        tensors = {"x": x, "weight": weight, "bias": bias, "residual": residual, "initial_state": initial_state}
        other = _errors.translated(error, **tensors, cu_seqlens=cu_seqlens, seq_idx=seq_idx, lengths=lengths)
        if other is error:
            raise
        raise other from None


def causal_conv1d_update(
    x,
    state,
    weight,
    bias=None,
    *,
    activation=None,
    state_indices=None,
    output_state_indices=None,
    cache_seqlens=None,
    num_accepted=None,
    query_start_loc=None,
    window="trailing",
    channels_last=False,
):
    """One or more new tokens per row against a state that the caller keeps; `state` advances in place. No gradients.

    update() of T tokens gives the bits of T updates of one token, and both those of `causal_conv1d`.

    Args:
        x: ``[N, D]``; ``[N, D, T]``, or ``[N, T, D]`` with `channels_last`; or ``[total, D]`` with `query_start_loc`.
        state: ``[slots, D, S]``, S >= W-1, any strides.
        weight, bias, activation: as in `causal_conv1d`.
        state_indices: ``[N]`` int32, the slot of each row; negative: padding, its state is left alone and y is 0. None: row n has slot n.
        output_state_indices: ``[N]`` int32, where the new state goes; negative: nowhere. None: where it came from.
        cache_seqlens: ``[N]`` int32, with `window` "ring": the position of each row's first new token. Not incremented.
        num_accepted: ``[N]`` int32, with `window` "leading" and S >= W-2+T: of the previous call's tokens so many were accepted (1 or more);
            the window starts at column num_accepted[n]-1. Afterwards the buffer holds the last W-2 columns of the window and the T new tokens.
        query_start_loc: ``[N+1]`` int32: row n has the tokens query_start_loc[n] up to query_start_loc[n+1] of x; it may have none.
        window: "trailing": the last W-1 columns of `state`; the whole buffer moves. "leading": the first W-1; columns behind them stay.
            "ring": the token at position p is column p mod S.

    Returns:
        y, with the shape and dtype of `x`.

    Two rows with the same destination, or one row's source that is another's destination, give undefined values.
    Nothing is read back by the host. Raises as `causal_conv1d`.
    """
    try:
        return _update(
            x, state, weight, bias, state_indices, output_state_indices, cache_seqlens, num_accepted, query_start_loc,
            code(ACTIVATIONS, activation, "activation"), code(WINDOWS, window, "window"), channels_last,
        )  # fmt: skip
    except (RuntimeError, AttributeError) as error:
        tensors = {"x": x, "state": state, "weight": weight, "bias": bias, "state_indices": state_indices}
        other = _errors.translated(
            error, **tensors, output_state_indices=output_state_indices, cache_seqlens=cache_seqlens, num_accepted=num_accepted,
            query_start_loc=query_start_loc,
        )  # fmt: skip
        if other is error:
            raise
        raise other from None
