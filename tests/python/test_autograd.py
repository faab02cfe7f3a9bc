"""Derivatives of every order and kind against finite differences and against the float64 chain of torch.fft."""

import itertools

import faltung
import long_conv_reference as reference
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual


def inputs(shape=(2, 2, 5, 7), filters=(3, 4), sharing="plain", grad=True):
    leading = {"plain": (), "one": (1,), "per_sample": shape[:1]}[sharing]
    x = torch.randn(shape, dtype=torch.float64)
    k = torch.randn(*leading, shape[1], *filters, dtype=torch.float64)
    s = torch.randn(shape[1], dtype=torch.float64)
    return tuple(t.requires_grad_(grad) for t in (x, k, s))


@pytest.mark.parametrize("boundary", ["zero", "circular", "causal", ("circular", "causal")], ids=str)
@pytest.mark.parametrize("sharing", ["plain", "one", "per_sample"])
def test_gradcheck_5x7_with_3x4(boundary, sharing):
    def call(x, k, s):
        return faltung.long_conv(x, k, s, boundary=boundary)

    assert gradcheck(call, inputs(sharing=sharing))
    assert gradgradcheck(call, inputs(sharing=sharing))


@pytest.mark.parametrize("boundary", ["zero", "circular", "causal"])
def test_gradcheck_1d_and_3d(boundary):
    for shape, filters in (((2, 2, 6), (13,)), ((1, 2, 2, 3, 2), (3, 2, 5))):
        x, k, s = inputs(shape, filters)
        assert gradcheck(lambda x, k: faltung.long_conv(x, k, boundary=boundary), (x, k))
        assert gradgradcheck(lambda x, k, s: faltung.long_conv(x, k, s, boundary=boundary), (x, k, s))


def test_gradcheck_channels_last():
    x, k, s = inputs()
    x, k = (t.detach().movedim(-3, -1).contiguous().requires_grad_() for t in (x, k))
    assert gradcheck(lambda *a: faltung.long_conv(*a, channels_last=True), (x, k, s))
    assert gradgradcheck(lambda *a: faltung.long_conv(*a, channels_last=True), (x, k, s))


@pytest.mark.parametrize("wanted", [w for w in itertools.product((False, True), repeat=3) if any(w)], ids=str)
def test_only_some_inputs_require_gradients(wanted):
    plain = inputs(grad=False)
    some = tuple(t.clone().requires_grad_(w) for t, w in zip(plain, wanted))
    assert gradcheck(faltung.long_conv, some) and gradgradcheck(faltung.long_conv, some)
    y = faltung.long_conv(*some)
    y.square().sum().backward()
    expected = reference.gradients(2 * y.detach(), *plain)
    for t, w, e in zip(some, wanted, expected):
        assert reference.relative_error(t.grad, e) <= 1e-12 if w else t.grad is None


def test_nothing_required_nothing_recorded():
    x, k, s = inputs(grad=False)
    assert not faltung.long_conv(x, k, s).requires_grad
    with torch.no_grad():
        assert not faltung.long_conv(x.requires_grad_(), k).requires_grad
    with torch.inference_mode():
        assert faltung.long_conv(x, k).is_inference()


def test_third_derivative():
    x, k, _ = inputs((1, 1, 4), (3,))
    y = faltung.long_conv(x, k).pow(4).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (g,) = torch.autograd.grad(g.pow(2).sum(), k, create_graph=True)
    (third,) = torch.autograd.grad(g.sum(), x)

    def chain(x, k):
        y = reference.long_conv(x, k).pow(4).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (g,) = torch.autograd.grad(g.pow(2).sum(), k, create_graph=True)
        return torch.autograd.grad(g.sum(), x)[0]

    assert reference.relative_error(third, chain(x, k)) <= 1e-11


def test_the_forward_saves_x_and_k_alone():
    saved = []
    x, k, _ = inputs()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.data_ptr()) or t, lambda t: t):
        faltung.long_conv(x, k)
    assert sorted(saved) == sorted((x.data_ptr(), k.data_ptr()))


def test_gradient_dtypes():
    x = torch.randn(2, 3, 6, 6).bfloat16().requires_grad_()
    k, s = torch.randn(3, 5, 5, requires_grad=True), torch.randn(3, requires_grad=True)
    faltung.long_conv(x, k, s).float().square().sum().backward()
    assert (x.grad.dtype, k.grad.dtype, s.grad.dtype) == (torch.bfloat16, torch.float32, torch.float32)


def test_modifying_an_input_in_place_is_noticed():
    x, k, _ = inputs()
    y = faltung.long_conv(x * 1, k)
    y.sum().backward()
    z = x.detach().clone().requires_grad_() * 1
    y = faltung.long_conv(z, k)
    z.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# ---- torch.func and forward mode -----------------------------------------------------------------------------------------------------


def cube(call, *arguments):
    return call(*arguments).pow(3).sum()


def test_func_grad_and_hessian():
    arguments = inputs((1, 2, 3, 4), (3, 3), grad=False)
    for transform in (torch.func.grad, torch.func.hessian, lambda f, argnums: torch.func.jacrev(torch.func.jacrev(f, argnums), argnums)):
        got = transform(lambda *a: cube(faltung.long_conv, *a), argnums=(0, 1, 2))(*arguments)
        expected = transform(lambda *a: cube(reference.long_conv, *a), argnums=(0, 1, 2))(*arguments)
        for a, b in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(expected)):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_hessian_of_one_input():
    x, k, _ = inputs((1, 2, 3, 4), (3, 3), grad=False)
    got = torch.func.hessian(lambda k: cube(faltung.long_conv, x, k))(k)
    expected = torch.func.hessian(lambda k: cube(reference.long_conv, x, k))(k)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)


def test_forward_mode():
    x, k, s = inputs(grad=False)
    tx, tk, ts = inputs(grad=False)
    expected = torch.func.jvp(reference.long_conv, (x, k, s), (tx, tk, ts))[1]
    assert reference.relative_error(torch.func.jvp(faltung.long_conv, (x, k, s), (tx, tk, ts))[1], expected) <= 1e-13
    with dual_level():
        y = faltung.long_conv(make_dual(x, tx), make_dual(k, tk), make_dual(s, ts))
        assert reference.relative_error(unpack_dual(y).tangent, expected) <= 1e-13


def test_func_grad_of_grad_sums():
    x, k, s = inputs(grad=False)

    def norm(call):
        return lambda k: torch.func.grad(lambda x: cube(call, x, k, s))(x).square().sum()

    torch.testing.assert_close(torch.func.grad(norm(faltung.long_conv))(k), torch.func.grad(norm(reference.long_conv))(k))
