"""The lowering within Inductor: one graph with everything that users combine, its values and gradients; a second process that finds
the compiled code in torch's cache and runs no pass; the backend by name; CUDA graphs."""

import os
import subprocess
import sys
from pathlib import Path

import faltung.compile
import pytest
import torch
from faltung.compile import lowering, lowering_options, lowering_stats, reset_lowering_stats
from lowering_chains import same, times_
from lowering_check import relative_error

pytestmark = pytest.mark.slow


class Model(torch.nn.Module):
    """Two chains, a state that is written to in place, work before and after."""

    def __init__(self, device=None):
        super().__init__()
        self.k = torch.nn.Parameter(torch.randn(1, 3, 5, 3, device=device) / 4)
        self.register_buffer("calls", torch.zeros(3, device=device))

    def forward(self, x):
        self.calls.add_(1)
        y = torch.relu(same(times_)(x * 2, self.k, None))
        return same()(y, self.k, None) + 1


def step(model, x):
    x = x.clone().requires_grad_()
    model.zero_grad()
    y = model(x)
    y.square().sum().backward()
    return y.detach().clone(), x.grad.clone(), next(model.parameters()).grad.clone()


def check(compiled, model, x):
    before = model.calls.clone()
    got = step(compiled, x)
    assert torch.equal(model.calls, before + 1)
    for a, b in zip(got, step(model, x)):
        assert relative_error(a, b) < 3e-6


# What the second process runs: the model above, in a cache folder of its own.
SCRIPT = """
import torch, sys
import faltung.compile, test_lowering_inductor as here
from torch._inductor.utils import run_and_get_code
torch.manual_seed(1)
model = here.Model()
x = torch.randn(2, 3, 6, 7)
compiled = torch.compile(model, options=faltung.compile.lowering_options(), fullgraph=True)
here.check(compiled, model, x)
counters = torch._dynamo.utils.counters
hits = counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
calls = here.calls_of_the_operator(compiled, x)
print(faltung.compile.lowering_stats(), "hits" if hits else "no hits", calls)
"""


def calls_of_the_operator(compiled, x):
    """How often the compiled code runs long_conv, by the profiler."""
    with torch.no_grad():
        compiled(x)  # compiled anew: without gradients
        with torch.profiler.profile() as profile:
            compiled(x)
    return sum(event.count for event in profile.key_averages() if event.key.startswith("faltung::long_conv"))


def run(cache):
    paths = [Path(__file__).parent, Path(__file__).parents[1], Path(faltung.__file__).parents[1]]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_values_and_a_warm_cache_in_a_second_process(tmp_path):
    # With gradients and without: each is compiled.
    assert run(tmp_path) == "{'rewritten': 4} no hits 2"
    # Before 2.13 torch runs passes before it looks into its cache.
    runs_on_a_hit = not hasattr(torch._inductor.config, "pre_grad_pass_timing")
    assert run(tmp_path) == ("{'rewritten': 4}" if runs_on_a_hit else "{}") + " hits 2"


def test_the_backend_takes_a_mode():
    model, x = Model(), torch.randn(2, 3, 6, 7)
    reset_lowering_stats()
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):  # nothing is counted where the cache has it
        check(torch.compile(model, backend=faltung.compile.backend, mode="reduce-overhead", fullgraph=True), model, x)
        assert lowering_stats() == {"rewritten": 2}
        with torch.no_grad():
            assert torch.compile(model, backend=faltung.compile.backend, options={"max_autotune": False})(x).shape == x.shape
        assert lowering_stats() == {"rewritten": 4}


def test_a_mode_and_options_exclude_each_other():
    with pytest.raises(RuntimeError, match="mode or options"):
        torch.compile(Model(), mode="reduce-overhead", options=lowering_options())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
def test_cuda_graphs():
    model, x = Model("cuda"), torch.randn(2, 3, 6, 7, device="cuda")
    reset_lowering_stats()
    torch._dynamo.reset()
    with lowering(), torch._inductor.config.patch(force_disable_caches=True):
        compiled = torch.compile(model, mode="reduce-overhead", fullgraph=True)
        for _ in range(4):
            check(compiled, model, x)
    assert lowering_stats() == {"rewritten": 2}
