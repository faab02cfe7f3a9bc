"""The torch.fft chain that long_conv replaces: pad, rfftn, multiply, irfftn, crop, as a good user of torch writes it.

Shapes as in faltung.long_conv, channels first: x [B, C, *S], k [C, *K] or [B, C, *K]. Each axis is transformed at the smallest exact
length that is a product of 2, 3, 5 and 7 and even: N - 1 - centre of the N + K - 1 outputs may wrap around, since they are cropped away,
so K = 2N - 1 takes 2N points and not 3N - 2. 16-bit inputs are transformed in fp32, as torch's CPU and MKL demand.
"""
import torch


def fast_length(least: int) -> int:
    """The smallest even product of 2, 3, 5 and 7 that is at least `least`."""
    length = least + least % 2
    while True:
        rest = length
        for factor in (2, 3, 5, 7):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return length
        length += 2


def centre(boundary: str, taps: int) -> int:
    return {"zero": taps // 2, "circular": (taps - 1) // 2, "causal": 0}[boundary]


def transform_length(boundary: str, points: int, taps: int) -> int:
    if boundary == "circular":
        return points
    if boundary == "causal":
        return fast_length(points + min(points, taps) - 1)
    at = centre(boundary, taps)
    return fast_length(max(points + at, points + taps - 1 - at, taps))


def fold(k: torch.Tensor, axis: int, points: int) -> torch.Tensor:
    """Adds up the taps of a circular filter that meet the same points."""
    taps = k.shape[axis]
    if taps <= points:
        return k
    padded = torch.nn.functional.pad(k.movedim(axis, -1), (0, -taps % points))
    return padded.unflatten(-1, (-1, points)).sum(-2).movedim(-1, axis)


def long_conv(x: torch.Tensor, k: torch.Tensor, *, boundary: str | tuple[str, ...] = "zero") -> torch.Tensor:
    rank = x.dim() - 2
    boundaries = (boundary,) * rank if isinstance(boundary, str) else boundary
    dims = tuple(range(-rank, 0))
    working = torch.float64 if x.dtype == torch.float64 else torch.float32
    signal, taps = x.to(working), k.to(working)
    lengths, crops, rolls = [], [slice(None)] * 2, []
    for axis, rule in zip(dims, boundaries):
        points, at = x.shape[axis], centre(rule, k.shape[axis])
        lengths.append(transform_length(rule, points, k.shape[axis]))
        if rule == "causal" and k.shape[axis] > points:
            taps = taps.narrow(axis, 0, points)  # taps that meet no input
        elif rule == "circular":
            taps = fold(taps, axis, points)
        crops.append(slice(None) if rule == "circular" else slice(at, at + points))
        rolls.append(-at if rule == "circular" else 0)
    y = torch.fft.irfftn(torch.fft.rfftn(signal, s=lengths, dim=dims) * torch.fft.rfftn(taps, s=lengths, dim=dims), s=lengths, dim=dims)
    if any(rolls):
        y = torch.roll(y, rolls, dims)
    return y[tuple(crops)].to(x.dtype)
