"""The drop-in for causal_conv1d: its functions over their argument grids against float64 and against the references that it carries."""

import causal_conv1d_reference as reference
import faltung
import pytest
import torch
from faltung.compat import _calls
from faltung.compat import causal_conv1d as package
from faltung.compat.causal_conv1d import causal_conv1d_interface as interface
from faltung.compat.causal_conv1d import causal_conv1d_fn, causal_conv1d_update, causal_conv1d_varlen_states, cpp_functions
from test_causal_conv1d_update import layouts

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
LABELS = torch.tensor([[0] * 5 + [1] * 8, [3] * 12 + [-1]], dtype=torch.int32)


def inputs(dtype, channels_last=False, width=4, state=True, grad=True):
    x = torch.randn(2, 13, 6).to(dtype).transpose(1, 2) if channels_last else torch.randn(2, 6, 13).to(dtype)
    tensors = {"x": x, "weight": torch.randn(6, width).to(dtype), "bias": torch.randn(6).to(dtype)}
    if state:
        tensors["initial_states"] = torch.randn(2, width - 1, 6).to(dtype).transpose(1, 2)
    return {name: tensor.requires_grad_(grad) for name, tensor in tensors.items()}


def wide(tensors):
    return {name: tensor.detach().double().requires_grad_() for name, tensor in tensors.items()}


def expected_of(tensors, **options):
    names = {"initial_states": "initial_state"}
    return reference.causal_conv1d(**{names.get(name, name): tensor for name, tensor in tensors.items()}, **options)


def close(got, expected, dtype=None):
    single = (dtype or got.dtype) != torch.float64
    assert reference.relative_error(got.detach(), expected.detach()) <= reference.bound(got.dtype, expected.detach(), single)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("width", [2, 3, 4, 7])
@pytest.mark.parametrize("activation", [None, "silu", "swish"])
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("out", [False, True])
def test_fn(dtype, channels_last, width, activation, state, out):
    tensors = inputs(dtype, channels_last, width, state)
    given = torch.full((2, 6, width - 1), float("nan"), dtype=dtype) if out else None
    y, final = causal_conv1d_fn(**tensors, return_final_states=True, final_states_out=given, activation=activation)
    assert y.stride() == tensors["x"].stride() and (final is given or not out)
    doubles = wide(tensors)
    expected_y, expected_final = expected_of(doubles, activation=activation, state_columns=width - 1)
    close(y, expected_y)
    assert torch.equal(final.double(), expected_final)
    dy, dfinal = torch.randn_like(y), torch.randn_like(final)
    got = torch.autograd.grad((y, final), list(tensors.values()), (dy, dfinal))
    expected = torch.autograd.grad((expected_y, expected_final), list(doubles.values()), (dy.double(), dfinal.double()))
    for a, b in zip(got, expected):
        close(a, b, dtype)
    with torch.no_grad():
        given = None if given is None else torch.full_like(given, float("nan"))
        again, final_again = causal_conv1d_fn(**tensors, return_final_states=True, final_states_out=given, activation=activation)
        assert torch.equal(again, y) and torch.equal(final_again, final) and (final_again is given or not out)
        assert torch.equal(causal_conv1d_fn(**tensors, activation=activation), y)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
