"""The pass around rewrite: who installs it and for how long, what torch's caches know it by, what it does with a pass that was there before."""

import importlib
import subprocess
import sys
from pathlib import Path

import faltung.compile
import pytest
import torch
from faltung.compile import FusedConvLowering, lowering, lowering_options, lowering_stats, reset_lowering_stats
from lowering_chains import FORMS
from lowering_check import operators
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass

REAL_ARITHMETIC = next(form for form in FORMS if form.strict == "no-rfft2-product" and form.dtype == torch.float32 and "view_as_real" in form.name)
ROOT = Path(__file__).resolve().parents[3]


class Other(CustomGraphPass):
    def __init__(self, identity=b"other"):
        self.identity, self.seen = identity, []

    def __call__(self, graph):
        self.seen.append(operators(graph))

    def uuid(self):
        return self.identity


def graph_of(form):
    graphs = []
    torch._dynamo.reset()

    def backend(module, _):
        graphs.append(module.graph)
        return module.forward

    torch.compile(form.chain, backend=backend, fullgraph=True)(*form.inputs())
    return graphs[0]


def test_importing_installs_nothing():
    assert config.pre_grad_custom_pass is None


def test_the_context_manager_restores_what_was_there():
    other = Other()
    with config.patch(pre_grad_custom_pass=other):
        with pytest.raises(ZeroDivisionError), lowering() as installed:
            assert config.pre_grad_custom_pass is installed and installed.previous == (other,)
            with lowering(strict=True) as inner:
                assert inner.strict and inner.previous == ()  # one lowering is enough, and the inner one's options are asked for
            assert config.pre_grad_custom_pass is installed
            1 / 0
        assert config.pre_grad_custom_pass is other
    assert config.pre_grad_custom_pass is None


def test_a_pass_that_was_set_before_runs_first():
    other = Other()
    with config.patch(pre_grad_custom_pass=other):
        options = lowering_options()
    graph = graph_of(FORMS[0])
    options["pre_grad_custom_pass"](graph)
    assert other.seen == [0] and operators(graph) == 1


def test_options_reach_rewrite():
    reset_lowering_stats()
    FusedConvLowering(allow_reduced_precision=False)(graph_of(FORMS[1]))
    FusedConvLowering(strict=True)(graph_of(REAL_ARITHMETIC))
    assert lowering_stats() == {"skipped:reduced-precision-disabled": 1, "skipped:no-rfft2-product": 1}
    reset_lowering_stats()
    assert lowering_stats() == {}


def test_identity(monkeypatch):
    plain = FusedConvLowering().uuid()
    assert plain == FusedConvLowering().uuid() and len(plain) == 32
    others = [
        FusedConvLowering(strict=True), FusedConvLowering(allow_reduced_precision=False), FusedConvLowering(previous=Other()),
        FusedConvLowering(previous=[Other(b"x")]), FusedConvLowering(previous=[Other(b"x"), Other(b"y")]),
    ]  # fmt: skip
    assert len({plain, *(other.uuid() for other in others)}) == 6
    assert FusedConvLowering(previous=lambda graph: None).uuid() is None
    assert FusedConvLowering(previous=Other(None)).uuid() is None
    monkeypatch.setattr(faltung.compile.graph_pass, "_kernels", lambda: "others")
    assert FusedConvLowering().uuid() != plain
    monkeypatch.undo()
    monkeypatch.setattr(faltung.compile.graph_pass._library, "version", "another")
    assert FusedConvLowering().uuid() != plain


def test_every_source_is_part_of_the_identity():
    modules = {Path(module.__file__) for name, module in sys.modules.items() if name.startswith("faltung.compile")}
    assert modules == set(faltung.compile.graph_pass._SOURCES)


def test_the_backend_is_announced(tmp_path):
    """As an installed package does it: a .dist-info with the entry points of pyproject.toml."""
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["torch_dynamo_backends"]
    assert set(points) == {"faltung"}
    module, name = points["faltung"].split(":")
    assert getattr(importlib.import_module(module), name) is faltung.compile.backend
    info = tmp_path / "faltung-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faltung\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch_dynamo_backends]\nfaltung = " + points["faltung"] + "\n")
    script = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(Path(faltung.__file__).parents[1])!r}]\n"
        "import torch; print('faltung' in torch._dynamo.list_backends(), torch._dynamo.lookup_backend('faltung').__module__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "faltung.compile.backend"]
