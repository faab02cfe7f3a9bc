"""What surrounds chains in a graph: other work that must stay, several chains, subgraphs, dynamic shapes, exported graphs, strides."""

import pytest
import torch
from faltung.compile import lowering_stats, reset_lowering_stats, rewrite
from lowering_chains import FORMS, REWRITTEN, K, X, circular_rolled, doubled, same, times_
from lowering_check import LIMITS, lower, operators, outcome, relative_error, step, survivors
from torch import nn

identifiers = {"ids": lambda form: form.name.replace(" ", "_")}


def test_every_chain_of_a_graph_and_in_place_work_beside_them():
    state = torch.zeros(3)

    def call(x, k, shortcut):
        state.add_(1)
        y = same(times_)(x, k, shortcut)
        y = same()(torch.relu(y), k.flip(-1), shortcut)
        state.mul_(2)
        return y

    inputs = torch.randn(X), torch.randn(K), None
    y, stats, graph = outcome(call, *inputs)
    assert stats == {"rewritten": 2} and survivors(graph) == [n.name for n in graph.nodes if n.target == "mul_" and n.args[1] == 2]
    assert torch.equal(state, torch.full((3,), 2.0))
    assert relative_error(y, call(*inputs)) < 1e-6


def test_writing_to_something_else_within_the_chain_is_no_obstacle():
    state = torch.zeros(3)

    def call(x, k):
        spectrum = torch.fft.rfft(x, n=16)
        state.add_(1)
        y = torch.fft.irfft(spectrum * torch.fft.rfft(k, n=16), n=16)[..., :8]
        return y

    x, k = torch.randn(2, 3, 8), torch.randn(3, 8)
    y, stats, _ = outcome(call, x, k)
    assert stats == {"rewritten": 1} and torch.equal(state, torch.ones(3)) and relative_error(y, call(x, k)) < 1e-6


def test_writing_through_other_spellings_is_an_obstacle():
    for write in (
        lambda x: torch.relu_(x),
        lambda x: torch.nn.functional.relu(x, inplace=True),
        lambda x: torch.nn.functional.relu(x, True),
        lambda x: x.__setitem__((0, 0, 0), 1.0),
        lambda x: torch.mul(x, 2, out=x),
        lambda x: x.transpose(0, 1)[1].zero_(),
        lambda x: torch._foreach_add_([x], 1.0),
    ):

        def call(x, k):
            x = x + 1
            spectrum = torch.fft.rfft(x, n=16)
            write(x)
            return torch.fft.irfft(spectrum * torch.fft.rfft(k, n=16), n=16)[..., :8]

        x, k = torch.randn(2, 3, 8), torch.randn(3, 8)
        y, stats, _ = outcome(call, x, k)
        assert stats == {"skipped:operand-mutated": 1} and torch.equal(y, call(x, k))


def test_a_sum_with_something_else_is_no_shortcut():
    def call(x, k, bias):
        y = same()(x, k, None)
        return y + bias * x.flip(-1), y * 2

    inputs = torch.randn(X), torch.randn(K), torch.randn(3, 1, 1)
    y, stats, _ = outcome(call, *inputs)
    assert stats == {"rewritten": 1} and all(relative_error(a, b) < 1e-6 for a, b in zip(y, call(*inputs)))


def test_the_filter_may_be_the_first_factor_and_have_the_shape_of_the_input():
    def call(x, k):
        return torch.fft.irfft(torch.fft.rfft(k, n=16) * torch.fft.rfft(x, n=16), n=16)[..., :8]

    for k in (torch.randn(3, 8), torch.randn(2, 3, 8), torch.randn(1, 3, 5)):
        x = torch.randn(2, 3, 8)
        y, stats, _ = outcome(call, x, k)
        assert stats == {"rewritten": 1} and relative_error(y, call(x, k)) < 1e-6


def test_a_result_that_only_names_a_dtype_is_not_cast():
    def call(x, k, other):
        y = torch.fft.irfft(torch.fft.rfft(x, n=16) * torch.fft.rfft(k, n=16), n=16)[..., :8]
        return other.type_as(y)

    inputs = torch.randn(2, 3, 8), torch.randn(3, 8), torch.randn(2, 3, 8).double()
    y, stats, _ = outcome(call, *inputs)
    assert stats == {"rewritten": 1} and torch.equal(y, inputs[2].float())


def test_inside_vmap_and_grad():
    def chain(x, k):
        return torch.fft.irfft(torch.fft.rfft(x, n=16) * torch.fft.rfft(k, n=16), n=16)[..., :8]

    x, k = torch.randn(2, 3, 8), torch.randn(4, 3, 8)
    for call in (
        lambda x, k: torch.vmap(chain, (None, 0))(x, k),
        lambda x, k: torch.func.grad(lambda k: chain(x, k).square().sum())(k[0]),
        lambda x, k: torch.vmap(torch.func.grad(lambda k: chain(x, k).square().sum()))(k),
    ):
        y, stats, _ = outcome(call, x, k)
        assert stats == {"rewritten": 1} and relative_error(y, call(x, k)) < 1e-6


def test_views_of_the_result_keep_working():
    def call(x, k):
        x = x.transpose(1, 2)  # [batch, channels, time] in the memory of [batch, time, channels]
        y = torch.fft.irfft(torch.fft.rfft(x.contiguous(), n=16) * torch.fft.rfft(k, n=16), n=16)[..., :8]
        z = torch.fft.irfft(torch.fft.rfft(x, n=8) * torch.fft.rfft(k, n=8), n=8)
        return torch.tanh(y).view(6, 8), z.reshape(2, -1), z

    x, k = torch.randn(2, 8, 3), torch.randn(3, 8)
    got, stats, _ = outcome(call, x, k)
    assert stats == {"rewritten": 2}
    for a, b in zip(got, call(x, k)):
        assert relative_error(a, b) < 1e-6 and a.is_contiguous() == b.is_contiguous()


