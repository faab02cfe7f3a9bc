"""torch.vmap over any combination of arguments equals a loop of calls, bit for bit, and composes with gradients either way round."""

import itertools

import faltung
import pytest
import torch

N = 3
AXES = [a for a in itertools.product((None, 0, 2), (None, 0, 1), (None, 0)) if any(d is not None for d in a)]


def stacked(shape, at):
    return torch.randn(shape) if at is None else torch.randn(N, *shape).movedim(0, at)


def arguments(axes, sharing="plain", last=False):
    leading = {"plain": (), "one": (1,), "per_sample": (2,)}[sharing]
    x, k = (2, 5, 6), (*leading, 3, 4)
    x, k = ((*x[:1], *x[1:], 3), (*k, 3)) if last else ((*x[:1], 3, *x[1:]), (*leading, 3, 3, 4))
    return [stacked(shape, at) for shape, at in zip((x, k, (3,)), axes)]


def loop(call, axes, tensors):
    def one(i):
        return call(*(t if at is None else t.select(at, i) for t, at in zip(tensors, axes)))

    results = [one(i) for i in range(N)]
    return [torch.stack(r) for r in zip(*results)] if isinstance(results[0], tuple) else torch.stack(results)


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("sharing", ["plain", "one", "per_sample"])
@pytest.mark.parametrize("last", [False, True])
def test_forward(axes, sharing, last):
    tensors = arguments(axes, sharing, last)

    def call(x, k, s):
        return faltung.long_conv(x, k, s, boundary=("zero", "circular"), channels_last=last)

    assert torch.equal(torch.vmap(call, axes)(*tensors), loop(call, axes, tensors))


def squares(x, k, s):
    return faltung.long_conv(x, k, s).square().sum()


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("sharing", ["plain", "per_sample"])
def test_gradients_inside_and_outside(axes, sharing):
    tensors = arguments(axes, sharing)
    inside = torch.func.grad(squares, argnums=(0, 1, 2))
    for got, expected in zip(torch.vmap(inside, axes)(*tensors), loop(inside, axes, tensors)):
        torch.testing.assert_close(got, expected)

    def summed(*tensors):
        return torch.vmap(squares, axes)(*tensors).sum()

    def looped(*tensors):
        return loop(squares, axes, tensors).sum()

    expected = torch.func.grad(looped, argnums=(0, 1, 2))(*tensors)
    leaves = [t.clone().requires_grad_() for t in tensors]
    for got in (torch.func.grad(summed, argnums=(0, 1, 2))(*tensors), torch.autograd.grad(summed(*leaves), leaves)):
        for a, b in zip(got, expected):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_nested():
    x, k = torch.randn(4, N, 2, 3, 7), torch.randn(4, 3, 5)
    got = torch.vmap(torch.vmap(faltung.long_conv, (0, None)), (0, 0))(x, k)
    assert torch.equal(got, torch.stack([torch.stack([faltung.long_conv(x[i, j], k[i]) for j in range(N)]) for i in range(4)]))


def test_hessian_over_samples():
    x, k = torch.randn(N, 1, 2, 5, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    hessian = torch.func.hessian(lambda k, x: faltung.long_conv(x, k).pow(3).sum())
    got = torch.vmap(hessian, (None, 0))(k, x)
    torch.testing.assert_close(got, torch.stack([hessian(k, x[i]) for i in range(N)]))


def test_nothing_left_over_from_empty_axes():
    assert torch.vmap(faltung.long_conv, (0, None))(torch.randn(N, 0, 3, 7), torch.randn(3, 5)).shape == (N, 0, 3, 7)
    assert torch.vmap(faltung.long_conv, (0, None))(torch.randn(N, 2, 0, 7), torch.randn(0, 5)).shape == (N, 2, 0, 7)
