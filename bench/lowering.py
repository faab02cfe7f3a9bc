#!/usr/bin/env python3
"""What the lowering is for: a 2D chain of torch.fft, forward and backward, (a) as it is, (b) under torch.compile, (c) under torch.compile with
faltung.compile. Shapes on a GPU: B=8, C=768, N = 16, 32, 64, K = 2N - 1; on the CPU: B=8, C=64.

    python bench/lowering.py [--device cuda|cpu] [--threads N] [--json FILE] [--plot FILE] [--seconds S] [--quick]

The results of (c) are compared with a chain in double, and both compiled forms with the chain, before anything is timed. The time is that of calls one after
another, host and device together (b2b, rotating over buffers on a GPU): what a training loop meets. Inductor's caches are off (--cache), so that stats count.
"""
import argparse
import sys
from pathlib import Path

import measure

if __name__ == "__main__":
    measure.warm_heap()

import faltung  # noqa: E402
import torch  # noqa: E402
from faltung.compile import lowering_options, lowering_stats, reset_lowering_stats  # noqa: E402

# Relative errors that forbid a timing: of y, dx, dk, against double.
LIMITS = {"float32": 3e-6, "bfloat16": 6e-3, "float16": 1e-3}


def chain(x, k):
    """As nvSubquadratic writes it: casts, in-place product, crop to the same size, cast back."""
    points, taps = x.shape[-2:], k.shape[-2:]
    s = tuple(min(n + (m + 1) // 2, 2 * n) for n, m in zip(points, taps))
    working = torch.float64 if x.dtype == torch.float64 else torch.float32
    spectrum = torch.fft.rfft2(x.to(working), s=s, dim=(2, 3))
    spectrum.mul_(torch.fft.rfft2(k.to(working), s=s, dim=(2, 3)))
    a, b = (m // 2 for m in taps)
    return torch.fft.irfft2(spectrum, s=s, dim=(2, 3))[..., a : a + points[0], b : b + points[1]].to(x.dtype)


def forward_backward(function):
    def call(x, k, dy):
        y = function(x, k)
        return y.detach(), *torch.autograd.grad(y, (x, k), dy)

    return call


def inputs(batch, channels, points, dtype, device, copies):
    generator = torch.Generator().manual_seed(1)
    taps = 2 * points - 1
    found = []
    for _ in range(copies):
        x, dy = (torch.randn(batch, channels, points, points, generator=generator).to(device, dtype) for _ in range(2))
        k = (torch.randn(1, channels, taps, taps, generator=generator) / points).to(device, dtype)
        found.append((x.requires_grad_(), k.requires_grad_(), dy))
    return found


def milliseconds(calls, sets, device, seconds):
    """Of one call of each, the median; they take turns. A turn goes through all sets of inputs."""

    def turn(call):
        def one():
            for arguments in sets:
                call(*arguments)
            if device == "cuda":
                torch.cuda.synchronize()

        return one

    times = measure.time_alternating([turn(call) for call in calls.values()], seconds=seconds * len(calls))
    return {form: time.warm / len(sets) for form, time in zip(calls, times)}


def device_milliseconds(calls, sets):
    """What the kernels of one call take on the GPU, whatever the host does: the profiler's sum over one turn."""
    found = {}
    for form, call in calls.items():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for arguments in sets:
                call(*arguments)
            torch.cuda.synchronize()
        found[form] = sum(event.self_device_time_total for event in profile.key_averages()) / 1e3 / len(sets)
    return found


def measure_shape(batch, channels, points, dtype, device, seconds):
    name = str(dtype).removeprefix("torch.")
    # Enough sets that a GPU's cache does not keep them.
    copies = max(1, min(8, -(-200_000_000 // (batch * channels * points * points * 6)))) if device == "cuda" else 1
    sets = inputs(batch, channels, points, dtype, device, copies)
    torch._dynamo.reset()
    reset_lowering_stats()
    calls = {
        "chain": forward_backward(chain),
        "chain, compiled": forward_backward(torch.compile(chain)),
        "chain, compiled with the lowering": forward_backward(torch.compile(chain, options=lowering_options())),
    }
    few = [t[:, : min(4, channels)] for t in sets[0]]
    exact = forward_backward(chain)(*(t.detach().double().requires_grad_() for t in few))
    errors = {}
    for form, call in calls.items():
        got = [t[:, : few[0].shape[1]] for t in call(*sets[0])]
        errors[form] = dict(zip(("y", "dx", "dk"), (measure.relative_error(a, b) for a, b in zip(got, exact))))
        if max(errors[form].values()) > LIMITS[name]:
            raise SystemExit(f"{form}, {name}, {points} points: errors {errors[form]}, expected at most {LIMITS[name]}: not timed")
    stats = lowering_stats()
    if stats.get("rewritten") != 1:
        raise SystemExit(f"the lowering rewrote nothing: {stats}")
    times = {form: {"wall_ms": time} for form, time in milliseconds(calls, sets, device, seconds).items()}
    if device == "cuda":
        for form, time in device_milliseconds(calls, sets).items():
            times[form]["device_ms"] = time
    ours = "chain, compiled with the lowering"
    return {
        "operator": "lowering", "direction": "forward+backward", "dtype": name,
        "shape": {"B": batch, "C": channels, "N": [points] * 2, "K": [2 * points - 1] * 2}, "layout": "channels_first",
        "implementation": faltung.explain("long_conv", *(t.detach() for t in sets[0][:2])).chosen.split(":")[0], "rewritten": stats["rewritten"],
        **times[ours], "error": errors[ours], "peers": {form: time for form, time in times.items() if form != ours},
    }  # fmt: skip


def draw(path, records, title):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.2))
    names = ["chain", "chain, compiled", "chain, compiled with the lowering"]
    colours = ["#b9b9b9", "#8a8a8a", "#1f6f8b"]
    for i, (name, colour) in enumerate(zip(names, colours)):
        values = [record["peers"][name]["wall_ms"] if name in record["peers"] else record["wall_ms"] for record in records]
        bars = axes.bar([j + (i - 1) * 0.27 for j in range(len(records))], values, width=0.25, color=colour, label=name)
        axes.bar_label(bars, [f"{value:.3g}" for value in values], fontsize=8, padding=2)
    axes.set_yscale("log")
    axes.set_ylabel("ms, forward and backward")
    axes.set_xticks(range(len(records)), [f"{r['shape']['N'][0]} x {r['shape']['N'][1]}\n{r['dtype']}" for r in records])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    axes.set_title(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, help="where the records go (default: bench/results/<machine>/lowering.json)")
    parser.add_argument("--plot", type=Path, help="the picture (default: beside the records)")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing, each form")
    parser.add_argument("--quick", action="store_true", help="one small shape")
    parser.add_argument("--cache", action="store_true", help="take compiled code from Inductor's caches (before torch 2.13, whose pass runs all the same)")
    options = parser.parse_args()
    device = options.device
    torch._inductor.config.force_disable_caches = not options.cache
    if device == "cpu":
        torch.set_num_threads(options.threads)
    batch, channels = (8, 768) if device == "cuda" else (8, 64)
    grids = (8,) if options.quick else (16, 32, 64)
    name = torch.cuda.get_device_name() if device == "cuda" else measure.processor()
    path = options.json or measure.RESULTS / ("h200" if "H200" in name else device) / "lowering.json"
    records = []
    for dtype in (torch.bfloat16, torch.float32):
        for points in grids:
            records.append(measure_shape(batch, channels, points, dtype, device, options.seconds))
            if device == "cpu":
                records[-1]["threads"] = torch.get_num_threads()
            measure.write_records(path, records)
            print(records[-1], file=sys.stderr, flush=True)
    rows = [
        [f"{r['shape']['N'][0]} x {r['shape']['N'][1]}", r["dtype"], time.removesuffix("_ms"), *(f"{p[time]:.3g}" for p in r["peers"].values()), f"{r[time]:.3g}",
         f"{min(p[time] for p in r['peers'].values()) / r[time]:.1f}", f"{r['error']['y']:.1e}", r["implementation"]]
        for r in records for time in ("wall_ms", "device_ms") if time in r
    ]  # fmt: skip
    head = ["N x N", "dtype", "time", "chain, ms", "compiled, ms", "with the lowering, ms", "ratio to the better", "error of y", "implementation"]
    measure.print_table(head, rows)
    plot = options.plot or path.with_suffix(".png")
    draw(plot, records, f"B={batch}, C={channels}, K=2N-1; {name}, torch {torch.__version__}, Faltung {faltung.__version__}")
    print(f"Wrote {path} and {plot}")


if __name__ == "__main__":
    sys.exit(main())
