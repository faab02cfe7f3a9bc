"""CausalConv1d: the short causal convolution with its taps as parameters, for whole sequences and token by token."""

import math

import torch
from torch import nn

from ..causal_conv1d import causal_conv1d, causal_conv1d_update


class CausalConv1d(nn.Module):
    """causal_conv1d with the taps as parameters.

    Args:
        channels: of the input and the output.
        kernel_size: taps; the last one multiplies the current token.
        bias: learn a bias per channel.
        activation: None or "silu".
        channels_last: the input is [batch, time, channels] instead of [batch, channels, time].

    Parameters: `weight` [channels, kernel_size] and `bias` [channels] (or None), which start as those of a depthwise torch.nn.Conv1d.
    """

    def __init__(self, channels, kernel_size=4, bias=True, *, activation=None, channels_last=False, device=None, dtype=None):
        super().__init__()
        self.channels, self.kernel_size, self.activation, self.channels_last = channels, kernel_size, activation, channels_last
        self.weight = nn.Parameter(torch.empty(channels, kernel_size, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(channels, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self):
        bound = 1 / math.sqrt(self.kernel_size)
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x, **options):
        """y, or (y, final state) with ``return_final_state=True``. Options are those of `faltung.causal_conv1d`: `initial_state`, `cu_seqlens`,
        `seq_idx`, `lengths`, `residual`, `return_final_state`."""
        return causal_conv1d(x, self.weight, self.bias, activation=self.activation, channels_last=self.channels_last, **options)

    def empty_state(self, batch, dtype=None):
        """The state [batch, channels, kernel_size - 1] before the first token."""
        return self.weight.new_zeros(batch, self.channels, self.kernel_size - 1, dtype=dtype or self.weight.dtype)

    @torch.no_grad()
    def step(self, x, state, **options):
        """The next token, x [batch, channels], or tokens: y; `state` advances in place. Options are those of `faltung.causal_conv1d_update`."""
        return causal_conv1d_update(x, state, self.weight, self.bias, activation=self.activation, channels_last=self.channels_last, **options)

    def extra_repr(self):
        text = f"{self.channels}, kernel_size={self.kernel_size}, bias={self.bias is not None}, activation={self.activation!r}"
        return text + (", channels_last=True" if self.channels_last else "")
