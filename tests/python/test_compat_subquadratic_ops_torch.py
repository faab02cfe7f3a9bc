"""The drop-in for subquadratic_ops_torch: each function over its argument grid against plain float64 torch, gradients, compile, errors."""

import causal_conv1d_reference as short
import long_conv_reference as long
import pytest
import torch
from faltung.compat import subquadratic_ops_torch as package
from faltung.compat.subquadratic_ops_torch.b2b_causal_conv1d import b2b_causal_conv1d
from faltung.compat.subquadratic_ops_torch.causal_conv1d import causal_conv1d
from faltung.compat.subquadratic_ops_torch.fft_causal_conv1d import fft_causal_conv1d
from faltung.compat.subquadratic_ops_torch.fft_conv1d import fft_conv1d
from faltung.compat.subquadratic_ops_torch.fft_conv2d import fft_conv2d
from faltung.compat.subquadratic_ops_torch.fused_fft_conv2d import fused_fft_conv2d
from faltung.compat.subquadratic_ops_torch.rearrange import rearrange

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def check(function, reference, tensors, factor=1.0):
    """Values and gradients of a function within `factor` times what correct rounding allows; a reference takes float64."""
    tensors = [t.requires_grad_() for t in tensors]
    y = function(*tensors)
    doubles = [t.detach().double().requires_grad_() for t in tensors]
    expected = reference(*doubles)
    dy = torch.randn_like(y)
    assert y.dtype == tensors[0].dtype and y.stride() == torch.empty_like(tensors[0][:, : y.shape[1]]).stride()
    pairs = [(y, expected), *zip(torch.autograd.grad(y, tensors, dy), torch.autograd.grad(expected, doubles, dy.double()))]
    for a, b in pairs:
        transformed = factor * long.bound(b.detach(), tensors[0].dtype, (65,), True, a.dtype)
        assert long.relative_error(a.detach(), b.detach()) <= transformed


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("grid, taps", [((7, 9), (13, 17)), ((8, 6), (8, 5)), ((16, 16), (31, 32)), ((5, 33), (2, 70)), ((1, 4), (1, 1))])
@pytest.mark.parametrize("batch", [None, 1, 3])
def test_fft_conv2d(dtype, grid, taps, batch):
    weight = torch.randn(*([] if batch is None else [batch]), 4, *taps) / 8
    check(fft_conv2d, long.long_conv, [torch.randn(3, 4, *grid).to(dtype), weight.to(dtype)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("points, taps", [(9, 4), (9, 9), (64, 127), (65, 2), (130, 33), (1, 3)])
@pytest.mark.parametrize("function, boundary", [(fft_conv1d, "zero"), (fft_causal_conv1d, "causal")])
def test_long_convolutions_over_one_axis(dtype, points, taps, function, boundary):
    tensors = [torch.randn(2, 4, points).to(dtype), (torch.randn(4, taps) / 4).to(dtype)]
    check(function, lambda x, weight: long.long_conv(x, weight, boundary=boundary), tensors)


def test_taps_by_impulse():
    x = torch.zeros(1, 1, 9).index_fill(2, torch.tensor([4]), 1.0)
    weight = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    at = lambda y: {i: float(v) for i, v in enumerate(y[0, 0]) if abs(v) > 1e-6}  # noqa: E731
    assert at(fft_causal_conv1d(x, weight).round(decimals=5)) == {4: 1, 5: 2, 6: 3, 7: 4}
    assert at(fft_conv1d(x, weight).round(decimals=5)) == {2: 1, 3: 2, 4: 3, 5: 4}
    assert at(causal_conv1d(x, weight)) == {4: 4, 5: 3, 6: 2, 7: 1}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("taps", [2, 3, 4, 7, 64, 256])
@pytest.mark.parametrize("activation", ["identity", "silu"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_causal_conv1d(dtype, taps, activation, bias, last):
    x, weight = torch.randn(2, 13, 6).to(dtype), (torch.randn(taps, 6) / taps**0.5).to(dtype)
    x, weight = (x, weight) if last else (x.transpose(1, 2).contiguous(), weight.t().contiguous())
    tensors = [x, weight] + ([torch.randn(6).to(dtype)] if bias else [])

    def function(x, weight, bias=None):
        return causal_conv1d(x, weight, bias, activation, last)

    def reference(x, weight, bias=None):
        weight = weight.t() if last else weight
        return short.causal_conv1d(x, weight, bias, activation="silu" if activation == "silu" else None, channels_last=last)[0]

    check(function, reference, tensors)


def block(x, weight_proj, weight_mixer, skip_bias):
    projected = short.causal_conv1d(x, weight_proj)[0]
    q, a, v = (projected[:, i::3] for i in range(3))
    z = a * v
    return q * (short.causal_conv1d(z, weight_mixer)[0] + skip_bias[:, None] * z)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("proj, mixer", [(2, 2), (4, 7), (3, 128)])
def test_b2b_causal_conv1d(dtype, proj, mixer):
    tensors = [torch.randn(2, 15, 33), torch.randn(15, proj), torch.randn(5, mixer) / mixer**0.5, torch.randn(5)]
    # Six values between x and y are rounded to its dtype, and the sums of few terms that gradients are may cancel.
    check(b2b_causal_conv1d, block, [t.to(dtype) for t in tensors], 8.0)


def square(x, weight, size):
    """The definition of fused_fft_conv2d in float64: everything on size x size points."""
    spectrum = torch.fft.rfft2(x.double(), s=(size, size)) * torch.fft.rfft2(weight.double(), s=(size, size))
    rows, columns = x.shape[2:]
    y = torch.fft.irfft2(spectrum, s=(size, size))
    return y[..., size // 2 : size // 2 + rows, size // 2 : size // 2 + columns]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "grid, taps, fft_size, size",
    [
        ((4, 4), (8, 8), None, 8), ((1, 2), (5, 6), None, 8), ((5, 3), (16, 9), None, 16), ((5, 3), (40, 33), 64, 64),
        ((16, 14), (32, 31), None, 32), ((17, 16), (30, 64), None, 64), ((33, 64), (40, 128), None, 128),
    ],
)  # fmt: skip
@pytest.mark.parametrize("batch", [None, 1, 2])
def test_fused_fft_conv2d(dtype, grid, taps, fft_size, size, batch):
    weight = (torch.randn(*([] if batch is None else [batch]), 3, *taps) / 8).to(dtype)
    x = torch.randn(2, 3, *grid).to(dtype)
    check(lambda x, weight: fused_fft_conv2d(x, weight, fft_size), lambda x, weight: square(x, weight, size), [x, weight])


def test_a_filter_that_ends_before_the_window_gives_zeros():
    x, weight = torch.randn(2, 3, 5, 5), torch.randn(3, 7, 9)
    assert fused_fft_conv2d(x, weight, 32)[0, 0, 0, 0] == 0 and not fused_fft_conv2d(x, weight, 64).any()


def test_rearrange():
    x = torch.randn(2, 3, 5)
    there = rearrange(x, True)
    assert there.is_contiguous() and torch.equal(there, x.permute(2, 0, 1))
    back = rearrange(there, bhl_to_lbh=False)
    assert back.is_contiguous() and torch.equal(back, x)


@pytest.mark.parametrize(
    "function, shapes",
    [
        (fft_conv2d, ((2, 3, 7, 6), (3, 13, 11))), (fft_conv1d, ((2, 3, 9), (3, 17))), (fft_causal_conv1d, ((2, 3, 9), (3, 9))),
        (causal_conv1d, ((2, 3, 9), (3, 4), (3,))), (b2b_causal_conv1d, ((2, 9, 9), (9, 4), (3, 5), (3,))),
        (fused_fft_conv2d, ((2, 3, 7, 6), (3, 16, 11))),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_compile(function, shapes):
    torch._dynamo.reset()

    def step(*tensors):
        return function(*tensors).sin()

    tensors = [torch.randn(shape).requires_grad_() for shape in shapes]
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*tensors), step(*tensors))
    for a, b in zip(*(torch.autograd.grad(f(*tensors).square().sum(), tensors) for f in (compiled, step))):
        torch.testing.assert_close(a, b)


def test_dtype_of_x_under_autocast():
    x, weight = torch.randn(2, 3, 9), torch.randn(3, 4)
    with torch.autocast(x.device.type, torch.bfloat16):
        assert {f(x, weight).dtype for f in (fft_conv1d, fft_causal_conv1d, causal_conv1d)} == {torch.float32}


def test_errors():
    x, weight = torch.randn(2, 3, 7, 6), torch.randn(3, 5, 5)
    for arguments, words in (
        ((torch.randn(2, 3, 65, 6), weight), r"x of 65 x 6 points asks for 256"),
        ((x, weight, 12), r"expected one of \(8, 16, 32, 64, 128\), got 12"),
        ((x, weight, 8), "fft_size=8: expected x of at most 4 points an axis, got 7 x 6"),
        ((x, torch.randn(3, 17, 5), 16), r"fft_size=16: expected a weight of at most 16 taps an axis, got \(17, 5\)"),
        ((x[0], weight), r"x: expected \[B, H, X, Y\], got shape \(3, 7, 6\)"),
    ):
        with pytest.raises(ValueError, match=words):
            fused_fft_conv2d(*arguments)
    with pytest.raises(TypeError, match="weight: expected the dtype of x, torch.float32, got torch.bfloat16"):
        fused_fft_conv2d(x, weight.bfloat16())
    with pytest.raises(ValueError, match='activation: expected "identity" or "silu", got \'gelu\''):
        causal_conv1d(x[0], torch.randn(7, 4), activation="gelu")
    with pytest.raises(ValueError, match="x: expected .B, C, X, Y., got shape"):
        fft_conv2d(x[0], weight)
    with pytest.raises(ValueError, match="k has 4 channels, x has 3"):
        fft_conv2d(x, torch.randn(4, 5, 5))
    with pytest.raises(TypeError, match="x: expected a torch.Tensor, got list"):
        fft_causal_conv1d([1.0], weight)


def test_nothing_is_registered_under_the_other_names():
    assert not any(name.startswith(("subquadratic", "DaoAILab")) for name in dir(torch.ops) if not name.startswith("_"))
    schemas = {schema.name.split("::")[0] for schema in torch._C._jit_get_all_schemas()}
    assert "faltung" in schemas and not schemas & {"subquadratic_ops_torch", "DaoAILab", "cudnn"}
    assert sorted(package.__all__) == package.__all__
