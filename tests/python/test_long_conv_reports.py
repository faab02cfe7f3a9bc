"""Inputs on which comparable software failed in public (the rows for long_conv that a CPU and Python can show), each with the right
behaviour; strides, gradients' shapes, containment, invariance and repeatability among them."""

import itertools

import faltung
import long_conv_reference as reference
import pytest
import torch
from long_conv_cases import Geometry
from long_conv_check import check

@pytest.mark.parametrize("shape", [(0, 2, 16, 16), (2, 0, 16, 16), (0, 0, 3)])
def test_empty(shape):
    x = torch.randn(shape, requires_grad=True)
    k = torch.randn(shape[1], *[5] * (len(shape) - 2), requires_grad=True)
    y = faltung.long_conv(x, k)
    y.sum().backward()
    assert y.shape == x.grad.shape == shape
    assert torch.equal(k.grad, torch.zeros_like(k))


@pytest.mark.parametrize("leading", [(), (1,), (3,)])
def test_dk_has_the_shape_of_k(leading):
    x, k = torch.randn(3, 2, 7), torch.randn(*leading, 2, 5, requires_grad=True)
    faltung.long_conv(x, k).sum().backward()
    assert k.grad.shape == k.shape


def test_storage_offset_and_odd_length():
    memory = torch.randn(2 * 1013 + 1)
    x, k = memory[1:].view(1, 2, 1013), torch.randn(2, 31)
    assert reference.relative_error(faltung.long_conv(x, k), reference.long_conv(x, k)) <= 1e-6


@pytest.mark.parametrize("shape", [(70000, 1, 4, 4), (1, 70000, 4, 4)])
def test_many_samples_or_channels(shape):
    x, k = torch.randn(shape), torch.randn(shape[1], 3, 3)
    y = faltung.long_conv(x, k)
    expected = torch.nn.functional.conv2d(x.double(), k.double().flip(1, 2).unsqueeze(1), padding=1, groups=shape[1])
    assert reference.relative_error(y, expected) <= 3e-7


@pytest.mark.parametrize("which", ["sum", "negated", "transposed", "expanded"])
def test_strides_of_dy(which):
    x, k = torch.randn(2, 3, 5, 5), torch.randn(3, 3, 4)
    dy = torch.randn(2, 3, 5, 5)
    dy = {
        "sum": torch.ones(()).expand(2, 3, 5, 5),
        "negated": torch.complex(dy, dy).conj().imag,
        "transposed": dy.transpose(2, 3),
        "expanded": dy[:, :1].expand(2, 3, 5, 5),
    }[which]
    xg, kg = x.clone().requires_grad_(), k.clone().requires_grad_()
    faltung.long_conv(xg, kg).backward(dy)
    for got, expected in zip((xg.grad, kg.grad), reference.gradients(dy, x, k)):
        assert reference.relative_error(got, expected) <= 3e-7


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e30])
@pytest.mark.parametrize("size", [5, 24])
def test_containment(bad, size):
    x, k = torch.randn(4, 3, size, size), torch.randn(3, 2 * size - 1, 2 * size - 1)
    clean = faltung.long_conv(x, k)
    dirty = x.clone()
    dirty[1, 2] = bad
    got = faltung.long_conv(dirty, k)
    others = torch.ones(4, 3, dtype=torch.bool)
    others[1, 2] = False
    assert torch.equal(got[others], clean[others])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_batch_invariance(dtype):
    x, k = torch.randn(5, 7, 9, 11).to(dtype), torch.randn(7, 17, 21).to(dtype)
    whole = faltung.long_conv(x, k)
    for b, c in itertools.product((0, 4), (0, 3, 6)):
        assert torch.equal(faltung.long_conv(x[b : b + 1, c : c + 1], k[c : c + 1]), whole[b : b + 1, c : c + 1])
    assert torch.equal(faltung.long_conv(x.movedim(1, -1), k.movedim(0, -1), channels_last=True).movedim(-1, 1), whole)


