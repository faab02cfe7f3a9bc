"""The bench step of tools/gpu_check.py for causal_conv1d: device time in CUDA graphs over rotating buffers, beside a copy of the same
bytes and torch's F.conv1d + silu in the same run; eager calls by the wall clock; at the end each target with what was measured for it."""
import datetime
import json
import math
import os
import sys

import torch
from torch.nn import functional

from cuda_sources_hash import cuda_sources_hash
from gpu_bench import ROTATE_BYTES, graph_time

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
NAMES = {BF16: "bf16", FP16: "fp16", FP32: "fp32"}
# B, T, D, W, dtype, channels last
SHAPES = [
    *((1, time, channels, 4, BF16, last) for last in (True, False) for time, channels in ((8192, 4096), (8192, 8192), (32768, 8192), (2048, 4096))),
    *((1, 8192, 8192, 4, FP32, last) for last in (True, False)),
    *((8, 2048, 4096, 4, BF16, last) for last in (True, False)),
    (1, 8192, 8192, 3, BF16, True), (1, 8192, 8192, 2, FP16, True), (1, 8192, 8192, 7, BF16, False), (1, 8192, 8192, 8, BF16, True),
]  # fmt: skip
UPDATES = [(n, 8192, 4, BF16, layout) for layout in ("columns inside", "channels inside") for n in (1, 4, 16, 64, 256, 512, 2048)]


def relative(value, reference):
    return ((value.double() - reference).norm() / reference.norm()).item()


