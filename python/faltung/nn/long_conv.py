"""LongConv1d, LongConv2d, LongConv3d: long_conv with the filters as parameters."""

import math

import torch
from torch import nn

from ..long_conv import boundary_code, long_conv


class _LongConv(nn.Module):
    """long_conv with one filter per channel as a parameter.

    Args:
        channels: of the input and the output.
        kernel_size: taps per axis, one number or one for each. May be as large as the grid, or larger.
        boundary: "zero", "circular" or "causal", one for all axes or one for each.
        shortcut: learn a factor per channel of the input that is added to the output.
        channels_last: the input is [batch, *grid, channels] instead of [batch, channels, *grid].

    Parameters: `weight` [channels, *kernel_size] (channels last: [*kernel_size, channels]), which starts normal with the variance that
    keeps that of the input, and `shortcut` [channels] (or None), which starts at one.
    """

    rank: int

    def __init__(self, channels, kernel_size, *, boundary="zero", shortcut=False, channels_last=False, device=None, dtype=None):
        super().__init__()
        self.channels = channels
        self.kernel_size = (kernel_size,) * self.rank if isinstance(kernel_size, int) else tuple(kernel_size)
        if len(self.kernel_size) != self.rank or min(self.kernel_size) < 1:
            raise ValueError(f"kernel_size: expected a positive number, or one for each of {self.rank} axes, got {kernel_size!r}")
        boundary_code(boundary, self.rank)  # raises where it is no boundary
        self.boundary, self.channels_last = boundary, channels_last
        shape = (*self.kernel_size, channels) if channels_last else (channels, *self.kernel_size)
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.shortcut = nn.Parameter(torch.empty(channels, device=device, dtype=dtype)) if shortcut else None
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.normal_(self.weight, std=1 / math.sqrt(math.prod(self.kernel_size)))
        if self.shortcut is not None:
            nn.init.ones_(self.shortcut)

    def forward(self, x):
        return long_conv(x, self.weight, self.shortcut, boundary=self.boundary, channels_last=self.channels_last)

    def extra_repr(self):
        text = f"{self.channels}, kernel_size={self.kernel_size}, boundary={self.boundary!r}"
        return text + (", shortcut=True" if self.shortcut is not None else "") + (", channels_last=True" if self.channels_last else "")


class LongConv1d(_LongConv):
    __doc__ = _LongConv.__doc__
    rank = 1


class LongConv2d(_LongConv):
    __doc__ = _LongConv.__doc__
    rank = 2


class LongConv3d(_LongConv):
    __doc__ = _LongConv.__doc__
    rank = 3
