"""nvsubquadratic 0.2.0: its op functions against the drop-ins, one by one."""

import inspect
import re

import faltung
import pytest
import torch
from faltung.compat.nvsubquadratic import ops
from nvsubquadratic.ops import circular_fftconv, fftconv, fftconv_chunked, fftconv_custom, mixed_fftconv

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
