"""causal_conv1d under torch: finite differences, opcheck, vmap, torch.func, compile, autocast, explain; any call against float64."""

import causal_conv1d_reference as reference
import faltung
import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from test_causal_conv1d import call, inputs
from test_properties import strided
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

operators = torch.ops.faltung
TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
CUTS = {
    "whole": {},
    "packed": {"cu_seqlens": torch.tensor([0, 2, 2, 4])},
    "padded": {"lengths": torch.tensor([3, 5])},
    "labelled": {"seq_idx": torch.tensor([[0, 0, 1, 1, 1], [2, -1, 2, 2, 2]], dtype=torch.int32)},
}


def small(cut, width=3, columns=2, dtype=torch.float64, grad=True):
    packed = cut == "packed"
    return inputs(dtype, 1 if packed else 2, 2, 5, width, 3 if packed else 2, columns, grad=grad)


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("width, columns", [(3, 2), (3, 3), (1, 0)])
def test_first_and_second_derivatives(activation, cut, width, columns):
    tensors = small(cut, width, columns)
    names = list(tensors)

    def run(*values):
        return call(dict(zip(names, values)), activation=activation, return_final_state=True, **CUTS[cut])

    assert gradcheck(run, tuple(tensors.values()), check_forward_ad=True)
    assert gradgradcheck(run, tuple(tensors.values()))


def test_derivatives_of_few_inputs():
    tensors = small("whole")
    x, weight, state = (tensors[name] for name in ("x", "weight", "initial_state"))
    assert gradgradcheck(lambda x, w: faltung.causal_conv1d(x, w, activation="silu"), (x, weight))
    assert gradgradcheck(lambda s: faltung.causal_conv1d(x.detach(), weight.detach(), initial_state=s, activation="silu"), (state,))
    assert gradgradcheck(
        lambda x: faltung.causal_conv1d(x.transpose(1, 2), weight.detach(), activation="silu", channels_last=True), (x,), check_fwd_over_rev=True
    )


def test_hessian():
    x, weight = torch.randn(1, 2, 6, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    for transform in (torch.func.hessian, lambda f: torch.func.jacrev(torch.func.jacrev(f))):
        got = transform(lambda w: faltung.causal_conv1d(x, w, activation="silu").square().sum())(weight)
        expected = transform(lambda w: reference.causal_conv1d(x, w, activation="silu")[0].square().sum())(weight)
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("grad", [False, True])
def test_opcheck(dtype, cut, grad):
    tensors = small(cut, dtype=dtype, grad=grad)
    x, weight, bias, residual, state = tensors.values()
    index = [CUTS[cut].get(name) for name in ("cu_seqlens", "seq_idx", "lengths")]
    opcheck(operators.causal_conv1d.default, (x, weight, bias, residual, state, *index, 1, 2, False, False), test_utils=TESTS)
    dy, dfinal = torch.randn_like(x), torch.randn_like(state)
    needs = (True, True, True, True, True)
    opcheck(operators.causal_conv1d_backward.default, (dy, x, weight, bias, state, dfinal, *index, 1, False, *needs), test_utils=TESTS)
    opcheck(operators.causal_conv1d_backward.default, (dy.new_ones(()).expand(x.shape), x, weight), test_utils=TESTS)
    if not grad:
        opcheck(operators.causal_conv1d_detached.default, (x, weight, None, None, None, *index, 0, 3), test_utils=TESTS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (0, 3), (2, 3, 0)], ids=str)
def test_opcheck_update(dtype, shape):
    x, state, weight = torch.randn(shape).to(dtype), torch.randn(5, 3, 6).to(dtype), torch.randn(3, 4)
    index = torch.arange(shape[0], dtype=torch.int32) + 1
    opcheck(operators.causal_conv1d_update.default, (x, state, weight, torch.randn(3), index), test_utils=TESTS)
    opcheck(operators.causal_conv1d_update.default, (x, state, weight, None, index, None, index, None, None, 1, 2), test_utils=TESTS)


# ---- vmap


def mapped(shape, at, size=3):
    return torch.randn(shape) if at is None else torch.randn(size, *shape).movedim(0, at)


@pytest.mark.parametrize("axes", [(0, None, None), (1, None, 0), (None, 0, None), (0, 0, 0), (2, 1, 1)], ids=str)
@pytest.mark.parametrize("cut", ["whole", "packed"])
@pytest.mark.parametrize("last", [False, True])
def test_vmap(axes, cut, last):
    batch, n = (1, 3) if cut == "packed" else (2, 2)
    shapes = ((batch, 5, 4) if last else (batch, 4, 5), (4, 3), (n, 4, 2))
    tensors = [mapped(shape, at) for shape, at in zip(shapes, axes)]

    def run(x, weight, state):
        return faltung.causal_conv1d(
            x, weight, initial_state=state, activation="silu", return_final_state=True, channels_last=last, **CUTS[cut]
        )

    def loss(x, weight, state):
        return sum(t.square().sum() for t in run(x, weight, state))

    for function in (run, torch.func.grad(loss, argnums=(0, 1, 2))):
        one = [function(*(t if at is None else t.select(at, i) for t, at in zip(tensors, axes))) for i in range(3)]
        for got, expected in zip(torch.vmap(function, axes)(*tensors), zip(*one)):
            torch.testing.assert_close(got, torch.stack(expected))


def test_vmap_over_lengths_and_parameters():
    x, weight, lengths = torch.randn(3, 2, 4, 5), torch.randn(3, 4, 3), torch.tensor([[1, 5], [0, 2], [3, 4]])
    got = torch.vmap(lambda x, w, n: faltung.causal_conv1d(x, w, lengths=n))(x, weight, lengths)
    assert torch.equal(got, torch.stack([faltung.causal_conv1d(x[i], weight[i], lengths=lengths[i]) for i in range(3)]))


