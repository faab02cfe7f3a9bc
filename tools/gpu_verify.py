"""The verify and promises steps of tools/gpu_check.py."""
import collections
import itertools
import math

import torch

from gpu_cases import BF16, FP16, FP32, FP64, Case, cases

TRANSFORMED = ("cuda.spectral", "cuda.spectral_passes")


def make_inputs(case, seed, device="cuda"):
    """x, dy, k, shortcut on the device, in the case's layout and view."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def place(tensor, dtype, spatial_first):
        """Channels first values in the layout and view of the case."""
        tensor = tensor.to(dtype)
        if case.channels_last:
            tensor = tensor.movedim(spatial_first - 1, -1).contiguous()
        tensor = tensor.to(device)
        if case.view == "sliced":
            wide = torch.full((*tensor.shape[:-1], tensor.shape[-1] + 3), math.nan, dtype=dtype, device=device)
            wide[..., 1:-2] = tensor
            return wide[..., 1:-2]
        if case.view == "offset":
            flat = torch.full((tensor.numel() + 1,), math.nan, dtype=dtype, device=device)
            flat[1:] = tensor.flatten()
            return flat[1:].view(tensor.shape)
        return tensor

    x = random(case.batch, case.channels, *case.extents) + case.mean
    dy = random(case.batch, case.channels, *case.extents)
    if case.spread:
        scale = torch.tensor([4.0 ** (7 * b % 9 - 4) for b in range(case.batch)], dtype=torch.float64).view(-1, *[1] * (x.dim() - 1))
        x, dy = x * scale, dy * scale.flip(0)
    leading = (case.batch, case.channels) if case.per_sample else (case.channels,)
    k = random(*leading, *case.filters) / math.sqrt(math.prod(min(n, f) for n, f in zip(case.extents, case.filters)))
    if case.filter_shape != "white":
        grids = torch.meshgrid(*[torch.linspace(-1, 1, f, dtype=torch.float64) for f in case.filters], indexing="ij")
        distance = sum(grid**2 for grid in grids).sqrt()
        k = k * torch.exp(-4 * distance) if case.filter_shape == "decaying" else torch.exp(-3 * distance**2) * (1 + 0.1 * k) / 50
    shortcut = random(case.channels).to(case.dtype).to(device) if case.shortcut else None
    dy = place(dy, case.dtype, 2)
    if case.view == "expanded":
        dy = torch.ones(1, dtype=case.dtype, device=device).expand(dy.shape)
    return place(x, case.dtype, 2), dy, place(k, case.filter_dtype or case.dtype, len(leading)), shortcut


def relative(value, reference):
    difference, norm = (value.double() - reference).norm().item(), reference.norm().item()
    return difference if norm == 0 else difference / norm


def bound(case, name, implementation, reference, dtype):
    """The spec's bound for a result of this dtype; r is the error of the correctly rounded reference."""
    ideal = relative(reference.to(dtype), reference)
    x_dtype = case.dtype
    wide = {BF16: 1.1 * 1.7e-3, FP16: (2.2 if implementation in TRANSFORMED else 1.2) * 2.1e-4,
            FP32: 3e-7 if max(case.extents) <= 64 else 1e-6, FP64: 1e-13}
    factor = {BF16: 1.1, FP16: 2.2 if implementation in TRANSFORMED else 1.2}
    if x_dtype in factor and dtype == x_dtype:
        return factor[x_dtype] * ideal
    return max(wide[x_dtype], 1.1 * ideal)


