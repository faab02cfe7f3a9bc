"""The drop-in for the cuDNN front end's causal convolutions: cudnn.ops and the bulk forward, prepared and not."""

import importlib
import threading

import causal_conv1d_reference as short
import faltung
import long_conv_reference as long
import pytest
import torch
from faltung.compat.cudnn import ops
from faltung.compat.cudnn.causal_conv1d_bulk_sm100 import CausalConv1dBulkFwdSm100, causal_conv1d_bulk_fwd_wrapper_sm100
from test_compat_install import absent
from test_compat_subquadratic_ops_torch import block, check

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
CU = torch.tensor([0, 1, 1, 6, 13], dtype=torch.int32)
LABELS = torch.tensor([[0] * 5 + [1] * 8, [3] * 12 + [-1]], dtype=torch.int32)


def close(got, expected, single=True):
    assert short.relative_error(got.detach(), expected.detach()) <= short.bound(got.dtype, expected.detach(), single)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("activation", [None, "identity", "silu", "swish"])
@pytest.mark.parametrize("cut", [{}, {"cu_seqlens": CU}, {"seq_idx": LABELS}], ids=["whole", "packed", "labelled"])
@pytest.mark.parametrize("state, final", [(False, None), (True, "fresh"), (True, "out"), (False, "out")])
def test_causal_conv1d(dtype, channels_last, activation, cut, state, final):
    batch, sequences = (1, 4) if "cu_seqlens" in cut else (2, 2)
    x = torch.randn(batch, 13, 6).transpose(1, 2) if channels_last else torch.randn(batch, 6, 13)
    tensors = {"x": x, "weight": torch.randn(6, 3), "bias": torch.randn(6)}
    if state:
        tensors["initial_states"] = torch.randn(sequences, 2, 6).transpose(1, 2)
    tensors = {name: t.to(dtype).requires_grad_() for name, t in tensors.items()}
    doubles = {name.replace("states", "state"): t.detach().double().requires_grad_() for name, t in tensors.items()}
    expected, expected_final = short.causal_conv1d(**doubles, activation=activation not in (None, "identity"), state_columns=2, **cut)
    options = {"return_final_states": final is not None, **cut}
    for gradients in (True, False):
        out = torch.full((sequences, 6, 2), float("nan"), dtype=dtype) if final == "out" else None
        with torch.set_grad_enabled(gradients):
            result = ops.causal_conv1d(*list(tensors.values())[:3], activation, initial_states=tensors.get("initial_states"), final_states_out=out, **options)
        y, got_final = result if final else (result, None)
        close(y, expected)
        assert y.stride() == tensors["x"].stride()
        if final:
            assert torch.equal(got_final.double(), expected_final) and (out is None or got_final is out)
        if gradients:
            dy = torch.randn_like(y)
            found = torch.autograd.grad(y, list(tensors.values()), dy)
            for a, b in zip(found, torch.autograd.grad(expected, list(doubles.values()), dy.double())):
                close(a, b, dtype != torch.float64)


@pytest.mark.parametrize("ring", [False, True])
def test_update(ring):
    x, state, weight, bias = torch.randn(3, 6), torch.randn(5, 6, 4), torch.randn(6, 4), torch.randn(6)
    slots, other = torch.tensor([4, -1, 0], dtype=torch.int32), None
    positions = torch.tensor([3, 0, 9], dtype=torch.int32) if ring else None
    other = state.clone()
    y = ops.causal_conv1d_update(x, state, weight, bias, "swish", cache_seqlens=positions, conv_state_indices=slots)
    expected = faltung.causal_conv1d_update(
        x, other, weight, bias, activation="silu", cache_seqlens=positions, state_indices=slots, window="ring" if ring else "trailing"
    )
    assert torch.equal(y, expected) and torch.equal(state, other) and not y[1].any() and y[0].any()
    with pytest.raises(RuntimeError, match="has no gradients: call it under torch.no_grad"):
        ops.causal_conv1d_update(x, state, weight.requires_grad_())


