"""The edges of the contract and inputs on which comparable software failed, each with what is right."""

import causal_conv1d_reference as reference
import faltung
import pytest
import torch
from test_causal_conv1d import check, inputs


@pytest.mark.parametrize("time", [0, 1, 2, 3, 4, 63, 64, 65, 127, 129, 1023, 1025, 1026])
@pytest.mark.parametrize("last", [False, True])
def test_lengths(time, last):
    check(inputs(time=time, last=last), activation="silu", channels_last=last)


@pytest.mark.parametrize("channels", [1, 7, 8, 64, 96, 257, 264])
@pytest.mark.parametrize("last", [False, True])
def test_channels(channels, last):
    check(inputs(channels=channels, time=21, last=last), activation="silu", channels_last=last)


def test_many_channels_of_few_tokens():
    x, weight = torch.randn(1, 65536, 4), torch.randn(65536, 2)
    y, _ = reference.causal_conv1d(x, weight)
    assert reference.relative_error(faltung.causal_conv1d(x, weight), y) <= 5e-7


def test_nothing_at_all():
    for batch, channels, time in ((0, 5, 7), (2, 0, 7), (2, 5, 0), (0, 0, 0)):
        tensors = inputs(batch=batch, channels=channels, time=time)
        y, final = faltung.causal_conv1d(
            tensors["x"], tensors["weight"], tensors["bias"], initial_state=tensors["initial_state"], return_final_state=True
        )
        assert y.shape == (batch, channels, time)
        if time == 0:
            assert torch.equal(final, tensors["initial_state"])
        dx, dweight, dbias, dstate = torch.autograd.grad((y.sum() + final.sum()), [t for n, t in tensors.items() if n != "residual"])
        assert not dx.any() and not dweight.any() and not dbias.any() and bool((dstate == 1).all())
    y, final = faltung.causal_conv1d(torch.randn(1, 5, 3), torch.randn(5, 4), cu_seqlens=torch.zeros(1, dtype=torch.int32), return_final_state=True)
    assert not y.any() and final.shape == (0, 5, 3)


def test_a_slice_of_a_wider_projection():
    projection = torch.randn(2, 50, 43)
    x, weight = projection[..., 3:40], torch.randn(37, 4)
    y, _ = reference.causal_conv1d(x, weight, channels_last=True)
    assert reference.relative_error(faltung.causal_conv1d(x, weight, channels_last=True), y) <= 5e-7


@pytest.mark.parametrize("last", [False, True])
def test_expanded_sliced_and_reversed_gradients(last):
    tensors = inputs(dtype=torch.float64, channels=12, time=40, last=last)
    y = faltung.causal_conv1d(tensors["x"], tensors["weight"], activation="silu", channels_last=last)
    expected, _ = reference.causal_conv1d(tensors["x"], tensors["weight"], activation="silu", channels_last=last)
    wide = torch.randn(*y.shape[:2], 2 * y.shape[2] + 1, dtype=torch.float64)
    for dy in (torch.ones((), dtype=torch.float64).expand(y.shape), wide[..., 1::2], wide[..., : y.shape[2]], wide[..., : y.shape[2]].transpose(1, 2).contiguous().transpose(1, 2)):
        got = torch.autograd.grad(y, (tensors["x"], tensors["weight"]), dy, retain_graph=True)
        for a, b in zip(got, torch.autograd.grad(expected, (tensors["x"], tensors["weight"]), dy, retain_graph=True)):
            assert reference.relative_error(a, b) <= 1e-13


@pytest.mark.parametrize("time", [1, 2])
def test_gradient_of_the_final_state_shifts_through(time):
    state = torch.randn(1, 3, 4, requires_grad=True)
    x = torch.randn(1, 3, time, requires_grad=True)
    _, final = faltung.causal_conv1d(x, torch.randn(3, 5), initial_state=state, return_final_state=True)
    dfinal = torch.randn(1, 3, 4)
    dstate, dx = torch.autograd.grad(final, (state, x), dfinal)
    assert torch.equal(dstate, torch.cat([torch.zeros(1, 3, time), dfinal[..., : 4 - time]], -1)) and torch.equal(dx, dfinal[..., 4 - time :])


def test_dweight_contains_the_taps_of_the_state():
    check({name: t for name, t in inputs(width=3, channels=100, time=5).items() if name != "residual"})


def test_right_padded_prefill():
    x, weight = torch.randn(2, 4, 7), torch.randn(4, 4)
    _, final = faltung.causal_conv1d(x, weight, lengths=torch.tensor([3, 7]), return_final_state=True)
    assert torch.equal(final[0], x[0, :, :3]) and torch.equal(final[1], x[1, :, 4:])


def test_labels_never_leak_across_the_middle():
    x, weight = torch.randn(1, 2, 3), torch.randn(2, 4)
    y = faltung.causal_conv1d(x, weight, seq_idx=torch.tensor([[0, 1, 0]], dtype=torch.int32))
    assert torch.equal(y, x * weight[:, 3, None])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_silu_far_out(dtype):
    z = torch.tensor([[[-1e4, float("-inf"), float("inf"), float("nan"), 0.0, 60.0, -60.0]]]).to(dtype)
    y = faltung.causal_conv1d(z, torch.ones(1, 1, dtype=dtype), activation="silu")
    torch.testing.assert_close(y, torch.nn.functional.silu(z), equal_nan=True, rtol=1e-2 if dtype.itemsize == 2 else 1e-5, atol=0)
    assert y[0, 0, 0] == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_silu_everywhere(dtype):
    z = torch.linspace(-87, 87, 400003, dtype=torch.float64).to(dtype)[None, None]
    y = faltung.causal_conv1d(z, torch.ones(1, 1, dtype=dtype), activation="silu").double()
    expected = z.double() / (1 + torch.exp(-z.double()))
    error = (y - expected).abs() / (expected.abs() * torch.finfo(dtype).eps)
    assert float(error[expected != 0].max()) <= 3  # of epsilon: exp, sum, quotient and product