def copy_time(count, dtype):
    """Of torch's copy of `count` elements, over rotating buffers."""
    number = max(2, ROTATE_BYTES // (2 * count * dtype.itemsize) + 1)
    pairs = [(torch.randn(count, device="cuda").to(dtype), torch.empty(count, device="cuda", dtype=dtype)) for _ in range(number)]
    return graph_time(lambda i: pairs[i % number][1].copy_(pairs[i % number][0]), max(10, number))


def chain(x, weight, last):
    """torch's own, on [B, D, T] as its layout is."""
    x = x.transpose(1, 2) if last else x
    return functional.silu(functional.conv1d(x, weight[:, None], padding=weight.shape[1] - 1, groups=x.shape[1])[..., : x.shape[2]])


def sequences(library, shape, peers, packed=None):
    batch, time, channels, width, dtype, last = shape
    size = (batch, time, channels) if last else (batch, channels, time)
    count = math.prod(size)
    options = dict(channels_last=last, silu=True)
    if packed is not None:
        options["cu_seqlens"] = packed

    def make():
        x, dy = (torch.randn(*size, device="cuda").to(dtype) for _ in range(2))
        weight = (torch.randn(channels, width, device="cuda") / 2).to(dtype)
        return x, dy, weight, torch.full_like(x, math.nan), torch.full_like(x, math.nan), torch.full_like(weight, math.nan)

    sets = [make() for _ in range(max(2, min(24, ROTATE_BYTES // (4 * count * dtype.itemsize) + 1)))]
    launches = max(10, len(sets))

    def forward(i):
        x, dy, weight, y, dx, dweight = sets[i % len(sets)]
        library.causal_conv1d_forward(x, weight, y, **options)

    def backward(i):
        x, dy, weight, y, dx, dweight = sets[i % len(sets)]
        library.causal_conv1d_backward(dy, x, weight, (dx, dweight, None, None, None), **options)

    def both(i):
        forward(i)
        backward(i)

    both(0)
    x, dy, weight, y, dx, dweight = sets[0]
    error = {}
    if packed is None:
        some = slice(0, 16)
        part, exact_weight = (x[..., some] if last else x[:, some]).double().requires_grad_(), weight[some].double().requires_grad_()
        exact = chain(part, exact_weight, last)
        exact = exact.transpose(1, 2) if last else exact
        gradients = torch.autograd.grad(exact, (part, exact_weight), (dy[..., some] if last else dy[:, some]).double())
        cut = (lambda t: t[..., some]) if last else (lambda t: t[:, some])
        error = {"y": relative(cut(y), exact.detach()), "dx": relative(cut(dx), gradients[0]), "dweight": relative(dweight[some], gradients[1])}
        limit = {BF16: 4e-3, FP16: 1e-3, FP32: 1e-6}[dtype]
        if not all(value <= limit for value in error.values()):
            raise SystemExit(f"bench: {shape}: wrong results, errors {error}")
    copy = copy_time(count, dtype)
    times = {"forward": graph_time(forward, launches), "backward": graph_time(backward, launches), "forward+backward": graph_time(both, launches)}
    peer = {}
    if peers:
        leaf, leaf_weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        to = dy.transpose(1, 2) if last else dy
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.autograd.grad(chain(leaf, leaf_weight, last), (leaf, leaf_weight), to)
        torch.cuda.synchronize()
        peer["forward"] = graph_time(lambda i: chain(x, weight, last), 2, 3)
        peer["forward+backward"] = graph_time(lambda i: torch.autograd.grad(chain(leaf, leaf_weight, last), (leaf, leaf_weight), to), 2, 3)
    records = []
    for direction, traffic in (("forward", 1.0), ("backward", 1.5), ("forward+backward", 2.5)):
        record = {"operator": "causal_conv1d", "direction": direction, "dtype": NAMES[dtype],
                  "shape": {"B": batch, "T": time, "D": channels, "W": width, **({"sequences": packed.numel() - 1} if packed is not None else {})},
                  "layout": "channels last" if last else "channels first", "activation": "silu", "implementation": "cuda.fused",
                  "device_ms": times[direction], "copy_ms": copy, "floor_ms": copy * traffic, "share_of_copy": copy * traffic / times[direction],
                  **({"error": error} if error else {})}
        if direction in peer:
            record["peers"] = {"F.conv1d + silu": {"device_ms": peer[direction]}}
        records.append(record)
    shares = " ".join(f"{r['direction']} {r['device_ms']:.4f} ({r['share_of_copy']:.3f})" for r in records)
    print(f"{NAMES[dtype]} B{batch} T{time} D{channels} W{width} {'last' if last else 'first'}{f' packed {packed.numel() - 1}' if packed is not None else ''}: "
          f"copy {copy:.4f} {shares} torch {peer.get('forward', 0):.3f} / {peer.get('forward+backward', 0):.3f}", flush=True)
    return records


def update(library, shape):
    rows, channels, width, dtype, layout = shape
    count = rows * channels

    def make():
        x, weight = torch.randn(rows, channels, device="cuda").to(dtype), (torch.randn(channels, width, device="cuda") / 2).to(dtype)
        state = torch.randn(rows, channels, width - 1, device="cuda").to(dtype)
        if layout == "channels inside":
            state = state.transpose(1, 2).contiguous().transpose(1, 2)
        return x, state, weight, torch.full_like(x, math.nan)

    set_bytes = (2 + 2 * (width - 1)) * count * dtype.itemsize
    warm = [make()]
    sets = [make() for _ in range(min(20, max(2, ROTATE_BYTES // set_bytes + 1)))] if rows >= 256 else warm
    x, state, weight, y = sets[0]
    window = torch.cat([state, x[..., None]], -1).double()
    library.causal_conv1d_update(x, state, weight, y, silu=True)
    error = relative(y, functional.silu((window * weight.double()).sum(-1)))
    if not error <= 4e-3 or not torch.equal(state, window[..., 1:].to(dtype)):
        raise SystemExit(f"bench: update {shape}: wrong results, error {error}")

    def run(i):
        x, state, weight, y = sets[i % len(sets)]
        library.causal_conv1d_update(x, state, weight, y, silu=True)

    device = graph_time(run, 20)
    copy = copy_time(set_bytes // 2 // dtype.itemsize, dtype) if rows >= 256 else None
    record = {"operator": "causal_conv1d", "direction": "update", "dtype": NAMES[dtype], "shape": {"N": rows, "D": channels, "W": width},
              "layout": layout, "activation": "silu", "implementation": "cuda.fused", "device_ms": device, "error": {"y": error}}
    if copy:
        record.update(copy_ms=copy, share_of_copy=copy / device)
    print(f"update N{rows} D{channels} {layout}: {device * 1e3:.2f} us" + (f" share of copy {copy / device:.3f}" if copy else ""), flush=True)
    return [record]


def lengths_of(kind, total):
    generator = torch.Generator().manual_seed(3)
    if kind == "random":  # of mean 512
        cuts = torch.randperm(total - 1, generator=generator)[: total // 512 - 1].sort().values + 1
        return torch.cat([torch.zeros(1, dtype=torch.int64), cuts, torch.tensor([total])]).to(torch.int32).cuda()
    lengths = torch.randint(1, 5, (4096,), generator=generator)
    return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(torch.int32).cuda()


def eager():
    """Of calls through torch, which need libfaltung_torch beside the library."""
    import gpu_causal_torch
    times = gpu_causal_torch.wall_times()
    records = []
    for direction in ("forward", "update", "forward+backward"):
        wall, peer = times[f"causal_conv1d {direction}"] / 1e3, times[f"multiply {direction.replace('update', 'forward')}"] / 1e3
        shape = {"N": 2, "D": 256, "W": 4} if direction == "update" else {"B": 2, "T": 64, "D": 256, "W": 4}
        records.append({"operator": "causal_conv1d", "direction": direction, "dtype": "bf16", "shape": shape, "layout": "channels last",
                        "activation": "silu", "implementation": "cuda.fused", "wall_ms": wall, "peers": {"torch.mul": {"wall_ms": peer}}})
        print(f"eager {direction}: {wall * 1e3:.1f} us, torch's multiply {peer * 1e3:.1f} us", flush=True)
    return records


def targets():
    """(name, condition on a record, value of a record, bound, whether more is better)"""
    def dense(direction, dtype, time, channels, layout, share):
        return (f"{direction} {dtype} {time} x {channels} {layout}, share of copy",
                lambda r: (r["direction"], r["dtype"], r["layout"]) == (direction, dtype, layout) and r["shape"].get("T") == time
                and r["shape"]["D"] == channels and r["shape"]["W"] == 4 and r["shape"].get("B") == 1 and "sequences" not in r["shape"] and "device_ms" in r,
                lambda r: r["share_of_copy"], share, True)  # fmt: skip

    for layout, small, large in (("channels last", 0.88, 0.95), ("channels first", 0.90, 0.90)):
        for time, channels, share in ((8192, 4096, small), (8192, 8192, large), (32768, 8192, large)):
            yield dense("forward", "bf16", time, channels, layout, share)
            yield dense("backward", "bf16", time, channels, layout, 0.90)
        yield dense("forward", "fp32", 8192, 8192, layout, large)
        yield dense("backward", "fp32", 8192, 8192, layout, 0.90)
        for direction in ("forward", "backward"):
            for kind, share in (("random", 0.95), ("short", 0.5)):
                yield (f"{direction} bf16 packed {kind} {layout}, share of dense",
                       lambda r, d=direction, k=kind, y=layout: (r["direction"], r.get("packed"), r["layout"]) == (d, k, y),
                       lambda r: r["share_of_dense"], share, True)  # fmt: skip

    def update(rows, layout):
        return lambda r: (r["direction"], r["shape"].get("N"), r["layout"]) == ("update", rows, layout) and "device_ms" in r

    for layout in ("columns inside", "channels inside"):
        for rows, most in ((1, 1.2), (64, 3.0)):
            yield f"update N = {rows} {layout}, us", update(rows, layout), lambda r: r["device_ms"] * 1e3, most, False
        for rows in (512, 2048):
            yield f"update N = {rows} {layout}, share of copy", update(rows, layout), lambda r: r["share_of_copy"], 0.9, True
    for direction, most in (("forward", 12), ("update", 10), ("forward+backward", 90)):
        yield (f"eager {direction} above torch's multiply, us", lambda r, d=direction: r["direction"] == d and "wall_ms" in r,
               lambda r: (r["wall_ms"] - r["peers"]["torch.mul"]["wall_ms"]) * 1e3, most, False)  # fmt: skip


def print_targets(records):
    for name, wanted, value, bound, more in targets():
        for found in (value(record) for record in records if wanted(record)):
            print(f"{'met   ' if (found >= bound if more else found <= bound) else 'missed'} {name}: {found:.3g}, target {bound}")


def bench(library, arguments):
    records = []

    def add(found):
        """Written at once: a run that is cut short leaves what it has."""
        records.extend(found)
        properties = torch.cuda.get_device_properties(0)
        result = {"machine": {"gpu": properties.name, "multiprocessors": properties.multi_processor_count},
                  "versions": {"torch": torch.__version__, "cuda": torch.version.cuda, "faltung": library.core.faltung_version().decode()},
                  "commit": arguments.commit, "cuda_sources": arguments.cuda_sources or cuda_sources_hash(),
                  "date": datetime.date.today().isoformat(), "records": records}
        with open(os.path.join(arguments.output, "causal_conv1d.json"), "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")

    os.makedirs(arguments.output, exist_ok=True)
    if not arguments.only or arguments.only == "update":
        for shape in UPDATES:
            add(update(library, shape))
    for shape in SHAPES:
        text = f"{NAMES[shape[4]]} T{shape[1]} D{shape[2]} W{shape[3]} {'last' if shape[5] else 'first'}"
        if not arguments.only or arguments.only in text:
            add(sequences(library, shape, not arguments.no_peers))
            torch.cuda.empty_cache()
    for kind, time, channels in (("random", 8192, 8192), ("short", 0, 4096)):
        lengths = lengths_of(kind, time)
        for last in (True, False) if not arguments.only or arguments.only == "packed" else ():
            shape = (1, int(lengths[-1]) // 8 * 8, channels, 4, BF16, last)
            dense, packed = sequences(library, shape, False), sequences(library, shape, False, lengths)
            for record, whole in zip(packed, dense):
                record.update(packed=kind, share_of_dense=whole["device_ms"] / record["device_ms"])
            add(packed if kind == "random" else dense + packed)
    if not arguments.only or arguments.only == "eager":
        os.environ.setdefault("FALTUNG_LIBRARY_DIR", os.path.abspath(arguments.library))
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
        try:
            add(eager())
        except ImportError as missing:
            print(f"eager calls: not measured, {missing}")
    print_targets(records)
