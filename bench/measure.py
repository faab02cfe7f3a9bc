"""What the benchmarks of this folder share: a warm heap, alternating timings, error norms, the JSON records and a table.

A benchmark calls warm_heap() before it imports torch. Records follow one format, whatever the operator: one object per measurement with
operator, direction, dtype, shape, layout, implementation, wall_ms (device_ms on a GPU), error, peers; plus threads, boundary and
wall_cold_ms here.
"""
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"


def warm_heap() -> None:
    """Starts the process again with an allocator that keeps freed memory: else page faults of fresh outputs cost more than the work."""
    wanted = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 33), "MALLOC_TOP_PAD_": str(1 << 26)}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.environ.update(wanted)
        os.execv(sys.executable, [sys.executable, *sys.argv])


@dataclass(frozen=True)
class Timing:
    """Median wall milliseconds: `warm`, calls of one kind following each other; `cold`, the first one after others had their turn, which
    have pushed its code and data out of the caches (that costs the interpreter and torch 0.3 ms, whatever is computed)."""

    warm: float
    cold: float


def time_alternating(calls: Sequence[Callable[[], object]], *, seconds: float = 0.3, least: int = 5, most: int = 200) -> list[Timing]:
    """Times calls that take turns within one loop, so that a change of clock or load meets all alike. A turn is a first call and then as
    many as fit into 10 ms; a call that lasts longer is made once, warm and cold alike."""
    turn = 10e-3
    repeats = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        repeats.append(min(1000, int(turn / max(time.perf_counter() - start, 1e-7))))
    times: list[list[tuple[float, float]]] = [[] for _ in calls]
    begin = time.perf_counter()
    while len(times[0]) < least or (time.perf_counter() - begin < seconds and len(times[0]) < most):
        for call, repeat, found in zip(calls, repeats, times):
            start = time.perf_counter()
            call()
            first = time.perf_counter()
            for _ in range(repeat):
                call()
            cold = first - start
            found.append(((time.perf_counter() - first) / repeat if repeat else cold, cold))
    return [Timing(*(statistics.median(part) * 1e3 for part in zip(*found))) for found in times]


def relative_error(got, expected) -> float:
    """Normwise relative L2 error against a double result."""
    scale = expected.norm().item()
    return (got.double() - expected).norm().item() / scale if scale else got.double().norm().item()


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def header() -> dict:
    """Where and with what a run was made."""
    import faltung
    import torch

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    gpu, sources = {}, {}
    if torch.cuda.is_available():
        gpu = {"gpu": torch.cuda.get_device_name()}
        hashed = subprocess.run([sys.executable, ROOT / "tools" / "cuda_sources_hash.py"], capture_output=True, text=True, check=True)
        sources = {"cuda_sources": hashed.stdout.strip()}
    dirty = git("status", "--porcelain", "--", "src", "bindings", "include", "cmake", "python")
    return {
        "machine": {"processor": processor(), "cores": len(os.sched_getaffinity(0)), "architecture": platform.machine(), **gpu},
        "versions": {"faltung": faltung.__version__, "torch": torch.__version__, "python": platform.python_version()},
        # FALTUNG_COMMIT: where the tree that is measured was carried to a machine without its history.
        "commit": os.environ.get("FALTUNG_COMMIT") or git("rev-parse", "--short=12", "HEAD") + ("+changes" if dirty else ""),
        **sources,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def write_records(path: Path, records: list[dict], replaces: Sequence[str] = ()) -> None:
    """Writes the records; those of other operators that the file holds already stay, and those that differ in one of the keys `replaces`."""

    def identity(record):
        return json.dumps([record.get(key) for key in ("operator", *replaces)])

    replaced = {identity(record) for record in records}
    kept = []
    if path.exists():
        kept = [record for record in json.loads(path.read_text())["records"] if identity(record) not in replaced]
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(record) for record in kept + records)
    top = json.dumps(header(), indent=1).rstrip("}\n")
    path.write_text(f'{top},\n "records": [\n{lines}\n ]\n}}\n')


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Left-aligned text, right-aligned numbers (given as strings)."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(head), *texts]) for i in range(len(head))]
    numeric = [all(row[i].replace(".", "").replace("x", "").replace("-", "").replace("e", "").isdigit() for row in texts) for i in range(len(head))]
    for line in [list(head), ["-" * width for width in widths], *texts]:
        print("  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, numeric)).rstrip())
