"""faltung.causal_conv1d against float64: values, states and gradients of every dtype, layout and cut; bits; edges."""

import causal_conv1d_reference as reference
import faltung
import pytest
import torch

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
CUTS = {
    "whole": {},
    "packed": {"cu_seqlens": torch.tensor([0, 5, 5, 9, 40])},
    "padded": {"lengths": torch.tensor([3, 0, 41])},
    "labelled": {"seq_idx": torch.tensor([[0] * 9 + [1] * 13 + [0] * 19, [-1] * 3 + [2] * 38, [-1] * 41], dtype=torch.int32)},
}


def inputs(dtype=torch.float32, batch=3, channels=9, time=41, width=4, sequences=None, columns=None, weight_dtype=None, last=False, grad=True):
    weight_dtype = weight_dtype or dtype
    columns = width - 1 if columns is None else columns
    shape = (batch, time, channels) if last else (batch, channels, time)
    tensors = {
        "x": torch.randn(shape).to(dtype),
        "weight": (torch.randn(channels, width) / width**0.5).to(weight_dtype),
        "bias": torch.randn(channels).to(weight_dtype),
        "residual": torch.randn(shape).to(dtype),
        "initial_state": torch.randn(batch if sequences is None else sequences, channels, columns).to(dtype),
    }
    return {name: tensor.requires_grad_(grad) for name, tensor in tensors.items()}


def call(tensors, **options):
    positional = [tensors[name] for name in ("x", "weight")]
    return faltung.causal_conv1d(*positional, tensors.get("bias"), **{k: v for k, v in tensors.items() if k not in ("x", "weight", "bias")}, **options)


def check(tensors, **options):
    """Values and all gradients within the bounds of the contract."""
    y, final = call(tensors, return_final_state=True, **options)
    expected_inputs = {name: t.detach().double().requires_grad_() for name, t in tensors.items()}
    positional = [expected_inputs.pop(name) for name in ("x", "weight")]
    expected_y, expected_final = reference.causal_conv1d(*positional, **expected_inputs, **options)
    assert y.stride() == torch.empty_like(tensors["x"]).stride()
    assert torch.equal(final.double(), expected_final)
    assert reference.relative_error(y.detach(), expected_y.detach()) <= reference.bound(y.dtype, expected_y.detach())
    dy, dfinal = torch.randn_like(y), torch.randn_like(final)
    got = torch.autograd.grad((y, final), list(tensors.values()), (dy, dfinal))
    names = ("x", "weight", *expected_inputs)
    wide = [*positional, *expected_inputs.values()]
    expected_y = expected_y + 0 * sum(t.sum() for t in wide)  # of no tokens too
    found = torch.autograd.grad((expected_y, expected_final), wide, (dy.double(), dfinal.double()))
    expected = dict(zip(names, found))
    for name, gradient in zip(tensors, got):
        assert gradient.dtype == tensors[name].dtype and gradient.stride() == torch.empty_like(tensors[name]).stride()
        limit = reference.bound(gradient.dtype, expected[name], tensors["x"].dtype != torch.float64)
        assert reference.relative_error(gradient, expected[name]) <= limit, name


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_values_and_gradients(dtype, activation, last, cut):
    batch, sequences = (1, 4) if cut == "packed" else (3, 3)
    tensors = inputs(dtype, batch=batch, sequences=sequences, last=last)
    check(tensors, activation=activation, channels_last=last, **CUTS[cut])


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 256])
@pytest.mark.parametrize("extra", [0, 1])
def test_widths_and_state_columns(width, extra):
    check(inputs(width=width, columns=width - 1 + extra), activation="swish", state_columns=width - extra)


def test_tap_order():
    x = torch.zeros(1, 1, 8)
    x[0, 0, 2] = 1
    y = faltung.causal_conv1d(x, torch.tensor([[1.0, 2.0, 4.0, 8.0]]))
    assert y.flatten().tolist() == [0, 0, 8, 4, 2, 1, 0, 0]
