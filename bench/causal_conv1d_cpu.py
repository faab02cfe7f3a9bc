#!/usr/bin/env python3
"""causal_conv1d on the CPU against torch's own depthwise F.conv1d and silu, and against a copy of x, in one process, taking turns.

B=1, T=2048, D=1024, W=4 in fp32 and bf16, both layouts, 1 and 2 threads: forward with and without SiLU, forward+backward; and the update of
N rows. F.conv1d is timed on [B, D, T] and on [B, T, D]; ratios are against the faster of the two. The errors of a shape against double
are checked before it is timed.
"""
import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import measure

measure.warm_heap()

import faltung  # noqa: E402  (after the heap is set up)
import torch  # noqa: E402
from torch.nn import functional  # noqa: E402
from tqdm import tqdm  # noqa: E402

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Largest relative error of y; r is that of rounding the exact result once.
ERROR_BOUNDS = {"fp64": lambda r: 1e-13, "fp32": lambda r: 5e-7, "bf16": lambda r: 1.1 * r, "fp16": lambda r: 1.2 * r}


@dataclass(frozen=True)
class Shape:
    batch: int
    time: int
    channels: int
    width: int
    dtype: str
    threads: int

    def as_json(self) -> dict:
        return {"B": self.batch, "T": self.time, "D": self.channels, "W": self.width}


def torch_chain(x: torch.Tensor, weight: torch.Tensor, activation: str | None) -> torch.Tensor:
    """x [B, D, T] in any memory layout."""
    y = functional.conv1d(x, weight[:, None], padding=weight.shape[1] - 1, groups=x.shape[1])[..., : x.shape[2]]
    return functional.silu(y) if activation else y


