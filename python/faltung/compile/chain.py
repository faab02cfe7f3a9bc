"""Reads one chain, from its inverse transform both ways: the forward transforms of two operands behind it, crop, roll, cast and
shortcut before it. Says what is there; whether it is a convolution that an operator computes is recipe.py's question."""

from dataclasses import dataclass

import torch
from torch.fx import Node

from . import graph, symbols
from .graph import argument, kind, size, tensor, tensor_input
from .product import Product, shifts
from .stats import Decline


@dataclass
class Transform:
    """One call of torch.fft: the axes counted from the end, and a length for each."""

    node: Node
    axes: tuple
    lengths: tuple
    has_plain_arguments: bool  # norm "backward", no `out`
    is_explicit: bool  # the lengths are numbers of the call

    @classmethod
    def of(cls, node):
        source, result = tensor(tensor_input(node)), tensor(node)
        if source is None or result is None:
            raise Decline("missing-shape-metadata")
        what, rank = kind(node), source.dim()
        given = argument(node, 1, "n" if what.endswith("fft") else "s")
        axes = argument(node, 2, "dim")
        if what.endswith("fft"):
            given = None if given is None else (given,)
            axes = (-1,) if axes is None else (axes,)
        elif isinstance(given, Node):
            given = graph.value(given)  # x.shape[2:]
        if axes is None:
            axes = (-2, -1) if what.endswith("2") else tuple(range(-rank if given is None else -len(given), 0))
        axes = [size(axis) for axis in axes] if isinstance(axes, (tuple, list)) else [size(axes)]
        if not all(isinstance(axis, int) for axis in axes):
            raise Decline("irfft-dynamic-shape")
        axes = tuple(axis - rank if axis >= 0 else axis for axis in axes)
        whole = result if what in graph.INVERSES else source  # the side whose extents are the lengths where none are given
        if isinstance(given, (tuple, list)) and len(given) == len(axes):
            lengths = tuple(whole.shape[axis] if isinstance(length, int) and length == -1 else size(length) for axis, length in zip(axes, given))
        elif given is None:
            lengths = tuple(whole.shape[axis] for axis in axes)
        else:
            lengths = (None,)
        if None in lengths:
            raise Decline("irfft-dynamic-shape")
        plain = argument(node, 3, "norm") in (None, "backward") and "out" not in node.kwargs
        return cls(node, axes, lengths, plain, given is not None and all(isinstance(length, int) for length in lengths))


@dataclass
class State:
    """The result after some of the steps that follow the inverse transform: along axis i, point j is point j + offset of it."""

    node: Node
    offsets: tuple
    lengths: tuple
    add: Node = None
    steps: tuple = ()

    def after(self, node, offsets=None, lengths=None, add=None):
        return State(node, offsets or self.offsets, lengths or self.lengths, add or self.add, (*self.steps, node))


def states(inverse, strict):
    """The result as it comes from the inverse transform, then after each step."""
    found = [State(inverse.node, (0,) * len(inverse.axes), inverse.lengths)]
    while True:
        state = found[-1]
        users = graph.users(state.node)
        if len(users) != 1:
            return found
        following = _step(state, users[0], inverse, strict, has_cast=any(kind(node) == "cast" for node in state.steps))
        if following is None:
            return found
        found.append(following)


def _step(state, node, inverse, strict, has_cast):
    what, before, after = kind(node), tensor(state.node), tensor(node)
    if before is None or after is None or (what != "add" and tensor_input(node) is not state.node):
        return None  # x.type_as(y) has y as its second input
    if what in ("getitem", "slice", "narrow"):
        slices = _slices(node, what, before.dim(), strict)
        return None if slices is None else _cropped(state, node, slices, inverse, before)
    if what == "cast":
        return state.after(node) if graph.is_plain_cast(node) and not has_cast else None
    if strict:
        return None
    if what == "roll":
        # Before any crop: what a roll of a part brings in from the other end is no point of the convolution.
        by, along = argument(node, 1, "shifts"), argument(node, 2, "dims")
        by, along = ([size(n) for n in given] if isinstance(given, (tuple, list)) else [size(given)] for given in (by, along))
        if None in by or None in along or len(by) != len(along):
            return None
        if state.offsets != (0,) * len(state.offsets) and any(kind(step) != "roll" for step in state.steps if kind(step) != "cast"):
            return None
        offsets = list(state.offsets)
        for shift, axis in zip(by, along):
            if not isinstance(axis, int):
                return None
            axis = axis - before.dim() if axis >= 0 else axis
            if axis not in inverse.axes:
                return None
            offsets[inverse.axes.index(axis)] -= shift
        return state.after(node, tuple(offsets))
    if what == "add" and state.add is None and "alpha" not in node.kwargs and len(node.args) == 2 and node.args[0] is not node.args[1]:
        return state.after(node, add=node) if before.shape == after.shape else None
    return None


