"""The bench step of tools/gpu_check.py: device time of long_conv in CUDA graphs over rotating buffers, beside the torch.fft chain."""
import datetime
import json
import math
import os
import statistics

import torch

from cuda_sources_hash import cuda_sources_hash
from gpu_cases import BF16, FP16, FP32, full

ROTATE_BYTES = 200 << 20  # four times the L2 of an H200

# B, C, extents, filters, dtype, options
SHAPES = [(8, 768, (16, 16), full(16, 16), BF16, {}), (8, 768, (32, 32), full(32, 32), BF16, {}), (8, 768, (64, 64), full(64, 64), BF16, {}),
          (8, 768, (16, 16), full(16, 16), FP16, {}), (8, 768, (32, 32), full(32, 32), FP16, {}), (8, 768, (64, 64), full(64, 64), FP16, {}),
          (8, 768, (16, 16), full(16, 16), FP32, {}), (8, 768, (32, 32), full(32, 32), FP32, {}),
          (1, 768, (32, 32), full(32, 32), BF16, {}), (2, 768, (32, 32), full(32, 32), BF16, {}), (32, 768, (32, 32), full(32, 32), BF16, {}),
          (32, 384, (14, 14), full(14, 14), BF16, {}), (32, 384, (15, 14), full(15, 14), BF16, {}), (8, 768, (64, 16), full(64, 16), BF16, {}),
          (8, 384, (32, 32), full(32, 32), BF16, {"per_sample": True}), (256, 384, (14, 14), full(14, 14), BF16, {}),
          (8, 768, (32, 32), (7, 7), BF16, {}), (8, 768, (32, 32), (13, 13), BF16, {}), (8, 768, (32, 32), (31, 31), BF16, {}),
          (8, 768, (64, 64), (7, 7), BF16, {}), (8, 768, (64, 64), (13, 13), BF16, {}), (8, 768, (64, 64), (31, 31), BF16, {}),
          (8, 768, (16, 16), full(16, 16), BF16, {"filter_dtype": FP32}), (8, 768, (32, 32), full(32, 32), BF16, {"filter_dtype": FP32}),
          (8, 768, (16, 16), full(16, 16), BF16, {"channels_last": True})]
# cuda.onchip: fp32 of 33 to 64 points. cuda.spectral_passes: 16 bits of 65 to 128 points. cuda.transformed: other grids above 64 points, 1D and 3D.
SHAPES += [(8, 768, (64, 64), full(64, 64), FP32, {}), (8, 768, (128, 128), full(128, 128), BF16, {}), (8, 768, (128, 128), full(128, 128), FP16, {}),
           (8, 768, (128, 128), full(128, 128), FP32, {}), (8, 192, (96, 96), full(96, 96), BF16, {}), (8, 192, (96, 96), full(96, 96), FP32, {}),
           (8, 64, (192, 192), full(192, 192), FP32, {}), (8, 64, (256, 256), full(256, 256), FP32, {}), (4, 32, (512, 512), full(512, 512), FP32, {}),
           (2, 16, (1024, 1024), full(1024, 1024), FP32, {}), (2, 32, (96, 96, 96), full(96, 96, 96), FP32, {}),
           (2, 16, (128, 128, 128), full(128, 128, 128), FP32, {}), (8, 768, (128, 128), (31, 31), BF16, {}),
           (8, 64, (136, 136), full(136, 136), FP32, {}), (4, 32, (264, 264), full(264, 264), FP32, {}), (2, 8, (136, 136, 136), full(136, 136, 136), FP32, {}),
           (8, 768, (128, 128), full(128, 128), BF16, {"channels_last": True}), (8, 192, (128, 128), (128, 128), FP32, {"boundary": "circular"}),
           (8, 192, (128, 128), (128, 128), FP32, {"boundary": ("causal", "zero")})]
SHAPES += [(8, 768, (n,), (2 * n - 1,), FP32, {}) for n in (96, 256, 1024, 1100, 4200)]
SHAPES += [(b, c, (n,), (n,), BF16, {"boundary": "causal"})
           for b, c, n in ((8, 768, 1024), (8, 768, 2048), (8, 768, 4096), (4, 768, 8192), (2, 768, 32768), (1, 256, 131072))]

NAMES = {BF16: "bf16", FP16: "fp16", FP32: "fp32"}


