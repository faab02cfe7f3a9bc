"""Fake kernels of the causal_conv1d operators: shapes and strides without data. Outputs have the strides of empty_like of their inputs, as
those of bindings/torch have; a final state is contiguous."""

import torch

from . import _causal_conv1d_c_api
from ._long_conv_fake import _plain


def _views(**tensors):
    """Views of shapes in plain ints; None where a size depends on data: the real kernel will look at the real sizes."""
    views = {}
    for name, tensor in tensors.items():
        shape = None if tensor is None else [_plain(size) for size in tensor.shape]
        if shape and None in shape:
            return None
        views[name] = None if shape is None else _causal_conv1d_c_api.shape_view(shape, tensor, name)
    return views


def _check(direction, x, weight, activation, channels_last, **tensors):
    """Raises what the real kernel would raise, in the library's words; what was found of hints must hold of the symbols: guards."""
    views = _views(x=x, weight=weight, **tensors)
    if views is None:
        return
    options = _causal_conv1d_c_api.options(channels_last, activation, **{name: views[name] for name in tensors})
    _causal_conv1d_c_api.explain(direction, views["x"], views["weight"], options)
    channels, time = (x.shape[2], x.shape[1]) if channels_last else (x.shape[1], x.shape[2])
    torch._check(weight.shape[0] == channels)
    if tensors.get("bias") is not None:
        torch._check(tensors["bias"].shape[0] == channels)
    if tensors.get("residual") is not None:
        for ours, theirs in zip(tensors["residual"].shape, x.shape):
            torch._check(ours == theirs)
    if tensors.get("cu_seqlens") is not None:
        torch._check(x.shape[0] == 1)
    if tensors.get("seq_idx") is not None:
        torch._check(tensors["seq_idx"].shape[0] == x.shape[0])
        torch._check(tensors["seq_idx"].shape[1] == time)
    if tensors.get("lengths") is not None:
        torch._check(tensors["lengths"].shape[0] == x.shape[0])


def _sequences(x, cu_seqlens):
    return x.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1


@torch.library.register_fake("faltung::causal_conv1d")
@torch.library.register_fake("faltung::causal_conv1d_detached")
def _fake_forward(
    x, weight, bias=None, residual=None, initial_state=None, cu_seqlens=None, seq_idx=None, lengths=None, activation=0, state_columns=-1,
    channels_last=False, check=False,
):  # fmt: skip
    _check(
        "forward", x, weight, activation, channels_last, bias=bias, residual=residual, initial_state=initial_state, cu_seqlens=cu_seqlens,
        seq_idx=seq_idx, lengths=lengths,
    )  # fmt: skip
    if state_columns < 0:
        return torch.empty_like(x), x.new_empty(0)
    like = x if initial_state is None else initial_state
    return torch.empty_like(x), like.new_empty(_sequences(x, cu_seqlens), weight.shape[0], state_columns)


@torch.library.register_fake("faltung::causal_conv1d_backward")
@torch.library.register_fake("faltung::causal_conv1d_backward_detached")
def _fake_backward(
    dy, x, weight, bias=None, initial_state=None, dfinal_state=None, cu_seqlens=None, seq_idx=None, lengths=None, activation=0,
    channels_last=False, need_dx=True, need_dweight=True, need_dbias=False, need_dinitial_state=False, need_dresidual=False,
):  # fmt: skip
    _check(
        "backward", x, weight, activation, channels_last, bias=bias, initial_state=initial_state, cu_seqlens=cu_seqlens, seq_idx=seq_idx,
        lengths=lengths,
    )  # fmt: skip
    return tuple(
        torch.empty_like(tensor) if needed else x.new_empty(0)
        for tensor, needed in (
            (x, need_dx), (weight, need_dweight), (bias, need_dbias), (initial_state, need_dinitial_state), (x, need_dresidual)
        )
    )  # fmt: skip


@torch.library.register_fake("faltung::causal_conv1d_out")
def _fake_out(
    x, weight, y, final_state=None, bias=None, residual=None, initial_state=None, cu_seqlens=None, seq_idx=None, lengths=None, activation=0,
    channels_last=False, check=False,
):  # fmt: skip
    _check(
        "forward", x, weight, activation, channels_last, bias=bias, residual=residual, initial_state=initial_state, cu_seqlens=cu_seqlens,
        seq_idx=seq_idx, lengths=lengths,
    )  # fmt: skip


@torch.library.register_fake("faltung::causal_conv1d_backward_out")
def _fake_backward_out(
    dy, x, weight, dx, bias=None, initial_state=None, dfinal_state=None, cu_seqlens=None, seq_idx=None, lengths=None, activation=0,
    channels_last=False, need_dweight=True, need_dbias=False, need_dinitial_state=False,
):  # fmt: skip
    gradients = _fake_backward(
        dy, x, weight, bias, initial_state, dfinal_state, cu_seqlens, seq_idx, lengths, activation, channels_last, False, need_dweight,
        need_dbias, need_dinitial_state,
    )  # fmt: skip
    return gradients[1:4]


@torch.library.register_fake("faltung::causal_conv1d_update")
def _fake_update(
    x, state, weight, bias=None, state_indices=None, output_state_indices=None, cache_seqlens=None, num_accepted=None,
    query_start_loc=None, activation=0, window=0, channels_last=False,
):  # fmt: skip
    tensors = {
        "bias": bias, "state_indices": state_indices, "output_state_indices": output_state_indices, "cache_seqlens": cache_seqlens,
        "num_accepted": num_accepted, "query_start_loc": query_start_loc,
    }  # fmt: skip
    views = _views(x=x, state=state, weight=weight, **tensors)
    if views is not None:
        options = _causal_conv1d_c_api.update_options(channels_last, activation, window, **{name: views[name] for name in tensors})
        _causal_conv1d_c_api.explain_update(views["x"], views["state"], views["weight"], options)
    return torch.empty_like(x)

