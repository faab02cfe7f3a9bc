"""Modules of faltung.nn: against torch.fft and plain sums, their filters' geometry, gradients, autocast, state dictionaries, torch.compile."""

import copy

import faltung
import faltung.nn as fnn
import long_conv_reference as reference
import pytest
import torch
from faltung.compile import lowering_stats
from lowering_check import lower, operators, relative_error, survivors

LONG = {1: fnn.LongConv1d, 2: fnn.LongConv2d, 3: fnn.LongConv3d}
CK = {1: fnn.CKConv1d, 2: fnn.CKConv2d, 3: fnn.CKConv3d}
GRID = (6, 5, 4)
BOUNDARIES = ("zero", "circular", "causal")
every = pytest.mark.parametrize("channels_last", (False, True), ids=("first", "last"))
ranks = pytest.mark.parametrize("rank", (1, 2, 3))


def images(rank, channels=3, batch=2, channels_last=False, **options):
    shape = (batch, *GRID[:rank], channels) if channels_last else (batch, channels, *GRID[:rank])
    return torch.randn(shape, **options)


# ---- Filters as parameters


@ranks
@every
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_long_conv_is_the_operator_over_its_parameters(rank, channels_last, boundary):
    module = LONG[rank](3, (5, 2, 7)[:rank], boundary=boundary, shortcut=True, channels_last=channels_last)
    torch.nn.init.normal_(module.shortcut)
    x = images(rank, channels_last=channels_last)
    expected = reference.long_conv(x, module.weight, module.shortcut, boundary=boundary, channels_last=channels_last)
    y = module(x)
    assert relative_error(y.double(), expected) < 1e-6
    y.sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