def tensors_of(shape: Shape, channels_last: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x, dy [B, D, T], stored as asked; weight."""
    generator = torch.Generator().manual_seed(17)
    dtype = DTYPES[shape.dtype]
    order = (shape.batch, shape.time, shape.channels) if channels_last else (shape.batch, shape.channels, shape.time)
    x, dy = (torch.randn(order, generator=generator).to(dtype) for _ in range(2))
    weight = (torch.randn(shape.channels, shape.width, generator=generator) / 2).to(dtype)
    return (x.transpose(1, 2), dy.transpose(1, 2), weight) if channels_last else (x, dy, weight)


def check_errors(shape: Shape, x, dy, weight, activation) -> dict[str, float]:
    def results(operator, x, weight, dy):
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        y = operator(x, weight, activation)
        return {"y": y.detach(), **dict(zip(("dx", "dweight"), torch.autograd.grad(y, (x, weight), dy)))}

    expected = results(torch_chain, x.double(), weight.double(), dy.double())
    got = results(lambda x, weight, activation: faltung.causal_conv1d(x, weight, activation=activation), x, weight, dy)
    errors = {}
    for name, reference in expected.items():
        errors[name] = float(f"{measure.relative_error(got[name], reference):.3e}")
        bound = ERROR_BOUNDS[shape.dtype](measure.relative_error(reference.to(DTYPES[shape.dtype]), reference))
        if not errors[name] <= bound:
            sys.exit(f"{shape}: the relative error of {name} is {errors[name]:.3e}, expected at most {bound:.3e}")
    return errors


def sequences(shape: Shape, seconds: float) -> list[dict]:
    torch.set_num_threads(shape.threads)
    first, last = tensors_of(shape, False), tensors_of(shape, True)
    target = torch.empty_like(first[0])
    records = []
    for activation in ("silu", None):
        for direction in ("forward", "forward+backward"):
            layouts = (("channels_first", first), ("channels_last", last))
            errors = [check_errors(shape, *tensors, activation) for _, tensors in layouts]

            def ours(x, weight, activation=activation):
                return faltung.causal_conv1d(x, weight, activation=activation)

            def chain(x, weight, activation=activation):
                return torch_chain(x, weight, activation)

            def call(operator, tensors, direction=direction):
                x, dy, weight = tensors
                if direction == "forward":

                    def run():
                        with torch.no_grad():
                            return operator(x, weight)

                    return run
                x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
                return lambda: torch.autograd.grad(operator(x, weight), (x, weight), dy)

            calls = [call(operator, tensors) for operator in (ours, chain) for _, tensors in layouts]
            times = measure.time_alternating([*calls, lambda: target.copy_(first[0])], seconds=seconds)
            copy = times.pop()
            for i, (layout, tensors) in enumerate(layouts):
                records.append(
                    {
                        "operator": "causal_conv1d", "group": "sequences", "direction": direction, "dtype": shape.dtype,
                        "shape": shape.as_json(), "layout": layout, "activation": activation, "threads": shape.threads,
                        "implementation": faltung.explain("causal_conv1d", tensors[0], tensors[2], activation=activation).chosen,
                        "wall_ms": round(times[i].warm, 5), "wall_cold_ms": round(times[i].cold, 5),
                        "copy_ms": round(copy.warm, 5), "error": errors[i],
                        "peers": {f"F.conv1d {name}": {"wall_ms": round(times[2 + j].warm, 5), "wall_cold_ms": round(times[2 + j].cold, 5)} for j, (name, _) in enumerate(layouts)},
                    }
                )  # fmt: skip
    return records


def updates(rows: int, channels: int, width: int, dtype: str, threads: int, seconds: float) -> list[dict]:
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(17)
    x, weight = torch.randn(rows, channels, generator=generator), torch.randn(channels, width, generator=generator) / 2
    state = torch.randn(rows, channels, width - 1, generator=generator)
    x, weight, state = (t.to(DTYPES[dtype]) for t in (x, weight, state))
    window = torch.cat([state, x[..., None]], -1)

    def chain():  # as the Mamba code does it without a kernel
        window.copy_(window.roll(-1, -1))
        window[..., -1] = x
        return functional.silu((window * weight).sum(-1))

    ours, theirs = measure.time_alternating(
        [lambda: faltung.causal_conv1d_update(x, state, weight, activation="silu"), chain], seconds=seconds
    )
    return [
        {
            "operator": "causal_conv1d", "group": "updates", "direction": "update", "dtype": dtype, "shape": {"N": rows, "D": channels, "W": width},
            "activation": "silu", "threads": threads, "implementation": "cpu.simd", "wall_ms": round(ours.warm, 5),
            "wall_cold_ms": round(ours.cold, 5),
            "peers": {"roll, product, sum": {"wall_ms": round(theirs.warm, 5), "wall_cold_ms": round(theirs.cold, 5)}},
        }
    ]  # fmt: skip


def best_peer(record: dict) -> float:
    return min(peer["wall_ms"] for peer in record["peers"].values())


def print_tables(records: list[dict]) -> None:
    rows = [
        [
            record["direction"], record["activation"] or "-", record["dtype"], record["layout"], str(record["threads"]), f"{record['wall_ms']:.3f}",
            *(f"{peer['wall_ms']:.3f}" for peer in record["peers"].values()), f"{best_peer(record) / record['wall_ms']:.2f}",
            f"{record['copy_ms']:.3f}", f"{record['copy_ms'] / record['wall_ms']:.2f}", f"{record['error']['y']:.1e}",
        ]
        for record in records
        if record["group"] == "sequences"
    ]  # fmt: skip
    if rows:
        print("\nB=1, T=2048, D=1024, W=4; milliseconds")
        measure.print_table(
            ["direction", "activation", "dtype", "layout", "threads", "ours", "F.conv1d [B,D,T]", "[B,T,D]", "ratio", "copy", "share", "error y"], rows
        )
    rows = [
        [str(r["shape"]["N"]), str(r["shape"]["D"]), r["dtype"], str(r["threads"]), f"{r['wall_ms'] * 1e3:.1f}", f"{best_peer(r) * 1e3:.1f}", f"{best_peer(r) / r['wall_ms']:.2f}"]
        for r in records
        if r["group"] == "updates"
    ]  # fmt: skip
    if rows:
        print("\nUpdate by one token, W=4, SiLU; microseconds")
        measure.print_table(["N", "D", "dtype", "threads", "ours", "roll, product, sum", "ratio"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=measure.RESULTS / "cpu/causal_conv1d.json", help="where the records go")
    parser.add_argument("--groups", nargs="+", choices=("sequences", "updates"), default=["sequences", "updates"])
    parser.add_argument("--dtypes", nargs="+", choices=tuple(DTYPES), default=["fp32", "bf16"])
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, min(2, torch.get_num_threads())}))
    parser.add_argument("--seconds", type=float, default=1.0, help="per group of calls that take turns")
    arguments = parser.parse_args()
    tasks = []
    for threads in arguments.threads:
        for dtype in arguments.dtypes:
            if "sequences" in arguments.groups:
                tasks.append(lambda d=dtype, n=threads: sequences(Shape(1, 2048, 1024, 4, d, n), arguments.seconds))
            if "updates" in arguments.groups:
                tasks += [lambda r=rows, d=dtype, n=threads: updates(r, 2048, 4, d, n, arguments.seconds / 4) for rows in (1, 16, 256)]
    records = [record for task in tqdm(tasks, unit="group", leave=False) for record in task()]
    print_tables(records)
    measure.write_records(arguments.json, records)
    print(f"wrote {len(records)} records to {arguments.json}")


if __name__ == "__main__":
    main()