def axes_of(case):
    """Boundary and centre of each axis."""
    names = [case.boundary] * len(case.extents) if isinstance(case.boundary, str) else list(case.boundary)
    default = {"zero": lambda f: f // 2, "circular": lambda f: (f - 1) // 2, "causal": lambda f: 0}
    return names, list(case.centre) if case.centre else [default[name](f) for name, f in zip(names, case.filters)]


def transformed_reference(x, dy, k, shortcut, extents, filters, boundaries, centres):
    """[y, dx, dk, dshortcut] in double by torch.fft, for 0 <= centre < filter: where cpu.reference would take seconds. Its own error is
    near 1e-15; verify() holds it against cpu.reference."""
    x, k = x.clone().requires_grad_(), k.clone().requires_grad_()
    axes, size, crop, taps = tuple(range(-len(extents), 0)), [], [], k
    for axis, n, f, boundary, centre in zip(axes, extents, filters, boundaries, centres):
        if boundary == "circular":
            shape = list(taps.shape)
            shape[axis] = n
            taps = torch.zeros(shape, dtype=taps.dtype).index_add(taps.dim() + axis, (torch.arange(f) - centre) % n, taps)
        size.append(n if boundary == "circular" else n + f - 1)
        crop.append(slice(0, n) if boundary == "circular" else slice(centre, centre + n))
    y = torch.fft.irfftn(torch.fft.rfftn(x, s=size, dim=axes) * torch.fft.rfftn(taps, s=size, dim=axes), s=size, dim=axes)[(..., *crop)]
    shape = (-1, *[1] * len(extents))
    leaves = [x, k]
    if shortcut is not None:
        leaves.append(shortcut.clone().requires_grad_())
        y = y + leaves[2].view(shape) * x
    gradients = torch.autograd.grad(y, leaves, dy)
    return [y.detach(), *gradients, *([None] if shortcut is None else [])]


def reference_of(library, case, exact, options):
    work = case.batch * case.channels * math.prod(case.extents) * math.prod(case.filters)
    boundaries, centres = axes_of(case)
    if work > 2e7 and all(0 <= centre < f for centre, f in zip(centres, case.filters)):
        firsts = [t.movedim(-1, -len(case.extents) - 1) if t is not None and case.channels_last else t for t in exact[:3]]
        results = transformed_reference(*firsts, exact[3], case.extents, case.filters, boundaries, centres)
        return [t.movedim(-len(case.extents) - 1, -1) if case.channels_last and i < 3 else t for i, t in enumerate(results)]
    empty = [torch.empty_like(tensor) if tensor is not None else None for tensor in (exact[0], exact[2], exact[3])]
    return [library.long_conv_forward(exact[0], exact[2], exact[3], implementation="cpu.reference", **options),
            *library.long_conv_backward(exact[1], exact[0], exact[2], exact[3], gradients=empty, implementation="cpu.reference", **options)]


def errors_of(library, case, seed):
    """[(result name, implementation, error, bound, error of rounding alone)]"""
    x, dy, k, shortcut = make_inputs(case, seed)
    options = dict(boundary=case.boundary, channels_last=case.channels_last, centre=case.centre)

    def poisoned(like):
        return torch.full_like(like, math.nan) if like is not None else None

    y = poisoned(x)
    gradients = (poisoned(x), poisoned(k), poisoned(shortcut))
    library.long_conv_forward(x, k, shortcut, y=y, **options)
    library.long_conv_backward(dy, x, k, shortcut, gradients=gradients, **options)
    torch.cuda.synchronize()

    def double(tensor):
        return tensor.detach().cpu().double() if tensor is not None else None

    exact = [double(tensor) for tensor in (x, dy, k, shortcut)]
    reference = reference_of(library, case, exact, options)
    names = [library.chosen(direction, x, k, **options) for direction in (0, 1)]
    results = []
    for name, value, expected in zip(("y", "dx", "dk", "dshortcut"), (y, *gradients), reference):
        if value is None:
            continue
        implementation = names[0] if name == "y" else names[1]
        results.append((name, implementation, relative(value.cpu(), expected), bound(case, name, implementation, expected, value.dtype),
                        relative(expected.to(value.dtype), expected)))
    return results


def check_references(library):
    """That the two references agree."""
    for filters, boundary in itertools.product(((63, 63), (30, 31)), ("zero", "circular", ("causal", "zero"))):
        inputs = [torch.randn(2, 2, 32, 32, dtype=torch.float64), torch.randn(2, 2, 32, 32, dtype=torch.float64),
                  torch.randn(2, *filters, dtype=torch.float64), torch.randn(2, dtype=torch.float64)]
        small = Case(2, 2, (32, 32), filters, FP64, shortcut=True, boundary=boundary)
        for value, expected in zip(transformed_reference(*inputs, small.extents, filters, *axes_of(small)),
                                   reference_of(library, small, inputs, dict(boundary=boundary))):
            if not relative(value, expected) < 1e-13:
                raise SystemExit(f"the two references differ at {small}")


def verify(library, arguments, share, shares):
    """Every `shares`-th case from `share` on: [failures, cases, {(implementation, dtype, result): worst error / bound}]"""
    if share == 0:
        print(library.info().replace("\n", "; "))
        check_references(library)
    failures, count, worst = 0, 0, collections.defaultdict(float)
    chosen = [(index, case) for index, case in enumerate(cases())
              if index % arguments.every == 0 and any(part in str(case) for part in arguments.only.split(","))]
    for index, case in chosen[share::shares]:
        if arguments.small and case.batch * case.channels * math.prod(case.extents) * math.prod(case.filters) > 2e7:
            continue
        count += 1
        try:
            for name, implementation, error, limit, ideal in errors_of(library, case, index):
                key = (implementation, str(case.dtype).split(".")[1], name)
                worst[key] = max(worst[key], error / limit if limit else error)
                if not error <= limit:
                    failures += 1
                    print(f"FAILED {case}: {name} by {implementation}: error {error:.3e}, bound {limit:.3e}, rounding {ideal:.3e}", flush=True)
        except Exception as problem:
            failures += 1
            print(f"FAILED {case}: {type(problem).__name__}: {problem}", flush=True)
            if "illegal" in str(problem) or "unspecified launch" in str(problem):
                break
    return failures, count, dict(worst)


def equal_bits(a, b):
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return torch.equal(a.contiguous().view(kind), b.contiguous().view(kind))


def promises(library, arguments, share, shares):
    """The promises that no error bound shows; grids of every dtype, every `shares`-th from `share` on."""
    failures = 0

    def expect(condition, text):
        nonlocal failures
        if not condition:
            failures += 1
            print("FAILED promise:", text, flush=True)

    def run(x, dy, k, gradients=True, **options):
        y = library.long_conv_forward(x, k, **options)
        if not gradients:
            return [y]
        return [y, *library.long_conv_backward(dy, x, k, gradients=(torch.empty_like(x), torch.empty_like(k), None), **options)[:2]]

    grids = ((14, 14), (16, 16), (32, 32), (40, 40), (64, 64), (100, 96), (300,), (9000,), (12, 20, 17))
    for dtype, extents in list(itertools.product((BF16, FP16, FP32, FP64), grids))[share::shares]:
        case = Case(9, 5, extents, tuple(2 * n - 1 for n in extents), dtype)
        x, dy, k, _ = make_inputs(case, extents[0])
        first = run(x, dy, k)
        repeats = 100 if extents[0] in (16, 32, 64, 100, 300) else 5
        expect(all(all(map(equal_bits, first, run(x, dy, k))) for _ in range(repeats)), f"repeats bitwise: {case}")
        for b in (1, 2, 3, 8):
            part = run(x[:b], dy[:b], k)
            expect(equal_bits(part[0], first[0][:b]) and equal_bits(part[1], first[1][:b]), f"bits independent of B = {b}: {case}")
        part = run(x[3:4, 2:3], dy[3:4, 2:3], k[2:3])
        expect(equal_bits(part[0], first[0][3:4, 2:3]) and equal_bits(part[1], first[1][3:4, 2:3]), f"bits independent of C: {case}")
        last = x.movedim(1, -1).contiguous().movedim(-1, 1)
        expect(equal_bits(run(last, dy, k)[0].contiguous(), first[0]), f"bits independent of strides: {case}")
        per_sample = k[None].expand(9, *k.shape).contiguous()
        expect(equal_bits(run(x, dy, per_sample)[0], first[0]), f"bits independent of sharing: {case}")
        for poison in (math.nan, math.inf, 1e30):
            spoilt = x.clone()
            spoilt[4, 1] = poison
            spoilt_y = run(spoilt, dy, k, gradients=False)[0]
            others = torch.ones(9, 5, dtype=torch.bool, device="cuda")
            others[4, 1] = False
            expect(equal_bits(spoilt_y[others], first[0][others]), f"{poison} stays in its image: {case}")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = run(x, dy, k)
        graph.replay()
        torch.cuda.synchronize()
        expect(all(map(equal_bits, captured, first)), f"same bits from a graph: {case}")
    if share != 0:
        return failures
    empty = torch.empty(0, 2, 16, 16, device="cuda", dtype=BF16)
    k = torch.randn(2, 31, 31, device="cuda").to(BF16)
    dk = torch.full_like(k, math.nan)
    library.long_conv_backward(empty, empty, k, gradients=(empty.clone(), dk, None))
    expect(bool((dk == 0).all()), "an empty batch gives a dk of zeros")
    grids = [((n,), ("causal",)) for n in (16, 300, 5000, 40000)]
    grids += [((20, 33), ("causal", "causal")), ((70, 131), ("causal", "causal")), ((300, 96), ("causal", "causal")), ((24, 300), ("zero", "causal")), ((200, 40), ("causal", "circular")),
              ((40, 70, 12), ("causal", "causal", "zero")), ((9, 20, 37), ("circular", "causal", "causal")),
              ((20, 18, 37), ("causal", "causal", "causal"))]
    for (extents, boundaries), dtype in itertools.product(grids, (BF16, FP32, FP64)):
        x = torch.randn(2, 3, *extents, device="cuda").to(dtype)
        k = torch.randn(3, *extents, device="cuda").to(dtype)
        y = library.long_conv_forward(x, k, boundary=boundaries)
        for axis, (length, boundary) in enumerate(zip(extents, boundaries), 2):
            for first in {first for first in (1, 17, length // 2, length - 5) if 0 < first < length} if boundary == "causal" else ():
                later = x.clone()
                later.narrow(axis, first, length - first).fill_(1e10)
                same = equal_bits(library.long_conv_forward(later, k, boundary=boundaries).narrow(axis, 0, first), y.narrow(axis, 0, first))
                expect(same, f"causal to the bit, {extents} {boundaries}, from {first} of axis {axis - 2}, {dtype}")
    return failures
