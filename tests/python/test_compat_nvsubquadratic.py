"""The drop-in for nvsubquadratic's op functions by its own definition (tests/clients compares it with the package itself): every function
against float64."""

import importlib
import re

import faltung
import long_conv_reference as reference
import pytest
import torch
from faltung.compat.nvsubquadratic import ops
from test_compat_install import absent

POINTS = (7, 6, 5)
SPELLING = re.compile(r"(causal_|circular_|mixed_|fused_)?fftconv\dd_(fp32_)?b(hl|lh)(_w_reshape)?(_chunked)?")
FUNCTIONS = [(module, name) for module in ops.__all__ for name in getattr(ops, module).__all__ if SPELLING.fullmatch(name)]


def meaning(name):
    """(axes, boundary, channels_last) that a name says."""
    axes = next(axes for axes in (1, 2, 3) if f"{axes}d_" in name)
    boundary = {"causal": "causal", "circular": "circular"}.get(name.split("_")[0], "zero")
    if name.startswith("mixed"):
        boundary = ["circular", "zero", "circular"][:axes]
    return axes, boundary, not name.removesuffix("_chunked").endswith("_bhl")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("module, name", FUNCTIONS)
def test_definition(module, name, batch, dtype):
    axes, boundary, last = meaning(name)
    x, kernel, shortcut = torch.randn(2, 3, *POINTS[:axes]), torch.randn(batch, 3, *(9, 4, 7)[:axes]) / 4, torch.randn(3)
    x, kernel = (t.movedim(1, -1).contiguous() if last else t for t in (x, kernel))
    tensors = [t.to(dtype).requires_grad_() for t in (x, kernel, shortcut)]
    further = [[name == "circular" for name in boundary]] if isinstance(boundary, list) else []
    y = getattr(getattr(ops, module), name)(tensors[0], tensors[1], *further, tensors[2])
    doubles = [t.detach().double().requires_grad_() for t in tensors]
    expected = reference.long_conv(*doubles, boundary=boundary, channels_last=last)
    dy = torch.randn(y.shape).to(dtype)
    found = zip(torch.autograd.grad(y, tensors, dy), torch.autograd.grad(expected, doubles, dy.double()))
    for a, b in [(y.detach(), expected.detach()), *found]:
        assert a.dtype == dtype and reference.relative_error(a, b) <= reference.bound(b, dtype, POINTS, False, a.dtype)


def test_names():
    assert len(FUNCTIONS) == 64
    for module, name in FUNCTIONS:
        function = getattr(getattr(ops, module), name)
        assert function.__code__.co_name == name
        assert function.__name__ == name and function.__module__ == f"faltung.compat.nvsubquadratic.ops.{module}" and function.__doc__


def test_installed_where_there_is_no_nvsubquadratic():
    absent("nvsubquadratic")
    assert faltung.compat.install("nvsubquadratic")
    try:
        assert importlib.import_module("nvsubquadratic.ops.mixed_fftconv") is ops.mixed_fftconv
        from nvsubquadratic.ops.fftconv import fftconv2d_fp32_bhl

        assert fftconv2d_fp32_bhl is ops.fftconv.fftconv2d_fp32_bhl
    finally:
        faltung.compat.uninstall("nvsubquadratic")


def test_errors():
    x, kernel = torch.randn(2, 3, 7, 6), torch.randn(1, 3, 5, 5)
    with pytest.raises(ValueError, match=r"x: expected \[B, H, L\], got shape \(2, 3, 7, 6\)"):
        ops.fftconv.fftconv1d_fp32_bhl(x, kernel)
    with pytest.raises(ValueError, match=r"x: expected \[B, X, Y, Z, H\], got shape"):
        ops.fftconv.fftconv3d_fp32_blh(x, kernel)
    with pytest.raises(ValueError, match="k has a batch of 3, expected 1 or that of x, 2"):
        ops.fftconv.fftconv2d_fp32_bhl(x, kernel.expand(3, 3, 5, 5))
    with pytest.raises(ValueError, match="expected one name, or one for each of 2 spatial axes, got 1"):
        ops.mixed_fftconv.mixed_fftconv2d_fp32_bhl(x, kernel, [True])
    with pytest.raises(ValueError, match="fft_size=8 is too small for an input of 7 x 6 points with a filter of 5 x 5 taps: expected at least 16"):
        ops.fftconv_custom.fused_fftconv2d_bhl(x, kernel, None, 8)
    with pytest.raises(TypeError, match="enable_chunking: expected a bool"):
        ops.fftconv_chunked.enable_chunking("yes")