def test_fn_with_labels(dtype, channels_last):
    tensors = inputs(dtype, channels_last, state=False)
    y = causal_conv1d_fn(**tensors, seq_idx=LABELS, activation="silu")
    doubles = wide(tensors)
    expected = expected_of(doubles, seq_idx=LABELS, activation="silu")[0]
    close(y, expected)
    dy = torch.randn_like(y)
    for a, b in zip(torch.autograd.grad(y, list(tensors.values()), dy), torch.autograd.grad(expected, list(doubles.values()), dy.double())):
        close(a, b, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("width, extra", [(2, 0), (4, 0), (4, 1), (3, 5)])
@pytest.mark.parametrize("tokens", [None, 1, 3])
@pytest.mark.parametrize("ring", [False, True])
def test_update(dtype, activation, width, extra, tokens, ring):
    columns = width - 1 + extra
    if ring and columns < width - 1 + (tokens or 1):
        columns = width - 1 + (tokens or 1)  # the reference writes a ring before it is read
    x = torch.randn(3, 6, *([] if tokens is None else [tokens])).to(dtype)
    weight, bias = torch.randn(6, width).to(dtype), torch.randn(6).to(dtype)
    position = torch.tensor([0, 4, 11], dtype=torch.int32) if ring else None
    for state in layouts(torch.randn(3, 6, columns).to(dtype)):
        expected_state = state.double().clone()
        expected = interface.causal_conv1d_update_ref(x.double(), expected_state, weight.double(), bias.double(), activation, position)
        y = causal_conv1d_update(x, state, weight, bias, activation, position)
        close(y, expected)
        assert torch.equal(state.double(), expected_state)


@pytest.mark.parametrize("tokens", [None, 2])
def test_update_of_slots(tokens):
    x = torch.randn(4, 6, *([] if tokens is None else [tokens]))
    weight, state = torch.randn(6, 4), torch.randn(9, 6, 5)
    before, slots = state.clone(), torch.tensor([7, -1, 0, 3], dtype=torch.int32)
    y = causal_conv1d_update(x, state, weight, activation="silu", conv_state_indices=slots)
    for row, slot in enumerate(slots.tolist()):
        if slot < 0:
            assert not y[row].any()
            continue
        one = before[slot : slot + 1].clone()
        close(y[row : row + 1], interface.causal_conv1d_update_ref(x[row : row + 1].double(), one.double(), weight.double(), None, "silu"))
        causal_conv1d_update(x[row : row + 1], one, weight)
        assert torch.equal(state[slot : slot + 1], one)
    untouched = [slot for slot in range(9) if slot not in slots.tolist()]
    assert torch.equal(state[untouched], before[untouched])


def test_prefill_then_decode_equals_one_go():
    x, weight, bias = torch.randn(2, 6, 11), torch.randn(6, 4), torch.randn(6)
    whole = causal_conv1d_fn(x, weight, bias, activation="silu")
    y, state = causal_conv1d_fn(x[..., :7], weight, bias, return_final_states=True, activation="silu")
    rest = [causal_conv1d_update(x[..., t], state, weight, bias, "silu") for t in range(7, 11)]
    assert torch.equal(torch.cat([y, torch.stack(rest, -1)], -1), whole)


@pytest.mark.parametrize("state_len", [1, 3, 4, 40])
def test_varlen_states(state_len):
    x, cu = torch.randn(12, 5), torch.tensor([0, 1, 1, 6, 11], dtype=torch.int32)
    x[11] = float("nan")  # of no sequence
    got = causal_conv1d_varlen_states(x, cu, state_len)
    assert got.shape == (4, 5, state_len)
    for n, (begin, end) in enumerate(zip(cu.tolist(), cu.tolist()[1:])):
        expected = torch.cat([torch.zeros(5, state_len), x[begin:end].t()], 1)[:, -state_len:]
        assert torch.equal(got[n], expected)
    assert causal_conv1d_varlen_states(x[:0], cu[:1].repeat(3), state_len).equal(torch.zeros(2, 5, state_len))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("silu", [False, True])
@pytest.mark.parametrize("bias, labels, state", [(True, False, True), (False, True, False), (True, False, False)])
@pytest.mark.parametrize("given", [False, True])
def test_functions_below_autograd(dtype, silu, bias, labels, state, given):
    tensors = inputs(dtype, True, state=state)
    tensors["bias"] = tensors["bias"] if bias else None
    seq_idx, activation = LABELS if labels else None, "silu" if silu else None
    y, final = causal_conv1d_fn(**tensors, seq_idx=seq_idx, return_final_states=True, activation=activation)
    dy, dfinal = torch.randn_like(y), torch.randn_like(final)
    wanted = [t for t in tensors.values() if t is not None]
    expected = iter(torch.autograd.grad((y, final), wanted, (dy, dfinal)))
    x, weight, bias_tensor, states = (None if t is None else t.detach() for t in (*tensors.values(), None)[:4])
    out = torch.full_like(final, float("nan"))
    assert torch.equal(cpp_functions.causal_conv1d_fwd_function(x, weight, bias_tensor, seq_idx, states, out, silu), y)
    assert torch.equal(out, final)
    pitch = torch.full((2, 13, 11), float("nan"), dtype=dtype)
    dx = pitch[..., 2:8].transpose(1, 2) if given else None
    gradients = cpp_functions.causal_conv1d_bwd_function(
        x, weight, bias_tensor, dy, seq_idx, states, dfinal, dx, state, silu
    )
    assert (gradients[0] is dx or not given) and (gradients[2] is None) == (not bias) and (gradients[3] is None) == (not state)
    for gradient in gradients:
        assert gradient is None or torch.equal(gradient, next(expected))
    assert pitch[..., :2].isnan().all() and pitch[..., 8:].isnan().all()  # a view's surroundings are left alone


def test_gradient_of_states_that_were_not_given():
    x, weight, dy = torch.randn(2, 6, 13), torch.randn(6, 4), torch.randn(2, 6, 13)
    states = torch.zeros(2, 6, 3, requires_grad=True)
    expected = torch.autograd.grad(causal_conv1d_fn(x, weight, initial_states=states), states, dy)[0]
    got = cpp_functions.causal_conv1d_bwd_function(x, weight, None, dy, None, None, None, None, True, False)
    assert torch.equal(got[3], expected) and got[2] is None


def test_update_function():
    x, weight, state = torch.randn(2, 6), torch.randn(6, 4), torch.randn(2, 6, 3)
    other = state.clone()
    assert torch.equal(
        cpp_functions.causal_conv1d_update_function(x, state, weight, None, True, None, None),
        causal_conv1d_update(x, other, weight, None, "silu"),
    )
    assert torch.equal(state, other)


def test_the_references_are_the_definition():
    tensors = inputs(torch.float64)
    y, final = interface.causal_conv1d_ref(**tensors, return_final_states=True, activation="silu")
    expected, expected_final = expected_of(tensors, activation="silu", state_columns=3)
    torch.testing.assert_close(y, expected)
    assert torch.equal(final, expected_final)
    labels = torch.tensor([[0, 0, 1, 0, 0, 0, 2, 2, -1, -1, 2, 2, 2], [5] * 13], dtype=torch.int32)
    y = interface.causal_conv1d_ref(**tensors, activation="silu", seq_idx=labels)
    torch.testing.assert_close(y, expected_of(tensors, activation="silu", seq_idx=labels)[0])


def test_no_autocast_rule():
    tensors = inputs(torch.float32, grad=False)
    plain = causal_conv1d_fn(**tensors)
    with torch.autocast(plain.device.type, torch.bfloat16):
        assert torch.equal(causal_conv1d_fn(**tensors), plain)


def test_compile():
    torch._dynamo.reset()

    def step(x, weight, bias, states):
        y, final = causal_conv1d_fn(x * 2, weight, bias, None, states, True, None, "silu")
        return y.sin(), final + 1

    def into(x, weight, bias, final):
        with torch.no_grad():
            y, final = causal_conv1d_fn(x, weight, bias, return_final_states=True, final_states_out=final)
        return y + 1

    tensors = inputs(torch.float32)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for a, b in zip(compiled(*tensors.values()), step(*tensors.values())):
        torch.testing.assert_close(a, b)
    got, expected = (torch.autograd.grad(f(*tensors.values())[0].sum(), list(tensors.values())) for f in (compiled, step))
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b)
    finals = [torch.full((2, 6, 3), float("nan")) for _ in range(2)]
    results = [
        f(*list(tensors.values())[:3], final) for f, final in zip((torch.compile(into, fullgraph=True, backend="aot_eager"), into), finals)
    ]
    assert torch.equal(*results) and torch.equal(*finals)