def test_constructor_habits():
    module = fnn.LongConv2d(3, 5, device="meta", dtype=torch.bfloat16)
    assert module.weight.shape == (3, 5, 5) and module.weight.is_meta and module.weight.dtype == torch.bfloat16 and module.shortcut is None
    assert list(fnn.LongConv1d(3, 4, shortcut=True).state_dict()) == ["weight", "shortcut"]
    assert repr(fnn.LongConv1d(3, 4, boundary="causal")) == "LongConv1d(3, kernel_size=(4,), boundary='causal')"
    assert list(fnn.CausalConv1d(3).state_dict()) == ["weight", "bias"]
    assert "activation='silu'" in repr(fnn.CausalConv1d(3, activation="silu"))
    x = torch.randn(64, 16, 64)
    assert abs(fnn.LongConv1d(16, 33, boundary="circular")(x).std() - 1) < 0.2  # the variance of the input


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: fnn.LongConv2d(3, (5, 5, 5)), "kernel_size"),
        (lambda: fnn.LongConv2d(3, 0), "kernel_size"),
        (lambda: fnn.LongConv2d(3, 5, boundary="reflect"), "boundary"),
        (lambda: fnn.LongConv2d(3, 5, boundary=("zero",)), "boundary"),
        (lambda: fnn.CKConv2d(3, 8), "data_dim: expected 2 for CKConv2d, got 3"),
        (lambda: fnn.CKConv2d(2, 8, fft_backend="cufft"), "fft_backend"),
        (lambda: fnn.CKConv2d(2, 8, L_cache=(4, 4, 4)), "L_cache"),
        (lambda: fnn.CKConv2d(2, 8, mask="box"), "mask"),
        (lambda: fnn.CKConv2d(2, 8, channels_per_chunk=0), "channels_per_chunk"),
        (lambda: fnn.CKConv2d(2, 8)(torch.randn(1, 8, 4)), "x: expected 4 dimensions"),
        (lambda: fnn.CKConv1d(1, 8, film_dim=4)(torch.randn(1, 8, 4)), "condition"),
        (lambda: fnn.CKConv1d(1, 8)(torch.randn(1, 8, 4), torch.randn(1, 4)), "condition"),
        (lambda: fnn.HyenaOperator(8, 4, order=1), "order"),
        (lambda: fnn.GaussianMask(2, 8, narrowest=2.0), "narrowest"),
        (lambda: fnn.Siren(2, 8, layers=0), "layers"),
    ],
)
def test_errors(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@every
def test_causal_conv1d_in_one_go_and_token_by_token(channels_last):
    module = fnn.CausalConv1d(5, 4, activation="silu", channels_last=channels_last)
    x = torch.randn(2, 9, 5) if channels_last else torch.randn(2, 5, 9)
    y = module(x)
    first = x.transpose(1, 2) if channels_last else x
    padded = torch.nn.functional.pad(first, (3, 0))
    expected = torch.nn.functional.silu(torch.nn.functional.conv1d(padded, module.weight[:, None], module.bias, groups=5))
    assert relative_error(y.transpose(1, 2) if channels_last else y, expected) < 1e-6
    state = module.empty_state(2)
    tokens = torch.stack([module.step(first[:, :, t], state) for t in range(9)], 1 if channels_last else 2)
    assert torch.equal(tokens, y)
    half, state = module(x[:, :4] if channels_last else x[..., :4], return_final_state=True)
    rest = module(x[:, 4:] if channels_last else x[..., 4:], initial_state=state)
    assert torch.equal(torch.cat([half, rest], 1 if channels_last else 2), y)


# ---- Filters of coordinates


@ranks
@every
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_ckconv_is_the_same_with_torch_fft(rank, channels_last, boundary):
    for double_grid in (True, False):
        module = CK[rank](rank, 3, L_cache=GRID[:rank], boundary=boundary, double_grid=double_grid, mask="gaussian", channels_last=channels_last)
        x = images(rank, channels_last=channels_last).requires_grad_()
        dy = torch.randn_like(x)
        outcomes = []
        for module.fft_backend in ("faltung", "torch_fft"):
            y = module(x)
            outcomes.append([y, *torch.autograd.grad(y, [x, *module.parameters()], dy)])
        assert all(relative_error(a, b) < 1e-5 for a, b in zip(*outcomes))
        exact = reference.long_conv(x, module.filters(GRID[:rank]), module.shortcut, boundary=boundary, channels_last=channels_last)
        assert relative_error(outcomes[0][0].double(), exact) < 1e-6


def test_boundaries_of_their_own_for_each_axis():
    module = fnn.CKConv2d(2, 3, L_cache=(6, 5), boundary=("circular", "causal"))
    x = images(2)
    assert module.filters((6, 5)).shape == (3, 6, 5)
    assert relative_error(module(x).double(), reference.long_conv(x, module.filters((6, 5)), module.shortcut, boundary=("circular", "causal"))) < 1e-6


def lag_zero(name, points, taps):
    return {"zero": taps // 2, "circular": (taps - 1) // 2, "causal": 0}[name]


@pytest.mark.parametrize("double_grid", (True, False))
@pytest.mark.parametrize("mask", (None, "gaussian", "exponential"))
def test_a_larger_grid_has_the_small_ones_filter_in_its_middle(double_grid, mask):
    """On each axis by itself: the taps of the same lags are the same."""
    boundary = ("zero", "causal", "circular")
    module = fnn.CKConv3d(3, 4, L_cache=(4, 5, 6), boundary=boundary, double_grid=double_grid, mask=mask)
    small = (4, 5, 6)
    inner = module.filters(small)
    for large in ((9, 5, 6), (4, 8, 6), (4, 5, 11), (7, 7, 7)):
        outer = module.filters(large)
        for axis, (name, n, m) in enumerate(zip(boundary, inner.shape[1:], outer.shape[1:])):
            start = lag_zero(name, large[axis], m) - lag_zero(name, small[axis], n)
            outer = outer.narrow(axis + 1, start, n)
        assert relative_error(outer, inner) < 1e-6


def test_coordinates():
    module = fnn.CKConv2d(2, 3, L_cache=(5, 3), boundary=("zero", "causal"))
    rows, columns = module.lags((5, 6))
    assert torch.allclose(rows, torch.linspace(-1, 1, 9)) and torch.allclose(columns, torch.arange(6) / 2)
    assert fnn.CKConv1d(1, 3, L_cache=1).lags((2,))[0].tolist() == [-1, 0, 1]


def test_the_double_grid_reaches_every_input():
    for double_grid, seen in ((True, 1.0), (False, 0.75)):
        module = fnn.CKConv1d(1, 2, L_cache=8, double_grid=double_grid, shortcut=False)
        jacobian = torch.autograd.functional.jacobian(lambda x: module(x)[0, 0], torch.randn(1, 2, 8))[:, 0, 0]
        assert abs((jacobian.abs() > 1e-6).double().mean() - seen) < 0.01


def test_film_gives_every_sample_its_filters():
    module = fnn.CKConv2d(2, 3, L_cache=(6, 5), film_dim=4, mask="exponential")
    x, condition = images(2), torch.randn(2, 4)
    plain = module.filters((6, 5), condition)
    assert plain.shape == (2, 3, 11, 9) and torch.equal(plain[0], plain[1])  # the change starts at zero
    torch.nn.init.normal_(module.network.film.weight, std=0.3)
    filters = module.filters((6, 5), condition)
    assert relative_error(filters[0], filters[1]) > 0.1
    y = module(x, condition)
    for i in range(2):
        assert relative_error(y[i : i + 1], faltung.long_conv(x[i : i + 1], filters[i], module.shortcut)) < 1e-5
    y.sum().backward()
    assert module.network.film.weight.grad.abs().sum() > 0


@ranks
@pytest.mark.parametrize("bias", (True, False))
@pytest.mark.parametrize("film", (None, 4))
def test_outputs_first_is_the_network_in_another_order(rank, bias, film):
    network = fnn.Siren(rank, 3, bias=bias, film=film)
    torch.nn.init.normal_(network.output.bias) if bias else None
    points, condition = torch.randn(*GRID[:rank], rank), None if film is None else torch.randn(2, film)
    if film is not None:
        torch.nn.init.normal_(network.film.weight, std=0.3)
    expected = 0.3 * network(points, condition).movedim(-1, -1 - rank)
    found = network.outputs_first(points, condition, 0.3)
    assert found.is_contiguous() and relative_error(found, expected) < 1e-6
    gradients = [torch.autograd.grad(y.sin().sum(), network.parameters()) for y in (found, expected)]
    assert all(relative_error(a, b) < 1e-5 for a, b in zip(*gradients))


@pytest.mark.parametrize("kind", (fnn.GaussianMask, fnn.ExponentialMask))
def test_masks_fall_off_from_one(kind):
    mask = kind(2, 3, narrowest=0.1, widest=1.0)
    lags = [torch.tensor([-1.0, 0.0, 0.5]), torch.tensor([0.0, 2.0])]
    found = mask(lags)
    assert found.shape == (3, 3, 2) and torch.all(found[:, 1, 0] == 1) and torch.all(found <= 1) and torch.all(found >= 0)
    widths = mask.log_width.exp()
    assert torch.allclose(widths[:, 0], torch.tensor([0.1, 0.1**0.5, 1.0]))
    ratios = torch.stack([lags[0][0] / widths[:, 0], lags[1][1] / widths[:, 1]])
    expected = torch.exp(-0.5 * ratios.square()).prod(0) if kind is fnn.GaussianMask else torch.exp(-ratios.abs().sum(0))
    assert torch.allclose(found[:, 0, 1], expected)


@pytest.mark.parametrize("backend", ("faltung", "torch_fft"))
@every
def test_chunks_of_channels_give_the_same_bits(backend, channels_last):
    module = fnn.CKConv2d(2, 7, L_cache=(6, 5), fft_backend=backend, channels_last=channels_last)
    x = images(2, 7, channels_last=channels_last)
    whole = module(x)
    for module.channels_per_chunk in (1, 3, 7, 9):
        assert torch.equal(module(x), whole)


@pytest.mark.parametrize("backend", ("faltung", "torch_fft"))
def test_autocast(backend):
    module = fnn.CKConv2d(2, 3, L_cache=(6, 5), film_dim=4, mask="gaussian", fft_backend=backend)
    torch.nn.init.normal_(module.network.film.weight, std=0.3)
    x, condition = images(2), torch.randn(2, 4)
    full = module(x, condition)
    with torch.autocast(x.device.type, torch.bfloat16):
        k, y = module.filters((6, 5), condition), module(x, condition)
    assert k.dtype == torch.float32 and torch.equal(k, module.filters((6, 5), condition))  # 16 bits would make other filters
    assert y.dtype == torch.bfloat16 and relative_error(y.float(), full) < 8e-3
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())


def test_filters_rounded_on_purpose():
    module = fnn.CKConv2d(2, 3, L_cache=(6, 5), filter_dtype=torch.bfloat16)
    x = images(2).to(torch.bfloat16)
    expected = faltung.long_conv(x, module.filters((6, 5)).to(torch.bfloat16), module.shortcut)
    y = module(x)
    assert torch.equal(y, expected)
    module.fft_backend = "torch_fft"
    assert relative_error(module(x), y) < 8e-3
    y.float().sum().backward()
    assert module.network.output.weight.grad.dtype == torch.float32


def test_state_dictionaries_are_stable_and_hold_no_grid():
    module = fnn.CKConv2d(2, 3, L_cache=16, film_dim=4, mask="gaussian")
    names = [
        "shortcut", "network.layers.0.weight", "network.layers.0.bias", "network.layers.1.weight", "network.layers.1.bias", "network.output.weight",
        "network.output.bias", "network.film.weight", "network.film.bias", "mask.log_width",
    ]  # fmt: skip
    assert list(module.state_dict()) == names
    other = fnn.CKConv2d(2, 3, L_cache=16, film_dim=4, mask="gaussian")
    other.load_state_dict(module.state_dict())
    condition = torch.randn(1, 4)
    assert torch.equal(other.filters((5, 7), condition), module.filters((5, 7), condition))
    assert copy.deepcopy(module).double()(images(2).double(), torch.randn(2, 4).double()).dtype == torch.float64


def test_filters_start_with_the_variance_that_keeps_that_of_the_input():
    torch.manual_seed(3)
    for rank in (1, 2):
        module = CK[rank](rank, 64, L_cache=24, double_grid=False, boundary="circular", shortcut=False)
        y = module(torch.randn(4, 64, *(24,) * rank))
        assert 0.4 < y.std() < 1.6


# ---- Hyena


@pytest.mark.parametrize("order", (2, 3))
def test_hyena_is_its_formula(order):
    module = fnn.HyenaOperator(4, 12, order=order)
    u = torch.randn(2, 12, 4, requires_grad=True)
    z = torch.nn.functional.pad(module.input(u).transpose(1, 2), (2, 0))
    z = torch.nn.functional.conv1d(z, module.short.weight[:, None], module.short.bias, groups=z.shape[1])
    *gates, value = z.split(4, 1)
    for gate, convolution in zip(gates[:0:-1], module.long):
        k = convolution.filters((12,)).transpose(0, 1)
        value = reference.long_conv(gate * value, k, convolution.shortcut, boundary="causal").float()
    expected = module.output((gates[0] * value).transpose(1, 2))
    y = module(u)
    assert relative_error(y, expected) < 1e-5
    (gradient,) = torch.autograd.grad(y[:, 5].sum(), u)
    assert torch.all(gradient[:, 6:] == 0) and gradient[:, :6].abs().sum() > 0  # causal
    assert len(list(module.parameters())) == 6 + 8 * (order - 1)


# ---- torch.compile


@ranks
@every
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_the_chain_of_torch_fft_is_rewritten(rank, channels_last, boundary):
    module = CK[rank](rank, 3, L_cache=GRID[:rank], boundary=boundary, fft_backend="torch_fft", channels_last=channels_last)
    for dtype in (torch.float32, torch.bfloat16):
        x = images(rank, channels_last=channels_last).to(dtype)
        compiled, graphs = lower(module)
        y = compiled(x)
        assert lowering_stats() == {"rewritten": 1} and survivors(graphs[0]) == []
        assert relative_error(y, module(x)) < (1e-6 if dtype == torch.float32 else 8e-3)


def test_the_chain_is_rewritten_for_any_extent():
    module = fnn.CKConv2d(2, 3, L_cache=6, fft_backend="torch_fft")
    compiled, graphs = lower(module, dynamic=True)
    for extents in ((6, 5), (9, 4), (7, 7)):
        x = torch.randn(2, 3, *extents)
        assert relative_error(compiled(x), module(x)) < 1e-5
    assert len(graphs) == 1 and operators(graphs[0]) == 1


def test_hyena_compiles_to_operators():
    module = fnn.HyenaOperator(4, 12, fft_backend="torch_fft")
    u = torch.randn(2, 12, 4)
    compiled, graphs = lower(module)
    assert relative_error(compiled(u), module(u)) < 1e-5 and operators(graphs[0]) == 1


@pytest.mark.parametrize("make", [lambda: fnn.CKConv2d(2, 3, L_cache=6, mask="gaussian"), lambda: fnn.LongConv2d(3, 7, shortcut=True)], ids=("ckconv", "long_conv"))
def test_modules_export(make):
    module, x = make(), images(2)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=9)},))
    other = images(2, batch=5)
    assert relative_error(program.module()(other), module(other)) < 1e-6
