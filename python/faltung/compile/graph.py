"""Words for reading FX graphs: what a node is, whatever its spelling (Dynamo's functions and methods, or the aten operators of
torch.export), what it knows of its value, what it writes to."""

import inspect
import operator

import torch
from torch.fx import Node

aten = torch.ops.aten

TRANSFORMS = {"rfft": 1, "rfft2": 2, "rfftn": None}  # how many axes, where the call does not say
INVERSES = {"irfft": "rfft", "irfft2": "rfft2", "irfftn": "rfftn"}

_FUNCTIONS = {
    "mul": (operator.mul, torch.mul, torch.multiply, torch.Tensor.mul, aten.mul.Tensor, aten.mul.Scalar),
    "mul_": (operator.imul, torch.Tensor.mul_, aten.mul_.Tensor),
    "add": (operator.add, torch.add, torch.Tensor.add, aten.add.Tensor),
    "sub": (operator.sub, torch.sub, torch.subtract, torch.Tensor.sub, aten.sub.Tensor),
    "neg": (operator.neg, torch.neg, torch.negative, aten.neg.default),
    "getitem": (operator.getitem,),
    "getattr": (getattr,),
    "real": (torch.real, aten.real.default),
    "imag": (torch.imag, aten.imag.default),
    "complex": (torch.complex, aten.complex.default),
    "view_as_real": (torch.view_as_real, aten.view_as_real.default),
    "view_as_complex": (torch.view_as_complex, aten.view_as_complex.default),
    "stack": (torch.stack, aten.stack.default),
    "select": (torch.select, aten.select.int),
    "slice": (aten.slice.Tensor,),
    "narrow": (torch.narrow, aten.narrow.default),
    "roll": (torch.roll, aten.roll.default),
    "unsqueeze": (torch.unsqueeze, aten.unsqueeze.default),
    "cast": (
        torch.Tensor.to, torch.Tensor.float, torch.Tensor.type, aten.to.dtype, aten.to.device, aten.to.other, aten.to.dtype_layout, aten._to_copy.default,
        torch.ops.prims.convert_element_type.default,
    ),
    "assert": (aten._assert_tensor_metadata.default,),
}  # fmt: skip
_KINDS = {function: kind for kind, functions in _FUNCTIONS.items() for function in functions}
for _name in (*TRANSFORMS, *INVERSES):
    _KINDS[getattr(torch.fft, _name)] = _KINDS[getattr(aten, f"fft_{_name}").default] = _name
_METHODS = {
    "mul": "mul", "multiply": "mul", "__mul__": "mul", "__rmul__": "mul", "mul_": "mul_", "multiply_": "mul_", "__imul__": "mul_",
    "add": "add", "__add__": "add", "__radd__": "add", "sub": "sub", "__sub__": "sub", "neg": "neg", "__getitem__": "getitem", "select": "select",
    "narrow": "narrow", "roll": "roll", "unsqueeze": "unsqueeze", "to": "cast", "float": "cast", "double": "cast", "half": "cast", "bfloat16": "cast",
    "type": "cast", "type_as": "cast",
}  # fmt: skip


def kind(node):
    """The name of what a node computes, of the tables above; None for anything else."""
    if not isinstance(node, Node):
        return None
    if node.op == "call_function":
        return _KINDS.get(node.target)
    return _METHODS.get(node.target) if node.op == "call_method" else None


def is_aten(node):
    return isinstance(node.target, torch._ops.OpOverload)


def argument(node, position, *names, default=None):
    """An argument, whether it came by position or by one of its names."""
    for name in names:
        if name in node.kwargs:
            return node.kwargs[name]
    return node.args[position] if len(node.args) > position else default


def tensor_input(node):
    found = argument(node, 0, "input", "self")
    return found if isinstance(found, Node) else None


def value(node):
    """The example value that Dynamo ("example_value") or torch.export ("val") left with a node."""
    if not isinstance(node, Node):
        return node
    found = node.meta.get("example_value")
    return node.meta.get("val") if found is None else found


def tensor(node):
    """The example tensor of a node, or None."""
    found = value(node) if isinstance(node, Node) else None
    return found if isinstance(found, torch.Tensor) else None


