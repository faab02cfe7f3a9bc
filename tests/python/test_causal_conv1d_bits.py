"""Promises about bits and about what never leaks, over dtypes and layouts: repetition, threads, strides, batch, chunks, cuts, NaN."""

import itertools

import faltung
import pytest
import torch
from test_causal_conv1d import CUTS, DTYPES, call, inputs


def bits(tensor):
    """Comparable integers: equal bits, NaN included."""
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def layouts(tensor):
    """The same [B, D, T] values under other strides."""
    gapped = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1] + 1, dtype=tensor.dtype)[..., 1::2]
    pitched = torch.zeros(tensor.shape[0], tensor.shape[2], tensor.shape[1] + 1, dtype=tensor.dtype)[..., 1:].transpose(1, 2)
    misaligned = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype)[1:].view(tensor.shape)
    return [tensor, tensor.transpose(1, 2).contiguous().transpose(1, 2), *(like.copy_(tensor) for like in (gapped, pitched, misaligned))]


def gradients(tensors, **options):
    y, final = call(tensors, return_final_state=True, **options)
    generator = torch.Generator(torch.get_default_device()).manual_seed(3)
    cotangents = [torch.randn(t.shape, generator=generator).to(t.dtype) for t in (y, final)]
    return [y, final, *torch.autograd.grad((y, final), list(tensors.values()), cotangents)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_repeats_with_any_number_of_threads(dtype, last, cut):
    tensors = inputs(dtype, batch=1 if cut == "packed" else 3, sequences=4 if cut == "packed" else 3, channels=70, last=last)
    options = {"activation": "silu", "channels_last": last, **CUTS[cut]}
    expected = gradients(tensors, **options)
    for threads in (1, 2, 3, 8):
        torch.set_num_threads(threads)
        assert all(torch.equal(a, b) for a, b in zip(gradients(tensors, **options), expected))


@pytest.mark.parametrize("last", [False, True])
def test_many_blocks_repeat_with_any_number_of_threads(last):
    tensors = inputs(time=5000, batch=2, channels=300, last=last)
    expected = gradients(tensors, activation="silu", channels_last=last)
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        assert all(torch.equal(a, b) for a, b in zip(gradients(tensors, activation="silu", channels_last=last), expected))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 6, 20])
@pytest.mark.parametrize("channels, time", [(3, 70), (70, 9), (40, 130)])
def test_strides_and_batch(dtype, width, channels, time):
    tensors = inputs(dtype, channels=channels, time=time, width=width, grad=False)
    expected = call(tensors, activation="silu")
    for x, residual in itertools.product(layouts(tensors["x"]), layouts(tensors["residual"])):
        assert torch.equal(call({**tensors, "x": x, "residual": residual}, activation="silu"), expected)
    for b in range(3):
        alone = {name: t[b : b + 1] if t.dim() == 3 else t for name, t in tensors.items()}
        assert torch.equal(call(alone, activation="silu"), expected[b : b + 1])
    some = {name: t[:, 1:2] if t.dim() == 3 else t[1:2] for name, t in tensors.items()}
    assert torch.equal(call(some, activation="silu"), expected[:, 1:2])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("width", [1, 2, 4, 9])
@pytest.mark.parametrize("chunks", [[4, 6], [1] * 10, [10, 0, 30], [2, 1, 300, 17]], ids=str)
def test_prefill_in_chunks(dtype, last, width, chunks):
    tensors = inputs(dtype, time=sum(chunks), channels=35, width=width, grad=False)
    options = {"activation": "silu", "return_final_state": True}
    expected, final = call(tensors, **options)
    state, parts = tensors.pop("initial_state"), []
    at = 0
    for chunk in chunks:
        part = {name: t[..., at : at + chunk] if t.dim() == 3 else t for name, t in tensors.items()}
        if last:
            part = {name: t.transpose(1, 2) if t.dim() == 3 else t for name, t in part.items()}
        y, state = call({**part, "initial_state": state}, channels_last=last, **options)
        parts.append(y.transpose(1, 2) if last else y)
        at += chunk
    assert torch.equal(torch.cat(parts, -1), expected) and torch.equal(state, final)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("lengths", [[0], [1], [5, 0, 4], [1, 2, 3, 4, 5], [17, 2, 14], [3] * 50], ids=str)
def test_cuts_equal_separate_calls(last, lengths):
    total, n = sum(lengths), len(lengths)
    tensors = inputs(batch=1, sequences=n, channels=21, time=total, grad=False)
    starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])
    options = {"activation": "silu", "return_final_state": True}
    rows = []
    for i in range(n):
        cut = {name: t[..., starts[i] : starts[i + 1]] for name, t in tensors.items() if name in ("x", "residual")}
        rows.append(call({**tensors, **cut, "initial_state": tensors["initial_state"][i : i + 1]}, **options))
    expected, finals = torch.cat([y for y, _ in rows], -1), torch.cat([state for _, state in rows])
    packed = {name: t.transpose(1, 2) if last and name in ("x", "residual") else t for name, t in tensors.items()}
    for dtype in (torch.int32, torch.int64):
        y, final = call(packed, cu_seqlens=starts.to(dtype), channels_last=last, check=True, **options)
        assert torch.equal(y.transpose(1, 2) if last else y, expected) and torch.equal(final, finals)
    longest = max(lengths)
    padded = {name: torch.full((n, 21, longest), float("nan")) for name in ("x", "residual")}
    for i, length in enumerate(lengths):
        for name, t in padded.items():
            t[i, :, :length] = tensors[name][0, :, starts[i] : starts[i + 1]]
    y, final = call({**tensors, **padded}, lengths=torch.tensor(lengths, dtype=torch.int32), **options)
    assert torch.equal(final, finals)
    for i, length in enumerate(lengths):
        assert torch.equal(y[i, :, :length], rows[i][0][0]) and not y[i, :, length:].any()


