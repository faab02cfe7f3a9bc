#!/usr/bin/env python3
"""long_conv on the CPU against the torch.fft chain (torch_chain.py says which lengths it takes), in one process, taking turns.

Three groups: `grids` (2D, K = 2N-1, B=8, C=64, N = 16, 32, 64, fp32 and bf16, 1 and 2 threads), `sequences` (1D causal, K = N) and
`sweep` (1 to 3 axes from 32 points up: is any shape slower than the chain?). The errors of a shape against double are checked before
it is timed.
"""
import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

import measure

measure.warm_heap()

import faltung  # noqa: E402  (after the heap is set up)
import torch  # noqa: E402
import torch_chain  # noqa: E402
from tqdm import tqdm  # noqa: E402

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Shape:
    group: str
    batch: int
    channels: int
    points: tuple[int, ...]
    taps: tuple[int, ...]
    boundary: str = "zero"
    dtype: str = "fp32"
    threads: int = 2

    def as_json(self) -> dict:
        plain = (lambda extents: extents[0]) if len(self.points) == 1 else list
        return {"B": self.batch, "C": self.channels, "N": plain(self.points), "K": plain(self.taps)}

    def __str__(self) -> str:
        grid = "x".join(map(str, self.points))
        return f"{self.boundary} {grid}, K={'x'.join(map(str, self.taps))}, B={self.batch}, C={self.channels}, {self.dtype}, {self.threads} threads"


@dataclass
class Tensors:
    x: torch.Tensor
    k: torch.Tensor
    dy: torch.Tensor
    inputs: tuple[torch.Tensor, torch.Tensor] = field(init=False)

    def __post_init__(self):
        self.inputs = (self.x.detach().clone().requires_grad_(), self.k.detach().clone().requires_grad_())


def make_tensors(shape: Shape) -> Tensors:
    generator = torch.Generator().manual_seed(17)
    dtype = DTYPES[shape.dtype]
    full = (shape.batch, shape.channels, *shape.points)
    taps = 1
    for extent in shape.taps:
        taps *= extent
    return Tensors(
        x=torch.randn(full, generator=generator).to(dtype),
        k=(torch.randn((shape.channels, *shape.taps), generator=generator) / taps**0.5).to(dtype),
        dy=torch.randn(full, generator=generator).to(dtype),
    )


def results(operator, x, k, dy, boundary) -> dict[str, torch.Tensor]:
    x, k = x.detach().requires_grad_(), k.detach().requires_grad_()
    y = operator(x, k, boundary=boundary)
    dx, dk = torch.autograd.grad(y, (x, k), dy)
    return {"y": y.detach(), "dx": dx, "dk": dk}


def error_bound(shape: Shape, rounding: float) -> float:
    """The contract's bound; `rounding` is the error of the correctly rounded double result."""
    if shape.dtype == "bf16":
        return 1.1 * rounding
    if shape.dtype == "fp16":
        return 2.2 * rounding
    if shape.dtype == "fp64":
        return 1e-13
    return 3e-7 if max(shape.points) <= 64 else 1e-6


class NotTimed(Exception):
    """Wrong results, or none but the reference serves the shape: it is not timed, and the run fails in the end."""


def check_errors(shape: Shape, tensors: Tensors) -> dict[str, float]:
    """Errors of the output and the gradients against the chain in double."""
    expected = results(torch_chain.long_conv, tensors.x.double(), tensors.k.double(), tensors.dy.double(), shape.boundary)
    got = results(faltung.long_conv, tensors.x, tensors.k, tensors.dy, shape.boundary)
    errors = {}
    for name, reference in expected.items():
        errors[name] = measure.relative_error(got[name], reference)
        bound = error_bound(shape, measure.relative_error(reference.to(DTYPES[shape.dtype]), reference))
        if not errors[name] <= bound:
            raise NotTimed(f"{shape}: the relative error of {name} is {errors[name]:.3e}, expected at most {bound:.3e}")
    return {name: float(f"{value:.3e}") for name, value in errors.items()}


def chosen_implementation(shape: Shape, tensors: Tensors) -> str:
    chosen = [
        faltung.explain("long_conv", tensors.x, tensors.k, boundary=shape.boundary, direction=direction).chosen
        for direction in ("forward", "backward")
    ]
    return chosen[0] if chosen[0] == chosen[1] else " / ".join(chosen)


