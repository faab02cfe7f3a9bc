"""What an inverse transform is given: the product of two spectra, however it is spelled, and perhaps of a phase ramp, which shifts.

Spellings: `X * K`, torch.mul, `X.mul_(K)`, `X *= K`, and real arithmetic, (a + bi)(c + di) = (ac - bd) + (ad + bc)i, in any order of
sums and products, joined by torch.complex or by stack and view_as_complex.
"""

import collections
import math

import torch
from torch.fx import Node

from . import graph
from .graph import argument, kind, tensor, tensor_input


class Product:
    """The factors of a spectrum at the time when `reader` reads it."""

    def __init__(self, reader, positions, strict):
        self.positions, self.strict = positions, strict
        self.spectra = []  # forward transforms
        self.ramps = []  # constants
        self.interior = set()  # every node of the product, without the spectra
        self.is_plain = True
        source = tensor_input(reader)
        self.is_product = source is not None and self._add(source, reader) and len(self.spectra) == 2

    def _add(self, node, reader):
        """Adds the factors of a node; False where it is something else."""
        what = kind(node)
        if what == "mul_":
            # The node is its first operand after the product was written there; `_in_place` finds it among that one's users.
            self.interior.add(node)
            return isinstance(node.args[0], Node) and self._add(node.args[0], reader)
        if what in graph.TRANSFORMS:
            self.spectra.append(node)
            return self._in_place(node, reader)
        if what == "mul":
            self.interior.add(node)
            a, b = argument(node, 0, "input", "self"), argument(node, 1, "other")
            if self.strict and len(node.args) != 2:
                return False
            return isinstance(a, Node) and isinstance(b, Node) and self._add(a, node) and self._add(b, node) and self._in_place(node, reader)
        if self.strict:
            return False
        if _is_constant(node):
            self.ramps.append(node)
            return True
        if what in ("complex", "view_as_complex"):
            return self._add_real_arithmetic(node) and self._in_place(node, reader)
        if what in ("unsqueeze", "getitem") and _adds_leading_axes(node):
            self.interior.add(node)
            return self._add(tensor_input(node), node)
        return False

    def _in_place(self, node, reader):
        for user in graph.users(node):
            is_product = kind(user) == "mul_" and user.args[0] is node and self.positions[user] < self.positions[reader]
            if self.strict and is_product and user.op == "call_function" and not graph.is_aten(user):
                return False
            if is_product:
                self.interior.add(user)
                if not (len(user.args) > 1 and isinstance(user.args[1], Node) and self._add(user.args[1], user) and self._in_place(user, reader)):
                    return False
        return True

    def _add_real_arithmetic(self, node):
        nodes = {node}
        if kind(node) == "view_as_complex":
            stack = tensor_input(node)
            if kind(stack) != "stack" or argument(stack, 1, "dim", default=0) not in (-1, tensor(stack).dim() - 1):
                return False
            nodes.add(stack)
            parts = argument(stack, 0, "tensors")
        else:
            parts = (argument(node, 0, "real"), argument(node, 1, "imag"))
        if not isinstance(parts, (list, tuple)) or len(parts) != 2:
            return False
        polynomials = [_polynomial(part, nodes) for part in parts]
        if None in polynomials:
            return False
        factors = {leaf[0] for polynomial in polynomials for monomial in polynomial for leaf in monomial}
        if len(factors) != 2:
            return False
        a, b = sorted(factors, key=self.positions.get)
        real = {_monomial((a, "r"), (b, "r")): 1, _monomial((a, "i"), (b, "i")): -1}
        imaginary = {_monomial((a, "r"), (b, "i")): 1, _monomial((a, "i"), (b, "r")): 1}
        if polynomials != [real, imaginary]:
            return False
        self.is_plain = False
        self.interior |= nodes
        first = min(nodes, key=self.positions.get)
        return self._add(a, first) and self._add(b, first)


def _adds_leading_axes(node):
    before, after = tensor(tensor_input(node)), tensor(node)
    if before is None or after is None:
        return False
    added = after.dim() - before.dim()
    if kind(node) == "getitem":
        index = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
        rest = index[added:]
        return added > 0 and all(i is None for i in index[:added]) and all(i is Ellipsis or i == slice(None) for i in rest)
    return argument(node, 1, "dim") in (0, -after.dim())


# ---- Real arithmetic, as polynomials in the real and imaginary parts of complex nodes: {sorted pair of parts: coefficient}


def _monomial(*parts):
    return tuple(sorted(parts, key=lambda part: (part[0].name, part[1])))


