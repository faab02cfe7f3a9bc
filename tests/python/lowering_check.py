"""Running chains with the lowering and without, without Inductor: Dynamo's graph is rewritten and run as it is."""

import torch
from faltung.compile import lowering_stats, reset_lowering_stats, rewrite
from faltung.compile.graph import kind

TRANSFORMS = {"rfft", "rfft2", "rfftn", "irfft", "irfft2", "irfftn", "mul_"}


def lower(function, *inputs, fullgraph=True, dynamic=False, **options):
    """(the compiled function, the list of graphs after the pass, filled as it compiles)."""
    graphs = []

    def backend(module, _):
        rewrite(module.graph, **options)
        module.graph.lint()
        module.recompile()
        graphs.append(module.graph)
        return module.forward

    torch._dynamo.reset()
    reset_lowering_stats()
    return torch.compile(function, backend=backend, fullgraph=fullgraph, dynamic=dynamic), graphs


def outcome(function, *inputs, **options):
    """What lowering_stats says after one call, and the graph."""
    compiled, graphs = lower(function, *inputs, **options)
    y = compiled(*inputs)
    return y, lowering_stats(), graphs[-1]


def survivors(graph):
    """Nodes that a rewrite must not leave."""
    return [node.name for node in graph.nodes if kind(node) in TRANSFORMS]


def operators(graph):
    return sum(node.target is torch.ops.faltung.long_conv.default for node in graph.nodes)


def step(function, inputs):
    """y and the gradients of those inputs that get one."""
    inputs = [t.clone().requires_grad_(t.is_floating_point()) for t in inputs]
    y = function(*inputs)
    if not y.requires_grad:
        return [y]
    used = [t for t in inputs if t.requires_grad]
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(7), device="cpu").to(y)
    return [y.detach(), *torch.autograd.grad(y, used, dy, allow_unused=True)]


def relative_error(got, expected):
    if got is None or expected is None:
        assert got is None and expected is None
        return 0.0
    assert got.shape == expected.shape and got.dtype == expected.dtype
    got, expected = got.detach().double(), expected.detach().double()
    difference, scale = (got - expected).norm(), expected.norm()
    return float(difference / scale) if difference else 0.0


LIMITS = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 6e-3, torch.float16: 1e-3}