@pytest.mark.parametrize("length", [40, 1024])
@pytest.mark.parametrize("late", [1e6, 1e10])
def test_causal_to_the_bit(length, late):
    x, k = torch.randn(2, 3, length), torch.randn(3, length)
    before = faltung.long_conv(x, k, boundary="causal")
    for t in (1, length // 2, length - 1):
        later = x.clone()
        later[..., t] = late
        assert torch.equal(faltung.long_conv(later, k, boundary="causal")[..., :t], before[..., :t])


def test_repeatable():
    x, k = torch.randn(2, 3, 16, 16, requires_grad=True), torch.randn(3, 31, 31, requires_grad=True)
    first = None
    for _ in range(100):
        y = faltung.long_conv(x, k)
        bits = (y, *torch.autograd.grad(y.square().sum(), (x, k)))
        first = first or bits
        assert all(map(torch.equal, bits, first))


@pytest.mark.parametrize("mean", [8, 100])
@pytest.mark.parametrize("x_dtype", [torch.float16, torch.bfloat16])
def test_large_mean(x_dtype, mean):
    check(Geometry((20, 20), (39, 39), ("zero", "zero"), batch=1, channels=1), x_dtype, x_dtype, mean=mean)


def test_values_near_the_largest_of_fp16():
    x = torch.full((1, 1, 8, 8), 65504.0, dtype=torch.float16)
    k = torch.zeros(1, 15, 15, dtype=torch.float16)
    k[0, 7, 7] = 1
    assert torch.equal(faltung.long_conv(x, k), x)


def test_many_shapes_in_constant_memory():
    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    sizes = [(1 + n % 17, 1 + n // 17 % 19) for n in range(1000)]
    for n, (rows, columns) in enumerate(sizes):
        faltung.long_conv(torch.randn(1, 2, rows, columns), torch.randn(2, 3, 1 + n % 5))
        if n == 300:
            before = resident()
    assert resident() - before < 16 << 20


@pytest.mark.parametrize("length", [5999, 14113, 49951])
@pytest.mark.parametrize("boundary", ["zero", "causal"])
def test_odd_and_prime_lengths(length, boundary):
    x, k = torch.randn(1, 2, length), torch.randn(2, length) / length**0.5
    assert reference.relative_error(faltung.long_conv(x, k, boundary=boundary), reference.long_conv(x, k, boundary=boundary)) <= 1e-6


@pytest.mark.parametrize("extents", [(20, 20, 10), (192,), (1280,)])
def test_sizes_that_are_no_powers_of_two_in_fp16(extents):
    check(Geometry(extents, extents, ("zero",) * len(extents), batch=1, channels=1), torch.float16, torch.float16)


def test_sweep_of_rows_and_columns():
    for rows in range(1, 71):
        columns, filters = 1 + rows * 37 % 70, (1 + rows * 11 % 23, 1 + rows * 5 % 139)
        x, k = torch.randn(1, 1, rows, columns), torch.randn(1, *filters)
        limit = 3e-7 if max(rows, columns) <= 64 else 1e-6
        assert reference.relative_error(faltung.long_conv(x, k), reference.long_conv(x, k)) <= limit, (rows, columns, filters)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_view_that_spans_more_than_2_to_the_31_elements(dtype):
    torch._C._set_deterministic_algorithms(False)  # the memory between the two samples must stay untouched: it is not there
    apart = 2**31 + 6
    x = torch.empty(apart + 12, dtype=dtype).as_strided((2, 3, 4), (apart, 4, 1))
    x.copy_(torch.randn(2, 3, 4))
    k, dy = torch.randn(3, 7), torch.randn(2, 3, 4).to(dtype)
    near, far = x.clone().requires_grad_(), x.requires_grad_()
    y = faltung.long_conv(far, k)
    assert torch.equal(y, faltung.long_conv(near, k))
    y.backward(dy)
    faltung.long_conv(near, k).backward(dy)
    assert torch.equal(far.grad, near.grad)
