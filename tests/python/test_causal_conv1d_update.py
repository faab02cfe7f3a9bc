"""faltung.causal_conv1d_update: every window against its definition, and bit for bit against the forward."""

import faltung
import pytest
import torch

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
WINDOWS = ("trailing", "leading", "ring")


def layouts(tensor):
    """The same values [.., D, S] under other strides: channels innermost, and with gaps."""
    gapped = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1] + 1, dtype=tensor.dtype)[..., 1::2]
    gapped.copy_(tensor)
    return [tensor.clone(), tensor.transpose(1, 2).contiguous().transpose(1, 2), gapped]


def parameters(channels, width, dtype):
    return (torch.randn(channels, width) / 2).to(dtype), torch.randn(channels).to(dtype)


def put(window, history, columns, position=0):
    """A buffer of `columns` columns with the last W-1 tokens of history [N, D, T] where the window wants them, NaN elsewhere."""
    state = torch.full((*history.shape[:2], columns), float("nan"), dtype=history.dtype)
    before = history.shape[2]
    if window == "trailing":
        state[..., columns - before :] = history
    elif window == "leading":
        state[..., :before] = history
    else:
        for j in range(before):
            state[..., (position - before + j) % columns] = history[..., j]
    return state


def take(window, state, before, position=0):
    columns = state.shape[2]
    if window == "ring":
        return torch.stack([state[..., (position - before + j) % columns] for j in range(before)], -1) if before else state[..., :0]
    return state[..., columns - before :] if window == "trailing" else state[..., :before]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 9])
@pytest.mark.parametrize("extra", [0, 1, 5])
def test_tokens_one_by_one_or_at_once_equal_the_forward(dtype, window, width, extra):
    rows, channels, tokens, before = 3, 37, 11, width - 1
    columns = max(before + extra, 1)
    weight, bias = parameters(channels, width, dtype)
    x = torch.randn(rows, channels, before + tokens).to(dtype)
    expected = faltung.causal_conv1d(x, weight, bias, activation="silu")[..., before:]
    for chunks in ([1] * tokens, [tokens], [4, 1, 6]):
        for state in layouts(put(window, x[..., :before], columns, before)):
            at, got = before, []
            for chunk in chunks:
                options = {"cache_seqlens": torch.full((rows,), at, dtype=torch.int32)} if window == "ring" else {}
                part = x[..., at : at + chunk]
                part = part[..., 0] if chunk == 1 else part
                y = faltung.causal_conv1d_update(part, state, weight, bias, activation="silu", window=window, **options)
                got.append(y.reshape(rows, channels, chunk))
                at += chunk
            assert torch.equal(torch.cat(got, -1), expected)
            assert torch.equal(take(window, state, before, at), x[..., x.shape[2] - before :])


def test_channels_last_equals_channels_first():
    weight, _ = parameters(20, 4, torch.float32)
    x, state = torch.randn(3, 20, 5), torch.randn(3, 20, 3)
    first, last = state.clone(), state.clone()
    y = faltung.causal_conv1d_update(x, first, weight)
    z = faltung.causal_conv1d_update(x.transpose(1, 2).contiguous(), last, weight, channels_last=True)
    assert torch.equal(y, z.transpose(1, 2)) and torch.equal(first, last)


def test_trailing_keeps_the_whole_buffer():
    x, state = torch.randn(2, 3, 2), torch.randn(2, 3, 6)
    before = state.clone()
    faltung.causal_conv1d_update(x, state, torch.randn(3, 4))
    assert torch.equal(state, torch.cat([before, x], -1)[..., -6:])


def test_leading_leaves_the_columns_behind():
    x, state = torch.randn(2, 3, 2), torch.randn(2, 3, 6)
    before = state.clone()
    faltung.causal_conv1d_update(x, state, torch.randn(3, 4), window="leading")
    assert torch.equal(state, torch.cat([before[..., 2:3], x, before[..., 3:]], -1))


