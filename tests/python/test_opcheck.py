"""torch.library.opcheck, all four tests, of every operator over dtypes, layouts and optional arguments."""

import pytest
import torch
from torch.library import opcheck

operators = torch.ops.faltung
TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def tensors(x_dtype=torch.float32, k_dtype=torch.float32, batch=2, leading=(), last=False, grad=False):
    x = torch.randn(batch, 3, 5, 7).to(x_dtype)
    k = torch.randn(*leading, 3, 3, 4).to(k_dtype)
    dy = torch.randn_like(x)
    if last:
        x, k, dy = (t.movedim(-3, -1) for t in (x, k, dy))
    return [t.requires_grad_(grad) for t in (dy, x, k, torch.randn(3).to(k_dtype))]


def check(dy, x, k, shortcut, *options, detached=False):
    suffix = "_detached" if detached else ""
    opcheck(getattr(operators, "long_conv" + suffix).default, (x, k, shortcut, *options), test_utils=TESTS)
    needs = (True, True, shortcut is not None)
    opcheck(getattr(operators, "long_conv_backward" + suffix).default, (dy, x, k, shortcut, *options, *needs), test_utils=TESTS)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("grad", [False, True])
def test_dtypes(dtype, grad):
    check(*tensors(dtype, dtype, grad=grad), 0, False, None)


@pytest.mark.parametrize("shortcut", [False, True])
@pytest.mark.parametrize("boundary", [0, 5, 10, 1])
@pytest.mark.parametrize("centre", [None, [0, 0]], ids=str)
def test_options(shortcut, boundary, centre):
    dy, x, k, s = tensors(torch.bfloat16, torch.float32, grad=True)
    check(dy, x, k, s if shortcut else None, boundary, False, centre)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("leading", [(), (1,), (2,)], ids=str)
def test_layout_and_sharing(last, leading):
    check(*tensors(leading=leading, last=last, grad=True), 0, last, None)


@pytest.mark.parametrize("detached", [False, True])
def test_empty_batch(detached):
    check(*tensors(batch=0, grad=not detached), 0, False, None, detached=detached)


@pytest.mark.parametrize("detached", [False, True])
def test_expanded_and_strided(detached):
    _, x, k, s = tensors()
    dy = torch.ones(()).expand(2, 3, 5, 7)
    check(dy, x.transpose(2, 3).contiguous().transpose(2, 3), k, s, 0, False, None, detached=detached)
    check(dy, torch.randn(2, 3, 5, 14)[..., ::2], k[:1].expand(3, 3, 4), s, 0, False, None, detached=detached)


@pytest.mark.parametrize("needs", [(True, False, False), (False, True, False), (False, False, True), (False, False, False)], ids=str)
def test_gradients_not_wanted(needs):
    dy, x, k, s = tensors(grad=True)
    opcheck(operators.long_conv_backward.default, (dy, x, k, s, 0, False, None, *needs), test_utils=TESTS)
