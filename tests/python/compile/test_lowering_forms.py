"""Every chain of lowering_chains.py: those that are rewritten leave no transform behind and give eager's values and gradients; those that are
declined give their one reason, stay as they are, and give eager's bits. Each reason has a test."""

import os
import subprocess
import sys
from pathlib import Path

import faltung
import pytest
import torch
from faltung.compile import REASONS, lowering_stats, recipe, reset_lowering_stats, rewrite, walker
from lowering_chains import FORMS, REWRITTEN, K, X, Form, same
from lowering_check import LIMITS, lower, operators, outcome, relative_error, step, survivors

identifiers = {"ids": lambda form: form.name.replace(" ", "_")}
rewritten = [form for form in FORMS if form.expected == REWRITTEN]
declined = [form for form in FORMS if form.expected != REWRITTEN]


def check_rewritten(form, inputs):
    compiled, graphs = lower(form.chain, **dict(form.options))
    got, expected = step(compiled, inputs), step(form.chain, inputs)
    assert lowering_stats() == {"rewritten": 1}
    assert survivors(graphs[0]) == [] and operators(graphs[0]) == 1
    for a, b, t in zip(got, expected, (inputs[0], *inputs)):
        assert relative_error(a, b) <= max(LIMITS.get(t.dtype, 0), LIMITS.get(inputs[0].dtype, 0))


@pytest.mark.parametrize("form", rewritten, **identifiers)
def test_rewritten(form):
    check_rewritten(form, form.inputs())


@pytest.mark.parametrize("form", rewritten, **identifiers)
def test_the_shortcut_is_part_of_the_call(form):
    _, _, graph = outcome(form.chain, *form.inputs(), **dict(form.options))
    (call,) = (node for node in graph.nodes if node.target is torch.ops.faltung.long_conv.default)
    assert (call.args[2] is not None) == form.shortcut


@pytest.mark.parametrize("form", declined, **identifiers)
def test_declined_for_one_reason(form):
    inputs = form.inputs()
    y, stats, graph = outcome(form.chain, *inputs, **dict(form.options))
    assert stats == {f"skipped:{form.expected}": 1}
    assert operators(graph) == 0 and len(survivors(graph)) >= 2
    assert torch.equal(y, form.chain(*inputs))


@pytest.mark.parametrize("form", FORMS, **identifiers)
def test_strict_mode(form):
    _, stats, _ = outcome(form.chain, *form.inputs(), strict=True, **dict(form.options))
    expected = form.expected if form.strict is None else form.strict
    assert stats == ({} if expected == "" else {"rewritten": 1} if expected == REWRITTEN else {f"skipped:{expected}": 1})


def test_a_pass_that_erases_nothing_would_fail(monkeypatch):
    monkeypatch.setattr(walker, "_erase", lambda *_: None)
    for form in rewritten[:4]:
        with pytest.raises(AssertionError):
            check_rewritten(form, form.inputs())


def test_a_centre_off_by_one_would_fail(monkeypatch):
    decide = walker.decide

    def wrong(*arguments):
        found = decide(*arguments)
        found.centre = [1] * 2
        return found

    monkeypatch.setattr(walker, "decide", wrong)
    with pytest.raises(AssertionError):
        check_rewritten(rewritten[0], rewritten[0].inputs())


# ---- Reasons that no form above can give here


def test_too_large_for_strict_mode():
    form = Form("", same(), (1, 1, 65, 3), (1, 1, 3, 3))
    x, k, _ = form.inputs()
    _, stats, _ = outcome(form.chain, x, k, None, strict=True)
    assert stats == {"skipped:spatial-too-large": 1}
    _, stats, _ = outcome(form.chain, x, k, None)
    assert stats == {"rewritten": 1}


def with_metadata(form, change):
    """The graph of a form after `change` of each node's example value."""
    graphs = []
    torch._dynamo.reset()

    def backend(module, _):
        graphs.append(module.graph)
        return module.forward

    torch.compile(form.chain, backend=backend, fullgraph=True, dynamic=False)(*form.inputs())
    for node in graphs[0].nodes:
        if "example_value" in node.meta:
            node.meta["example_value"] = change(node.meta["example_value"])
    return graphs[0]


def stats_of(graph):
    reset_lowering_stats()
    rewrite(graph)
    return lowering_stats()


def test_without_metadata():
    assert stats_of(with_metadata(rewritten[0], lambda _: None)) == {"skipped:missing-shape-metadata": 1}


def on_cuda(value):
    if not isinstance(value, torch.Tensor):
        return value
    with torch._subclasses.fake_tensor.FakeTensorMode(allow_non_fake_inputs=True):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")


def test_a_device_that_this_build_does_not_serve():
    if faltung.explain("long_conv", X, K, device="cuda").chosen != "none":
        pytest.skip("this build serves CUDA")
    assert stats_of(with_metadata(rewritten[0], on_cuda)) == {"skipped:arch-unsupported": 1}


def test_plain_sums_on_a_gpu_are_slower_than_the_chain(monkeypatch):
    monkeypatch.setattr(recipe._c_api, "long_conv_explain", lambda *_: "problem\n  chosen: cuda.direct: plain sums")
    assert stats_of(with_metadata(Form("", same(), (1, 3, 40, 40), (1, 3, 17, 15)), lambda v: v)) == {"rewritten": 1}
    assert stats_of(with_metadata(Form("", same(), (1, 3, 40, 40), (1, 3, 17, 17)), lambda v: v)) == {"skipped:spatial-too-large": 1}


def test_a_length_that_is_a_symbol():
    def chain(x, k, n):
        return torch.fft.irfft(torch.fft.rfft(x, n=n) * torch.fft.rfft(k, n=n), n=n)[..., : x.shape[-1]]

    _, stats, _ = outcome(chain, torch.randn(2, 3, 8), torch.randn(3, 5), 20, dynamic=True)
    assert stats == {"skipped:irfft-dynamic-shape": 1}


def test_every_reason_has_a_test():
    tested = {form.expected for form in FORMS} | {form.strict for form in FORMS}
    tested |= {"spatial-too-large", "missing-shape-metadata", "arch-unsupported", "irfft-dynamic-shape"}
    assert set(REASONS) <= tested


@pytest.mark.slow
def test_the_table_of_the_documentation_is_up_to_date():
    tool = Path(__file__).resolve().parents[3] / "tools/lowering_table.py"
    paths = [entry for entry in sys.path if entry]
    command = [sys.executable, str(tool), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    assert done.returncode == 0, done.stdout + done.stderr
