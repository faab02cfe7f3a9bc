#!/usr/bin/env python3
"""Writes the tables of measured figures into README.md and docs/compile.md out of the committed records under bench/results.

Without arguments: rewrites what stands between the two marks of each page. With --check: exits 1 where a page differs from the records.
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


def machine_of(run: dict) -> str:
    threads = {r["threads"] for r in run["records"] if "threads" in r}
    what = run["machine"].get("gpu") or f"CPU ({run['machine']['processor']}{', 1 thread' if threads <= {1} else ''})"
    return f"{what}, torch {run['versions']['torch']}"


def short_name(run: dict) -> str:
    threads = {r["threads"] for r in run["records"] if "threads" in r}
    return run["machine"].get("gpu") or "CPU" + (", 1 thread" if threads == {1} else "")


def markdown(head: list[str], rows: list[list]) -> str:
    return row(head) + row(["---"] * len(head)) + "".join(row(cells) for cells in rows)


def time_of(record: dict | None, time: str = "wall_ms") -> str:
    return f"{record[time]:.3g}" if record and time in record else ""


def lowered_chains(run: dict) -> str:
    rows = []
    for r in run["records"]:
        for time in ("wall_ms", "device_ms"):
            if time in r:
                peers = [r["peers"][name] for name in ("chain", "chain, compiled")]
                cells = [f"{peer[time]:.3g}" for peer in (*peers, r)]
                ratio = min(peer[time] for peer in peers) / r[time]
                rows.append([f"{r['shape']['N'][0]} x {r['shape']['N'][1]}", r["dtype"], time.removesuffix("_ms"), *cells, f"{ratio:.1f}"])
    shape = run["records"][0]["shape"]
    return f"{machine_of(run)}, B={shape['B']}, C={shape['C']}:\n\n" + markdown(
        ["N x N", "dtype", "time", "chain, ms", "compiled, ms", "with the lowering, ms", "ratio"], rows
    )


def models(runs: list[dict]) -> str:
    forms = {
        "chain": "chain, eager", "compiled": "chain, compiled", "lowered": "with the lowering", "lowered, graphs": "lowering, CUDA graphs",
        "operator": "operator, eager", "chain, captured": "chain, step in a CUDA graph", "operator, captured": "operator, step in a CUDA graph",
    }  # fmt: skip
    rows = []
    for run in runs:
        grids = {}
        for r in run["records"]:
            grids.setdefault(tuple(r["shape"]["N"]), {})[r["form"]] = r
        for (points, _), found in sorted(grids.items()):
            shape = found["chain"]["shape"]
            cells = [time_of(found.get(form)) + (f", {found[form]['peak_gib']:.1f} GiB" if "peak_gib" in found.get(form, {}) else "") for form in forms]
            rows.append([short_name(run), f"B={shape['B']}, C={shape['C']}, {points} x {points}", *cells])
    return markdown(["machine", "model", *forms.values()], rows)


def clients(runs: list[dict]) -> str:
    rows = []
    for run in runs:
        for r in run["records"]:
            others = [time_of(r["peers"].get(form)) for form in ("as it is", "compiled", "compiled with the lowering")]
            timed = [r["error"][form] for form in ("with the drop-ins", "compiled with the lowering") if form in r["error"]]
            shape, difference = " x ".join(map(str, r["shape"]["x"])), f"{max(timed):.0e}"
            rows.append([short_name(run), r["network"], r["dtype"], shape, others[0], time_of(r), *others[1:], r["rewritten"], difference])
    head = ["machine", "network", "dtype", "input", "as it is, ms", "drop-ins, ms", "compiled, ms", "with the lowering, ms", "rewritten", "difference"]
    return markdown(head, rows)


def lowering_figures() -> str:
    text = "".join(lowered_chains(run) + "\n" for name in ("h200", "cpu") if (run := load(f"{name}/lowering.json")))
    if runs := [run for name in ("h200", "cpu") if (run := load(f"{name}/ckconv_model.json"))]:
        text += (
            "A training step (forward, loss, backward, AdamW) of an image model of six blocks with global convolutions, under bf16 autocast, compiled block by\n"
            "block, in ms (`bench/ckconv_model.py`). Empty: it does not compile there, or was not measured.\n\n" + models(runs) + "\n"
        )
    if runs := [run for name in ("h200", "cpu") if (run := load(f"{name}/client_networks.json"))]:
        text += (
            "A training step of nvSubquadratic's own networks (`bench/client_networks.py`): chains rewritten, and the largest difference of outputs and gradients\n"
            "from the network as it is.\n\n" + clients(runs) + "\n"
        )
    return text


PAGES = {"README.md": figures, "docs/compile.md": lowering_figures}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    differ = False
    for name, make in PAGES.items():
        path = ROOT / name
        page = path.read_text()
        before, rest = page.split(BEGIN)
        wanted = before + BEGIN + "\n" + make() + END + rest.split(END)[1]
        if not arguments.check:
            path.write_text(wanted)
        elif wanted != page:
            differ = True
            print(f"{name}: its figures are not those of bench/results; run tools/figures.py")
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