def measure_shape(shape: Shape, seconds: float) -> list[dict]:
    torch.set_num_threads(shape.threads)
    tensors = make_tensors(shape)
    implementation = chosen_implementation(shape, tensors)
    if "reference" in implementation:
        raise NotTimed(f"{shape}: served by {implementation}, which is for tests")
    errors = check_errors(shape, tensors)
    x, k = tensors.inputs

    def forward(operator):
        with torch.no_grad():
            return operator(tensors.x, tensors.k, boundary=shape.boundary)

    def both(operator):
        return torch.autograd.grad(operator(x, k, boundary=shape.boundary), (x, k), tensors.dy)

    records = []
    for direction, call in (("forward", forward), ("forward+backward", both)):
        ours, chain = measure.time_alternating(
            [lambda call=call: call(faltung.long_conv), lambda call=call: call(torch_chain.long_conv)], seconds=seconds
        )
        records.append(
            {
                "operator": "long_conv", "group": shape.group, "direction": direction, "dtype": shape.dtype, "shape": shape.as_json(),
                "boundary": shape.boundary, "layout": "channels_first", "threads": shape.threads, "implementation": implementation,
                "wall_ms": round(ours.warm, 5), "wall_cold_ms": round(ours.cold, 5), "error": errors,
                "peers": {"torch.fft": {"wall_ms": round(chain.warm, 5), "wall_cold_ms": round(chain.cold, 5)}},
                "chain_lengths": [torch_chain.transform_length(shape.boundary, n, t) for n, t in zip(shape.points, shape.taps)],
            }
        )  # fmt: skip
    return records


def ratio(record: dict, time: str = "wall_ms") -> float:
    return record["peers"]["torch.fft"][time] / record[time]


# ---- the shapes ----------------------------------------------------------------------------------------------


def grids(threads: list[int]) -> list[Shape]:
    return [
        Shape("grids", 8, 64, (n, n), (2 * n - 1, 2 * n - 1), dtype=dtype, threads=count)
        for count in threads for dtype in ("fp32", "bf16") for n in (16, 32, 64)
    ]  # fmt: skip


def sequences(threads: list[int]) -> list[Shape]:
    return [
        Shape("sequences", batch, channels, (length,), (length,), "causal", dtype, count)
        for count in threads for dtype in ("fp32", "bf16")
        for batch, channels, length in ((8, 64, 1024), (2, 64, 8192), (1, 64, 65536))
    ]  # fmt: skip


SWEEP_POINTS = {
    1: (32, 48, 63, 64, 96, 100, 127, 128, 192, 256, 512, 1000, 1024, 4096, 16384, 65536, 262144, 1 << 20),
    2: (32, 48, 63, 64, 96, 100, 127, 128, 192, 256, 512),
    3: (32, 48, 63, 64, 96),
}