def test_offsets_beyond_two_to_the_32nd():
    far = torch.empty((1 << 32) + (1 << 16), dtype=torch.float16)  # of which a few pages are touched
    x = far.as_strided((2, 3, 40), (1 << 32, 40, 1))
    near, weight = torch.randn(2, 3, 40).half(), torch.randn(3, 4).half()
    x.copy_(near)
    assert torch.equal(torch.ops.faltung.causal_conv1d_detached(x, weight)[0], faltung.causal_conv1d(near, weight))


@pytest.mark.parametrize("content", [[3, 9, 20], [0, 12, 5], [0, 5, 21], [-4, 3, 20], [0, 2**31 - 1, -(2**31)]], ids=str)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("last", [False, True])
def test_cu_seqlens_out_of_order(content, dtype, last):
    memory = torch.full((3, 20, 20), 7.0)
    x, weight, cu = torch.randn(1, 20, 20), torch.randn(20, 4), torch.tensor(content, dtype=dtype)
    with pytest.raises(ValueError, match=r"cu_seqlens\[\d\]: expected .*, got -?\d+"):
        faltung.causal_conv1d(x, weight, cu_seqlens=cu, channels_last=last, check=True)
    x = memory[1:2].normal_()
    faltung.causal_conv1d(x.requires_grad_(), weight, cu_seqlens=cu, channels_last=last, activation="silu").sum().backward()
    assert bool((memory[[0, 2]] == 7).all())


def test_lengths_out_of_range():
    x, weight = torch.randn(2, 3, 5), torch.randn(3, 4)
    with pytest.raises(ValueError, match=r"lengths\[1\]: expected 0 to 5 tokens, got 6"):
        faltung.causal_conv1d(x, weight, lengths=torch.tensor([5, 6]), check=True)
    y = faltung.causal_conv1d(x, weight, lengths=torch.tensor([-1, 6]))
    assert not y[0].any() and torch.equal(y[1], faltung.causal_conv1d(x, weight)[1])


def test_fp16_near_its_end():
    x = torch.full((1, 1, 8), 6e4, dtype=torch.float16)
    y = faltung.causal_conv1d(x, torch.tensor([[1.0, -1.0, 1.0, -1.0]]))
    assert torch.equal(y[0, 0, 3:], torch.zeros(5, dtype=torch.float16))


T = torch.randn


@pytest.mark.parametrize(
    "kind, words, call",
    [
        (ValueError, r"weight has 4 channels, x has 3", lambda: faltung.causal_conv1d(T(2, 3, 5), T(4, 4))),
        (ValueError, r"width from 1 to 256, got 257", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 257))),
        (ValueError, r"width from 1 to 256, got 0", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 0))),
        (ValueError, r"weight: expected shape \[channels, width\], got \[3, 1, 4\]", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 1, 4))),
        (ValueError, r"x must be \[batch, channels, time\], got shape \[3, 5\]", lambda: faltung.causal_conv1d(T(3, 5), T(3, 4))),
        (ValueError, r"bias has 2 channels, x has 3", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 4), T(2))),
        (ValueError, r"residual must have the shape of x, \[2, 3, 5\], got \[2, 3, 4\]", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 4), residual=T(2, 3, 4))),
        (TypeError, r"residual is float64, x is float32", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 4), residual=T(2, 3, 5).double())),
        (ValueError, r"initial_state: expected .* = \[2, 3, 3 or 4\], got \[2, 3, 2\]", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 4), initial_state=T(2, 3, 2))),
        (ValueError, r"activation: expected None, 'silu', 'swish', got 'relu'", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 4), activation="relu")),
        (ValueError, r"batch of 1, got x with a batch of 2", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 4), cu_seqlens=torch.tensor([0, 5]))),
        (ValueError, r"at most one of them, got 2", lambda: faltung.causal_conv1d(T(1, 3, 5), T(3, 4), cu_seqlens=torch.tensor([0, 5]), lengths=torch.tensor([5]))),
        (ValueError, r"seq_idx: expected \[batch, time\] = \[2, 5\], got \[2, 4\]", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 4), seq_idx=torch.zeros(2, 4, dtype=torch.int32))),
        (TypeError, r"seq_idx: expected int32, got int64", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 4), seq_idx=torch.zeros(2, 5, dtype=torch.int64))),
        (TypeError, r"cu_seqlens: expected int32 or int64, got float32", lambda: faltung.causal_conv1d(T(1, 3, 5), T(3, 4), cu_seqlens=torch.tensor([0.0, 5.0]))),
        (ValueError, r"lengths: expected \[batch\] = \[2\], got \[3\]", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 4), lengths=torch.tensor([1, 2, 3]))),
        (ValueError, r"state_columns: expected width - 1 = 3 or width = 4, got 5", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 4), return_final_state=True, state_columns=5)),
        (ValueError, r"state_columns: expected None without return_final_state", lambda: faltung.causal_conv1d(T(2, 3, 5), T(3, 4), state_columns=4)),
        (TypeError, r"x: expected a floating dtype, got int64", lambda: faltung.causal_conv1d(torch.zeros(2, 3, 5, dtype=torch.int64), T(3, 4))),
        (TypeError, r"x: expected a torch.Tensor, got list", lambda: faltung.causal_conv1d([1.0], T(3, 4))),
    ],
    ids=lambda v: "",
)  # fmt: skip
def test_errors(kind, words, call):
    with pytest.raises(kind, match=words):
        call()
