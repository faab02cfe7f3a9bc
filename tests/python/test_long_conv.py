"""long_conv forward and backward against float64: the grid of tests/cases, layouts, strides, dtypes, centres, errors."""

import ctypes
import itertools

import faltung
import long_conv_reference as reference
import pytest
import torch
from faltung import _c_api, _library
from faltung._long_conv_gradients import differentiable_backward
from long_conv_cases import ARRANGEMENTS, Geometry, dtype_pairs, geometries, make
from long_conv_check import backward, check, code, forward


@pytest.mark.parametrize("index, geometry", list(enumerate(geometries("grid"))), ids=lambda v: str(v))
def test_grid(index, geometry):
    # Layout, sharing, arrangement, dtypes and mean rotate with coprime periods, so that all pairs of them occur.
    for n in (index, index + 4 * 47):
        check(
            geometry,
            *dtype_pairs()[n % 9],
            channels_last=n % 2 == 1,
            sharing=("plain", "one", "per_sample")[n // 2 % 3],
            shortcut=n % 5 < 2,
            arrangement=ARRANGEMENTS[n // 3 % len(ARRANGEMENTS)],
            mean=(0, 8, 100)[n % 7 % 3],
        )


@pytest.mark.parametrize("geometry", geometries("product")[:2], ids=str)
def test_product(geometry):
    pairs = [(torch.float32, torch.float32), (torch.bfloat16, torch.float32)]
    for (x, k), last, sharing, arrangement in itertools.product(
        pairs, (False, True), ("plain", "one", "per_sample"), ARRANGEMENTS
    ):
        check(geometry, x, k, channels_last=last, sharing=sharing, arrangement=arrangement, shortcut=last)


@pytest.mark.parametrize("x_dtype, k_dtype", dtype_pairs(), ids=str)
def test_dtypes(x_dtype, k_dtype):
    check(Geometry((9, 12), (17, 23), ("zero", "zero")), x_dtype, k_dtype, shortcut=True)


@pytest.mark.parametrize("geometry", [g for g in geometries("grid") if max(g.extents) <= 16 and max(g.filters) <= 20], ids=str)
def test_the_two_references_agree(geometry):
    """The C++ reference, by name through the C ABI, against torch's float64 chain: two derivations of the same contract."""
    x, k, s, _, options = make(geometry, torch.float64, torch.float64, shortcut=True)
    y = torch.full_like(x, float("nan"))
    c_options = _c_api.long_conv_options(code(geometry.boundaries), False, geometry.centres, "cpu.reference")
    views = [_c_api.view_of(t, name, data=True) for t, name in ((x, "x"), (k, "k"), (s, "shortcut"), (y, "y"))]
    _c_api.check(_library.c.faltung_long_conv_forward(*map(ctypes.byref, views), ctypes.byref(c_options)))
    assert reference.relative_error(y, reference.long_conv(x, k, s, **options, centre=geometry.centres)) <= 1e-13


@pytest.mark.parametrize("boundary", ["zero", "circular", "causal"])
@pytest.mark.parametrize("points, taps", [(n, m) for n in (6, 7) for m in (3, 4, 13, 14)])
def test_every_tap_by_an_impulse(boundary, points, taps):
    """Each tap alone: tap m of value m + 1 shows up where the formula says, for odd and even K, on both parities of N."""
    x = torch.zeros(1, 1, points)
    x[0, 0, points // 2] = 1
    for m in range(taps):
        k = torch.zeros(1, taps)
        k[0, m] = m + 1
        at = points // 2 + m - reference.default_centre(boundary, taps)
        expected = torch.zeros(points)
        if boundary == "circular":
            expected[at % points] = m + 1
        elif 0 <= at < points:
            expected[at] = m + 1
        torch.testing.assert_close(faltung.long_conv(x, k, boundary=boundary)[0, 0], expected, rtol=0, atol=1e-6 * (m + 1))


def test_centre_of_the_operator():
    x, k = torch.randn(2, 3, 7, 6, dtype=torch.float64), torch.randn(3, 4, 5, dtype=torch.float64)
    for centre in itertools.product((-2, 0, 3, 9), (0, 4)):
        got = forward(x, k, None, 0, False, centre)
        assert reference.relative_error(got, reference.long_conv(x, k, centre=centre)) <= 1e-13


@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16", "float16"])
def test_gradients_not_wanted_are_empty(name):
    x, k, s, dy, _ = make(Geometry((5, 6), (3, 4), ("zero", "zero")), getattr(torch, name), torch.float32, shortcut=True)
    everything = backward(dy, x, k, s, 0, False, None, True, True, True)
    for needs in itertools.product((False, True), repeat=3):
        for gradient, whole, needed in zip(backward(dy, x, k, s, 0, False, None, *needs), everything, needs):
            assert torch.equal(gradient, whole) if needed else gradient.shape == (0,)


# ---- Errors --------------------------------------------------------------------------------------------------------------------------

x4, k3 = torch.randn(2, 3, 5, 5), torch.randn(3, 3, 3)


@pytest.mark.parametrize(
    "kind, words, arguments, options",
    [
        (ValueError, "k has 1 channels, x has 3", (x4, torch.randn(1, 3, 3)), {}),
        (ValueError, "k has a batch of 4, expected 1 or that of x, 2", (x4, torch.randn(4, 3, 3, 3)), {}),
        (ValueError, r"x must be \[batch, channels, 1 to 3 spatial axes\], got shape \[2, 3\]", (torch.randn(2, 3), k3), {}),
        (ValueError, "k must have 3 axes", (x4, torch.randn(3, 3)), {}),
        (ValueError, r"spatial extents must be at least 1, got shape \[2, 3, 0, 5\]", (torch.randn(2, 3, 0, 5), k3), {}),
        (ValueError, "k: spatial extents must be at least 1", (x4, torch.randn(3, 0, 3)), {}),
        (ValueError, r"shortcut: expected shape \[channels\], got \[1, 3\]", (x4, k3, torch.randn(1, 3)), {}),
        (ValueError, "shortcut has 2 channels, x has 3", (x4, k3, torch.randn(2)), {}),
        (ValueError, "expected at most 6 axes, got 7", (torch.randn(1, 1, 1, 1, 1, 1, 1), k3), {}),
        (ValueError, '"zero", "circular" or "causal".*got \'same\'', (x4, k3), {"boundary": "same"}),
        (ValueError, "each of 2 spatial axes, got 1", (x4, k3), {"boundary": ["zero"]}),
        (ValueError, "k has 5 channels, x has 3", (torch.randn(2, 5, 5, 3), torch.randn(3, 3, 5)), {"channels_last": True}),
        (TypeError, "boundary: expected a str", (x4, k3), {"boundary": 1}),
        (TypeError, "x: expected a floating dtype, got int64", (x4.long(), k3), {}),
        (TypeError, "k: expected a floating dtype, got complex64", (x4, k3.to(torch.complex64)), {}),
        (TypeError, "x: expected a floating dtype, got bool", (x4 > 0, k3), {}),
        (TypeError, "k: expected a torch.Tensor, got list", (x4, [1.0]), {}),
        (TypeError, "x: expected a torch.Tensor, got NoneType", (None, k3), {}),
        (TypeError, "x: expected a dense", (x4.to_sparse(), k3), {}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
@pytest.mark.parametrize("grad", [False, True])
def test_errors(kind, words, arguments, options, grad):
    if grad:
        arguments = [
            t.clone().requires_grad_() if isinstance(t, torch.Tensor) and t.dtype.is_floating_point and not t.is_sparse else t
            for t in arguments
        ]
    with pytest.raises(kind, match=words) as caught:
        faltung.long_conv(*arguments, **options)
    assert "faltung:" not in str(caught.value) and ".cpp" not in str(caught.value)


@pytest.mark.parametrize("bad", [torch.randn(1, 3, 3), torch.randn(4, 3, 3, 3), torch.randn(3, 3), torch.ones(3, 3, 3, dtype=torch.int32)])
def test_meta_tensors_fail_alike(bad):
    with pytest.raises((ValueError, TypeError)) as real:
        faltung.long_conv(x4, bad)
    with pytest.raises(real.type) as meta:
        faltung.long_conv(x4.to("meta"), bad.to("meta"))
    assert str(meta.value) == str(real.value)


def test_wrong_dy():
    for dy, kind in ((torch.randn(2, 3, 5, 4), ValueError), (torch.randn(2, 3, 5, 5).double(), TypeError)):
        with pytest.raises(RuntimeError, match="dy"):
            backward(dy, x4, k3)
        with pytest.raises(kind, match="dy"):
            differentiable_backward(dy, x4, k3, None, 0, False, None, True, True, False)