def _slices(node, what, rank, strict):
    """{axis from the end: (start, stop, step)} of the axes that a node may cut."""
    if what == "getitem":
        index = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
        if not all(i is Ellipsis or isinstance(i, slice) for i in index) or index.count(Ellipsis) > 1:
            return None
        if strict and (len(index) != 3 or index[0] is not Ellipsis):
            return None
        if Ellipsis in index:
            at = index.index(Ellipsis)
            index = index[:at] + (slice(None),) * (rank - len(index) + 1) + index[at + 1 :]
        return {axis - rank: (s.start, s.stop, s.step) for axis, s in enumerate(index)}
    if what == "slice":
        axis = argument(node, 1, "dim", default=0)
        bounds = argument(node, 2, "start"), argument(node, 3, "end"), argument(node, 4, "step", default=1)
    else:
        axis, start, length = argument(node, 1, "dim"), size(argument(node, 2, "start")), size(argument(node, 3, "length"))
        if start is None or length is None:
            return None
        bounds = start, start + length, 1
    return {axis - rank if axis >= 0 else axis: bounds}


_END = 2**63 - 1  # torch.export's "to the end"


def _cropped(state, node, slices, inverse, before):
    offsets, lengths = list(state.offsets), list(state.lengths)
    for axis, (start, stop, step) in slices.items():
        if (start, stop) in ((None, None), (0, None), (0, _END), (None, _END)) and step in (None, 1):
            continue
        if axis not in inverse.axes or step not in (None, 1):
            return None
        i = inverse.axes.index(axis)
        start = 0 if start is None else _from_start(start, lengths[i])
        stop = lengths[i] if stop is None or (isinstance(stop, int) and stop == _END) else _from_start(stop, lengths[i])
        if start is None or stop is None:
            raise Decline("irfft-dynamic-shape")
        offsets[i], lengths[i] = offsets[i] + start, stop - start
    return state.after(node, tuple(offsets), tuple(lengths))


def _from_start(bound, length):
    bound = size(bound)
    if bound is None:
        return None
    if isinstance(bound, int):
        return bound if bound >= 0 else length + bound
    if symbols.at_least(bound, 0):
        return bound
    return length + bound if symbols.at_least(-1, bound) else None


@dataclass
class Operand:
    """What one of the forward transforms transforms, with and without the cast in front of it."""

    given: Node
    source: Node

    @classmethod
    def of(cls, given, strict):
        if graph.is_plain_cast(given) and tensor(given).dtype == torch.float32:
            before = tensor_input(given)
            if strict or tensor(before).dtype in (torch.float32, torch.bfloat16, torch.float16):
                return cls(given, before)
        return cls(given, given)


class Chain:
    """The parts of one chain, found one after another: the first that fails gives the reason."""

    def __init__(self, irfft, positions, strict):
        self.positions, self.strict = positions, strict
        if strict and not (isinstance(length := argument(irfft, 1, "s"), (tuple, list)) and all(isinstance(n, int) for n in length)):
            raise Decline("irfft-dynamic-shape")
        self.inverse = Transform.of(irfft)
        self.layout = _layout(self.inverse, strict)
        self.product = Product(irfft, positions, strict)
        if not self.product.is_product:
            raise Decline("no-rfft2-product")
        self.states = states(self.inverse, strict)
        self.operands = []
        for node in self.product.spectra:
            given = tensor_input(node)
            if tensor(given) is None:
                raise Decline("missing-shape-metadata")
            self.operands.append(Operand.of(given, strict))

    @property
    def rank(self):
        return len(self.inverse.axes)

    def ramp_shifts(self):
        """The shift of each axis by phase ramps, or a reason to decline."""
        total = [0] * self.rank
        for ramp in self.product.ramps:
            if not all(isinstance(length, int) for length in self.inverse.lengths):
                raise Decline("irfft-dynamic-shape")
            found = shifts(ramp, tensor(self.inverse.node).dim(), self.inverse.axes, self.inverse.lengths)
            if found is None:
                raise Decline("no-rfft2-product")
            total = [a + b for a, b in zip(total, found)]
        return total

    def check_forward_transforms(self):
        for node in self.product.spectra:
            try:
                forward = Transform.of(node)
            except Decline as decline:
                raise Decline("rfft-args-mismatch" if decline.reason == "irfft-dynamic-shape" else decline.reason) from None
            same = forward.axes == self.inverse.axes and all(symbols.equal(a, b) for a, b in zip(forward.lengths, self.inverse.lengths))
            if not same or not forward.has_plain_arguments or (self.strict and not forward.is_explicit):
                raise Decline("rfft-args-mismatch")

    def check_private(self):
        """Every value between the operands and the result is seen by the chain alone."""
        inside = self.product.interior | {self.inverse.node}
        for node in (*self.product.spectra, *self.product.interior):
            if any(user not in inside for user in graph.users(node)):
                raise Decline("spectrum-has-other-users")


def _layout(inverse, strict):
    """ "first" or "last", where the channels are: the axes are the last ones, or those before the last."""
    rank = len(inverse.axes)
    ordered = tuple(sorted(inverse.axes))
    first, last = tuple(range(-rank, 0)), tuple(range(-rank - 1, -1))
    if not inverse.has_plain_arguments or rank > 3 or ordered not in (first, last) or (strict and inverse.axes != first):
        raise Decline("irfft-args-mismatch")
    if strict and tuple(argument(inverse.node, 2, "dim") or ()) != (2, 3):
        raise Decline("irfft-args-mismatch")
    return "first" if ordered == first else "last"
