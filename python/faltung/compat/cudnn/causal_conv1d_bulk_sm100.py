"""The bulk forward: x [B, T, D] or packed [1, total_T, D], SiLU, states [N, D, W] in and out; prepared once and launched for any T, or called
without preparing anything. "sm100" is the original's; any device, dtype and width will do."""

import contextlib

import torch

from ..._causal_conv1d_prepared import PreparedCausalConv1d
from .. import _calls


class Result(dict):
    """output_tensor and final_state_tensor, by key, by index, or unpacked."""

    def __iter__(self):
        return iter(self.values())

    def __getitem__(self, key):
        return list(self.values())[key] if isinstance(key, int) else super().__getitem__(key)


class CausalConv1dBulkFwdSm100:
    """Takes sample tensors, whose dtypes, channels, taps and presence hold for every execute(); batch, T, the number of sequences and strides
    are free. check_support() raises where the samples do not fit each other, compile() prepares, execute() launches without looking at
    more than that the tensors are such as the samples. No gradients. Initial states are never written."""

    def __init__(
        self, sample_x, sample_weight, sample_output, sample_cu_seqlens=None, sample_initial_state=None, sample_final_state=None, *, sample_bias=None
    ):  # fmt: skip
        self._samples = {
            "x": sample_x, "weight": sample_weight, "y": sample_output, "bias": sample_bias, "initial_state": sample_initial_state,
            "final_state": sample_final_state, "cu_seqlens": sample_cu_seqlens,
        }  # fmt: skip
        self._prepared = None

    def check_support(self):
        self._prepare()
        return True

    def compile(self):
        self._prepared = self._prepare()
        self._samples = None  # their memory is not needed any more

    def _prepare(self):
        if self._prepared is not None:
            return self._prepared
        return PreparedCausalConv1d(**self._samples, activation="silu", channels_last=True)

    def execute(
        self, x_tensor, weight_tensor, output_tensor, cu_seqlens_tensor=None, initial_state_tensor=None, final_state_tensor=None,
        current_stream=None, *, bias_tensor=None,
    ):  # fmt: skip
        """Writes output_tensor, and final_state_tensor where there is one, on `current_stream` (a CUDA stream's handle; None: torch's)."""
        if self._prepared is None:
            raise RuntimeError("CausalConv1dBulkFwdSm100: expected compile() before execute()")
        _expect_no_gradients(x_tensor, weight_tensor, bias_tensor, initial_state_tensor)
        self._prepared.launch(
            x_tensor, weight_tensor, output_tensor, bias=bias_tensor, initial_state=initial_state_tensor, final_state=final_state_tensor,
            cu_seqlens=cu_seqlens_tensor, stream=current_stream,
        )  # fmt: skip
        return Result(output_tensor=output_tensor, final_state_tensor=final_state_tensor)


def causal_conv1d_bulk_fwd_wrapper_sm100(
    x_tensor, weight_tensor, cu_seqlens_tensor=None, initial_state_tensor=None, *, output_final_state=False, current_stream=None, bias_tensor=None
):  # fmt: skip
    """output_tensor [B, T, D] and final_state_tensor [N, D, W] (of shape [0] where it is not asked for), in fresh memory."""
    _expect_no_gradients(x_tensor, weight_tensor, bias_tensor, initial_state_tensor)
    _calls.expect_rank(x_tensor, 3, "x", "[B, T, D]")
    _calls.expect_rank(weight_tensor, 2, "weight", "[D, W]")
    on_stream = contextlib.nullcontext()
    if current_stream is not None and x_tensor.device.type == "cuda":
        on_stream = torch.cuda.stream(torch.cuda.ExternalStream(int(current_stream), device=x_tensor.device))
    with on_stream:
        output = torch.empty_like(x_tensor)
        sequences = x_tensor.shape[0] if cu_seqlens_tensor is None else cu_seqlens_tensor.shape[0] - 1
        final_state = x_tensor.new_empty((sequences, *weight_tensor.shape) if output_final_state else 0)
        _calls.causal_conv1d_into(
            output, final_state if output_final_state else None, x_tensor, weight_tensor, bias_tensor, initial_state=initial_state_tensor,
            cu_seqlens=cu_seqlens_tensor, activation="silu", channels_last=True,
        )  # fmt: skip
    return Result(output_tensor=output, final_state_tensor=final_state)


def _expect_no_gradients(*tensors):
    if _calls.needs_gradients(*(t for t in tensors if isinstance(t, torch.Tensor))):
        raise RuntimeError("the bulk forward has no gradients: call it under torch.no_grad()")


__all__ = ["CausalConv1dBulkFwdSm100", "causal_conv1d_bulk_fwd_wrapper_sm100"]
