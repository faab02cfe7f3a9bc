"""nvsubquadratic 0.2.0: its op functions against the drop-ins, one by one, and its networks on the drop-ins, unchanged."""

import copy
import inspect
import re
import warnings

import faltung
import faltung.compile
import pytest
import torch
from faltung.compat import _calls
from faltung.compat.nvsubquadratic import ops
from nvsubquadratic.lazy_config import LazyConfig, instantiate
from nvsubquadratic.modules import ckconv_nd, hyena_nd, kernels_nd, masks_nd, mlp, rms_norm, sequence_mixer
from nvsubquadratic.modules import vit5_hyena_adapter, vit5_residual_block
from nvsubquadratic.networks import vit5_classification
from nvsubquadratic.ops import circular_fftconv, fftconv, fftconv_chunked, fftconv_custom, mixed_fftconv
from torch._dynamo.backends.debugging import aot_eager
from torch._inductor.utils import fresh_cache

THEIRS = {
    "circular_fftconv": circular_fftconv, "fftconv": fftconv, "fftconv_chunked": fftconv_chunked, "fftconv_custom": fftconv_custom,
    "mixed_fftconv": mixed_fftconv,
}  # fmt: skip
SPELLING = re.compile(r"(causal_|circular_|mixed_|fused_)?fftconv\dd_(fp32_)?b(hl|lh)(_w_reshape)?(_chunked)?")
FUNCTIONS = [(module, name) for module in ops.__all__ for name in getattr(ops, module).__all__ if SPELLING.fullmatch(name)]


@pytest.fixture
def subquadratic_ops_torch(monkeypatch):
    """Theirs call that package, and want a GPU for its fused function: with the drop-in neither is needed."""
    faltung.compat.install("subquadratic_ops_torch")
    monkeypatch.setattr(fftconv_custom, "fused_fftconv2d_arch_supported", lambda device=None, fft_size=128: True)
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


def test_every_name_is_there():
    for module, theirs in THEIRS.items():
        assert set(theirs.__all__) == set(getattr(ops, module).__all__), module
    functions = [getattr(getattr(ops, module), name) for module, name in FUNCTIONS]
    assert len(functions) == 64 and len(set(map(id, functions))) == len(functions)  # each its own, or uninstall could not tell them apart


@pytest.mark.parametrize("module, name", FUNCTIONS)
def test_signatures(module, name):
    theirs, ours = getattr(THEIRS[module], name), getattr(getattr(ops, module), name)
    got, expected = ([(p.name, p.default) for p in inspect.signature(function).parameters.values()] for function in (ours, theirs))
    assert got == expected


def arguments_of(name, per_sample, dtype):
    """x, kernel and shortcut of an odd and an even extent, and the further arguments of the function."""
    axes = next(axes for axes in (1, 2, 3) if f"{axes}d" in name)
    points = (9, 12, 5)[:axes]
    taps = {"circular": (6, 9, 5), "mixed": (9, 7, 4), "causal": (8, 0, 0)}.get(name.split("_")[0], (17, 10, 6))[:axes]
    x, kernel = torch.randn(3, 5, *points), torch.randn(3 if per_sample else 1, 5, *taps) / 4
    if not name.removesuffix("_chunked").endswith("_bhl"):
        x, kernel = x.movedim(1, -1).contiguous(), kernel.movedim(1, -1).contiguous()
    further = [[True, False, True][:axes]] if name.startswith("mixed") else []
    return [t.to(dtype) for t in (x, kernel, torch.randn(5))], further


def run(function, tensors, further, dy=None):
    tensors = [t.clone().requires_grad_() for t in tensors]
    x, kernel, shortcut = tensors
    y = function(x, kernel, *further, shortcut)
    dy = torch.ones_like(y) if dy is None else dy.to(y.dtype)
    return [y.detach(), *torch.autograd.grad(y, tensors, dy)]