@pytest.mark.parametrize("bias", [False, True])
def test_opcheck_of_the_operators_with_brought_outputs(bias):
    x, weight, state = torch.randn(2, 6, 9), torch.randn(6, 4), torch.randn(2, 6, 3)
    bias, y, final = torch.randn(6) if bias else None, torch.empty(2, 6, 9), torch.empty(2, 6, 3)
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.faltung.causal_conv1d_out.default, (x, weight, y, final, bias, None, state), test_utils=tests)
    torch.library.opcheck(torch.ops.faltung.causal_conv1d_out.default, (x, weight, y, None, bias), test_utils=tests)
    arguments = (torch.randn(2, 6, 9), x, weight, y, bias, state, None, None, None, None, 1, False, True, bias is not None, True)
    torch.library.opcheck(torch.ops.faltung.causal_conv1d_backward_out.default, arguments, test_utils=tests)


def test_errors():
    x, weight = torch.randn(2, 6, 9), torch.randn(6, 4)
    with pytest.raises(NotImplementedError, match='activation: expected None, "silu" or "swish", got \'gelu\''):
        causal_conv1d_fn(x, weight, activation="gelu")
    with pytest.raises(NotImplementedError, match="got 'gelu'"):
        causal_conv1d_update(x[..., 0], torch.randn(2, 6, 3), weight, activation="gelu")
    with pytest.raises(ValueError, match="weight has 5 channels, x has 6"):
        causal_conv1d_fn(x, weight[:5])
    with pytest.raises(ValueError, match="final_state"):
        causal_conv1d_fn(x, weight, return_final_states=True, final_states_out=torch.empty(2, 6, 5))
    with pytest.raises(ValueError, match="y"):
        _calls.causal_conv1d_into(torch.empty(2, 6, 8), None, x, weight)
    with pytest.raises(ValueError, match="dx"):
        cpp_functions.causal_conv1d_bwd_function(x, weight, None, torch.randn_like(x), None, None, None, torch.empty(2, 5, 9), False, False)
    with pytest.raises(TypeError, match="x: expected a torch.Tensor, got list"):
        causal_conv1d_fn([1.0], weight)
    with pytest.raises(TypeError, match="weight: expected a torch.Tensor, got NoneType"):
        causal_conv1d_fn(x, None)


def test_public_names():
    assert set(package.__all__) == {"causal_conv1d_fn", "causal_conv1d_update", "causal_conv1d_varlen_states"}
    assert all(callable(getattr(package, name)) for name in package.__all__) and faltung.compat.NAMES[0] == "causal_conv1d"
