"""The sweep step of tools/gpu_check.py: grids of 96 to 1024 points an axis beside the torch.fft chain in the same run, few repetitions each.

A line for each shape that is less than 1.3 times as fast as the chain, forward or forward and backward, and a summary."""
import itertools
import json
import math
import time

import torch

from gpu_bench import NAMES, boundaries_of, fft_chain, graph_time, relative
from gpu_cases import BF16, FP32, full

FP64 = torch.float64
SHOWN_BELOW = 1.3
POINTS = 1 << 22  # of x, about: a call of a millisecond
LIMITS = {BF16: 1e-2, FP32: 2e-6, FP64: 1e-12}  # chain and kernel differ by no more


def planes_of(extents):
    """B, C: a batch of two, as many channels as fill POINTS."""
    return 2, max(1, POINTS // (2 * math.prod(extents)))


def shapes():
    """(extents, filters, dtype, boundary), the first ones of each group first."""
    squares = [(128, 128), (256, 256), (512, 512), (1024, 1024), (97, 97), (131, 131), (257, 257), (500, 500), (509, 509), (1000, 1000), (101, 127), (96, 1024),
               (1024, 96), (96, 96), (192, 192), (320, 320), (384, 384), (640, 640), (768, 768), (127, 127), (700, 300)]
    cubes = [(96, 96, 96), (128, 128, 128), (97, 101, 127), (131, 131, 131), (256, 96, 128), (160, 160, 160), (16, 256, 256), (192, 192, 192)]
    lines = [(n,) for n in (96, 128, 256, 512, 1024, 97, 131, 257, 509, 1000, 101, 127, 384, 768)]
    groups = [[(s, full(*s), dtype, "zero") for s in squares for dtype in (FP32, BF16)],
              [(s, s, FP32, boundary) for boundary in ("circular", ("causal", "zero"), ("zero", "causal"), "causal", ("circular", "zero")) for s in squares[:9]],
              [(s, k, dtype, "zero") for k, s in itertools.product(((7, 7), (31, 31), (13, 13)), squares[:8]) for dtype in (BF16, FP32)],
              [(s, full(*s), FP32, "zero") for s in lines] + [(s, s, FP32, boundary) for boundary in ("causal", "circular") for s in lines],
              [(s, full(*s), FP64, "zero") for s in squares[:9]],
              [(s, full(*s), FP32, "zero") for s in cubes] + [(s, s, FP32, boundary) for boundary in (("causal", "zero", "zero"), "circular") for s in cubes[:4]],
              [(s, s, BF16, boundary) for boundary in ("circular", ("causal", "zero"), "causal") for s in squares[:9]],
              [(s, s, FP64, boundary) for boundary in ("circular", ("causal", "zero"), "causal") for s in squares[:4]],
              [(s, (7,) * 3, FP32, "zero") for s in cubes] + [(s, s, FP32, boundary) for s in cubes[:2] for boundary in (("causal", "causal", "zero"), "causal")]]
    for items in itertools.zip_longest(*groups):
        yield from (item for item in items if item)


def timed(body, chain_ms):
    """Milliseconds of body(): of a graph, or of one call where that is far slower than the chain."""
    times = []
    body(0)  # loads the kernels
    torch.cuda.synchronize()
    for _ in range(2):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        body(0)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
        if times[0] > 50 * chain_ms + 20:
            return times[0]
    return graph_time(body, 3, 3)


def measure(library, extents, filters, dtype, boundary):
    batch, channels = planes_of(extents)
    options = dict(boundary=boundaries_of({"boundary": boundary}, len(extents)))
    x, dy = (torch.randn(batch, channels, *extents, device="cuda").to(dtype) for _ in range(2))
    k = (torch.randn(channels, *filters, device="cuda") / math.sqrt(math.prod(filters))).to(dtype)
    y, dx, dk = torch.full_like(x, math.nan), torch.full_like(x, math.nan), torch.full_like(k, math.nan)
    leaf_x, leaf_k = x.detach().requires_grad_(), k.detach().requires_grad_()

    def chain(i):
        return fft_chain(x, k, extents, filters, options["boundary"])

    def chain_both(i):
        expected = fft_chain(leaf_x, leaf_k, extents, filters, options["boundary"])
        return expected.detach(), *torch.autograd.grad(expected, (leaf_x, leaf_k), dy)

    def forward(i):
        library.long_conv_forward(x, k, y=y, **options)

    def both(i):
        forward(i)
        library.long_conv_backward(dy, x, k, gradients=(dx, dk, None), **options)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        expected = chain_both(0)
    torch.cuda.synchronize()
    chain_forward, chain_time = graph_time(chain, 2, 3), graph_time(chain_both, 2, 3)
    forward_time = timed(forward, chain_forward)
    both_time = timed(both, chain_time)
    error = max(relative(ours, theirs.double()) for ours, theirs in zip((y, dx, dk), expected))
    return {"dtype": NAMES.get(dtype, "fp64"), "B": batch, "C": channels, "N": extents, "K": filters, "boundary": "+".join(dict.fromkeys(options["boundary"])) if
            isinstance(boundary, str) else "+".join(boundary), "forward": forward_time, "both": both_time, "chain_forward": chain_forward, "chain_both": chain_time,
            "error": error, "wrong": not error <= LIMITS[dtype], "by": library.chosen(0, x, k, **options), "back_by": library.chosen(1, x, k, **options)}


def sweep(library, arguments):
    """Stops by itself after arguments.seconds."""
    results, end = [], time.monotonic() + arguments.seconds
    for shape in shapes():
        if time.monotonic() > end:
            break
        text = f"{NAMES.get(shape[2], 'fp64')} {'x'.join(map(str, shape[0]))} {'x'.join(map(str, shape[1]))} {shape[3]}"
        if not any(part in text for part in arguments.only.split(",")):
            continue
        try:
            result = measure(library, *shape)
        except torch.OutOfMemoryError:
            print(f"{text}: out of memory", flush=True)
            continue
        torch.cuda.empty_cache()
        results.append(result)
        ratios = result["chain_forward"] / result["forward"], result["chain_both"] / result["both"]
        if min(ratios) < SHOWN_BELOW or result["wrong"]:
            print(f"{'WRONG ' if result['wrong'] else ''}{text} B{result['B']} C{result['C']}: forward {result['forward']:.3f} (x{ratios[0]:.2f}) "
                  f"both {result['both']:.3f} (x{ratios[1]:.2f}) error {result['error']:.1e} [{result['by']}]", flush=True)
    slower = sum(r["forward"] > r["chain_forward"] or r["both"] > r["chain_both"] for r in results)
    wrong = sum(r["wrong"] for r in results)
    print(f"sweep: {len(results)} shapes, {slower} slower than the chain, {wrong} wrong", flush=True)
    if arguments.sweep_json:
        with open(arguments.sweep_json, "w") as file:
            json.dump(results, file, indent=0)
    return wrong
