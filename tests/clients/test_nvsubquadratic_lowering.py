"""nvsubquadratic 0.2.0: its own lowering against our strict mode, and our default mode on each of its op functions, as they are."""

import faltung.compile
import pytest
import torch
from lowering_chains import FORMS, REWRITTEN
from lowering_check import outcome, relative_error
from nvsubquadratic.ops import circular_fftconv, fftconv, fftconv_chunked, fftconv_lowering, mixed_fftconv
from test_nvsubquadratic import FUNCTIONS, THEIRS, arguments_of

# Theirs takes these two chains for convolutions, which they are not.
OURS_IS_RIGHT = {"operand-mutated", "mode-changes"}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name.replace(" ", "_"))
def test_strict_mode_has_its_outcomes_and_reasons(form, monkeypatch):
    monkeypatch.setattr(fftconv_lowering, "_arch_supports", lambda *_: True)  # theirs serves GPUs alone

    def backend(module, _):
        for node in [n for n in module.graph.nodes if fftconv_lowering._is_fft(n, torch.fft.irfft2)]:
            fftconv_lowering._try_rewrite(module.graph, node, dict(form.options).get("allow_reduced_precision", True))
        return lambda *inputs: (inputs[0],)

    fftconv_lowering.reset_lowering_stats()
    torch._dynamo.reset()
    torch.compile(form.chain, backend=backend, fullgraph=True, dynamic=False)(*form.inputs())
    theirs = fftconv_lowering.lowering_stats()
    _, ours, _ = outcome(form.chain, *form.inputs(), strict=True, **dict(form.options))
    if form.expected in OURS_IS_RIGHT:
        assert theirs == {REWRITTEN: 1} and ours == {f"skipped:{form.expected}": 1}
    else:
        assert theirs == ours


@pytest.fixture
def no_ramps_kept(monkeypatch):
    for module in (circular_fftconv, mixed_fftconv):
        for name, value in list(vars(module).items()):
            if "PhaseRamp" in type(value).__name__ and not isinstance(value, type):
                monkeypatch.setattr(module, name, type(value)())


@pytest.mark.parametrize("real_arithmetic", (False, True), ids=("complex", "real"))
@pytest.mark.parametrize("module, name", [(m, n) for m, n in FUNCTIONS if m != "fftconv_custom"])
def test_their_functions_are_rewritten(module, name, real_arithmetic, no_ramps_kept, monkeypatch):
    for each in (fftconv, fftconv_chunked):
        if hasattr(each, "COMPILE_COMPATIBLE"):
            monkeypatch.setattr(each, "COMPILE_COMPATIBLE", real_arithmetic)
    function = getattr(THEIRS[module], name)
    (x, kernel, shortcut), further = arguments_of(name, False, torch.float32)
    y, stats, _ = outcome(lambda x, k, s: function(x, k, *further, s), x, kernel, shortcut)
    assert set(stats) == {"rewritten"}, stats
    assert relative_error(y, function(x, kernel, *further, shortcut)) < 2e-6
    assert faltung.compile.lowering_stats() == stats
