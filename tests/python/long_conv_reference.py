"""long_conv in plain float64 torch, independent of the library: a full linear convolution by torch.fft, of which each axis takes the
points that its boundary and centre say. Differentiable, so that gradients have a reference too."""

import torch


def default_centre(boundary, taps):
    return {"zero": taps // 2, "circular": (taps - 1) // 2, "causal": 0}[boundary]


def _take(full, axis, points, boundary, centre):
    """y[i] = full[i + centre] along the axis: 0 outside, or the sum over all full[i + centre + points w] of a circular axis."""
    if boundary == "circular":
        target = (torch.arange(full.shape[axis]) - centre) % points
        shape = list(full.shape)
        shape[axis] = points
        return full.new_zeros(shape).index_add(axis, target, full)
    source = torch.arange(points) + centre
    inside = (source >= 0) & (source < full.shape[axis])
    taken = full.index_select(axis, source.clamp(0, full.shape[axis] - 1))
    return taken * inside.to(full.dtype).reshape([-1 if a == axis else 1 for a in range(full.dim())])


def long_conv(x, k, shortcut=None, *, boundary="zero", channels_last=False, centre=None):
    x, k = x.double(), k.double()
    rank = x.dim() - 2
    if channels_last:
        x, k = x.movedim(-1, 1), k.movedim(-1, k.dim() - rank - 1)
    names = [boundary] * rank if isinstance(boundary, str) else list(boundary)
    axes = list(range(2, 2 + rank))
    sizes = [n + m - 1 for n, m in zip(x.shape[2:], k.shape[-rank:])]
    spectrum = torch.fft.rfftn(x, sizes, axes) * torch.fft.rfftn(k, sizes, list(range(-rank, 0)))
    y = torch.fft.irfftn(spectrum, sizes, axes)
    for i, (axis, name) in enumerate(zip(axes, names)):
        at = default_centre(name, k.shape[k.dim() - rank + i]) if centre is None else centre[i]
        y = _take(y, axis, x.shape[axis], name, at)
    if shortcut is not None:
        y = y + shortcut.double().reshape(-1, *[1] * rank) * x
    return y.movedim(1, -1) if channels_last else y


def gradients(dy, x, k, shortcut=None, **options):
    """[dx, dk] or [dx, dk, dshortcut] in float64."""
    inputs = [t.detach().double().requires_grad_() for t in (x, k, shortcut) if t is not None]
    return torch.autograd.grad(long_conv(*inputs, **options), inputs, dy.double())


def relative_error(got, expected):
    difference = (got.double() - expected).norm()
    return 0.0 if difference == 0 else float(difference / expected.norm())


def conditioning(expected, squared_terms):
    """How much smaller a result is than the root of the sum of its squared terms, because its sums cancel; 1 where they do not."""
    norm = expected.norm()
    return 1.0 if norm == 0 else max(1.0, float(squared_terms.sum().sqrt() / norm))


def bound(expected, x_dtype, extents, transformed, output=None, conditioning=1.0):
    """The contract's bound for an output of dtype `output` of a call with x of `x_dtype`, in units of correct rounding."""
    single = (3e-7 if max(extents) <= 64 else 1e-6) * conditioning

    def of(dtype):
        if dtype == torch.float64:
            return 1e-13 * conditioning
        if dtype == torch.float32:
            return single
        r = relative_error(expected.to(dtype), expected)
        factor = 1.1 if dtype == torch.bfloat16 else 2.2 if transformed else 1.2
        return max(factor * r, single)  # few elements may happen to be representable: fp32 arithmetic remains allowed

    return max(of(x_dtype), of(output or x_dtype))
