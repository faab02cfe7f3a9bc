"""fla 0.6.0 with its causal_conv1d replaced: ShortConvolution as it is, on the CPU too, where fla alone computes nothing; on a GPU also against
fla's own kernels."""

import causal_conv1d_reference as reference
import faltung
import pytest
import torch
from faltung.compat.fla.modules import causal_conv1d as drop_in
from fla.modules import ShortConvolution
from fla.modules.causal_conv1d import ops

CU = torch.tensor([0, 3, 4, 13])


@pytest.fixture
def count_calls(monkeypatch):
    """How often fla has called the drop-in."""
    calls, original = [], drop_in.causal_conv1d
    monkeypatch.setattr(drop_in, "causal_conv1d", lambda *arguments, **options: calls.append(1) or original(*arguments, **options))
    assert faltung.compat.install("fla")
    yield calls
    faltung.compat.uninstall("fla")


def inputs(dtype, packed):
    layer = ShortConvolution(32, 4, bias=True, activation="silu").to(dtype)
    batch, sequences = (1, 3) if packed else (2, 2)
    x, residual = (torch.randn(batch, 13, 32).to(dtype).requires_grad_() for _ in range(2))
    cache = torch.randn(sequences, 32, 4).to(dtype)
    return layer, x, residual, cache, {"cu_seqlens": CU} if packed else {}


def run(layer, x, residual, cache, cut):
    """Output, state, and gradients of both tensors and the parameters."""
    y, state = layer(x, residual=residual, cache=cache, output_final_state=True, **cut)
    dy = torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(y.dtype)
    return y.detach(), state.detach(), *torch.autograd.grad(y, [x, residual, layer.weight, layer.bias], dy)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_short_convolution(dtype, packed, count_calls):
    layer, x, residual, cache, cut = inputs(dtype, packed)
    y, state, *gradients = run(layer, x, residual, cache, cut)
    assert len(count_calls) == 1
    doubles = [t.detach().double().requires_grad_() for t in (x, residual, layer.weight, layer.bias)]
    expected, final = reference.causal_conv1d(
        doubles[0], doubles[2][:, 0], doubles[3], residual=doubles[1], initial_state=cache, activation="silu", state_columns=4, channels_last=True, **cut
    )  # fmt: skip
    dy = torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(dtype)
    assert torch.equal(state.double(), final)
    for a, b in [(y, expected), *zip(gradients, torch.autograd.grad(expected, doubles, dy.double()))]:
        assert reference.relative_error(a, b.detach()) <= reference.bound(dtype, b.detach())


def test_training_reaches_the_parameters(count_calls):
    layer, x, residual, _, _ = inputs(torch.float32, False)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimiser.zero_grad()
        loss = (layer(x.detach(), residual=residual.detach())[0] - 1).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[2] < losses[1] < losses[0] and len(count_calls) == 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="fla's own kernels need a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_against_the_kernels_of_fla(dtype, packed, request):
    layer, x, residual, cache, cut = inputs(dtype, packed)
    layer, cut = layer.cuda(), {name: t.cuda() for name, t in cut.items()}
    x, residual = (t.detach().cuda().requires_grad_() for t in (x, residual))
    theirs = ops.causal_conv1d
    expected = run(layer, x, residual, cache.cuda(), cut)
    calls = request.getfixturevalue("count_calls")
    assert ops.causal_conv1d is not theirs
    got = run(layer, x, residual, cache.cuda(), cut)
    assert len(calls) == 1
    unit = {torch.float32: 3e-6, torch.bfloat16: 2e-2}[dtype]
    for i, (a, b) in enumerate(zip(got, expected)):
        if i == 1:
            a, b = a[..., 1:], b[..., 1:]  # the oldest column is nobody's
        assert float((a - b).double().norm() / b.double().norm()) <= unit, i
    with torch.no_grad():  # decoding stays fla's, on the state that the drop-in left
        y, _ = layer(x[:, :1], cache=got[1][:1].clone(), output_final_state=True)
        again, _ = layer(x[:, :1], cache=expected[1][:1].clone(), output_final_state=True)
    assert float((y - again).double().norm() / again.double().norm()) <= unit
