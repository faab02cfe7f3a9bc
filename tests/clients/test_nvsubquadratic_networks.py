"""nvsubquadratic 0.2.0: its networks, unchanged, on the drop-ins and compiled with the lowering of faltung.compile: forward, backward and a step of an
optimiser against themselves."""

import copy
import warnings

import faltung
import faltung.compile
import pytest
import torch
from faltung.compat import _calls
from faltung.compat.nvsubquadratic import ops
from nvsubquadratic.lazy_config import LazyConfig, instantiate
from nvsubquadratic.modules import ckconv_nd, masks_nd
from nvsubquadratic.modules.causal_conv1d import CausalConv1D
from nvsubquadratic.modules.subq_ops_causal_conv1d import SubqOpsCausalConv1d
from nvsubquadratic.ops import circular_fftconv, fftconv, mixed_fftconv
from nvsubquadratic_models import Query, ckconv, classifier, hyena
from torch._dynamo.backends.debugging import aot_eager
from torch._inductor.utils import fresh_cache


@pytest.fixture
def subquadratic_ops_torch():
    faltung.compat.install("subquadratic_ops_torch")
    yield
    faltung.compat.uninstall("subquadratic_ops_torch")


@pytest.fixture
def drop_ins():
    assert faltung.compat.install("nvsubquadratic", force=True)
    yield
    faltung.compat.uninstall("nvsubquadratic")


@pytest.fixture
def count_calls(monkeypatch):
    """How often a drop-in has called the operator."""
    calls = []
    original = _calls.long_conv
    monkeypatch.setattr(_calls, "long_conv", lambda *arguments, **options: calls.append(1) or original(*arguments, **options))
    return calls


def error(got, expected):
    return float((got.double() - expected).norm() / expected.norm())


# ---- install


def test_installed_functions_are_replaced_where_they_are_referred_to():
    before = copy.copy(ckconv_nd.FFT_FUNCTIONS["zero"])
    with pytest.warns(UserWarning, match="nvsubquadratic is installed and was left alone"):
        assert not faltung.compat.install("nvsubquadratic")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert faltung.compat.install("nvsubquadratic", force=True)
    try:
        assert fftconv.fftconv2d_fp32_bhl is ops.fftconv.fftconv2d_fp32_bhl is ckconv_nd.FFT_FUNCTIONS["zero"][2][1]
        assert ckconv_nd.mixed_fftconv3d_fp32_bhl is ops.mixed_fftconv.mixed_fftconv3d_fp32_bhl
        assert ckconv_nd.CKConvND.__module__ == "nvsubquadratic.modules.ckconv_nd"  # the rest is theirs
    finally:
        faltung.compat.uninstall("nvsubquadratic")
    assert ckconv_nd.FFT_FUNCTIONS["zero"] == before and fftconv.fftconv2d_fp32_bhl.__module__ == "nvsubquadratic.ops.fftconv"


# ---- networks