def test_state_of_the_forward_with_either_number_of_columns():
    x, weight = torch.randn(2, 5, 9), torch.randn(5, 4)
    whole, final = faltung.causal_conv1d(x, weight, return_final_state=True, state_columns=4)
    for columns in (3, 4):
        _, state = faltung.causal_conv1d(x[..., :6], weight, return_final_state=True, state_columns=columns)
        y = faltung.causal_conv1d_update(x[..., 6:], state, weight)
        assert torch.equal(y, whole[..., 6:]) and torch.equal(state, final[..., 4 - columns :])


# ---- slots


def test_indices_padding_and_strides():
    weight = torch.randn(6, 4)
    pair = torch.tensor([[5, 9], [-1, 9], [2, 9], [-2, 9]], dtype=torch.int32)
    x, state = torch.randn(4, 6), torch.randn(7, 6, 3)
    x[1], x[3] = float("nan"), float("inf")
    before = state.clone()
    y = faltung.causal_conv1d_update(x, state, weight, state_indices=pair[:, 0])
    used = before[[5, 2]].clone()
    expected = faltung.causal_conv1d_update(x[[0, 2]], used, weight)
    assert torch.equal(y[[0, 2]], expected) and not y[[1, 3]].any()
    assert torch.equal(state[[5, 2]], used)
    rest = [0, 1, 3, 4, 6]
    assert torch.equal(state[rest], before[rest])


@pytest.mark.parametrize("window", WINDOWS)
def test_source_and_destination_apart(window):
    weight, x, state = torch.randn(6, 3), torch.randn(2, 6, 2), torch.randn(5, 6, 4)
    before = state.clone()
    options = {"window": window}
    if window == "ring":
        options["cache_seqlens"] = torch.tensor([7, 2], dtype=torch.int32)
    source, destination = torch.tensor([0, 3], dtype=torch.int32), torch.tensor([4, -1], dtype=torch.int32)
    y = faltung.causal_conv1d_update(x, state, weight, state_indices=source, output_state_indices=destination, **options)
    moved = before[[0, 3]].clone()
    assert torch.equal(y, faltung.causal_conv1d_update(x, moved, weight, **options))
    assert torch.equal(state[4], moved[0]) and torch.equal(state[:4], before[:4])


def test_a_slot_beyond_the_state_is_no_slot():
    state, x = torch.randn(3, 4, 2), torch.randn(2, 4)
    before = state.clone()
    y = faltung.causal_conv1d_update(x, state, torch.randn(4, 3), state_indices=torch.tensor([3, 2**31 - 1], dtype=torch.int32))
    assert not y.any() and torch.equal(state, before)


def test_seventy_thousand_rows():
    x, state, weight = torch.randn(70000, 3), torch.randn(70000, 3, 3), torch.randn(3, 4)
    window = torch.cat([state, x[..., None]], -1)
    y = faltung.causal_conv1d_update(x, state, weight)
    torch.testing.assert_close(y, (window * weight).sum(-1))
    assert torch.equal(state, window[..., 1:])


def test_rows_farther_apart_than_two_to_the_31st():
    far = torch.empty((1 << 31) + 64, dtype=torch.float16)  # of which two pages are touched
    state = far.as_strided((2, 8, 3), (1 << 31, 3, 1))
    x, weight, before = torch.randn(2, 8).half(), torch.randn(8, 4).half(), torch.randn(2, 8, 3).half()
    state.copy_(before)
    y = faltung.causal_conv1d_update(x, state, weight)
    near = before.clone()
    assert torch.equal(y, faltung.causal_conv1d_update(x, near, weight)) and torch.equal(state, near)


# ---- speculative decoding and ragged rows


