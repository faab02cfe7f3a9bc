"""Decides whether a chain is a convolution that the operator computes, and which one.

Along an axis with N points, K taps, transforms of P points and a crop from c on, the chain is

    z[i + c],  z[j] = sum over m of x[(j - m) mod P] k[m],  x zero from N up to P.

- P = N (and K <= P): that is the circular convolution with centre c.
- K <= P, c + N <= P and c + P >= N + K - 1: what wraps around, z[j] of j < N + K - 1 - P, lies before the crop: the convolution with
  zeros outside the grid and centre c.
- Else taps wrap around into the crop, or are cut off: no convolution that the operator computes.
"""

from dataclasses import dataclass

import torch
from torch.fx import Node

from .. import _c_api
from ..explain import Explanation
from . import graph, symbols
from .graph import argument, kind, tensor, tensor_input
from .stats import Decline

_SIXTEEN_BITS = (torch.bfloat16, torch.float16)
_DTYPES = (torch.float32, *_SIXTEEN_BITS, torch.float64)
# Plain sums of more taps than these are slower on a GPU than the chain.
_TAPS_OF_PLAIN_SUMS = 256


@dataclass
class Rewrite:
    """The call that replaces a chain: its arguments, and the node whose value it gives."""

    target: Node
    x: Node
    k: Node
    shortcut: Node | None
    boundary: int
    channels_last: bool
    centre: list | None
    product_with_x: Node | None  # of the shortcut

    def __str__(self):
        shapes = ", ".join(f"{name} {tuple(tensor(node).shape)} {tensor(node).dtype}" for name, node in (("x", self.x), ("k", self.k)))
        layout = "last" if self.channels_last else "first"
        return f"{self.target}: {shapes}, boundary {self.boundary}, centre {self.centre}, channels {layout}, shortcut {self.shortcut}"


def decide(chain, allow_reduced_precision):
    """The Rewrite of a chain; raises Decline with the reason where there is none."""
    roles = list(_roles(chain))
    if not roles:
        has_crop = len(chain.states) > 1 and any(kind(step) in ("getitem", "slice", "narrow") for step in chain.states[-1].steps)
        raise Decline("operand-roles-ambiguous" if has_crop or chain.product.ramps else "no-same-crop")
    chain.check_forward_transforms()
    chain.check_private()
    first = None
    for x, k, ends in roles:
        try:
            return _decide(chain, x, k, ends, allow_reduced_precision)
        except Decline as decline:
            first = first or decline
    raise first


def _roles(chain):
    """(x, k, states at whose end the result has the extents of x), the likeliest first."""
    for x, k in (chain.operands, chain.operands[::-1]):
        given = tensor(x.given)
        if given.dim() < chain.rank + (chain.layout == "last"):
            continue
        ends = [s for s in chain.states if all(symbols.equal(n, given.shape[a]) for n, a in zip(s.lengths, chain.inverse.axes))]
        if chain.strict:
            ends = [s for s in ends if any(kind(step) == "getitem" for step in s.steps)]
        if ends:
            yield x, k, ends


def _decide(chain, x, k, ends, allow_reduced_precision):
    axes, last = chain.inverse.axes, chain.layout == "last"
    x_value, k_value = tensor(x.source), tensor(k.source)
    if x_value is None or k_value is None:
        raise Decline("missing-shape-metadata")
    if x_value.dim() != chain.rank + 2 or (chain.strict and k_value.dim() != 4):
        raise Decline("not-4d")
    ramp = chain.ramp_shifts()
    candidates, misfit = [], None
    for end in ends:
        offsets = tuple(a + b for a, b in zip(end.offsets, ramp))
        try:
            candidates.append((end, [_axis(*numbers) for numbers in zip(
                [x_value.shape[a] for a in axes], [k_value.shape[a] for a in axes], chain.inverse.lengths, offsets, [chain.strict] * len(axes),
            )]))  # fmt: skip
        except Decline as decline:
            misfit = misfit or decline
    if not candidates:
        raise misfit
    _check_channels(x_value, k_value, chain.rank, last)
    _check_dtypes(chain, x_value, k_value, tensor(k.given), allow_reduced_precision)
    axis_order = sorted(range(len(axes)), key=lambda i: axes[i])
    for end, found in reversed(candidates):  # the end that takes in the most
        result = tensor(end.node)
        if result.dtype != x_value.dtype or result.device != x_value.device:
            continue
        if result.shape != x_value.shape:
            raise Decline("channel-or-batch-mismatch")
        shortcut, product = None, None
        if end.add is not None:
            shortcut, product = _shortcut(end, x, x_value, chain.rank, last)
            if shortcut is None:
                continue
        boundary, centre = _serve([found[i] for i in axis_order], x_value, k_value, last, chain.strict)
        return Rewrite(end.node, x.source, k.source, shortcut, boundary, last, centre, product)
    raise Decline("output-dtype-or-device-mismatch")


