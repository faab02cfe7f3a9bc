"""causal_conv1d's part of tools/gpu_torch.py: streams, CUDA graphs whose indices change between replays, what stays apart, torch.compile, and the
wall time of eager calls."""
import importlib.util
import pathlib
import sys
import time

import faltung
import torch

TIMES = {}


def inputs(time=37, channels=24, dtype=torch.bfloat16, batch=2):
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(batch, time, channels, generator=generator).to(dtype).cuda()
    return x, (torch.randn(channels, 4, generator=generator) / 2).to(dtype).cuda()


def stream():
    x, weight = inputs()
    expected = faltung.causal_conv1d(x, weight, activation="silu", channels_last=True)
    torch.cuda.synchronize()
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        torch.cuda._sleep(20_000_000)
        late = x * 1
        got = faltung.causal_conv1d(late, weight * 1, activation="silu", channels_last=True)
    other.synchronize()
    assert torch.equal(got, expected)


def graph_of_gradients():
    x, weight = inputs()
    dy = torch.randn_like(x)
    cuts = torch.tensor([0, 5, 20, 37], dtype=torch.int32, device="cuda")

    def step():
        leaves = [x[:1].detach().requires_grad_(), weight.detach().requires_grad_()]
        y, final = faltung.causal_conv1d(*leaves, activation="silu", channels_last=True, cu_seqlens=cuts, return_final_state=True)
        return y, final, *torch.autograd.grad(y, leaves, dy[:1])

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for content in ([0, 5, 20, 37], [0, 0, 1, 30], [0, 10, 10, 10]):
        cuts.copy_(torch.tensor(content, dtype=torch.int32))
        x.copy_(torch.randn_like(x))
        graph.replay()
        assert all(torch.equal(a, b) for a, b in zip(captured, step())), content


def graph_of_updates():
    """Slots, padded rows and ragged token counts change between replays; a replay equals the eager call, states too."""
    for vectors, window in ((True, "trailing"), (False, "leading"), (False, "ring")):
        channels = 64 if vectors else 33
        x, weight = torch.randn(6, channels, device="cuda").bfloat16(), torch.randn(channels, 4, device="cuda").bfloat16()
        state = torch.randn(9, channels, 3 if window != "ring" else 5, device="cuda").bfloat16()
        slots, positions = (torch.zeros(6, dtype=torch.int32, device="cuda") for _ in range(2))
        options = {"cache_seqlens": positions} if window == "ring" else {}

        def step(state):
            return faltung.causal_conv1d_update(x, state, weight, activation="silu", state_indices=slots, window=window, **options)

        slots.copy_(torch.arange(6))
        step(state.clone())
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = step(state)
        for trial in range(20):
            order = torch.randperm(9, device="cuda")[:6].to(torch.int32)
            slots.copy_(torch.where(torch.rand(6, device="cuda") < 0.3, -1, order))
            positions.copy_(torch.randint(0, 100, (6,), device="cuda"))
            x.copy_(torch.randn_like(x))
            x[slots < 0] = float("nan")
            other = state.clone()
            graph.replay()
            assert torch.equal(y, step(other)) and torch.equal(state, other) and not y[slots < 0].any(), (window, trial)


def compiled():
    x, weight = inputs()

    def call(x, weight):
        return faltung.causal_conv1d(x, weight, activation="silu", channels_last=True)

    assert torch.equal(torch.compile(call, fullgraph=True)(x, weight), call(x, weight))


def example_decodes_in_a_graph():
    path = pathlib.Path(__file__).resolve().parents[1] / "examples/mamba_block.py"
    spec = importlib.util.spec_from_file_location("mamba_block", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    arguments = sys.argv
    try:
        sys.argv = [str(path), "--device", "cuda"]
        module.main()
    finally:
        sys.argv = arguments


def _microseconds(call, repeats=400):
    """Of the host, for one call: the device keeps up, since the tensors are small."""
    found = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return sorted(found)[len(found) // 2] * 1e6


def wall_times():
    """Microseconds of eager calls, and of torch's own multiply beside them."""
    x, weight = inputs(time=64, channels=256)
    token, state = x[:, 0].contiguous(), torch.randn(2, 256, 3, device="cuda").bfloat16()
    leaves, dy, same = [x.detach().requires_grad_(), weight.detach().requires_grad_()], torch.randn_like(x), torch.randn_like(x).requires_grad_()
    return {
        "causal_conv1d forward": _microseconds(lambda: faltung.causal_conv1d(x, weight, activation="silu", channels_last=True)),
        "causal_conv1d update": _microseconds(lambda: faltung.causal_conv1d_update(token, state, weight, activation="silu")),
        "causal_conv1d forward+backward": _microseconds(
            lambda: torch.autograd.grad(faltung.causal_conv1d(*leaves, activation="silu", channels_last=True), leaves, dy)
        ),
        "multiply forward+backward": _microseconds(lambda: torch.autograd.grad(leaves[0] * same, (leaves[0], same), dy)),
        "multiply forward": _microseconds(lambda: torch.mul(x, dy)),
    }


def wall_time():
    TIMES.update(wall_times())
    for name, peer, more in (("forward", "forward", 12), ("update", "forward", 10), ("forward+backward", "forward+backward", 90)):
        assert TIMES[f"causal_conv1d {name}"] <= TIMES[f"multiply {peer}"] + more, (name, TIMES)


CHECKS = (stream, graph_of_gradients, graph_of_updates, compiled, example_decodes_in_a_graph, wall_time)