def size(node):
    """A size as an int or a torch.SymInt; None where it is neither."""
    found = value(node)
    if isinstance(found, torch.SymInt):
        known = found.node.maybe_as_int()  # a symbol that a guard has fixed
        return found if known is None else known
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def users(node):
    """The users that matter: torch.export adds assertions about metadata, which go when their subject goes."""
    return [user for user in node.users if kind(user) != "assert"]


def is_plain_cast(node):
    """Whether a node changes nothing but the dtype."""
    if kind(node) != "cast" or any(name in node.kwargs for name in ("memory_format", "copy", "non_blocking")):
        return False
    to, source = tensor(node), tensor(tensor_input(node))
    return to is not None and source is not None and to.device == source.device and to.layout == source.layout


# ---- What nodes write to


def _written(node):
    """The nodes that a node may write to."""
    if "out" in node.kwargs:
        return _nodes(node.kwargs["out"])
    if node.op == "call_method":
        is_in_place = node.target.endswith("_") and not node.target.endswith("__")
        return _nodes(node.args[:1]) if is_in_place or node.target in ("__setitem__", "__imul__", "__iadd__", "__isub__") else []
    if node.op == "call_module":
        return _nodes((node.args, node.kwargs)) if getattr(_module(node), "inplace", False) else []
    if node.op != "call_function":
        return []
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        names = [a.name for a in target._schema.arguments]
        writes = [a.name for a in target._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        return [found for name in writes for found in _nodes(argument(node, names.index(name), name))]
    if isinstance(target, torch._ops.HigherOrderOperator):
        return _nodes((node.args, node.kwargs)) if "mutat" in target.name() else []
    name = getattr(target, "__name__", "")
    if target in _IN_PLACE or (name.endswith("_") and not name.endswith("__")):
        return _nodes(node.args[:1])
    return _nodes(node.args[:1]) or _nodes(node.kwargs.get("input")) if _says_in_place(node) else []


_IN_PLACE = {
    getattr(operator, name)
    for name in ("iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift", "irshift", "setitem")
}


def _says_in_place(node):
    if "inplace" in node.kwargs:
        return node.kwargs["inplace"] is not False
    try:
        position = list(inspect.signature(node.target).parameters).index("inplace")
    except (TypeError, ValueError):
        return False
    return len(node.args) > position and node.args[position] is not False


def _module(node):
    return node.graph.owning_module.get_submodule(node.target) if node.graph.owning_module is not None else None


def _nodes(arguments):
    found = []
    torch.fx.node.map_arg(arguments, found.append)
    return found


def _storages(node):
    found = value(node)
    tensors = [t for t in torch.utils._pytree.tree_leaves(found) if isinstance(t, torch.Tensor)]
    try:
        return {t.untyped_storage()._cdata for t in tensors} if tensors else None
    except (NotImplementedError, RuntimeError):
        return None


def writes_to(node, operands):
    """Whether a node may write to the memory of one of the operands. A node without example value is taken to."""
    written = _written(node)
    if not written:
        return False
    memory = [_storages(operand) for operand in operands]
    for target in written:
        storages = _storages(target)
        if storages is None or any(target is operand or m is None or storages & m for operand, m in zip(operands, memory)):
            return True
    return False


# ---- The modes that a node runs in

_ENTRIES = {torch.amp.autocast_mode._enter_autocast, torch.autograd.grad_mode._enter_inference_mode}
_EXITS = {torch.amp.autocast_mode._exit_autocast, torch.autograd.grad_mode._exit_inference_mode}


def modes(graph):
    """For each node the gradient mode and the modes that the graph has entered: equal for two nodes that run alike."""
    switches = [n.args[0] for n in graph.nodes if n.op == "call_function" and n.target is torch._C._set_grad_enabled]
    grad, entered = not switches[0] if switches else None, ()
    found = {}
    for node in graph.nodes:
        if node.op == "call_function":
            if node.target is torch._C._set_grad_enabled:
                grad = node.args[0]
            elif node.target in _ENTRIES:
                entered += (node,)
            elif node.target in _EXITS:
                entered = tuple(entry for entry in entered if entry is not node.args[0])
        found[node] = (grad, entered)
    return found
