"""torch.compile and torch.export: whole graphs, dynamic shapes, strides that change between calls, gradients; Inductor on the CPU."""

import faltung
import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def as_users_have_it():
    torch._C._set_deterministic_algorithms(False)
    torch._dynamo.reset()


class Model(nn.Module):
    """Products before and after, so that Inductor fuses around the operator and pads the matrix products' outputs as it likes."""

    def __init__(self, channels, filters, **options):
        super().__init__()
        self.into = nn.Linear(channels, channels)
        self.k = nn.Parameter(torch.randn(channels, *filters) / 10)
        self.shortcut = nn.Parameter(torch.randn(channels))
        self.options = options

    def forward(self, x):
        x = self.into(x.movedim(1, -1)).movedim(-1, 1)
        return torch.relu(faltung.long_conv(x, self.k, self.shortcut, **self.options)) * 2


def step(model, x):
    x = x.detach().clone().requires_grad_() if x.is_contiguous() else x.detach().requires_grad_()
    model.zero_grad()
    y = model(x)
    y.square().sum().backward()
    return y, x.grad, *(p.grad.clone() for p in model.parameters())


def same(a, b):
    for got, expected in zip(a, b):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_fullgraph_forward_and_backward():
    model = Model(5, (9, 11), boundary=("zero", "circular"))
    x = torch.randn(2, 5, 6, 7)
    same(step(torch.compile(model, fullgraph=True), x), step(model, x))


@pytest.mark.slow
def test_dynamic_batch_channels_and_rows():
    def call(x, k):
        return faltung.long_conv(x * 2, k).sin()

    counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    compiled = torch.compile(call, fullgraph=True, backend=counter)
    for batch, channels, rows in ((2, 3, 8), (5, 4, 9), (7, 6, 13)):
        x, k = torch.randn(batch, channels, rows, 5), torch.randn(channels, 5, 3)
        for axis in (0, 1, 2):
            torch._dynamo.mark_dynamic(x, axis)
        torch._dynamo.mark_dynamic(k, 0)
        torch.testing.assert_close(compiled(x, k), call(x, k))
    assert counter.frame_count == 1


@pytest.mark.slow
def test_second_call_with_permuted_strides():
    model = Model(4, (5, 5))
    compiled = torch.compile(model, fullgraph=True)
    x = torch.randn(2, 4, 6, 7)
    for other in (x, x.movedim(1, -1).contiguous().movedim(-1, 1), x.transpose(2, 3).contiguous().transpose(2, 3)):
        same(step(compiled, other), step(model, other))


def test_in_place_state_and_two_convolutions():
    state = torch.zeros(3)

    def call(x, k):
        state.add_(1)
        return faltung.long_conv(faltung.long_conv(x, k), k, boundary="causal")

    x, k = torch.randn(2, 3, 9), torch.randn(3, 9)
    torch.testing.assert_close(torch.compile(call, fullgraph=True)(x, k), call(x, k))
    assert torch.equal(state, torch.full((3,), 2.0))


def graphs_of(call, *inputs):
    seen = []

    def compiler(graph, _):
        seen.append(graph)
        return graph

    backend = torch._dynamo.backends.common.aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    y = torch.compile(call, fullgraph=True, backend=backend)(*inputs)
    if y.requires_grad:
        y.sum().backward()
    return [[node.target for node in graph.graph.nodes if node.op == "call_function"] for graph in seen]


def test_graphs_hold_the_operators_without_autograd():
    x, k = torch.randn(2, 3, 9, requires_grad=True), torch.randn(3, 9, requires_grad=True)
    for call in (faltung.long_conv, lambda x, k: torch.ops.faltung.long_conv(x, k)):
        forward, backward = graphs_of(call, x, k)
        assert torch.ops.faltung.long_conv_detached.default in forward
        assert torch.ops.faltung.long_conv_backward_detached.default in backward


@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x, k: torch.func.grad(lambda k: f(x, k).square().sum())(k),
        lambda f, x, k: torch.vmap(f, (0, None))(torch.stack([x, x + 1]), k),
        lambda f, x, k: torch.vmap(torch.func.grad(lambda k, x: f(x, k).square().sum()), (None, 0))(k, torch.stack([x, x + 1])),
        lambda f, x, k: torch.func.grad(lambda k: torch.vmap(f, (0, None))(torch.stack([x, x + 1]), k).square().sum())(k),
    ],
    ids=["grad", "vmap", "vmap_of_grad", "grad_of_vmap"],
)
def test_torch_func_inside(transform):
    x, k = torch.randn(2, 3, 5, 6), torch.randn(3, 3, 4)
    compiled = torch.compile(lambda x, k: transform(faltung.long_conv, x, k), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, k), transform(faltung.long_conv, x, k))


def test_errors_carry_the_words():
    with pytest.raises(Exception, match=r"k has 2 channels, x has 3"):
        torch.compile(faltung.long_conv, backend="eager")(torch.randn(1, 3, 4), torch.randn(2, 3))


def test_export_stays_differentiable():
    model = Model(4, (5, 5))
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(model, (torch.randn(3, 4, 6, 7),), dynamic_shapes={"x": {0: batch}}).module()
    x = torch.randn(5, 4, 6, 7)
    same(step(exported, x), step(model, x))