def _part(node, nodes):
    """(complex node, "r" or "i") where a node is the real or imaginary part of another."""
    what = kind(node)
    if what in ("real", "imag"):
        part, source = what[0], tensor_input(node)
    elif what == "getattr" and node.args[1] in ("real", "imag"):
        part, source = node.args[1][0], node.args[0]
    else:
        if what == "getitem":
            index = node.args[1]
            index = index[1] if isinstance(index, tuple) and len(index) == 2 and index[0] is Ellipsis else None
        elif what == "select" and argument(node, 1, "dim") in (-1, tensor(tensor_input(node)).dim() - 1):
            index = argument(node, 2, "index")
        else:
            return None
        pair = tensor_input(node)
        if index not in (0, 1) or isinstance(index, bool) or kind(pair) != "view_as_real":
            return None
        nodes.add(pair)
        part, source = "ri"[index], tensor_input(pair)
    if not isinstance(source, Node) or tensor(source) is None or not tensor(source).is_complex():
        return None
    nodes.add(node)
    return source, part


def _polynomial(node, nodes):
    if not isinstance(node, Node):
        return None
    if part := _part(node, nodes):
        return {(part,): 1}
    what = kind(node)
    if what == "neg":
        nodes.add(node)
        inner = _polynomial(tensor_input(node), nodes)
        return inner and {monomial: -factor for monomial, factor in inner.items()}
    if what not in ("add", "sub", "mul") or "alpha" in node.kwargs:
        return None
    nodes.add(node)
    a, b = (_polynomial(operand, nodes) for operand in (argument(node, 0, "input", "self"), argument(node, 1, "other")))
    if a is None or b is None:
        return None
    total = collections.Counter()
    if what == "mul":
        for left, f in a.items():
            for right, g in b.items():
                total[_monomial(*left, *right)] += f * g
    else:
        total.update(a)
        for monomial, factor in b.items():
            total[monomial] += factor if what == "add" else -factor
    if any(len(monomial) > 2 for monomial in total):
        return None
    return {monomial: factor for monomial, factor in total.items() if factor}


# ---- Phase ramps: constants that the graph computes

_CONSTANT = {
    "arange", "linspace", "fft_rfftfreq", "fft_fftfreq", "tensor", "full", "ones", "zeros", "mul", "multiply", "add", "sub", "neg", "truediv", "div", "cos", "sin",
    "exp", "complex", "polar", "ones_like", "zeros_like", "view", "reshape", "unsqueeze", "getitem", "to", "float", "double", "type", "pow", "rfftfreq", "fftfreq",
}  # fmt: skip


def _is_constant(node):
    """Whether a node depends on nothing but numbers, by functions that are known to always give the same."""
    pending, seen = [node], set()
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen.add(at)
        if at.op not in ("call_function", "call_method") or _name(at) not in _CONSTANT or len(seen) > 100:
            return False
        pending += at.all_input_nodes
    return True


def _name(node):
    if graph.is_aten(node):
        return node.target._schema.name.split("::")[1].removesuffix("_default")
    return getattr(node.target, "__name__", node.target) if node.op == "call_function" else node.target


def _evaluate(node, known):
    if node not in known:
        inputs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: _evaluate(n, known))
        args, kwargs = inputs[0], {name: "cpu" if name == "device" else v for name, v in inputs[1].items()}
        args = tuple("cpu" if isinstance(a, torch.device) else a for a in args)
        known[node] = getattr(args[0], node.target)(*args[1:], **kwargs) if node.op == "call_method" else node.target(*args, **kwargs)
    return known[node]


def shifts(ramp, rank, axes, lengths):
    """The whole number of points by which a phase ramp shifts each axis, y[i] = z[i + shift]; None where it is none."""
    with torch.device("cpu"), torch._subclasses.fake_tensor.unset_fake_temporarily(), torch.no_grad():  # whatever the default device is
        try:
            found = _evaluate(ramp, {}).to(torch.complex128)
        except (TypeError, ValueError, RuntimeError, AttributeError):
            return None
        return _shifts(found, rank, axes, lengths)


def _shifts(found, rank, axes, lengths):
    found = found.reshape((1,) * (rank - found.dim()) + tuple(found.shape))
    if any(found.shape[axis] != 1 for axis in range(-rank, 0) if axis not in axes):
        return None
    spectral = [length if axis != axes[-1] else length // 2 + 1 for axis, length in zip(axes, lengths)]
    found = found.permute(*(a for a in range(-rank, 0) if a not in axes), *axes).reshape([found.shape[axis] for axis in axes]).expand(spectral)
    result = []
    exact = torch.ones([1] * len(axes), dtype=torch.complex128)
    for i, length in enumerate(lengths):
        second = found[tuple(min(1, spectral[i] - 1) if j == i else 0 for j in range(len(axes)))]
        shift = round(math.atan2(second.imag, second.real) * length / (2 * math.pi))
        angles = 2 * math.pi * shift / length * torch.arange(spectral[i], dtype=torch.float64)
        shape = [-1 if j == i else 1 for j in range(len(axes))]
        exact = exact * torch.polar(torch.ones_like(angles), angles).reshape(shape)
        result.append(shift)
    return result if float((found - exact).abs().max()) < 1e-3 else None
