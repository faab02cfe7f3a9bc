"""rewrite: replaces every chain of a graph that is one of the operator's convolutions. Works on Dynamo's graphs before AOTAutograd sees
them and on those of torch.export."""

import torch

from . import graph as words
from .chain import Chain
from .graph import kind, tensor, tensor_input
from .recipe import decide
from .stats import Decline, count_declined, count_rewritten

# The form with an autograd kernel: an operator, so that graphs stay cacheable and exportable.
_operator = torch.ops.faltung.long_conv.default


def rewrite(graph, *, strict=False, allow_reduced_precision=True):
    """Replaces each chain `rfft -> product -> irfft -> crop` of an FX graph by one call of long_conv; returns how many.

    Args:
        graph: a torch.fx.Graph as Dynamo hands it to a backend, or that of a torch.export.ExportedProgram. Changed in place.
        strict: take what nvSubquadratic's lowering takes, and nothing else: 2D, its padding, one dtype, complex products.
        allow_reduced_precision: also rewrite inputs of 16 bits, whose chains compute in float32.

    Chains that are left alone are counted with a reason: see `lowering_stats`.
    """
    inverses = ("irfft2",) if strict else tuple(words.INVERSES)
    options = {"strict": strict, "allow_reduced_precision": allow_reduced_precision}
    # torch.export puts regions of another mode into graphs of their own; torch.compile calls its passes for each by itself.
    count = sum(rewrite(inner, **options) for inner in _exported_regions(graph))
    for node in [node for node in graph.nodes if kind(node) in inverses]:
        try:
            _rewrite_one(graph, node, **options)
        except Decline as decline:
            count_declined(node, decline.reason)
        else:
            count += 1
    return count


def _exported_regions(graph):
    for node in graph.nodes:
        if node.op == "get_attr" and graph.owning_module is not None and node.meta.get("example_value") is None:
            inner = getattr(graph.owning_module, node.target, None)
            if isinstance(inner, torch.fx.GraphModule) and any(words.is_aten(n) for n in inner.graph.nodes):
                yield inner.graph
                inner.recompile()


def _rewrite_one(graph, irfft, strict, allow_reduced_precision):
    positions = {node: i for i, node in enumerate(graph.nodes)}
    chain = Chain(irfft, positions, strict)
    found = decide(chain, allow_reduced_precision)
    steps = next(state.steps for state in chain.states if state.node is found.target)
    inside = chain.product.interior | {irfft, *chain.product.spectra, *steps}
    casts = {operand.given for operand in chain.operands if operand.given is not operand.source}
    replaced = inside | casts | ({found.product_with_x} if found.product_with_x else set())
    _check_surroundings(graph, replaced, found, positions)
    order = _order_to_keep(found)
    count_rewritten(found)
    with graph.inserting_before(found.target):
        shortcut = found.shortcut and _as_channels(graph, found.shortcut)
        call = graph.call_function(
            _operator, (found.x, found.k, shortcut, found.boundary, found.channels_last, found.centre)
        )
        _describe(call, found.target, torch.empty_like, tensor(found.x))
        result = call if order is None else _in_order(graph, call, order, words.is_aten(irfft), found.target)
    found.target.replace_all_uses_with(result)
    _erase(graph, replaced | set(chain.product.ramps), positions)


def _describe(node, like, function, *inputs):
    """Metadata of a new node: those of the one it stands for, with an example value of its own."""
    node.meta.update(like.meta)
    name = "example_value" if "example_value" in like.meta else "val"
    mode = torch._subclasses.fake_tensor.maybe_get_fake_mode(inputs[0])
    with mode if mode is not None else torch.no_grad():
        node.meta[name] = function(*inputs)
    if "tensor_meta" in node.meta:
        node.meta["tensor_meta"] = torch.fx.passes.shape_prop._extract_tensor_metadata(node.meta[name])


def _as_channels(graph, node):
    """A shortcut of any shape as [channels]."""
    if tensor(node).dim() == 1:
        return node
    source = tensor_input(node)
    if kind(node) == "unsqueeze" or _name_of(node) in ("view", "reshape", "getitem"):
        if source is not None and tensor(source) is not None and tensor(source).dim() == 1 and tensor(source).shape[0] == tensor(node).numel():
            return source
    flat = graph.call_function(torch.ops.aten.reshape.default, (node, [-1]))
    _describe(flat, node, lambda t: t.reshape(-1), tensor(node))
    return flat


def _name_of(node):
    if words.is_aten(node):
        return node.target._schema.name.split("::")[1]
    return getattr(node.target, "__name__", None) if node.op == "call_function" else node.target


def _check_surroundings(graph, replaced, found, positions):
    """The operands are read at the end of the chain: they must be then what they were when the chain read them, and modes likewise."""
    operands = [node for node in (found.x, found.k, found.shortcut) if node is not None]
    start, end = min(positions[node] for node in replaced), positions[found.target]
    for node in graph.nodes:
        if start <= positions[node] < end and node not in replaced and words.writes_to(node, operands):
            raise Decline("operand-mutated")
    modes = words.modes(graph)
    if any(modes[node] != modes[found.target] for node in replaced):
        raise Decline("mode-changes")


# ---- Strides: the operator gives those of x, the chain gave its own


def _stride_order(value):
    return sorted(range(value.dim()), key=lambda axis: (-_plain(value.stride(axis)), axis))


def _plain(size):
    from .symbols import hint

    return hint(size) or 0


_ALIASES = {"permute", "transpose", "unsqueeze", "squeeze", "getitem", "expand", "narrow", "select", "movedim", "swapaxes", "slice", "detach", "t"}
_VIEWS = {"view", "view_as", "_unsafe_view"}


def _order_to_keep(found):
    """The order of strides that the result must have because someone may tell: None where it has it, or nobody can."""
    order = _stride_order(tensor(found.target))
    seen, pending, is_seen = set(), [found.target], False
    while pending:
        node = pending.pop()
        for user in node.users:
            name, value = _name_of(user), tensor(user)
            if name == "as_strided":
                raise Decline("output-strides-observed")
            if user in seen:
                continue
            seen.add(user)
            is_seen |= user.op == "output" or name in _VIEWS or _is_foreign(user)
            # Results of the shape of their input mostly have its strides too.
            if name in _ALIASES or (value is not None and value.shape == tensor(node).shape):
                pending.append(user)
    return order if is_seen and order != _stride_order(tensor(found.x)) else None


def _is_foreign(node):
    """Whether a node is no function of torch, and may want its inputs contiguous."""
    if node.op != "call_function":
        return node.op == "call_module"
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target.namespace not in ("aten", "prims", "faltung")
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def _in_order(graph, node, order, is_aten, target):
    """A copy of a value whose strides descend in this order of axes."""
    inverse = sorted(range(len(order)), key=order.__getitem__)
    for function, inputs in ((torch.ops.aten.permute.default, (order,)), (torch.ops.aten.contiguous.default, ()), (torch.ops.aten.permute.default, (inverse,))):
        following = graph.call_function(function, (node, *inputs))
        _describe(following, target, function, tensor(node), *inputs)
        node = following
    return node


def _erase(graph, nodes, positions):
    """Erases those of the nodes that nothing uses any more, and assertions about them. Graph.eliminate_dead_code would also delete
    in-place calls elsewhere (`state.add_(1)`) whose result nobody names."""
    for node in sorted(nodes, key=positions.get, reverse=True):
        if not words.users(node):
            for assertion in list(node.users):
                graph.erase_node(assertion)
            graph.erase_node(node)