def test_update_continues_the_forward():
    x, weight = torch.randn(2, 6, 9), torch.randn(6, 4)
    whole = ops.causal_conv1d(x, weight, activation="silu")
    y, state = ops.causal_conv1d(x[..., :8], weight, activation="silu", return_final_states=True)
    last = ops.causal_conv1d_update(x[..., 8], state, weight, activation="silu")
    assert torch.equal(torch.cat([y, last[..., None]], -1), whole)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_other_functions(dtype):
    def nwh(x, weight, bias):
        return short.causal_conv1d(x, weight.t(), bias, activation="silu", channels_last=True)[0]

    x = torch.randn(2, 13, 6).to(dtype)
    check(lambda *t: ops.causal_conv1d_nwh(*t, "silu"), nwh, [x, torch.randn(4, 6).to(dtype), torch.randn(6).to(dtype)])
    tensors = [torch.randn(2, 15, 33), torch.randn(15, 4), torch.randn(5, 7) / 3, torch.randn(5)]
    check(ops.b2b_causal_conv1d, block, [t.to(dtype) for t in tensors], 8.0)
    tensors = [torch.randn(2, 6, 70).to(dtype), (torch.randn(6, 50) / 4).to(dtype)]
    check(ops.fft_causal_conv1d, lambda x, w: long.long_conv(x, w, boundary="causal"), tensors)


def test_compile():
    torch._dynamo.reset()
    x, weight, states, out = torch.randn(2, 6, 13), torch.randn(6, 4), torch.randn(2, 6, 3), torch.empty(2, 6, 3)

    def step(x, weight, states, out):
        y, final = ops.causal_conv1d(x + 1, weight, None, "silu", initial_states=states, return_final_states=True, final_states_out=out)
        return y.sin(), final * 2, ops.causal_conv1d_nwh(x.transpose(1, 2), weight.t()), ops.fft_causal_conv1d(x, weight)

    expected = step(x, weight, states, out)
    into, out = out, torch.empty(2, 6, 3)
    for a, b in zip(torch.compile(step, fullgraph=True, backend="aot_eager")(x, weight, states, out), expected):
        torch.testing.assert_close(a, b)
    assert torch.equal(into, out)


def test_errors():
    x, weight = torch.randn(2, 6, 13), torch.randn(6, 4)
    states = torch.randn(2, 6, 3)
    with pytest.raises(ValueError, match='expected None, "identity", "silu" or "swish", got \'gelu\''):
        ops.causal_conv1d(x, weight, activation="gelu")
    with pytest.raises(ValueError, match="final_states_out: expected None without return_final_states"):
        ops.causal_conv1d(x, weight, final_states_out=states)
    with pytest.raises(ValueError, match="final_states_out: expected memory of its own, it overlaps initial_states"):
        ops.causal_conv1d(x, weight, initial_states=states, return_final_states=True, final_states_out=states)
    with pytest.raises(ValueError, match="it overlaps x"):
        ops.causal_conv1d(x, weight, return_final_states=True, final_states_out=x[..., 2:5])
    with pytest.raises(ValueError, match="cu_seqlens"):
        ops.causal_conv1d(x, weight, cu_seqlens=CU)
    with pytest.raises(ValueError, match=r"weight: expected \[W, D\]"):
        ops.causal_conv1d_nwh(x, weight[0])


# ---- the bulk forward


