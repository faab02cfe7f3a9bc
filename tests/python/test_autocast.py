"""Under autocast x goes to the autocast dtype and the filters stay as they are; float64 is left alone."""

import faltung
import pytest
import torch

DEVICE = torch.get_default_device().type


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_x_is_cast_and_filters_are_not(dtype):
    x, k, s = torch.randn(2, 3, 6, 6), torch.randn(3, 5, 5, requires_grad=True), torch.randn(3, requires_grad=True)
    xg = x.clone().requires_grad_()
    with torch.autocast(DEVICE, dtype):
        y = faltung.long_conv(xg, k, s)
    assert torch.equal(y, faltung.long_conv(x.to(dtype), k, s)) and y.dtype == dtype
    y.float().square().sum().backward()
    assert (xg.grad.dtype, k.grad.dtype, s.grad.dtype) == (torch.float32,) * 3
    assert all(t.grad.abs().sum() > 0 for t in (xg, k, s))


def test_filters_of_16_bits_are_not_widened():
    x, k = torch.randn(2, 3, 6), torch.randn(3, 5).half().requires_grad_()
    with torch.autocast(DEVICE, torch.bfloat16):
        faltung.long_conv(x, k).sum().backward()
    assert k.grad.dtype == torch.float16


def test_float64_and_disabled():
    x, k = torch.randn(2, 3, 6, dtype=torch.float64), torch.randn(3, 5)
    with torch.autocast(DEVICE, torch.bfloat16):
        assert faltung.long_conv(x, k).dtype == torch.float64
        with torch.autocast(DEVICE, enabled=False):
            assert faltung.long_conv(x.float(), k).dtype == torch.float32


def test_integers_are_refused_as_ever():
    with torch.autocast(DEVICE, torch.bfloat16), pytest.raises(TypeError, match="int64"):
        faltung.long_conv(torch.ones(1, 1, 3, dtype=torch.int64), torch.ones(1, 3))


def test_compiled():
    x, k = torch.randn(2, 3, 6, 6), torch.randn(3, 5, 5)

    def model(x, k):
        with torch.autocast(DEVICE, torch.bfloat16):
            return faltung.long_conv(x, k)

    assert torch.equal(torch.compile(model, fullgraph=True, backend="aot_eager")(x, k), model(x, k))