@pytest.mark.parametrize("time", [63, 65, 127, 129, 257])
@pytest.mark.parametrize("last", [False, True])
def test_labels_equal_separate_calls(time, last):
    weight, x = torch.randn(9, 4), torch.randn(1, 9, time)
    labels = (torch.arange(time) // 20 % 2).to(torch.int32)
    labels[40:43] = -1
    edges = [0] + [t for t in range(1, time) if labels[t] != labels[t - 1]] + [time]
    parts = [faltung.causal_conv1d(x[..., a:b], weight) if labels[a] >= 0 else torch.zeros(1, 9, b - a) for a, b in zip(edges, edges[1:])]
    given = x.transpose(1, 2).contiguous() if last else x
    y = faltung.causal_conv1d(given, weight, seq_idx=labels[None], channels_last=last)
    assert torch.equal(y.transpose(1, 2) if last else y, torch.cat(parts, -1))


# ---- what never leaks


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
@pytest.mark.parametrize("last", [False, True])
def test_a_sequence_never_reaches_its_neighbours(poison, last):
    tensors = inputs(batch=1, sequences=3, channels=20, time=60, last=last, grad=False)
    options = {"activation": "silu", "cu_seqlens": torch.tensor([0, 20, 21, 50], dtype=torch.int32), "channels_last": last}

    def results(tensors):
        leaves = {name: t.clone().requires_grad_() for name, t in tensors.items()}
        y, final, dx, *_, dstate = gradients(leaves, **options)
        order = (lambda t: t.transpose(1, 2)) if last else (lambda t: t)
        return order(y)[0], order(dx)[0], final, dstate

    clean = results(tensors)
    spoiled = {name: t.clone() for name, t in tensors.items()}
    x = spoiled["x"].transpose(1, 2) if last else spoiled["x"]
    x[0, :, 20:21] = poison  # the whole of the middle sequence
    x[0, :, 50:] = poison  # tokens of no sequence
    spoiled["initial_state"][1] = poison
    y, dx, final, dstate = results(spoiled)
    for kept in (slice(0, 20), slice(21, 50), slice(50, 60)):
        assert torch.equal(y[:, kept], clean[0][:, kept]) and torch.equal(dx[:, kept], clean[1][:, kept])
    assert torch.equal(final[[0, 2]], clean[2][[0, 2]]) and torch.equal(dstate[[0, 2]], clean[3][[0, 2]])
    assert not y[:, 50:].any() and not dx[:, 50:].any()


@pytest.mark.parametrize("width", [1, 3, 4, 9])
def test_the_unused_column_and_padding_never_leak(width):
    tensors = inputs(time=7, width=width, columns=width, grad=False)
    tensors["initial_state"][..., 0] = float("nan")
    lengths = torch.tensor([7, 3, 0])
    for name in ("x", "residual"):
        for row, length in enumerate(lengths):
            tensors[name][row, :, length:] = float("nan")
    leaves = {name: t.requires_grad_() for name, t in tensors.items()}
    for tensor in gradients(leaves, activation="silu", lengths=lengths):
        finite = torch.isfinite(tensor)
        assert bool(finite.all())


def test_no_later_token_reaches_an_earlier_one():
    x, weight = torch.randn(2, 5, 90), torch.randn(5, 4)
    expected = faltung.causal_conv1d(x, weight, activation="silu")
    for t in (1, 15, 16, 17, 63, 64, 89):
        changed = x.clone()
        changed[..., t:] = float("nan")
        assert torch.equal(faltung.causal_conv1d(changed, weight, activation="silu")[..., :t], expected[..., :t])


def test_dweight_of_a_tap_that_never_meets_the_last_token():
    x = torch.randn(1, 3, 20)
    x[..., -1] = float("inf")
    weight = torch.randn(3, 4, requires_grad=True)
    (dweight,) = torch.autograd.grad(faltung.causal_conv1d(x, weight), weight, torch.ones_like(x))
    assert bool(torch.isfinite(dweight[:, :3]).all()) and bool(torch.isinf(dweight[:, 3]).all())


def test_final_state_is_a_copy():
    payloads = torch.arange(1, 61, dtype=torch.int32) + 0x7FA00000  # signalling NaN, each with bits of its own
    x = payloads.view(torch.float32).reshape(1, 3, 20)
    _, final = faltung.causal_conv1d(x, torch.randn(3, 4), return_final_state=True)
    assert torch.equal(bits(final), bits(x[..., -3:]))
