#!/usr/bin/env python3
"""The torch front end on a GPU: values and gradients against float64 on the CPU, opcheck, streams, a CUDA graph whose capture is the first call
of a shape, autocast, torch.compile, and the wall time of an eager forward+backward against torch's own multiply.

    FALTUNG_LIBRARY_DIR=build/cuda PYTHONPATH=python python3 tools/gpu_torch.py [--json FILE]

Prints one line a check, `N passed, N failed` last; exits 1 where any failed."""
import argparse
import json
import sys
import time
import traceback

import faltung
import gpu_causal_torch
import torch

RESULTS: dict[str, str] = {}
TIMES: dict[str, float] = {}


def chain(x, k):
    """Zero boundary in float64 by a padded cyclic convolution."""
    points, taps = x.shape[2:], k.shape[-len(x.shape[2:]):]
    lengths = [n + m - 1 for n, m in zip(points, taps)]
    axes = tuple(range(-len(points), 0))
    y = torch.fft.irfftn(torch.fft.rfftn(x, s=lengths, dim=axes) * torch.fft.rfftn(k, s=lengths, dim=axes), s=lengths, dim=axes)
    return y[(..., *(slice(m // 2, m // 2 + n) for n, m in zip(points, taps)))]


def error(got, expected):
    return float((got.double().cpu() - expected).norm() / expected.norm())


def inputs(batch, channels, points, taps, dtype, filter_dtype=None):
    generator = torch.Generator().manual_seed(5)
    x, dy = (torch.randn(batch, channels, *points, generator=generator).to(dtype) for _ in range(2))
    k = torch.randn(channels, *taps, generator=generator).to(filter_dtype or dtype)
    return x, k, dy


def values(dtype, filter_dtype, batch, points, bound):
    x, k, dy = inputs(batch, 5, points, [2 * n - 1 for n in points], dtype, filter_dtype)
    exact = [t.double().requires_grad_() for t in (x, k)]
    expected = chain(*exact)
    expected_gradients = torch.autograd.grad(expected, exact, dy.double())
    ours = [t.cuda().requires_grad_() for t in (x, k)]
    y = faltung.long_conv(*ours)
    assert y.dtype == dtype and y.is_cuda
    gradients = torch.autograd.grad(y, ours, dy.cuda())
    for name, got, want in zip(("y", "dx", "dk"), (y.detach(), *gradients), (expected.detach(), *expected_gradients)):
        rounding = max(error(want.to(kind), want) for kind in (got.dtype, dtype))  # mixed dtypes: the bound of x's
        limit = max(bound, 2.2 * rounding)
        assert error(got, want) <= limit, f"{name}: {error(got, want):.2e}, bound {limit:.2e}"


def graph():
    x, k, _ = (t.cuda() for t in inputs(3, 4, (21, 17), (9, 11), torch.bfloat16))
    y = torch.empty_like(x)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = faltung.long_conv(x, k)
    x.copy_(torch.randn_like(x))
    captured.replay()
    assert torch.equal(y, faltung.long_conv(x, k))


def stream():
    x, k, _ = (t.cuda() for t in inputs(2, 4, (16, 16), (31, 31), torch.float16))
    expected = faltung.long_conv(x, k)
    torch.cuda.synchronize()
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        torch.cuda._sleep(20_000_000)
        late = x * 1
        got = faltung.long_conv(late, k)
    other.synchronize()
    assert torch.equal(got, expected)


def autocast():
    x, k, _ = (t.cuda() for t in inputs(2, 4, (16, 16), (31, 31), torch.float32))
    with torch.autocast("cuda", torch.bfloat16):
        assert faltung.long_conv(x, k).dtype == torch.bfloat16


def opcheck():
    x, k, _ = (t.cuda() for t in inputs(2, 3, (8, 9), (5, 4), torch.float32))
    torch.library.opcheck(torch.ops.faltung.long_conv.default, (x.requires_grad_(), k.requires_grad_()))


def compiled():
    x, k, _ = (t.cuda() for t in inputs(2, 4, (16, 16), (31, 31), torch.bfloat16))
    assert torch.equal(torch.compile(faltung.long_conv, fullgraph=True)(x, k), faltung.long_conv(x, k))


def wall_time():
    x, k, dy = (t.cuda() for t in inputs(8, 768, (16, 16), (31, 31), torch.bfloat16))
    x.requires_grad_(), k.requires_grad_()
    same = torch.randn_like(x).requires_grad_()

    def microseconds(operator, inputs):
        best = []
        for _ in range(300):
            torch.cuda.synchronize()
            start = time.perf_counter()
            torch.autograd.grad(operator(*inputs), inputs, dy)
            best.append(time.perf_counter() - start)
        return sorted(best)[len(best) // 2] * 1e6

    TIMES["long_conv forward+backward"] = microseconds(faltung.long_conv, (x, k))
    TIMES["multiply forward+backward"] = microseconds(torch.mul, (x, same))
    assert TIMES["long_conv forward+backward"] <= TIMES["multiply forward+backward"] + 90, TIMES


def check(name, body, *arguments):
    try:
        body(*arguments)
        RESULTS[name] = "passed"
    except Exception as problem:  # every check is to be run and reported
        RESULTS[name] = f"failed: {type(problem).__name__}: {str(problem)[:300]}"
        traceback.print_exc(limit=3)
    print(f"{name}: {RESULTS[name]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    options = parser.parse_args()
    print(torch.__version__, torch.cuda.get_device_name(), faltung.__version__)
    f64, f32, f16, bf16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
    for dtype, filter_dtype, bound in ((f64, f64, 1e-13), (f32, f32, 3e-7), (f16, f16, 0), (bf16, bf16, 0), (bf16, f32, 0)):
        for batch, points in ((3, (16, 16)), (8, (32, 32)), (2, (14, 15)), (2, (50,)), (1, (5, 6, 7))):
            check(f"values {dtype} {filter_dtype} {batch} {points}", values, dtype, filter_dtype, batch, points, bound)
    for body in (graph, stream, autocast, opcheck, compiled, wall_time):
        check(body.__name__, body)
    for body in gpu_causal_torch.CHECKS:
        check(f"causal_conv1d {body.__name__}", body)
    TIMES.update(gpu_causal_torch.TIMES)
    print({name: f"{value:.1f} us" for name, value in TIMES.items()})
    failed = sum(result != "passed" for result in RESULTS.values())
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"torch": torch.__version__, "results": RESULTS, "wall_us": TIMES}, file, indent=1)
    print(f"{len(RESULTS) - failed} passed, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