def test_checkpointed_regions_keep_their_chains_whole():
    def call(x, k):
        return torch.utils.checkpoint.checkpoint(lambda x, k: same()(x, k, None).sin(), x, k, use_reentrant=False)

    # rewrite looks at one graph; Inductor calls its passes for the graph of each region.
    _, stats, graph = outcome(call, torch.randn(X, requires_grad=True), torch.randn(K, requires_grad=True))
    inner = [getattr(graph.owning_module, n.target) for n in graph.nodes if n.op == "get_attr"]
    assert stats == {} and sum(rewrite(module.graph) for module in inner if isinstance(module, torch.fx.GraphModule)) == 1


# ---- Symbols

# Constants of the chain that are about one size, or symbols in a phase ramp.
STATIC = {"positional", "keywords", "circular_ramp", "circular_ramp_2d", "ring_and_zero", "from_the_end"}


SYMBOLIC = [form for form in FORMS if form.expected == REWRITTEN and form.chain.__name__ not in STATIC and "other centre" not in form.name]


@pytest.mark.parametrize("form", SYMBOLIC, **identifiers)
def test_dynamic_shapes(form):
    inputs = form.inputs()
    y, stats, graph = outcome(form.chain, *inputs, dynamic=True)
    assert stats == {"rewritten": 1} and survivors(graph) == []
    if y.is_floating_point():
        assert relative_error(y, form.chain(*inputs)) < LIMITS[y.dtype]


@pytest.mark.parametrize("chain", (doubled, same(), circular_rolled), ids=("doubled", "same", "circular"))
def test_symbols_are_sound(chain):
    """One graph for many sizes gives what eager gives for each, at the edges of what the guards allow too."""
    compiled, graphs = lower(chain, dynamic=True)
    for rows, columns, a, b in ((8, 9, 5, 4), (7, 12, 6, 3), (10, 6, 9, 2), (5, 5, 5, 5), (6, 11, 12, 22), (6, 11, 3, 21), (9, 4, 2, 3)):
        if chain is circular_rolled and (a > rows or b > columns):
            continue
        x, k = torch.randn(2, 3, rows, columns), torch.randn(1, 3, a, b)
        assert relative_error(compiled(x, k, None), chain(x, k, None)) < 2e-6
    assert operators(graphs[0]) == 1 and len(graphs) <= 3


def test_filters_that_grow_with_the_grid():
    def call(x, weight):
        n = x.shape[-1]
        k = weight * torch.arange(2 * n - 1, dtype=x.dtype, device=x.device)  # K = 2N - 1
        y = torch.fft.irfft(torch.fft.rfft(x, n=2 * n) * torch.fft.rfft(k, n=2 * n), n=2 * n)
        return y[..., (2 * n - 1) // 2 : (2 * n - 1) // 2 + n]

    compiled, graphs = lower(call, dynamic=True)
    for n in (8, 13, 6):
        x, weight = torch.randn(2, 3, n), torch.randn(3, 1)
        assert relative_error(compiled(x, weight), call(x, weight)) < 2e-6
    assert len(graphs) == 1 and operators(graphs[0]) == 1


def test_a_batch_of_any_size():
    form = FORMS[1]
    compiled, graphs = lower(form.chain, dynamic=None)
    for batch in (2, 5, 3):
        x, k, shortcut = form.inputs()
        x = x.repeat(batch, 1, 1, 1)
        torch._dynamo.mark_dynamic(x, 0)
        assert relative_error(compiled(x, k, shortcut), form.chain(x, k, shortcut)) < LIMITS[x.dtype]
    assert len(graphs) == 1 and operators(graphs[0]) == 1


# ---- torch.export


class Exported(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, x, k, shortcut):
        return self.form.chain(x, k, shortcut)


# Regions without gradients become graphs of their own, whose constants the outer graph does not see.
OTHERWISE = {"1D, circular, phase ramp": "no-rfft2-product", "filter transformed without gradient": "no-rfft2-product"}


@pytest.mark.parametrize("form", FORMS, **identifiers)
def test_exported_graphs(form):
    inputs = form.inputs()
    program = torch.export.export(Exported(form), inputs)
    reset_lowering_stats()
    rewrite(program.graph, **dict(form.options))
    program.graph.lint()
    expected = OTHERWISE.get(form.name, form.expected)
    assert lowering_stats() == {("" if expected == REWRITTEN else "skipped:") + expected: 1}
    y = program.module()(*inputs)
    if expected == REWRITTEN and y.is_floating_point():
        assert survivors(program.graph) == []
        for a, b in zip(step(program.module(), inputs), step(form.chain, inputs)):
            assert relative_error(a, b) <= LIMITS[inputs[0].dtype]


def test_a_ramp_is_read_whatever_the_default_device():
    form = next(form for form in FORMS if form.chain.__name__ == "circular_ramp_2d")
    program = torch.export.export(Exported(form), form.inputs())
    with torch.device("meta"):
        assert rewrite(program.graph) == 1


def test_exported_with_a_dynamic_batch():
    form = FORMS[3]
    inputs = form.inputs()
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Exported(form), inputs, dynamic_shapes=({0: batch}, None, None))
    assert rewrite(program.graph) == 1
    x = inputs[0].repeat(4, 1, 1, 1)
    assert relative_error(program.module()(x, *inputs[1:]), form.chain(x, *inputs[1:])) < LIMITS[x.dtype]