def graph_time(body, launches, repeats=11):
    """Milliseconds per launch: the median over replays of a graph of body(0) .. body(launches - 1)."""
    body(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            body(i)
    times = []
    for i in range(repeats + 2):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if i >= 2:
            times.append(begin.elapsed_time(end) / launches)
    return statistics.median(times)


def copy_rate():
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / graph_time(lambda i: torch.mul(source, 1, out=target), 3) / 1e6  # GB/s


def fast_size(least):
    """The first even length from `least` on with no prime factor above 5, which cuFFT serves best."""
    size = least + least % 2
    while True:
        rest = size
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return size
        size += 2


def boundaries_of(flags, rank):
    boundary = flags.get("boundary", "zero")
    return (boundary,) * rank if isinstance(boundary, str) else boundary


def centre_of(boundary, taps):
    return {"zero": taps // 2, "circular": (taps - 1) // 2, "causal": 0}[boundary]


def working(tensor):
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def fft_chain(x, k, extents, filters, boundaries):
    # What wraps around may fall outside the crop: 2N points serve a filter of 2N - 1 taps.
    centres = [centre_of(boundary, f) for boundary, f in zip(boundaries, filters)]
    size = [n if boundary == "circular" else fast_size(max(f, n + max(f - 1 - centre, centre)))
            for n, f, boundary, centre in zip(extents, filters, boundaries, centres)]
    axes = tuple(range(-len(extents), 0))
    spectrum = torch.fft.rfftn(working(x), s=size, dim=axes) * torch.fft.rfftn(working(k), s=size, dim=axes)
    y = torch.fft.irfftn(spectrum, s=size, dim=axes)
    if "circular" in boundaries:
        y = y.roll([-centre if boundary == "circular" else 0 for boundary, centre in zip(boundaries, centres)], axes)
    crop = tuple(slice(0, n) if boundary == "circular" else slice(centre, centre + n) for n, boundary, centre in zip(extents, boundaries, centres))
    return y[(..., *crop)].to(x.dtype)


def relative(value, reference):
    return ((value.double() - reference).norm() / reference.norm()).item()


def bench_shape(library, shape, peers, rate):
    batch, channels, extents, filters, dtype, flags = shape
    last = flags.get("channels_last", False)
    boundaries = boundaries_of(flags, len(extents))
    options = dict(channels_last=last, boundary=boundaries)
    width = torch.empty(0, dtype=dtype).element_size()
    leading = (batch, channels) if flags.get("per_sample") else (channels,)
    x_count, k_count = batch * channels * math.prod(extents), math.prod(leading) * math.prod(filters)

    def random(*size, kind=dtype):
        value = torch.randn(*size, device="cuda").to(kind)
        return value.movedim(-len(extents) - 1, -1).contiguous() if last else value

    def make():
        x, dy = random(batch, channels, *extents), random(batch, channels, *extents)
        k = random(*leading, *filters, kind=flags.get("filter_dtype", dtype)) / math.sqrt(math.prod(extents))
        return x, dy, k, torch.empty_like(x), torch.empty_like(x), torch.empty_like(k)

    set_bytes = width * (4 * x_count + 2 * k_count)
    sets = [make() for _ in range(max(2, min(60, ROTATE_BYTES // set_bytes + 1)))]
    launches = max(10, len(sets)) if set_bytes < 1 << 28 else 4

    def forward(i):
        x, dy, k, y, dx, dk = sets[i % len(sets)]
        library.long_conv_forward(x, k, y=y, **options)

    def backward(i):
        x, dy, k, y, dx, dk = sets[i % len(sets)]
        library.long_conv_backward(dy, x, k, gradients=(dx, dk, None), **options)

    def both(i):
        forward(i)
        backward(i)

    for tensor in sets[0][3:]:
        tensor.fill_(math.nan)
    both(0)
    x, dy, k, y, dx, dk = sets[0]
    first = slice(0, 2)
    wide = [(t.movedim(-1, -len(extents) - 1) if last else t).double() for t in (x, dy, k)]
    part_x, part_k = wide[0][:, first].requires_grad_(), (wide[2][:, first] if len(leading) == 2 else wide[2][first]).requires_grad_()
    exact = fft_chain(part_x, part_k, extents, filters, boundaries)
    exact_dx, exact_dk = torch.autograd.grad(exact, (part_x, part_k), wide[1][:, first])
    to_first = [(t.movedim(-1, -len(extents) - 1) if last else t) for t in (y, dx, dk)]
    error = {"y": relative(to_first[0][:, first], exact), "dx": relative(to_first[1][:, first], exact_dx),
             "dk": relative(to_first[2][:, first] if len(leading) == 2 else to_first[2][first], exact_dk)}
    limit = {BF16: 4e-3, FP16: 1e-3, FP32: 1e-6}[dtype]
    if not all(value <= limit for value in error.values()):
        raise SystemExit(f"bench: {shape}: wrong results, errors {error}")

    warm_sets = sets[:3]

    def warm_both(i):
        x, dy, k, y, dx, dk = warm_sets[i % len(warm_sets)]
        library.long_conv_forward(x, k, y=y, **options)
        library.long_conv_backward(dy, x, k, gradients=(dx, dk, None), **options)

    warm = graph_time(warm_both, launches)
    times = {"forward": graph_time(forward, launches), "backward": graph_time(backward, launches), "forward+backward": graph_time(both, launches)}
    floors = {"forward": 2 * x_count + k_count, "backward": 3 * x_count + 2 * k_count, "forward+backward": 5 * x_count + 3 * k_count}
    chain = {}
    if peers and not last:
        leaf_x, leaf_k = x.detach().requires_grad_(), k.detach().requires_grad_()

        def chain_both(i):
            torch.autograd.grad(fft_chain(leaf_x, leaf_k, extents, filters, boundaries), (leaf_x, leaf_k), dy)

        try:
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                chain_both(0)
            torch.cuda.synchronize()
            chain["forward"] = graph_time(lambda i: fft_chain(x, k, extents, filters, boundaries), 3, 5)
            chain["forward+backward"] = graph_time(chain_both, 3, 5)
        except torch.OutOfMemoryError:
            chain = {}
    records = []
    for direction, name in (("forward", 0), ("backward", 1), ("forward+backward", 1)):
        keys = {"forward": ("y",), "backward": ("dx", "dk"), "forward+backward": ("y", "dx", "dk")}[direction]
        one = len(extents) == 1
        record = {"operator": "long_conv", "direction": direction, "dtype": NAMES[dtype],
                  "shape": {"B": batch, "C": channels, "N": extents[0] if one else list(extents), "K": filters[0] if one else list(filters),
                            **({"filters": "per sample"} if len(leading) == 2 else {}),
                            **({"boundary": flags["boundary"] if isinstance(flags["boundary"], str) else list(flags["boundary"])} if "boundary" in flags else {}),
                            **({"filter_dtype": NAMES[flags["filter_dtype"]]} if "filter_dtype" in flags else {})},
                  "layout": "channels last" if last else "channels first", "implementation": library.chosen(name, x, k, **options),
                  "device_ms": times[direction], **({"warm_device_ms": warm} if direction == "forward+backward" else {}), "floor_ms": floors[direction] * width / rate / 1e6,
                  "copy_ms": 2 * x_count * width / rate / 1e6, "error": {key: error[key] for key in keys}}
        if direction in chain:
            record["peers"] = {"torch.fft chain": {"device_ms": chain[direction]}}
        records.append(record)
    peer = f"  torch {chain['forward+backward']:.4f} (x{chain['forward+backward'] / times['forward+backward']:.1f})" if chain else ""
    text = " ".join(f"{'x'.join(map(str, part))}" for part in (extents, filters))
    print(f"{NAMES[dtype]} B{batch} C{channels} {text} {' '.join(f'{key} {value}' for key, value in flags.items() if value is not True) or ' '.join(flags)}: fwd {times['forward']:.4f} bwd {times['backward']:.4f} both "
          f"{times['forward+backward']:.4f} (warm {warm:.4f}) floor {floors['forward+backward'] * width / rate / 1e6:.4f}{peer}  "
          f"[{library.chosen(0, x, k, **options)}] y {error['y']:.2e} dx {error['dx']:.2e} dk {error['dk']:.2e}", flush=True)
    return records


def bench(library, arguments):
    rate = copy_rate()
    print(f"copy of 1 GiB: {rate:.0f} GB/s", flush=True)
    properties = torch.cuda.get_device_properties(0)
    result = {"machine": {"gpu": properties.name, "multiprocessors": properties.multi_processor_count, "copy_gb_per_s": round(rate)},
              "versions": {"torch": torch.__version__, "cuda": torch.version.cuda, "faltung": library.core.faltung_version().decode()},
              "commit": arguments.commit, "cuda_sources": arguments.cuda_sources or cuda_sources_hash(),
              "date": datetime.date.today().isoformat(), "records": []}
    os.makedirs(arguments.output, exist_ok=True)
    for shape in SHAPES:
        boundary = "+".join(dict.fromkeys(boundaries_of(shape[5], len(shape[2]))))
        text = f"{NAMES[shape[4]]} B{shape[0]} " + "x".join(map(str, shape[2])) + " " + "x".join(map(str, shape[3])) + " " + boundary
        if not any(part in text for part in arguments.only.split(",")):
            continue
        result["records"] += bench_shape(library, shape, not arguments.no_peers, rate)
        torch.cuda.empty_cache()
        with open(os.path.join(arguments.output, "long_conv.json"), "w") as file:  # after each shape: what stands outlives a time limit
            json.dump(result, file, indent=1)
            file.write("\n")