def test_accepted_drafts_then_a_regular_step():
    width, channels, drafts = 4, 5, 4
    weight = torch.randn(channels, width)
    for accepted in range(1, drafts + 1):
        x = torch.randn(1, channels, 3 + drafts)  # history, then drafts of which `accepted` stand
        state = torch.full((1, channels, width - 2 + drafts), float("nan"))
        state[..., :3] = x[..., :3]
        one = torch.ones(1, dtype=torch.int32)
        y = faltung.causal_conv1d_update(x[..., 3:], state, weight, window="leading", num_accepted=one)
        assert torch.equal(y, faltung.causal_conv1d(x, weight)[..., 3:])
        assert torch.equal(state, torch.cat([x[..., 1:3], x[..., 3:]], -1))
        stream = torch.cat([x[..., : 3 + accepted], torch.randn(1, channels, drafts)], -1)
        y = faltung.causal_conv1d_update(stream[..., -drafts:], state, weight, window="leading", num_accepted=one * accepted)
        whole = faltung.causal_conv1d(stream, weight)
        assert torch.equal(y, whole[..., -drafts:])
        # A single token, all drafts accepted: the offset is applied once.
        last = torch.randn(1, channels, 1)
        y = faltung.causal_conv1d_update(last, state, weight, window="leading", num_accepted=one * drafts)
        assert torch.equal(y, faltung.causal_conv1d(torch.cat([stream, last], -1), weight)[..., -1:])


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("lengths", [[2, 4, 3], [0, 5, 0], [1, 1, 1], [0, 0, 0]], ids=str)
def test_ragged_rows(window, lengths):
    channels, total = 7, sum(lengths) + 2
    weight, bias = parameters(channels, 4, torch.float32)
    starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    x, state = torch.randn(total, channels), torch.randn(3, channels, 5)
    x[sum(lengths) :] = float("nan")
    options = {"window": window}
    positions = torch.tensor([3, 9, 1], dtype=torch.int32)
    if window == "ring":
        options["cache_seqlens"] = positions
    expected, rows = state.clone(), []
    for n, length in enumerate(lengths):
        part = x[starts[n] : starts[n + 1]].t()[None]
        row = {**options, **({"cache_seqlens": positions[n : n + 1]} if window == "ring" else {})}
        rows.append(faltung.causal_conv1d_update(part, expected[n : n + 1], weight, bias, **row)[0].t())
    y = faltung.causal_conv1d_update(x, state, weight, bias, query_start_loc=starts, **options)
    assert torch.equal(y, torch.cat([*rows, torch.zeros(2, channels)])) and torch.equal(state, expected)


def test_ragged_drafts_with_accepted_counts():
    channels, lengths, accepted = 6, [2, 4, 3], [1, 3, 2]
    weight, state = torch.randn(channels, 4), torch.randn(3, channels, 6)
    starts = torch.tensor([0, 2, 6, 9], dtype=torch.int32)
    x, expected = torch.randn(9, channels), state.clone()
    rows = [
        faltung.causal_conv1d_update(
            x[starts[n] : starts[n + 1]].t()[None], expected[n : n + 1], weight, window="leading",
            num_accepted=torch.tensor([accepted[n]], dtype=torch.int32),
        )[0].t()
        for n in range(3)
    ]  # fmt: skip
    y = faltung.causal_conv1d_update(
        x, state, weight, window="leading", query_start_loc=starts, num_accepted=torch.tensor(accepted, dtype=torch.int32)
    )
    assert torch.equal(y, torch.cat(rows)) and torch.equal(state, expected)
    assert torch.equal(state[1], torch.cat([expected[1][:, :2], x[2:6].t()], -1))


@pytest.mark.parametrize("columns", [3, 4, 9])
def test_fewer_tokens_than_the_window_a_thousand_times(columns):
    state, weight, seen = torch.randn(2, 8, columns), torch.randn(8, 4), []
    history = state[..., columns - 3 :].clone()
    for _ in range(1000):
        x = torch.randn(2, 8)
        seen.append(x)
        y = faltung.causal_conv1d_update(x, state, weight)
    stream = torch.cat([history, torch.stack(seen, -1)], -1)
    assert torch.equal(y, faltung.causal_conv1d(stream, weight)[..., -1]) and torch.equal(state[..., -3:], stream[..., -3:])