def train(model, inputs, steps=1):
    """Loss before and after one step of an optimiser, outputs and gradients."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    target = torch.randn(model(*inputs).shape, generator=torch.Generator("cpu").manual_seed(3), device="cpu").to(inputs[0])
    found = []
    for _ in range(steps + 1):
        y = model(*inputs)
        loss = (y - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        found.append((y.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}))
        optimiser.step()
    return found


GAUSSIAN = LazyConfig(masks_nd.GaussianModulationND)(data_dim=2, num_channels=6, grid_size=23)
NETWORKS = {
    "ckconv1d": lambda: (instantiate(ckconv(1, 6)), (2, 12, 6)),
    "ckconv1d causal": lambda: (instantiate(ckconv(1, 6, is_causal=True)), (2, 12, 6)),
    "ckconv2d": lambda: (instantiate(ckconv(2, 6)), (2, 12, 11, 6)),
    "ckconv2d gaussian": lambda: (instantiate(ckconv(2, 6, mask=GAUSSIAN)), (2, 12, 12, 6)),
    "ckconv2d circular": lambda: (instantiate(ckconv(2, 6, "single", "circular")), (2, 12, 12, 6)),
    "ckconv2d mixed": lambda: (instantiate(ckconv(2, 6, None, ["circular", "zero"])), (2, 12, 12, 6)),
    "ckconv2d chunked": lambda: (instantiate(ckconv(2, 6, use_chunked_fftconv=True)), (2, 12, 12, 6)),
    "ckconv3d": lambda: (instantiate(ckconv(3, 6)), (2, 5, 6, 7, 6)),
    "hyena1d": lambda: (Query(instantiate(hyena(1, 6)), 6), (2, 12, 6)),
    "hyena2d": lambda: (Query(instantiate(hyena(2, 6)), 6), (2, 12, 9, 6)),
    "vit5": lambda: (classifier(), (2, 24, 24, 3)),
}


def compare(first, second, tolerance=3e-5):
    assert len(first) == len(second) == 2
    for (y, gradients), (expected, expected_gradients) in zip(first, second):
        assert error(y, expected.double()) < tolerance
        assert gradients.keys() == expected_gradients.keys() and gradients
        for name in gradients:
            if expected_gradients[name].norm() > 1e-6:
                assert error(gradients[name], expected_gradients[name].double()) < 20 * tolerance, name


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, count_calls):
    model, shape = NETWORKS[name]()
    state, x = copy.deepcopy(model.state_dict()), torch.randn(shape)
    expected = train(model, (x,))
    assert not count_calls
    faltung.compat.install("nvsubquadratic", force=True)
    try:
        twin, _ = NETWORKS[name]()  # modules take their functions when they are made
        twin.load_state_dict(state)
        got = train(twin, (x,))
    finally:
        faltung.compat.uninstall("nvsubquadratic")
    assert len(count_calls) >= 3
    compare(got, expected)


@pytest.mark.parametrize("backend", ["subq_ops", "subq_ops_fused"])
def test_the_backends_of_a_network_that_need_another_package(backend, drop_ins, count_calls):
    torch.manual_seed(5)
    reference = classifier()
    model = classifier(backend)
    model.load_state_dict(reference.state_dict())
    x = torch.randn(2, 24, 24, 3)
    compare(train(model, (x,)), train(reference, (x,)))
    assert len(count_calls) >= 6


@pytest.mark.parametrize("activation", ["identity", "silu"])
def test_their_short_convolution_on_the_other_package(activation, subquadratic_ops_torch):
    """SubqOpsCausalConv1d, which calls subquadratic_ops_torch, against their CausalConv1D, which is torch's own convolution."""
    fused = SubqOpsCausalConv1d(6, 6, 4, groups=6, bias=True, activation=activation)
    plain = CausalConv1D(6, 6, 4, groups=6, bias=True)
    plain.load_state_dict(fused.state_dict())
    x = torch.randn(2, 6, 13)
    y, expected = fused(x), torch.nn.functional.silu(plain(x)) if activation == "silu" else plain(x)
    assert error(y, expected.double()) < 1e-6
    got, wanted = (torch.autograd.grad(out.square().sum(), list(layer.parameters())) for out, layer in ((y, fused), (expected, plain)))
    for a, b in zip(got, wanted):
        assert error(a, b.double()) < 1e-5


# ---- the lowering of faltung.compile, on their functions as they are


def without_prefix(found):
    return [(y, {name.removeprefix("_orig_mod."): gradient for name, gradient in gradients.items()}) for y, gradients in found]


@pytest.fixture
def no_ramps_kept(monkeypatch):
    """Theirs keeps the phase ramps that centre a circular axis: where one is there already it is a tensor of which a graph knows nothing, and
    the chain stays as it is."""
    for module in (circular_fftconv, mixed_fftconv):
        for name, value in list(vars(module).items()):
            if "PhaseRamp" in type(value).__name__ and not isinstance(value, type):
                monkeypatch.setattr(module, name, type(value)())


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_with_the_lowering(name, no_ramps_kept):
    torch._dynamo.reset()
    counts = []

    def backend(module, inputs):
        counts.append(faltung.compile.rewrite(module.graph))
        module.recompile()
        return aot_eager(module, inputs)

    model, shape = NETWORKS[name]()
    twin, x = copy.deepcopy(model), torch.randn(shape)
    got = train(torch.compile(model, backend=backend), (x,))
    # The second call of a circular network finds its ramp kept.
    assert counts[0] == (2 if name == "vit5" else 1) and (min(counts) == counts[0] or "circular" in name or "mixed" in name), counts
    compare(without_prefix(got), train(twin, (x,)))


def test_a_classifier_compiled_by_inductor_with_the_lowering():
    torch._dynamo.reset()
    faltung.compile.reset_lowering_stats()
    model, shape = NETWORKS["vit5"]()
    twin, x = copy.deepcopy(model), torch.randn(shape)
    with fresh_cache():
        got = train(torch.compile(model, fullgraph=True, options=faltung.compile.lowering_options()), (x,))
    assert faltung.compile.lowering_stats()["rewritten"] >= 2
    compare(without_prefix(got), train(twin, (x,)))
