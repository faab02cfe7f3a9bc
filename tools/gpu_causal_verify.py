"""The verify and promises steps of tools/gpu_check.py for causal_conv1d: the grid of tests/cases/causal_conv1d.json on the GPU against
cpu.reference in double, every implementation of the CUDA list, poisoned outputs; bits of one implementation against the other."""
import collections
import itertools
import json
import math
import os
import random

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IMPLEMENTATIONS = ("cuda.fused", "cuda.any")
NAMES = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
Case = collections.namedtuple("Case", "batch time channels width dtypes last silu arrangement parameters state extra cut lengths")


def cases():
    with open(os.path.join(ROOT, "tests", "cases", "causal_conv1d.json")) as file:
        data = json.load(file)
    dtypes = [[NAMES[name] for name in names] for names in data["dtypes"]]
    choose = random.Random(5)
    for entry, last, silu in itertools.product(data["grid"], (False, True), (False, True)):
        for kinds in choose.sample(dtypes, 3):
            yield Case(entry.get("batch", 2), entry["time"], entry["channels"], entry["width"], kinds, last, silu,
                       choose.choice(("contiguous", "sliced", "offset")), choose.random() < 0.5, choose.random() < 0.5, choose.randint(0, 1), "whole", None)
    for entry, last in itertools.product(data["cuts"], (False, True)):
        for cut, kinds in itertools.product(("packed", "padded", "labelled"), choose.sample(dtypes, 2)):
            lengths, width, channels = entry["lengths"], entry["width"], entry["channels"]
            time = (max(lengths, default=0) if cut == "padded" else sum(lengths)) + entry["padding"]
            batch = len(lengths) if cut == "padded" else 1
            yield Case(batch, time, channels, width, kinds, last, choose.random() < 0.5, choose.choice(("contiguous", "offset")), True,
                       choose.random() < 0.7, choose.randint(0, 1), cut, lengths)
    # Sizes at which the tuned kernels divide their work.
    for dtype, width, last in itertools.product((torch.bfloat16, torch.float16, torch.float32), (2, 3, 4, 5, 8), (False, True)):
        for batch, time, channels in ((1, 4096, 264), (3, 1000, 1032), (2, 80, 4096), (5, 24, 64), (1, 16384, 8)):
            yield Case(batch, time, channels, width, [dtype] * 3, last, True, "contiguous", width == 3, width == 4, 0, "whole", None)
        for lengths in ([700, 1, 2, 3, 1500, 40, 0, 8], [3, 1, 4, 2] * 100):
            for cut in ("packed", "labelled"):
                yield Case(1, sum(lengths) + 5 + -(sum(lengths) + 5) % 8, 520, width, [dtype] * 3, last, True, "contiguous", cut == "labelled", width != 3, 0,
                           cut, lengths)
        yield Case(4, 704, 520, width, [dtype] * 3, last, width != 2, "contiguous", width == 3, width != 3, 0, "padded", [700, 1, 0, 333])
    # Several shares of a row, each cut in a few places or all over.
    for dtype, width, last, state in itertools.product((torch.bfloat16, torch.float32), (2, 4, 7), (False, True), (False, True)):
        few, many = [choose.randint(300, 3000) for _ in range(9)], [choose.randint(1, 4) for _ in range(4000)]
        for cut, lengths in (("packed", few), ("packed", many), ("labelled", few + many[:500] + [3000]), ("padded", few[:3])):
            total = max(lengths) if cut == "padded" else sum(lengths)
            yield Case(3 if cut == "padded" else 1, (total + 15) // 8 * 8, 16, width, [dtype] * 3, last, True, "contiguous", state, state, 0, cut, lengths)


def place(tensor, arrangement, device):
    tensor = tensor.to(device)
    if arrangement == "sliced":
        wide = torch.full((*tensor.shape[:-1], tensor.shape[-1] + 3), math.nan, dtype=tensor.dtype, device=device)
        wide[..., 1:-2] = tensor
        return wide[..., 1:-2]
    if arrangement == "offset":
        flat = torch.full((tensor.numel() + 1,), math.nan, dtype=tensor.dtype, device=device)
        flat[1:] = tensor.flatten()
        return flat[1:].view(tensor.shape)
    return tensor.contiguous()


def make_inputs(case, seed):
    """On the CPU; index tensors among them."""
    generator = torch.Generator().manual_seed(seed)
    x_dtype, weight_dtype, state_dtype = case.dtypes
    shape = (case.batch, case.time, case.channels) if case.last else (case.batch, case.channels, case.time)
    sequences = len(case.lengths) if case.cut == "packed" else case.batch

    def normal(*size, dtype, scale=1.0):
        return (torch.randn(*size, generator=generator, dtype=torch.float64) * scale).to(dtype)

    states = (sequences, case.channels, case.width - 1 + case.extra)
    inputs = {"x": normal(*shape, dtype=x_dtype), "dy": normal(*shape, dtype=x_dtype),
              "weight": normal(case.channels, case.width, dtype=weight_dtype, scale=case.width**-0.5)}
    if case.parameters:
        inputs["bias"], inputs["residual"] = normal(case.channels, dtype=weight_dtype), normal(*shape, dtype=x_dtype)
    if case.state:
        inputs["initial_state"], inputs["dfinal_state"] = normal(*states, dtype=state_dtype), normal(*states, dtype=state_dtype)
    index = {}
    if case.cut == "packed":
        index["cu_seqlens"] = torch.tensor([0, *torch.tensor(case.lengths, dtype=torch.int64).cumsum(0).tolist()],
                                           dtype=(torch.int32, torch.int64)[seed % 2])
    elif case.cut == "padded":
        index["lengths"] = torch.tensor(case.lengths, dtype=(torch.int32, torch.int64)[seed % 2])
    elif case.cut == "labelled":
        labels = torch.cat([torch.full((length,), i % 3) for i, length in enumerate(case.lengths)] + [torch.full((case.time,), -1)])
        index["seq_idx"] = labels[: case.time][None].to(torch.int32).contiguous()
    return inputs, index, states


def results_of(library, case, inputs, index, states, device, implementation, state_dtype):
    """All outputs, poisoned before; of the forward and of the backward."""
    put = {name: place(t, case.arrangement if name in ("x", "dy", "residual") else "contiguous", device) for name, t in inputs.items()}
    index = {name: t.to(device) for name, t in index.items()}
    x, dy, weight = put.pop("x"), put.pop("dy"), put.pop("weight")
    residual, dfinal = put.pop("residual", None), put.pop("dfinal_state", None)

    def poisoned(like):
        return torch.full_like(like, math.nan) if like is not None else None

    options = dict(channels_last=case.last, silu=case.silu, implementation=implementation, **put, **index)
    y, final = poisoned(x), torch.full(states, math.nan, dtype=state_dtype, device=device)
    library.causal_conv1d_forward(x, weight, y, final, residual=residual, **options)
    # The tuned kernels of the backward serve calls without dresidual.
    gradients = [poisoned(x), poisoned(weight), poisoned(put.get("bias")), poisoned(put.get("initial_state")), poisoned(x) if case.extra else None]
    library.causal_conv1d_backward(dy, x, weight, gradients, dfinal, **options)
    found = dict(zip(("y", "final", "dx", "dweight", "dbias", "dstate", "dresidual"), (y, final, *gradients)))
    return {name: t.cpu() for name, t in found.items() if t is not None}


def relative(value, reference):
    difference, norm = (value.double() - reference).norm().item(), reference.norm().item()
    return difference if norm == 0 else difference / norm


def equal_bits(a, b):
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return torch.equal(a.contiguous().view(kind), b.contiguous().view(kind))


def bound(name, dtype, x_dtype, reference, conditioning):
    if name in ("final", "dresidual"):
        return 0.0 if dtype == x_dtype else relative(reference.to(dtype), reference)
    rounding = relative(reference.to(dtype), reference)
    single, double = 5e-7 * conditioning, 1e-13 * conditioning
    return max(double if x_dtype == torch.float64 else single,
               {torch.float64: double, torch.float32: single, torch.bfloat16: 1.1 * rounding, torch.float16: 1.2 * rounding}[dtype])


def conditioning(name, inputs, reference):
    """How much larger a gradient of weight or bias would be if its sums did not cancel, at least 1: rounding errors are those of the terms."""
    terms = {"dbias": inputs["dy"].norm(), "dweight": inputs["dy"].norm() * inputs["x"].norm() * (inputs["weight"].shape[1] / max(1, inputs["x"].numel())) ** 0.5}
    return max(1.0, (terms[name] / reference.norm()).item()) if name in terms and reference.norm() > 0 else 1.0


def verify(library, arguments, share, shares):
    """Every `shares`-th case from `share` on: [failures, cases, {(implementation, dtype, result): worst error / bound}]"""
    failures, count, worst = 0, 0, collections.defaultdict(float)
    chosen = [(index, case) for index, case in enumerate(cases()) if index % arguments.every == 0 and arguments.only in str(case)]
    for index, case in chosen[share::shares]:
        if arguments.small and case.batch * case.channels * case.time * case.width > 2e5:
            continue
        count += 1
        try:
            inputs, cut, states = make_inputs(case, index)
            state_dtype = case.dtypes[2] if case.state else case.dtypes[0]
            double = {name: t.double() for name, t in inputs.items()}
            expected = results_of(library, case, double, cut, states, "cpu", "cpu.reference", torch.float64)
            fused, plain = (results_of(library, case, inputs, cut, states, "cuda", name, state_dtype) for name in IMPLEMENTATIONS)
            for implementation, results in zip(IMPLEMENTATIONS, (fused, plain)):
                for name, value in results.items():
                    error = relative(value, expected[name])
                    limit = bound(name, value.dtype, case.dtypes[0], expected[name], conditioning(name, double, expected[name]))
                    key = (implementation, str(case.dtypes[0]).split(".")[1], name)
                    worst[key] = max(worst[key], error / limit if limit else error)
                    if not error <= limit:
                        failures += 1
                        print(f"FAILED {case}: {name} by {implementation}: error {error:.3e}, bound {limit:.3e}", flush=True)
            for name in {"y", "final", "dresidual"} & fused.keys():
                if not equal_bits(fused[name], plain[name]):
                    failures += 1
                    print(f"FAILED {case}: {name}: the implementations differ in bits", flush=True)
        except Exception as problem:  # every case is to be reported
            failures += 1
            print(f"FAILED {case}: {type(problem).__name__}: {problem}", flush=True)
            if "illegal" in str(problem) or "unspecified launch" in str(problem):
                break
    return failures, count, dict(worst)