@dataclass
class Axis:
    is_circular: bool
    centre: object  # int or SymInt
    taps: object

    @property
    def has_default_centre(self):
        return symbols.equal(self.centre, (self.taps - 1) // 2 if self.is_circular else self.taps // 2)


def _axis(points, taps, length, offset, strict):
    if strict:
        # One recipe: padding by half a filter, "same" crop.
        if length != min(points + (taps + 1) // 2, 2 * points) or offset != taps // 2:
            raise Decline("not-the-reference-recipe")
        return Axis(False, offset, taps)
    if symbols.equal(points, length):
        if not symbols.at_least(length, taps):
            raise _misfit(points, taps, length)
        return Axis(True, offset % length if isinstance(length, int) else offset, taps)
    if isinstance(length, int) and isinstance(offset, int):
        offset %= length  # rolls and ramps
    if not symbols.at_least(offset, 0) or not symbols.at_least(length, taps):
        raise _misfit(points, taps, length)
    if not symbols.at_least(length, offset + points):
        if all(isinstance(n, int) for n in (points, taps, length, offset)):
            raise Decline("crop-is-not-same-size")
        raise Decline("irfft-dynamic-shape")
    if not symbols.at_least(offset + length, points + taps - 1):
        raise _misfit(points, taps, length)
    return Axis(False, offset, taps)


def _misfit(*numbers):
    return Decline("not-the-reference-recipe" if all(isinstance(n, int) for n in numbers) else "irfft-dynamic-shape")


def _check_channels(x, k, rank, last):
    channel = -1 if last else -rank - 1
    leading = k.dim() - rank - 1
    if leading not in (0, 1) or not symbols.equal(k.shape[channel], x.shape[channel]):
        raise Decline("channel-or-batch-mismatch")
    if leading and not symbols.equal(k.shape[0], 1) and not symbols.equal(k.shape[0], x.shape[0]):
        raise Decline("channel-or-batch-mismatch")


def _check_dtypes(chain, x, k, k_given, allow_reduced_precision):
    if x.dtype not in (_DTYPES[:3] if chain.strict else _DTYPES):
        raise Decline("unsupported-dtype")
    if k.device != x.device or k.dtype not in _DTYPES or (chain.strict and k.dtype != x.dtype):
        raise Decline("kernel-dtype-or-device-mismatch")
    if k_given.dtype == torch.float64 and x.dtype != torch.float64:
        raise Decline("kernel-dtype-or-device-mismatch")  # the product, and all that follows, is in double
    if not allow_reduced_precision and x.dtype in _SIXTEEN_BITS:
        raise Decline("reduced-precision-disabled")
    if chain.strict and max(x.shape[-2:]) > 64:
        raise Decline("spatial-too-large")


def _shortcut(end, x, x_value, rank, last):
    """(node of [channels], product) of `result + shortcut * x`, or (None, None) where the sum adds something else."""
    added = [operand for operand in end.add.args if operand not in end.steps and operand is not end.steps[0]]
    product = added[0] if len(added) == 1 else None
    if kind(product) != "mul":
        return None, None
    a, b = argument(product, 0, "input", "self"), argument(product, 1, "other")
    for image, scale in ((a, b), (b, a)):
        value = tensor(scale)
        if image not in (x.source, x.given) or value is None or not value.is_floating_point() or value.device != x_value.device:
            continue
        shape = (1,) * (rank + 2 - value.dim()) + tuple(value.shape)
        channel = rank + 1 if last else 1
        wanted = [x_value.shape[channel] if axis == channel else 1 for axis in range(rank + 2)]
        if len(shape) == rank + 2 and all(symbols.equal(n, m) for n, m in zip(shape, wanted)):
            return scale, product
    return None, None


def _serve(axes, x, k, last, strict):
    """(boundary code, centre) of the operator's call that serves the problem."""
    options = []
    plain = sum(int(axis.is_circular) << (2 * i) for i, axis in enumerate(axes))
    if all(axis.has_default_centre for axis in axes):
        options.append((plain, None))
    elif all(isinstance(axis.centre, int) for axis in axes):
        options.append((plain, [axis.centre for axis in axes]))
    if any(not axis.is_circular and symbols.equal(axis.centre, 0) for axis in axes):
        # Exactly causal, which the chain is not, costs more where both are served well.
        causal = [not axis.is_circular and symbols.equal(axis.centre, 0) for axis in axes]
        code = sum((2 if c else int(axis.is_circular)) << (2 * i) for i, (c, axis) in enumerate(zip(causal, axes)))
        if all(c or axis.has_default_centre for c, axis in zip(causal, axes)):
            options.append((code, None))
        elif all(isinstance(axis.centre, int) for axis in axes):
            options.append((code, [axis.centre for axis in axes]))
    if not options:
        raise Decline("irfft-dynamic-shape")
    reasons = [_unserved(x, k, boundary, last, centre) for boundary, centre in options]
    for option, reason in zip(options, reasons):
        if reason is None:
            return option
    raise Decline(reasons[0])


def _unserved(x, k, boundary, last, centre):
    views = []
    for tensor_, name in ((x, "x"), (k, "k")):
        shape = [symbols.hint(n) for n in tensor_.shape]
        if None in shape:
            return "irfft-dynamic-shape"
        views.append(_c_api.view(shape, [0] * len(shape), tensor_.dtype, tensor_.device, name))
    for direction in ("forward", "backward"):
        text = _c_api.long_conv_explain(direction, *views, None, _c_api.long_conv_options(boundary, last, centre))
        chosen = Explanation(text).chosen
        if chosen == "none":
            return "arch-unsupported"
        taps = 1
        for axis in range(k.dim() - (x.dim() - 2) - int(last), k.dim() - int(last)):
            taps *= symbols.hint(k.shape[axis])
        if chosen.startswith("cuda.direct") and taps > _TAPS_OF_PLAIN_SUMS:
            return "spatial-too-large"
    return None