def error(got, expected):
    return float((got.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize("module, name", FUNCTIONS)
def test_values_and_gradients(module, name, per_sample, dtype, subquadratic_ops_torch):
    if per_sample and name.startswith("causal_fftconv1d_b") and module == "fftconv_custom":
        per_sample = False  # theirs refuses
    tensors, further = arguments_of(name, per_sample, dtype)
    theirs, ours = getattr(THEIRS[module], name), getattr(getattr(ops, module), name)
    dy = torch.randn(tensors[0].shape)
    got, expected = run(ours, tensors, further, dy), run(theirs, tensors, further, dy)
    exact = run(ours, [t.double() for t in tensors], further, dy.to(dtype))
    for a, b, c in zip(got, expected, exact):
        assert a.shape == b.shape and a.dtype == b.dtype
        unit = {torch.float32: 1e-6, torch.bfloat16: 2**-8, torch.float16: 2**-11}[dtype]
        assert error(b, c) <= 3 * unit  # the same function
        assert error(a, c) <= max(1.1 * error(b, c), 0.75 * unit)  # no worse
    with torch.autocast(tensors[0].device.type, torch.bfloat16):
        assert ours(tensors[0], tensors[1], *further).dtype == dtype  # as theirs


@pytest.mark.parametrize("name", [name for module, name in FUNCTIONS if name.endswith("_chunked")])
def test_chunks_of_channels_give_the_bits_of_one_call(name):
    module = next(module for module, found in FUNCTIONS if found == name)
    tensors, further = arguments_of(name, True, torch.float32)
    function, plain = (getattr(getattr(ops, module), n) for n in (name, name.removesuffix("_chunked")))
    axis = 1 if name.removesuffix("_chunked").endswith("_bhl") else -1
    x, kernel, shortcut = tensors
    whole = plain(x, kernel, *further, shortcut)
    assert torch.equal(function(x, kernel, *further, shortcut, chunk_size=2), whole)
    parts = [plain(x.narrow(axis, c, n), kernel.narrow(axis, c, n), *further, shortcut[c : c + n]) for c, n in ((0, 2), (2, 2), (4, 1))]
    assert torch.equal(torch.cat(parts, axis), whole)
    with pytest.raises(ValueError, match="chunk_size: expected a positive number or None, got 0"):
        function(x, kernel, *further, chunk_size=0)


def test_a_causal_filter_longer_than_the_sequence_does_not_wrap():
    """Theirs transforms at min(L + K, 2L) points, too few for K > L + 1: late taps then meet the end of the sequence."""
    x, kernel = torch.randn(1, 2, 8, dtype=torch.float64), torch.randn(1, 2, 16, dtype=torch.float64)
    exact = torch.stack([sum(kernel[..., m] * x[..., t - m] for m in range(t + 1)) for t in range(8)], -1)
    assert error(ops.fftconv.causal_fftconv1d_fp32_bhl(x, kernel), exact) < 1e-12
    assert error(fftconv.causal_fftconv1d_fp32_bhl(x, kernel), exact) > 0.1
    assert error(fftconv.causal_fftconv1d_fp32_bhl(x, kernel[..., :9]), ops.fftconv.causal_fftconv1d_fp32_bhl(x, kernel[..., :9])) < 1e-6


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except ValueError as raised:
        return raised


def test_the_table_of_squares():
    for x_dim in (1, 4, 5, 8, 9, 31, 32, 33, 64, 65):
        for k in (1, 8, 9, 16, 63, 64, 65, 127, 128, 129):
            for fft_size in (None, 8, 16, 32, 64, 128, 12, 256):
                arguments = (x_dim, 3, 2, k, fft_size)
                got, expected = (outcome(m.resolve_fused_fft_size, *arguments) for m in (ops.fftconv_custom, fftconv_custom))
                assert type(got) is type(expected) and (isinstance(got, ValueError) or got == expected), arguments
                if isinstance(got, ValueError) and fft_size is None:
                    assert str(x_dim) in str(got) and str(k) in str(got)
            assert ops.fftconv_custom.fused_fftconv2d_supported(x_dim, 3, 2, k) == fftconv_custom.fused_fftconv2d_supported(x_dim, 3, 2, k)
    assert ops.fftconv_custom.fused_fftconv2d_max_spatial() == fftconv_custom.fused_fftconv2d_max_spatial() == 64
    assert ops.fftconv_custom.fused_fftconv2d_arch_supported(torch.device("cpu"), 128)


def test_the_fused_functions_refuse_what_the_table_does_not_hold():
    x, kernel = torch.randn(1, 2, 65, 6), torch.randn(1, 2, 3, 3)
    for function in (ops.fftconv_custom.fused_fftconv2d_bhl, ops.fftconv_custom.fused_fftconv2d_bhl_chunked):
        with pytest.raises(ValueError, match="65 x 6 points"):
            function(x, kernel)
    assert ops.fftconv.fftconv2d_fp32_bhl(x, kernel).shape == x.shape  # elsewhere no cap


def test_switches_of_chunking():
    module = ops.fftconv_chunked
    assert module.is_chunking_enabled() and module.get_default_chunk_size() == 128
    with module.chunking_enabled(False, 7):
        assert not module.is_chunking_enabled() and module.get_default_chunk_size() == 7
    module.enable_chunking(False, 64)
    assert not module.is_chunking_enabled() and module.get_default_chunk_size() == 64
    with module.enable_chunking(chunk_size=32):
        assert module.is_chunking_enabled() and module.get_default_chunk_size() == 32
    module.set_chunking_enabled(True)
    module.set_default_chunk_size(128)
    assert module.enable_chunking(torch.nn.Identity) is torch.nn.Identity


@pytest.mark.parametrize("module, name", [pair for pair in FUNCTIONS if pair[1].endswith(("_bhl", "_chunked"))])
def test_compile(module, name):
    torch._dynamo.reset()
    tensors, further = arguments_of(name, False, torch.float32)
    function = getattr(getattr(ops, module), name)
    compiled = torch.compile(lambda *arguments: function(*arguments).sin(), fullgraph=True, backend="aot_eager")
    for a, b in zip(run(compiled, tensors, further), run(lambda *arguments: function(*arguments).sin(), tensors, further)):
        torch.testing.assert_close(a, b)


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


def filters(axes, channels):
    return LazyConfig(kernels_nd.SIRENKernelND)(
        out_dim=channels, data_dim=axes, mlp_hidden_dim=16, num_layers=2, embedding_dim=16, omega_0=10.0, L_cache=12, use_bias=True
    )


def ckconv(axes, channels, grid_type="double", fft_padding="zero", mask=None, **options):
    mask = mask or LazyConfig(torch.nn.Identity)()
    return LazyConfig(ckconv_nd.CKConvND)(
        data_dim=axes, hidden_dim=channels, kernel_cfg=filters(axes, channels), mask_cfg=mask, grid_type=grid_type, fft_padding=fft_padding, **options
    )  # fmt: skip


def hyena(axes, channels, **options):
    convolution = {1: torch.nn.Conv1d, 2: torch.nn.Conv2d, 3: torch.nn.Conv3d}[axes]
    return LazyConfig(hyena_nd.Hyena)(
        global_conv_cfg=ckconv(axes, channels, **options),
        short_conv_cfg=LazyConfig(convolution)(in_channels=3 * channels, out_channels=3 * channels, kernel_size=3, padding=1, groups=3 * channels),
        gate_nonlinear_cfg=LazyConfig(torch.nn.SiLU)(),
        pixelhyena_norm_cfg=LazyConfig(torch.nn.Identity)(),
        qk_norm_cfg=None,
    )


def classifier(fft_backend="torch_fft"):
    """A ViT-5 of two Hyena blocks over 12 x 12 patches, of which class token, registers and padding make 13 x 12."""
    width, norm = 16, LazyConfig(rms_norm.RMSNorm)(dim=16, use_quack=False)
    mixer = LazyConfig(sequence_mixer.QKVSequenceMixer)(hidden_dim=width, mixer_cfg=hyena(2, width, fft_backend=fft_backend))
    block = LazyConfig(vit5_residual_block.ViT5ResidualBlock)(
        sequence_mixer_cfg=LazyConfig(vit5_hyena_adapter.ViT5HyenaAdapter)(inner_mixer_cfg=mixer, grid_w=12),
        sequence_mixer_norm_cfg=norm,
        mlp_cfg=LazyConfig(mlp.MLP)(dim=width, activation="gelu", dropout_cfg=LazyConfig(torch.nn.Identity)()),
        mlp_norm_cfg=norm,
        hidden_dim=width,
        layer_scale_init=0.5,
    )
    return vit5_classification.ViT5ClassificationNet(
        in_channels=3, num_classes=10, hidden_dim=width, num_blocks=2, patch_size=2, image_size=24, num_registers=4, norm_cfg=norm,
        readout="cls", layer_pattern="HH", layer_types={"H": block},
    )  # fmt: skip


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


class Positional(torch.nn.Module):
    """A network with one tensor in and out."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network({"input": x, "condition": None})["logits"]


class Query(torch.nn.Module):
    """Hyena on three projections of its input."""

    def __init__(self, network, channels):
        super().__init__()
        self.network, self.project = network, torch.nn.Linear(channels, 3 * channels)

    def forward(self, x):
        return self.network(*self.project(x).chunk(3, -1))


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
    "vit5": lambda: (Positional(classifier()), (2, 24, 24, 3)),
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
    reference = Positional(classifier())
    model = Positional(classifier(backend))
    model.load_state_dict(reference.state_dict())
    x = torch.randn(2, 24, 24, 3)
    compare(train(model, (x,)), train(reference, (x,)))
    assert len(count_calls) >= 6


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