# ---- compile, autocast


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compile(backend):
    torch._dynamo.reset()

    def step(x, weight, state):
        y, state = faltung.causal_conv1d(x * 2, weight, activation="silu", initial_state=state, return_final_state=True)
        return y.sin(), state + 1

    compiled = torch.compile(step, fullgraph=True, backend=backend, dynamic=True)
    for batch, time in ((2, 9), (3, 14)):
        x, weight = torch.randn(batch, 4, time, requires_grad=True), torch.randn(4, 3, requires_grad=True)
        state = torch.randn(batch, 4, 2, requires_grad=True)
        for a, b in zip(compiled(x, weight, state), step(x, weight, state)):
            torch.testing.assert_close(a, b)
        got = torch.autograd.grad(compiled(x, weight, state)[0].square().sum(), (x, weight, state))
        for a, b in zip(got, torch.autograd.grad(step(x, weight, state)[0].square().sum(), (x, weight, state))):
            torch.testing.assert_close(a, b)


def test_compiled_update_changes_the_state_in_place():
    torch._dynamo.reset()

    def step(x, state, weight):
        return faltung.causal_conv1d_update(x + 1, state, weight, activation="silu") * 2

    x, state, weight = torch.randn(2, 4), torch.randn(2, 4, 3), torch.randn(4, 4)
    other = state.clone()
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for _ in range(3):
        assert torch.equal(compiled(x, state, weight), step(x, other, weight)) and torch.equal(state, other)


def test_autocast():
    x, weight, residual = torch.randn(2, 4, 9), torch.randn(4, 3), torch.randn(2, 4, 9)
    with torch.autocast(x.device.type, torch.bfloat16):
        y = faltung.causal_conv1d(x, weight, residual=residual)
        assert faltung.causal_conv1d(x.double(), weight).dtype == torch.float64
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, faltung.causal_conv1d(x.bfloat16(), weight, residual=residual.bfloat16()))


# ---- explain


def test_explain():
    found = faltung.explain("causal_conv1d", (1, 64, 2048), (64, 4), activation="silu", dtype=torch.bfloat16)
    assert found.chosen == "cpu.simd" and "unit stride along time" in found.problem and "silu" in found.problem
    assert found.implementations["cpu.reference"].startswith("declines: serves only when asked for by name")
    found = faltung.explain(faltung.causal_conv1d, torch.randn(1, 9, 64, device="cpu"), (64, 4), channels_last=True, cu_seqlens=(3,), direction="backward")
    assert "2 sequences packed" in found.problem and "backward" in found.problem
    assert "update" in faltung.explain("causal_conv1d_update", (5, 8), (9, 8, 3), (8, 4), state_indices=(5,)).problem
    with pytest.raises(ValueError, match="weight has 5 channels, x has 3"):
        faltung.explain("causal_conv1d", (1, 3, 9), (5, 4))
    with pytest.raises(TypeError, match="colour: not an option"):
        faltung.explain("causal_conv1d", (1, 3, 9), (3, 4), colour=(3,))


# ---- any call


@st.composite
def calls(draw):
    last, packed = draw(st.booleans()), draw(st.booleans())
    batch, channels, time, width = 1 if packed else draw(st.integers(0, 3)), draw(st.integers(0, 40)), draw(st.integers(0, 80)), draw(st.integers(1, 12))
    shape = (batch, time, channels) if last else (batch, channels, time)
    options = {"channels_last": last, "activation": draw(st.sampled_from((None, "silu")))}
    sequences = batch
    if packed:
        cuts = sorted(draw(st.lists(st.integers(0, time), max_size=6)))
        options["cu_seqlens"] = torch.tensor([0, *cuts], dtype=draw(st.sampled_from((torch.int32, torch.int64))))
        sequences = len(cuts)
    elif draw(st.booleans()):
        options["lengths"] = torch.tensor([draw(st.integers(0, time)) for _ in range(batch)], dtype=torch.int64)
    tensors = {"x": draw(strided(shape)), "weight": draw(strided((channels, width)))}
    if draw(st.booleans()):
        tensors["bias"] = draw(strided((channels,)))
    if draw(st.booleans()):
        tensors["residual"] = draw(strided(shape))
    if draw(st.booleans()):
        tensors["initial_state"] = draw(strided((sequences, channels, width - draw(st.integers(0, 1)))))
    return tensors, options, draw(strided(shape))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(calls())
def test_any_call(drawn):
    tensors, options, dy = drawn
    leaves = {name: t.detach().requires_grad_() for name, t in tensors.items()}
    y, final = call(leaves, return_final_state=True, **options)
    wide = {name: t.detach().requires_grad_() for name, t in tensors.items()}
    positional = [wide[name] for name in ("x", "weight")]
    expected, expected_final = reference.causal_conv1d(*positional, **{k: v for k, v in wide.items() if k not in ("x", "weight")}, **options)
    assert y.stride() == torch.empty_like(tensors["x"]).stride() and torch.equal(final, expected_final)
    expected = expected + 0 * sum(t.sum() for t in wide.values())
    pairs = [(y, expected)]
    pairs += zip(torch.autograd.grad(y, list(leaves.values()), dy), torch.autograd.grad(expected, list(wide.values()), dy))
    for a, b in pairs:
        assert float((a - b).detach().norm()) <= 1e-12 * (1 + float(b.detach().norm()))