@pytest.mark.parametrize("state_dtype", DTYPES, ids=str)
def test_state_of_another_dtype(state_dtype):
    x, weight = torch.randn(2, 9).half(), torch.randn(9, 4).half()
    state = torch.randn(2, 9, 3).to(state_dtype)
    window = torch.cat([state.float(), x.float()[..., None]], -1)
    expected = (window.double() * weight.double()).sum(-1)
    y = faltung.causal_conv1d_update(x, state, weight)
    torch.testing.assert_close(y.double(), expected, rtol=2e-3, atol=2e-3)
    assert torch.equal(state, window[..., 1:].to(state_dtype))


def test_nothing_to_do():
    state, weight = torch.randn(2, 4, 3), torch.randn(4, 4)
    before = state.clone()
    assert faltung.causal_conv1d_update(torch.randn(2, 4, 0), state, weight).shape == (2, 4, 0)
    assert faltung.causal_conv1d_update(torch.randn(0, 4), state[:0], weight).shape == (0, 4)
    assert torch.equal(state, before)


@pytest.mark.parametrize("content", [[-5, 3, 99], [3, 1, 2], [2**31 - 1, -(2**31), 0]], ids=str)
def test_content_out_of_order_touches_nothing_else(content):
    index = torch.tensor(content, dtype=torch.int32)
    memory = torch.full((4, 6, 7), 7.0)
    state, weight = memory[1:3, 1:5, 2:5], torch.randn(4, 3)
    for window, options in (("ring", {"cache_seqlens": index[:2]}), ("leading", {"num_accepted": index[:2]}), ("trailing", {"state_indices": index[:2]})):
        faltung.causal_conv1d_update(torch.randn(2, 4), state, weight, window=window, **options)
    faltung.causal_conv1d_update(torch.randn(5, 4), state, weight, query_start_loc=index)
    outside = torch.ones_like(memory, dtype=torch.bool)
    outside[1:3, 1:5, 2:5] = False
    assert bool((memory[outside] == 7).all())


@pytest.mark.parametrize(
    "kind, words, arguments, options",
    [
        (ValueError, r"state: expected \[slots, channels, at least width - 1\].*3\].*got \[2, 4, 2\]", ((2, 4), (2, 4, 2), (4, 4)), {}),
        (ValueError, r"state has 3 slots, x has 2 rows", ((2, 4), (3, 4, 3), (4, 4)), {}),
        (ValueError, r"weight has 5 channels, x has 4", ((2, 4), (2, 4, 3), (5, 4)), {}),
        (ValueError, r"x must be \[rows, channels\] or \[rows, channels, time\], got shape \[4\]", ((4,), (2, 4, 3), (4, 4)), {}),
        (ValueError, r"window: expected 'trailing', 'leading', 'ring', got 'middle'", ((2, 4), (2, 4, 3), (4, 4)), {"window": "middle"}),
        (ValueError, r"window = ring: expected cache_seqlens", ((2, 4), (2, 4, 3), (4, 4)), {"window": "ring"}),
        (ValueError, r"num_accepted needs at least width - 2 \+ time = 5 columns, got 4", ((2, 4, 3), (2, 4, 4), (4, 4)),
         {"window": "leading", "num_accepted": torch.ones(2, dtype=torch.int32)}),
        (ValueError, r"num_accepted: expected window = leading with it, got trailing", ((2, 4), (2, 4, 3), (4, 4)), {"num_accepted": torch.ones(2, dtype=torch.int32)}),
        (ValueError, r"state_indices: expected \[rows\] = \[2\], got \[3\]", ((2, 4), (2, 4, 3), (4, 4)), {"state_indices": torch.zeros(3, dtype=torch.int32)}),
        (TypeError, r"state_indices: expected int32, got int64", ((2, 4), (2, 4, 3), (4, 4)), {"state_indices": torch.zeros(2, dtype=torch.int64)}),
        (ValueError, r"x must be \[total tokens, channels\] with query_start_loc", ((2, 4, 1), (2, 4, 3), (4, 4)), {"query_start_loc": torch.zeros(3, dtype=torch.int32)}),
    ],
    ids=lambda v: "",
)  # fmt: skip
def test_errors(kind, words, arguments, options):
    with pytest.raises(kind, match=words):
        faltung.causal_conv1d_update(*(torch.randn(shape) for shape in arguments), **options)
