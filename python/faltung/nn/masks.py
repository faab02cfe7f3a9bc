"""Masks of filters: a factor for every tap that falls off with its lag, with a learned width per channel and axis."""

import math

import torch
from torch import nn


class _Mask(nn.Module):
    """The product over axes of a function of lag / width. A tap at lag zero keeps its value.

    Args:
        axes: of the grid.
        channels: of the filters; each has its own widths.
        narrowest, widest: the widths that the channels start with, evenly spaced on a logarithmic scale, in units of the coordinates: at 1
            is the lag of L_cache - 1 points.

    Parameter: `log_width` [channels, axes].
    """

    def __init__(self, axes, channels, *, narrowest=0.05, widest=1.0, device=None, dtype=None):
        super().__init__()
        if not 0 < narrowest <= widest:
            raise ValueError(f"narrowest, widest: expected 0 < narrowest <= widest, got {narrowest}, {widest}")
        self.narrowest, self.widest = narrowest, widest
        self.log_width = nn.Parameter(torch.empty(channels, axes, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        with torch.no_grad():
            widths = torch.linspace(math.log(self.narrowest), math.log(self.widest), self.log_width.shape[0])
            self.log_width.copy_(widths[:, None].expand_as(self.log_width))

    def forward(self, lags):
        """[channels, *taps] for one vector of coordinates per axis."""
        mask = None
        for axis, lag in enumerate(lags):
            factor = self.decay(lag / self.log_width[:, axis, None].exp())
            factor = factor[(slice(None), *(slice(None) if i == axis else None for i in range(len(lags))))]
            mask = factor if mask is None else mask * factor
        return mask

    def extra_repr(self):
        return f"channels={self.log_width.shape[0]}, axes={self.log_width.shape[1]}"


class GaussianMask(_Mask):
    __doc__ = "exp(-(lag / width)^2 / 2), as in FlexConv (Romero et al. 2022). " + _Mask.__doc__

    @staticmethod
    def decay(ratio):
        return torch.exp(-0.5 * ratio.square())


class ExponentialMask(_Mask):
    __doc__ = "exp(-|lag| / width), as in Hyena (Poli et al. 2023). " + _Mask.__doc__

    @staticmethod
    def decay(ratio):
        return torch.exp(-ratio.abs())


def mask_of(mask, axes, channels, **options):
    """A mask by name, or the module itself."""
    if mask is None or isinstance(mask, nn.Module):
        return mask
    kinds = {"gaussian": GaussianMask, "exponential": ExponentialMask}
    if mask not in kinds:
        raise ValueError(f'mask: expected None, "gaussian", "exponential" or a module, got {mask!r}')
    return kinds[mask](axes, channels, **options)
