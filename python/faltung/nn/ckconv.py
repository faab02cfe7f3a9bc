"""CKConv1d, CKConv2d, CKConv3d: long_conv whose filters a small network makes out of the taps' coordinates (CKConv, Romero et al. 2021), so that
their size costs no parameters and a model moves to another resolution or extent."""

import math

import torch
from torch import nn

from ..long_conv import autocast, boundary_code, long_conv
from . import torch_fft
from .masks import mask_of
from .siren import Siren

_BACKENDS = {"faltung": long_conv, "torch_fft": torch_fft.long_conv}


class _CKConv(nn.Module):
    """A convolution as large as the grid, depthwise, whose filters are a network of the coordinates.

    The coordinate of a tap is its lag in points times the step 1 / (L_cache - 1), on each axis by itself: the tap that multiplies the current
    point is at 0, that of lag L_cache - 1 at 1. A larger grid has taps further out and none in between: what was learned on a small grid
    is the middle of what a large one uses.

    Args:
        data_dim: axes of the grid: 1, 2 or 3, that of the class.
        hidden_dim: channels of the input and the output.
        L_cache: points per axis (one number, or one for each) that the coordinates are scaled to, mostly the grid that is trained on.
        double_grid: 2N - 1 taps on a grid of N points, so that every output sees every input; else N. A causal axis has N (lags 0 to N - 1), a circular
            one N (each lag once).
        boundary: "zero", "circular" or "causal", one for all axes or one for each.
        mlp_hidden_dim, mlp_layers, omega_0, hidden_omega_0, bias: of the network, see `Siren`.
        film_dim: length of the conditioning vector of `forward`, or None: filters of their own for each sample.
        mask: None, "gaussian", "exponential", or a module like those of `faltung.nn`: a factor that falls off with the lag.
        shortcut: learn a factor per channel of the input that is added to the output.
        fft_backend: "faltung", the operator, or "torch_fft", the chain of torch.fft (which faltung.compile turns into the operator).
        filter_dtype: what the filters are rounded to before they convolve, or None: not at all. On a GPU 16-bit inputs and filters of one dtype take a
            faster implementation on larger grids (`faltung.explain`), for one more rounding.
        channels_per_chunk: convolve so many channels at a time, or None: all. Less memory with torch.fft; the same bits.
        channels_last: the input is [batch, *grid, channels] instead of [batch, channels, *grid].

    The filters are made in the parameters' dtype, under autocast too: coordinates times omega_0 do not survive 16 bits. The input and the
    output follow autocast.
    """

    rank: int

    def __init__(
        self, data_dim, hidden_dim, *, L_cache=32, double_grid=True, boundary="zero", mlp_hidden_dim=32, mlp_layers=2, omega_0=30.0, hidden_omega_0=1.0,
        bias=True, film_dim=None, mask=None, shortcut=True, fft_backend="faltung", filter_dtype=None, channels_per_chunk=None, channels_last=False, device=None,
        dtype=None,
    ):  # fmt: skip
        super().__init__()
        if data_dim != self.rank:
            raise ValueError(f"data_dim: expected {self.rank} for {type(self).__name__}, got {data_dim!r}")
        if fft_backend not in _BACKENDS:
            raise ValueError(f'fft_backend: expected "faltung" or "torch_fft", got {fft_backend!r}')
        if channels_per_chunk is not None and channels_per_chunk < 1:
            raise ValueError(f"channels_per_chunk: expected a positive number or None, got {channels_per_chunk!r}")
        self.L_cache = (L_cache,) * self.rank if isinstance(L_cache, int) else tuple(L_cache)
        if len(self.L_cache) != self.rank or min(self.L_cache) < 1:
            raise ValueError(f"L_cache: expected a positive number, or one for each of {self.rank} axes, got {L_cache!r}")
        boundary_code(boundary, self.rank)  # raises where it is no boundary
        self.boundary = (boundary,) * self.rank if isinstance(boundary, str) else tuple(boundary)
        self.hidden_dim, self.double_grid, self.fft_backend = hidden_dim, double_grid, fft_backend
        self.filter_dtype, self.channels_per_chunk, self.channels_last = filter_dtype, channels_per_chunk, channels_last
        options = {"device": device, "dtype": dtype}
        self.network = Siren(
            self.rank, hidden_dim, hidden=mlp_hidden_dim, layers=mlp_layers, omega_0=omega_0, hidden_omega_0=hidden_omega_0, bias=bias, film=film_dim, **options
        )
        self.mask = mask_of(mask, self.rank, hidden_dim, **options)
        self.shortcut = nn.Parameter(torch.empty(hidden_dim, **options)) if shortcut else None
        # An output sums so many taps: this keeps its variance that of the input. Fixed, so that a tap does not depend on the extent.
        self.scale = 1 / math.sqrt(math.prod(self.L_cache))
        if self.shortcut is not None:
            nn.init.normal_(self.shortcut)

    def lags(self, points):
        """One vector of coordinates per axis for a grid of these points."""
        like = self.network.output.weight
        found = []
        for n, name, cached in zip(points, self.boundary, self.L_cache):
            taps = 2 * n - 1 if self.double_grid and name == "zero" else n
            found.append((torch.arange(taps, device=like.device, dtype=like.dtype) - torch_fft.centre(name, taps)) / max(1, cached - 1))
        return found

    def filters(self, points, condition=None):
        """[channels, *taps], or [batch, channels, *taps] for a condition [batch, film_dim]; channels last, the channels come last."""
        device = self.network.output.weight.device.type
        with torch.autocast(device, enabled=False):
            lags = self.lags(points)
            if condition is not None:
                condition = condition.to(lags[0].dtype)
            grid = torch.stack(torch.meshgrid(*lags, indexing="ij"), -1)
            k = self.network(grid, condition) * self.scale if self.channels_last else self.network.outputs_first(grid, condition, self.scale)
            if self.mask is None:
                return k
            mask = self.mask(lags)
            return k * (mask.movedim(0, -1) if self.channels_last else mask)

    def forward(self, x, condition=None):
        if x.dim() != self.rank + 2:
            raise ValueError(f"x: expected {self.rank + 2} dimensions, got shape {tuple(x.shape)}")
        k = self.filters(x.shape[1:-1] if self.channels_last else x.shape[2:], condition)
        if self.filter_dtype is not None:
            k = k.to(self.filter_dtype)
        if torch.is_autocast_enabled(x.device.type):
            x = autocast(x)
        size = self.channels_per_chunk
        if size is None or size >= self.hidden_dim:
            return self._convolve(x, k, self.shortcut)
        axis = -1 if self.channels_last else -1 - self.rank
        shortcuts = (None,) * -(-self.hidden_dim // size) if self.shortcut is None else self.shortcut.split(size)
        return torch.cat([self._convolve(*part) for part in zip(x.split(size, axis), k.split(size, axis), shortcuts)], axis)

    def _convolve(self, x, k, shortcut):
        return _BACKENDS[self.fft_backend](x, k, shortcut, boundary=self.boundary, channels_last=self.channels_last)

    def extra_repr(self):
        return f"{self.hidden_dim}, L_cache={self.L_cache}, double_grid={self.double_grid}, boundary={self.boundary}, fft_backend={self.fft_backend!r}"


class CKConv1d(_CKConv):
    __doc__ = _CKConv.__doc__
    rank = 1


class CKConv2d(_CKConv):
    __doc__ = _CKConv.__doc__
    rank = 2


class CKConv3d(_CKConv):
    __doc__ = _CKConv.__doc__
    rank = 3
