"""The drop-in for fla's causal_conv1d: values, states and gradients against float64; in an installed fla its function is replaced wherever it
is referred to."""

import importlib
import sys

import causal_conv1d_reference as reference
import faltung
import pytest
import torch
from faltung.compat.fla.modules.causal_conv1d import causal_conv1d
from test_compat_install import absent

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
CU = torch.tensor([0, 1, 1, 6, 13])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", [None, "silu", "swish"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("residual, state, final", [(True, True, True), (False, True, False), (False, False, True), (True, False, False)])
def test_values_and_gradients(dtype, activation, packed, residual, state, final):
    batch, sequences = (1, 4) if packed else (2, 2)
    tensors = {"x": torch.randn(batch, 13, 6), "weight": torch.randn(6, 4), "bias": torch.randn(6)}
    if residual:
        tensors["residual"] = torch.randn(batch, 13, 6)
    if state:
        tensors["initial_state"] = torch.randn(sequences, 6, 4)
    tensors = {name: t.to(dtype).requires_grad_() for name, t in tensors.items()}
    cut = {"cu_seqlens": CU} if packed else {}
    y, got_final = causal_conv1d(**tensors, output_final_state=final, activation=activation, **cut)
    doubles = {name: t.detach().double().requires_grad_() for name, t in tensors.items()}
    expected, expected_final = reference.causal_conv1d(**doubles, activation=activation, state_columns=4, channels_last=True, **cut)
    assert (got_final is None) == (not final)
    outputs, expectations = [y], [expected]
    if final:
        assert torch.equal(got_final.double(), expected_final) and got_final.dtype == dtype
        outputs, expectations = [y, got_final], [expected, expected_final]
    grads = [torch.randn_like(t) for t in outputs]
    found = torch.autograd.grad(outputs, list(tensors.values()), grads)
    wanted = torch.autograd.grad(expectations, list(doubles.values()), [g.double() for g in grads])
    for a, b in [(y, expected), *zip(found, wanted)]:
        assert reference.relative_error(a.detach(), b.detach()) <= reference.bound(a.dtype, b.detach(), dtype != torch.float64)


def test_heads_labels_and_what_is_ignored():
    x, weight = torch.randn(2, 13, 6), torch.randn(6, 4)
    y, _ = causal_conv1d(x, weight, backend="cuda", cu_seqlens_cpu=None, chunk_indices=None, layout=1)
    split, state = causal_conv1d(x.view(2, 13, 3, 2), weight, residual=None, output_final_state=True)
    assert split.shape == (2, 13, 3, 2) and torch.equal(split.flatten(2), y) and state.shape == (2, 6, 4)
    labels = torch.tensor([[0] * 5 + [1] * 8] * 2, dtype=torch.int32)
    parts = [causal_conv1d(x[:, a:b], weight)[0] for a, b in ((0, 5), (5, 13))]
    assert torch.equal(causal_conv1d(x, weight, seq_idx=labels)[0], torch.cat(parts, 1))


def test_chunks_with_the_state_of_w_columns_equal_one_go():
    x, weight = torch.randn(2, 13, 6), torch.randn(6, 4)
    whole, final = causal_conv1d(x, weight, activation="silu", output_final_state=True)
    first, state = causal_conv1d(x[:, :2], weight, activation="silu", output_final_state=True)
    second, state = causal_conv1d(x[:, 2:], weight, activation="silu", initial_state=state, output_final_state=True)
    assert torch.equal(torch.cat([first, second], 1), whole) and torch.equal(state, final)


def test_compile():
    torch._dynamo.reset()
    x, weight = torch.randn(2, 13, 6, requires_grad=True), torch.randn(6, 4, requires_grad=True)

    def step(x, weight):
        y, state = causal_conv1d(x * 2, weight, output_final_state=True, activation="silu")
        return y.sin(), state

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for a, b in zip(compiled(x, weight), step(x, weight)):
        torch.testing.assert_close(a, b)


def test_errors():
    x, weight = torch.randn(2, 13, 6), torch.randn(6, 4)
    with pytest.raises(NotImplementedError, match="cp_context: expected None"):
        causal_conv1d(x, weight, cp_context=object())
    with pytest.raises(ValueError, match='expected None, \'silu\', \'swish\', got \'gelu\''):
        causal_conv1d(x, weight, activation="gelu")
    with pytest.raises(TypeError, match="weight: expected a torch.Tensor, got NoneType"):
        causal_conv1d(x)


OPS = "def causal_conv1d(x):\n    return 'theirs'\n\n\nTABLE = {'conv': (causal_conv1d, 1)}\n\n\ndef layer(x):\n    return causal_conv1d(x)\n"
FLA = {
    "fla/__init__.py": "",
    "fla/modules/__init__.py": "from .causal_conv1d import causal_conv1d as short\n",
    "fla/modules/causal_conv1d/__init__.py": "from .ops import causal_conv1d\n",
    "fla/modules/causal_conv1d/ops.py": OPS,
    "fla/late.py": "from fla.modules.causal_conv1d import causal_conv1d\n",
}


def test_in_an_installed_fla_the_function_is_replaced(tmp_path, monkeypatch):
    absent("fla")
    with pytest.warns(UserWarning, match="fla is not installed, there is nothing to replace"):
        assert not faltung.compat.install("fla", force=True)
    assert "fla" not in sys.modules
    for path, text in FLA.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    try:
        ops = importlib.import_module("fla.modules.causal_conv1d.ops")
        theirs = ops.causal_conv1d
        assert faltung.compat.install("fla")
        late = importlib.import_module("fla.late")
        modules = sys.modules["fla.modules"]
        everywhere = lambda: (ops.causal_conv1d, ops.TABLE["conv"][0], modules.short, late.causal_conv1d)  # noqa: E731
        assert set(everywhere()) == {causal_conv1d}
        with pytest.raises(TypeError):
            ops.layer(None)  # ours, which wants tensors
        assert faltung.compat.uninstall("fla")
        assert set(everywhere()) == {theirs} and ops.layer(None) == "theirs"
    finally:
        faltung.compat.uninstall("fla")
        for name in [name for name in sys.modules if name.split(".")[0] == "fla"]:
            del sys.modules[name]
