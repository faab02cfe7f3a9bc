"""cudnn.ops' causal convolutions: any dtype, width, layout and device, where the original takes some of them."""

import torch

from ... import causal_conv1d_update as _update
from .. import _calls

_ACTIVATIONS = {None: None, "identity": None, "silu": "silu", "swish": "silu"}


def _activation(name):
    if name not in _ACTIVATIONS:
        raise ValueError(f'activation: expected None, "identity", "silu" or "swish", got {name!r}')
    return _ACTIVATIONS[name]


def _overlap(a, b):
    """Whether two tensors' elements lie between common addresses."""

    def span(t):
        begin = t.data_ptr() + t.element_size() * sum(min(0, (n - 1) * s) for n, s in zip(t.shape, t.stride()))
        return begin, begin + t.element_size() * (1 + sum(abs((n - 1) * s) for n, s in zip(t.shape, t.stride())))

    if a.numel() == 0 or b.numel() == 0 or a.device != b.device or torch.compiler.is_compiling():
        return False
    (a_begin, a_end), (b_begin, b_end) = span(a), span(b)
    return a_begin < b_end and b_begin < a_end


def causal_conv1d(
    x, weight, bias=None, activation=None, *, seq_idx=None, cu_seqlens=None, initial_states=None, return_final_states=False, final_states_out=None
):  # fmt: skip
    """y, or (y, final_states), of x ``[B, D, T]`` in either physical layout and weight ``[D, W]``; the last tap is the current token's.

    Args:
        bias: ``[D]`` or None. activation: None, "identity", "silu" or "swish".
        seq_idx: ``[B, T]`` int32, or cu_seqlens: ``[N+1]`` with B = 1: sequences that do not see each other.
        initial_states: ``[B or N, D, W-1]``. final_states_out: where the final states, of the same shape, go; of no input's memory.
    """
    options = {"activation": _activation(activation), "seq_idx": seq_idx, "cu_seqlens": cu_seqlens, "initial_state": initial_states}
    if not return_final_states:
        if final_states_out is not None:
            raise ValueError("final_states_out: expected None without return_final_states")
        return _calls.causal_conv1d(x, weight, bias, **options)
    if final_states_out is not None:
        inputs = {"x": x, "weight": weight, "bias": bias, "initial_states": initial_states}
        for name, tensor in inputs.items():
            if tensor is not None and _overlap(final_states_out, tensor):
                raise ValueError(f"final_states_out: expected memory of its own, it overlaps {name}")
    return _calls.causal_conv1d_with_state(x, weight, bias, final_states_out, **options)


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, *, cache_seqlens=None, conv_state_indices=None):
    """The next token x ``[N, D]`` against conv_state ``[S, D, L]``, L >= W-1, which advances in place; without gradients.

    Args:
        cache_seqlens: ``[N]`` int32: conv_state is a ring that starts there; None: its last columns are the latest tokens.
        conv_state_indices: ``[N]`` int32, the slot of each row; negative: padding, y is 0.
    """
    if _calls.needs_gradients(x, conv_state, weight, bias):
        raise RuntimeError("causal_conv1d_update has no gradients: call it under torch.no_grad()")
    window = "trailing" if cache_seqlens is None else "ring"
    options = {"cache_seqlens": cache_seqlens, "state_indices": conv_state_indices, "window": window}
    return _update(x, conv_state, weight, bias, activation=_activation(activation), **options)


def causal_conv1d_nwh(x, weight, bias=None, activation="identity"):
    """y of x ``[B, T, D]`` and weight ``[W, D]``; the last tap is the current token's."""
    _calls.expect_rank(weight, 2, "weight", "[W, D]")
    return _calls.causal_conv1d(x, weight.t(), bias, activation=_activation(activation), channels_last=True)


def b2b_causal_conv1d(x, weights_proj, weights_mixer, skip_bias):
    """The short convolutions and gates of a Hyena block: with p = causal_conv1d(x, weights_proj) of x ``[B, 3D, T]`` and
    z = p[:, 1::3] p[:, 2::3], it is p[:, 0::3] (causal_conv1d(z, weights_mixer) + skip_bias z)."""
    return _calls.b2b_causal_conv1d(x, weights_proj, weights_mixer, skip_bias)


def fft_causal_conv1d(x, weight):
    """y of x ``[B, D, T]`` and long filters weight ``[D, K]``; weight[:, 0] is the current token's."""
    _calls.expect_rank(x, 3, "x", "[B, D, T]")
    return _calls.long_conv(x, weight, boundary="causal")


__all__ = ["b2b_causal_conv1d", "causal_conv1d", "causal_conv1d_nwh", "causal_conv1d_update", "fft_causal_conv1d"]
