#!/usr/bin/env python3
"""Writes the tables of measured figures into README.md out of the committed records under bench/results.

Without arguments: rewrites what stands between the two marks. With --check: exits 1 where README.md differs from the records.
"""
import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: tools/figures.py -->\n", "<!-- end of figures -->\n"


def load(name: str) -> dict | None:
    path = ROOT / "bench/results" / name
    return json.loads(path.read_text()) if path.exists() else None


def is_square_grid(record: dict) -> bool:
    """The common shapes of both machines: B = 8, channels first, N x N points, K = 2N - 1, one filter for all samples."""
    shape, last = record["shape"], record.get("layout", "").replace(" ", "_") == "channels_last"
    points, taps = shape.get("N"), shape.get("K")
    square = isinstance(points, list) and len(points) == 2 and points[0] == points[1] and taps == [2 * points[0] - 1] * 2
    return record["operator"] == "long_conv" and record["direction"] == "forward+backward" and square and shape["B"] == 8 and not last and "filters" not in shape


def row(cells: list) -> str:
    return "| " + " | ".join(map(str, cells)) + " |\n"


def table(records: list[dict], time: str, unit: str, by_threads: bool) -> str:
    head = ["N x N", "dtype", *(["threads"] if by_threads else []), f"Faltung, {unit}", f"torch.fft, {unit}", "ratio", "error of y", "implementation"]
    text = row(head) + row(["---"] * len(head))
    for record in records:
        peer = next(iter(record["peers"].values()))[time]
        points = record["shape"]["N"][0]
        error = record["error"].get("y")
        text += row([
            f"{points} x {points}", record["dtype"] + (f", {filters} filters" if (filters := record["shape"].get("filter_dtype")) else ""), *([record["threads"]] if by_threads else []), f"{record[time]:.3g}", f"{peer:.3g}",
            f"{peer / record[time]:.1f}", "" if error is None else f"{error:.1e}", record["implementation"],
        ])  # fmt: skip
    return text


def figures() -> str:
    text = ""
    if cpu := load("cpu/long_conv.json"):
        records = [r for r in cpu["records"] if r.get("group") == "grids" and is_square_grid(r)]
        text += f"CPU ({cpu['machine']['processor']}, torch {cpu['versions']['torch']}), B=8, C=64, wall time. `./run bench cpu`:\n\n"
        text += table(records, "wall_ms", "ms", by_threads=True) + "\n"
        sweep = [r for r in cpu["records"] if r.get("group") == "sweep"]
        if sweep:
            ratio = {id(r): r["peers"]["torch.fft"]["wall_ms"] / r["wall_ms"] for r in sweep}
            slower = sum(value < 1 for value in ratio.values())
            least = min(sweep, key=lambda r: ratio[id(r)])
            axes = sorted({len(r["shape"]["N"]) if isinstance(r["shape"]["N"], list) else 1 for r in sweep})
            text += (f"Over {len(sweep)} other measurements (along {', '.join(map(str, axes))} axes, from 32 points an axis up, all boundaries, small filters too) {slower} were slower than the chain; the least ratio was "
                     f"{ratio[id(least)]:.2f} ({least['boundary']}, N={least['shape']['N']}, K={least['shape']['K']}, {least['direction']}).\n\n")  # fmt: skip
    if gpu := load("h200/long_conv.json"):
        records = [r for r in gpu["records"] if is_square_grid(r) and r.get("peers") and r["shape"]["C"] == 768]
        text += f"{gpu['machine']['gpu']} (torch {gpu['versions']['torch']}), B=8, C=768, device time. `python3 tools/gpu_check.py build verify bench` on such a machine:\n\n"
        text += table(records, "device_ms", "ms", by_threads=False) + "\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    path = ROOT / "README.md"
    readme = path.read_text()
    before, rest = readme.split(BEGIN)
    wanted = before + BEGIN + "\n" + figures() + END + rest.split(END)[1]
    if arguments.check:
        if wanted != readme:
            print("README.md: its figures are not those of bench/results; run tools/figures.py")
        return int(wanted != readme)
    path.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
