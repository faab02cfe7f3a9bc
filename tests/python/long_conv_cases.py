"""tests/cases/long_conv.json as calls: geometries and dtype pairs from the file, the rest from each test."""

import dataclasses
import json
import math
import pathlib

import torch

_file = json.loads((pathlib.Path(__file__).parent.parent / "cases/long_conv.json").read_text())


@dataclasses.dataclass(frozen=True)
class Geometry:
    extents: tuple
    filters: tuple
    boundaries: tuple
    batch: int = 2
    channels: int = 3
    centres: tuple | None = None

    def __str__(self):
        axes = ",".join(f"{n}k{m}{b[:2]}" for n, m, b in zip(self.extents, self.filters, self.boundaries))
        return axes + ("" if self.centres is None else f"@{self.centres}")


def geometries(name):
    return [Geometry(**{key: tuple(v) if isinstance(v, list) else v for key, v in item.items()}) for item in _file[name]]


def dtype_pairs(name="dtypes"):
    return [(getattr(torch, x), getattr(torch, k)) for x, k in _file[name]]


ARRANGEMENTS = ("contiguous", "channels_last", "sliced", "transposed", "offset", "reversed_batch", "expanded", "negated")


def arranged(tensor, arrangement):
    """A tensor of the same values whose memory is laid out otherwise (expanded: of its first entry's values, with stride 0)."""
    last = tensor.dim() - 1
    if arrangement == "channels_last" and tensor.dim() > 2:
        return tensor.movedim(1, -1).contiguous().movedim(-1, 1)
    if arrangement == "sliced":
        wide = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1] + 3), math.nan, dtype=tensor.dtype)
        view = wide[..., 1 : 1 + 2 * tensor.shape[-1] : 2]
        return view.copy_(tensor)
    if arrangement == "transposed" and tensor.dim() > 2:
        return tensor.transpose(last, last - 1).contiguous().transpose(last, last - 1)
    if arrangement == "offset":
        memory = torch.full((tensor.numel() + 1,), math.nan, dtype=tensor.dtype)
        return memory[1:].view(tensor.shape).copy_(tensor)
    if arrangement == "reversed_batch":
        return tensor.transpose(0, 1).contiguous().transpose(0, 1) if tensor.dim() > 1 else tensor
    if arrangement == "expanded":
        return tensor[:1].expand(tensor.shape)
    if arrangement == "negated":
        view = torch.complex(torch.zeros_like(tensor, dtype=torch.float32), -tensor.float()).conj().imag
        return view if tensor.dtype == torch.float32 else tensor
    return tensor


def make(geometry, x_dtype, k_dtype, *, channels_last=False, sharing="plain", shortcut=False, arrangement="contiguous", mean=0.0):
    """(x, k, shortcut or None, dy, options of faltung.long_conv); filters of unit norm, so that fp16 does not overflow."""
    g = geometry
    leading = {"plain": (), "one": (1,), "per_sample": (g.batch,)}[sharing]
    order = (lambda lead, space: (*lead, *space, g.channels)) if channels_last else (lambda lead, space: (*lead, g.channels, *space))
    x = (torch.randn(order((g.batch,), g.extents), dtype=torch.float64) + mean).to(x_dtype)
    dy = torch.randn(order((g.batch,), g.extents), dtype=torch.float64).to(x_dtype)
    k = (torch.randn(order(leading, g.filters), dtype=torch.float64) / math.sqrt(math.prod(g.filters))).to(k_dtype)
    s = torch.randn(g.channels, dtype=torch.float64).to(k_dtype) if shortcut else None
    x, k, dy = (arranged(t, arrangement) for t in (x, k, dy))
    return x, k, s, dy, {"boundary": g.boundaries, "channels_last": channels_last}
