"""long_conv as a chain of torch.fft: what the modules compute with fft_backend="torch_fft". Any device and dtype that torch.fft serves,
and under faltung.compile the operator. Filters have at most as many taps as a circular axis has points."""

import torch


def centre(boundary, taps):
    """The tap that multiplies the current point."""
    return {"zero": taps // 2, "circular": (taps - 1) // 2, "causal": 0}[boundary]


def _length(boundary, points, taps):
    """The shortest even length of transforms that is exact for what the crop keeps; a circular axis has the one that it has."""
    if boundary == "circular":
        return points
    length = points + (taps - 1 if boundary == "causal" else taps // 2)
    return length + length % 2


def long_conv(x, k, shortcut=None, *, boundary="zero", channels_last=False):
    rank = x.dim() - 2
    names = (boundary,) * rank if isinstance(boundary, str) else tuple(boundary)
    axes = tuple(range(-rank - channels_last, -int(channels_last)) if channels_last else range(-rank, 0))
    working = torch.float64 if x.dtype == torch.float64 else torch.float32
    sizes = [(x.shape[axis], k.shape[axis]) for axis in axes]
    lengths = [_length(name, *size) for name, size in zip(names, sizes)]
    spectrum = torch.fft.rfftn(x.to(working), s=lengths, dim=axes) * torch.fft.rfftn(k.to(working), s=lengths, dim=axes)
    y = torch.fft.irfftn(spectrum, s=lengths, dim=axes)
    if rolled := [(-centre(name, taps), axis) for name, (_, taps), axis in zip(names, sizes, axes) if name == "circular" and taps > 2]:
        y = torch.roll(y, [shift for shift, _ in rolled], [axis for _, axis in rolled])
    starts = [0 if name == "circular" else centre(name, taps) for name, (_, taps) in zip(names, sizes)]
    crop = tuple(slice(start, start + points) for start, (points, _) in zip(starts, sizes))
    y = (y[(slice(None), *crop, slice(None))] if channels_last else y[(..., *crop)]).to(x.dtype)
    if shortcut is None:
        return y
    shortcut = shortcut.to(x.dtype)
    return y + (shortcut if channels_last else shortcut.reshape(-1, *[1] * rank)) * x