def sweep(threads: int, rank: int) -> list[Shape]:
    """Whole-grid filters under each boundary and small ones under zero and causal, about a million points in all."""
    shapes = []
    for n in SWEEP_POINTS[rank]:
        images = max(1, min(64, (1 << 20) // n**rank))
        batch = 2 if images >= 4 else 1
        channels = max(1, min(32, images // batch))
        whole = [("zero", 2 * n - 1), ("circular", n), ("causal", n)]
        small = [("zero", taps) for taps in (3, 7, 31) if taps < n] + [("causal", taps) for taps in ((4, 128) if rank == 1 else ()) if taps < n]
        shapes += [Shape("sweep", batch, channels, (n,) * rank, (taps,) * rank, boundary, threads=threads) for boundary, taps in whole + small]
    return shapes


# ---- what people see -----------------------------------------------------------------------------------------


def print_group(records: list[dict], title: str) -> None:
    print(f"\n{title}")
    rows = []
    for forward, both in zip(records[::2], records[1::2]):
        shape, error = forward["shape"], forward["error"]
        extent = shape["N"] if isinstance(shape["N"], int) else "x".join(map(str, shape["N"]))
        images = shape["B"] * shape["C"]
        rows.append(
            [extent, forward["dtype"], forward["threads"], forward["implementation"]]
            + [f"{value * 1e3 / images:.2f}" for value in (forward["wall_ms"], forward["peers"]["torch.fft"]["wall_ms"])]
            + [f"{ratio(forward):.2f}"]
            + [f"{value * 1e3 / images:.2f}" for value in (both["wall_ms"], both["peers"]["torch.fft"]["wall_ms"])]
            + [f"{ratio(both):.2f}", f"{ratio(both, 'wall_cold_ms'):.2f}"]
            + [f"{error[name]:.1e}" for name in ("y", "dx", "dk")]
        )
    head = ["N", "dtype", "threads", "implementation", "fwd us/image", "chain", "ratio", "fwd+bwd us/image", "chain", "ratio",
            "cold", "error y", "dx", "dk"]  # fmt: skip
    measure.print_table(head, rows)


def describe(record: dict) -> str:
    shape = record["shape"]
    return f"{record['boundary']} N={shape['N']} K={shape['K']} B={shape['B']} C={shape['C']} {record['direction']} ({record['implementation']})"


def print_sweep(records: list[dict]) -> None:
    ordered = sorted(records, key=ratio)
    slower = [record for record in ordered if ratio(record) < 1]
    print(f"\nSweep of {len(records)} measurements, fp32, {records[0]['threads']} threads: {len(slower)} slower than the torch.fft chain")
    print("Those that came closest to the chain, or stayed behind it (chain time / our time):")
    for record in ordered[: max(8, len(slower))]:
        print(f"  {ratio(record):6.2f}  {describe(record)}: {record['wall_ms']:.3f} ms, chain {record['peers']['torch.fft']['wall_ms']:.3f} ms")


def plot(records: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    both = [record for record in records if record["direction"] == "forward+backward"]
    figure, (bars, points) = pyplot.subplots(1, 2, figsize=(13, 5), width_ratios=(1, 1.3))
    shown = [record for record in both if record["group"] == "grids"]
    for at, record in enumerate(shown):
        bars.bar(at, ratio(record), color="#1f6f8b" if record["dtype"] == "fp32" else "#e0a030")
        bars.text(at, ratio(record), f"{ratio(record):.1f}", ha="center", va="bottom", fontsize=8)
    bars.set_xticks(range(len(shown)), [f"{r['shape']['N'][0]}²\n{r['dtype']}\n{r['threads']} thr." for r in shown], fontsize=7)
    bars.set_ylabel("times faster than the torch.fft chain")
    bars.set_title("forward + backward, B=8, C=64, K=2N-1", fontsize=10)
    for boundary, colour in (("zero", "#1f6f8b"), ("circular", "#7a9a3a"), ("causal", "#b5443c")):
        chosen = [record for record in both if record["group"] in ("sweep", "sequences") and record["boundary"] == boundary]
        totals = [total_points(record) for record in chosen]
        points.scatter(totals, [ratio(record) for record in chosen], s=14, color=colour, label=boundary)
    points.axhline(1, color="black", linewidth=0.8)
    points.set(xscale="log", yscale="log", xlabel="points of one image or sequence", title="every other shape measured")
    points.legend()
    for axes in (bars, points):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    print(f"wrote {path}")


def total_points(record: dict) -> int:
    extents = record["shape"]["N"] if isinstance(record["shape"]["N"], list) else [record["shape"]["N"]]
    total = 1
    for extent in extents:
        total *= extent
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=measure.RESULTS / "cpu/long_conv.json", help="where the records go")
    parser.add_argument("--plot", type=Path, help="also draw the ratios into this PNG")
    parser.add_argument("--groups", nargs="+", choices=("grids", "sequences", "sweep"), default=["grids", "sequences", "sweep"])
    parser.add_argument("--rank", nargs="+", type=int, choices=(1, 2, 3), default=[1, 2, 3], help="of the sweep")
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, min(2, torch.get_num_threads())}))
    parser.add_argument("--seconds", type=float, default=0.4, help="per measurement of the first two groups; a fourth of it in the sweep")
    arguments = parser.parse_args()

    shapes = grids(arguments.threads) if "grids" in arguments.groups else []
    shapes += sequences(arguments.threads) if "sequences" in arguments.groups else []
    if "sweep" in arguments.groups:
        shapes += [shape for rank in arguments.rank for shape in sweep(max(arguments.threads), rank)]
    records, failures = [], []
    with tqdm(shapes, unit="shape", leave=False, mininterval=0.5) as progress:
        for shape in progress:
            progress.set_postfix_str(str(shape)[:60], refresh=False)
            try:
                records += measure_shape(shape, arguments.seconds if shape.group != "sweep" else arguments.seconds / 4)
            except NotTimed as failure:
                failures.append(str(failure))
    for group, title in (("grids", "2D, K=2N-1, B=8, C=64"), ("sequences", "1D causal, K=N")):
        if chosen := [record for record in records if record["group"] == group]:
            print_group(chosen, title)
    if chosen := [record for record in records if record["group"] == "sweep"]:
        print_sweep(chosen)
    measure.write_records(arguments.json, records)
    print(f"wrote {len(records)} records to {arguments.json}")
    if arguments.plot:
        plot(records, arguments.plot)
    if failures:
        sys.exit("\n".join([f"NOT timed, {len(failures)} of {len(shapes)} shapes:", *failures]))


if __name__ == "__main__":
    main()