def bulk(dtype=torch.bfloat16, packed=False, time=13, width=4, channels=8, bias=True, columns=None):
    batch, sequences = (1, 4) if packed else (2, 2)
    return {
        "x": torch.randn(batch, time, channels).to(dtype), "weight": torch.randn(channels, width).to(dtype),
        "bias": torch.randn(channels).to(dtype) if bias else None,
        "initial_state": torch.randn(sequences, channels, columns or width).to(dtype),
        "cu_seqlens": torch.tensor([0, time // 3, time // 3, time // 2, time], dtype=torch.int32) if packed else None,
    }  # fmt: skip


def expected_of(tensors):
    columns = tensors["initial_state"].shape[2]
    present = {name: t for name, t in tensors.items() if t is not None}
    return short.causal_conv1d(**present, activation="silu", channels_last=True, state_columns=columns)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("width", [2, 4, 9])
def test_bulk_wrapper(dtype, packed, bias, width):
    tensors = bulk(dtype, packed, width=width, bias=bias)
    before = tensors["initial_state"].clone()
    arguments = tensors["x"], tensors["weight"], tensors["cu_seqlens"], tensors["initial_state"]
    result = causal_conv1d_bulk_fwd_wrapper_sm100(*arguments, output_final_state=True, bias_tensor=tensors["bias"])
    y, final = result
    expected, expected_final = expected_of(tensors)
    close(y, expected)
    assert torch.equal(final.double(), expected_final) and torch.equal(tensors["initial_state"], before)
    assert result["output_tensor"] is y is result[0] and result["final_state_tensor"] is final is result[1]
    y, final = causal_conv1d_bulk_fwd_wrapper_sm100(*arguments, bias_tensor=tensors["bias"])
    assert torch.equal(y, result[0]) and final.shape == (0,)


def prepare(tensors, final=True):
    x, state = tensors["x"], tensors["initial_state"]
    api = CausalConv1dBulkFwdSm100(
        x, tensors["weight"], torch.empty_like(x), tensors["cu_seqlens"], state, torch.empty_like(state) if final else None,
        sample_bias=tensors["bias"],
    )  # fmt: skip
    assert api.check_support()
    api.compile()
    return api


def execute(api, tensors, y=None, final=True):
    y = torch.full_like(tensors["x"], float("nan")) if y is None else y
    state = torch.full_like(tensors["initial_state"], float("nan")) if final else None
    arguments = tensors["x"], tensors["weight"], y, tensors["cu_seqlens"], tensors["initial_state"], state
    return api.execute(*arguments, bias_tensor=tensors["bias"])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("columns", [3, 4])
def test_prepared_for_any_time(dtype, packed, columns):
    api = prepare(bulk(dtype, packed, columns=columns))
    for time in (13, 1, 0, 64, 129, 1026):
        tensors = bulk(dtype, packed, time, columns=columns)
        before = tensors["initial_state"].clone()
        y, final = execute(api, tensors)
        expected, expected_final = expected_of(tensors)
        close(y, expected)
        assert torch.equal(final.double(), expected_final) and torch.equal(tensors["initial_state"], before)


def test_prepared_takes_other_batches_strides_and_addresses():
    api = prepare(bulk())
    tensors = bulk()
    tensors["x"] = torch.randn(5, 8, 40).bfloat16().transpose(1, 2)[:, 3:31]
    tensors["initial_state"] = torch.randn(5, 4, 8).bfloat16().transpose(1, 2)
    target = torch.full((5, 28, 19), float("nan"), dtype=torch.bfloat16)
    y, final = execute(api, tensors, target[..., 4:12])
    expected, expected_final = expected_of(tensors)
    close(y, expected)
    assert torch.equal(final.double(), expected_final) and target[..., :4].isnan().all() and target[..., 12:].isnan().all()


def test_prepared_from_many_threads():
    api, failures = prepare(bulk()), []
    cases = [bulk(time=20 + 7 * i) for i in range(8)]
    expected = [execute(api, tensors) for tensors in cases]

    def work(i):
        for _ in range(50):
            y, final = execute(api, cases[i])
            if not (torch.equal(y, expected[i][0]) and torch.equal(final, expected[i][1])):
                failures.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_what_differs_from_the_samples_is_refused():
    tensors = bulk()
    api = prepare(tensors)
    for name, other, kind, words in (
        ("x", tensors["x"].float(), TypeError, "x: expected torch.bfloat16 on .* as prepared, got torch.float32"),
        ("x", tensors["x"][..., :7], ValueError, r"x: expected \[any, any, 8\] as prepared, got shape \(2, 13, 7\)"),
        ("weight", torch.randn(8, 3).bfloat16(), ValueError, r"weight: expected \[8, 4\] as prepared"),
        ("bias", None, ValueError, "bias: expected one, as when the call was prepared"),
        ("cu_seqlens", CU, ValueError, "cu_seqlens: expected None, as when the call was prepared"),
        ("initial_state", tensors["initial_state"][:1], ValueError, "initial_state: expected states of 2 sequences, got 1"),
        ("initial_state", tensors["initial_state"][..., :3], ValueError, r"initial_state: expected \[any, 8, 4\] as prepared"),
    ):
        with pytest.raises(kind, match=words):
            execute(api, {**tensors, name: other}, torch.empty_like(tensors["x"]))
    with pytest.raises(ValueError, match="y: expected the shape of x"):
        execute(api, tensors, torch.empty(2, 12, 8).bfloat16())
    with pytest.raises(RuntimeError, match="no gradients"):
        execute(api, {**tensors, "weight": tensors["weight"].requires_grad_()})
    tensors = bulk(packed=True)
    with pytest.raises(ValueError, match="x: expected a batch of 1 with cu_seqlens, got 2"):
        execute(prepare(tensors), {**tensors, "x": tensors["x"].expand(2, 13, 8)})


def test_samples_are_looked_at():
    tensors = bulk()
    with pytest.raises(ValueError, match="weight has 7 channels, x has 8"):
        CausalConv1dBulkFwdSm100(tensors["x"], tensors["weight"][:7], tensors["x"]).check_support()
    with pytest.raises(TypeError, match="y: expected a torch.Tensor, got NoneType"):
        CausalConv1dBulkFwdSm100(tensors["x"], tensors["weight"], None).check_support()
    with pytest.raises(RuntimeError, match="expected compile\\(\\) before execute"):
        CausalConv1dBulkFwdSm100(tensors["x"], tensors["weight"], tensors["x"]).execute(tensors["x"], tensors["weight"], tensors["x"])


def test_threads_of_a_launch_are_those_of_torch():
    """One image a thread: with torch at one thread the calling thread does everything."""
    tensors = bulk(torch.float32, time=4096, channels=64)
    one = execute(prepare(tensors), tensors)
    torch.set_num_threads(2)
    assert torch.equal(execute(prepare(tensors), tensors)[0], one[0])


def test_install():
    absent("cudnn")
    assert faltung.compat.install("cudnn")
    try:
        from cudnn.ops import causal_conv1d_update

        assert causal_conv1d_update is ops.causal_conv1d_update
        assert importlib.import_module("cudnn.causal_conv1d_bulk_sm100").CausalConv1dBulkFwdSm100 is CausalConv1dBulkFwdSm100
    finally:
        faltung.compat.uninstall("cudnn")


@pytest.mark.skipif(CU.device.type != "cuda", reason="needs FALTUNG_TEST_DEVICE=cuda")
@pytest.mark.parametrize("packed", [False, True])
def test_prepared_on_streams_and_in_a_graph(packed):
    """The first launch of the shape is captured; another stream's handle is obeyed."""
    tensors = bulk(packed=packed, time=70)
    api, y = prepare(bulk(packed=packed)), torch.full((1 if packed else 2, 70, 8), float("nan"), dtype=torch.bfloat16)
    state = torch.full((4 if packed else 2, 8, 4), float("nan"), dtype=torch.bfloat16)
    arguments = tensors["x"], tensors["weight"], y, tensors["cu_seqlens"], tensors["initial_state"], state
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        api.execute(*arguments, bias_tensor=tensors["bias"])
    assert y.isnan().all()
    graph.replay()
    torch.cuda.synchronize()
    expected, expected_final = expected_of(tensors)
    close(y, expected)
    assert torch.equal(state.double(), expected_final)
    captured, stream = y.clone(), torch.cuda.Stream()
    y.fill_(float("nan"))
    torch.cuda.synchronize()
    api.execute(*arguments, stream.cuda_stream, bias_tensor=tensors["bias"])
    stream.synchronize()
    assert torch.equal(y, captured)
    wrapped = causal_conv1d_bulk_fwd_wrapper_sm100(*(arguments[i] for i in (0, 1, 3, 4)), current_stream=stream.cuda_stream, bias_tensor=tensors["bias"])
    stream.synchronize()
    assert torch.equal(wrapped[0], captured)
