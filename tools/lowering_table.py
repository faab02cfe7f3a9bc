#!/usr/bin/env python3
"""Chain form x dtype -> what faltung.compile makes of it, in its default mode and in strict mode, as a table in Markdown.

    python tools/lowering_table.py            # prints the table
    python tools/lowering_table.py --write    # puts it between the marks of docs/compile.md
    python tools/lowering_table.py --check    # exits 1 where docs/compile.md holds another

The forms are those of tests/python/lowering_chains.py. Reads Dynamo's graphs; compiles nothing. With --device cuda on a machine with a GPU.
"""
import argparse
import logging
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/python"))

import torch  # noqa: E402
from lowering_chains import FORMS  # noqa: E402
from lowering_check import outcome  # noqa: E402

DOCUMENT = ROOT / "docs/compile.md"
MARKS = "<!-- table: tools/lowering_table.py -->", "<!-- end of table -->"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}


def one(form, dtype, strict, device):
    """`rewritten`, the reason, or a dash where torch itself refuses the inputs."""
    inputs = [t.to(device) for t in form.inputs(dtype)]
    torch.set_grad_enabled(True)  # what Dynamo refuses within no_grad may leave it off
    try:
        _, stats, _ = outcome(form.chain, *inputs, strict=strict, **dict(form.options))
    except Exception:  # of any kind: Dynamo wraps what torch.fft says of 16-bit inputs
        return "-"
    found = [name.removeprefix("skipped:") for name in stats]
    return found[0] if found else "not looked at"


def table(device):
    lines = [f"| form | layout | {' | '.join(DTYPES)} | strict |", "| --- " * (3 + len(DTYPES)) + "|"]
    for form in FORMS:
        layout = "channels last" if form.x[-1] == form.k[-1] == 3 and form.x[1] != 3 else "channels first"
        outcomes = [one(form, dtype, False, device) for dtype in DTYPES.values()]
        strict = one(form, form.dtype, True, device)
        lines.append(f"| {form.name} | {layout} | {' | '.join(outcomes)} | {strict} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    logging.disable(logging.ERROR)  # Dynamo's, of chains that torch refuses
    found = table(options.device)
    text = DOCUMENT.read_text()
    before, rest = text.split(MARKS[0])
    inside, after = rest.split(MARKS[1])
    if options.write:
        DOCUMENT.write_text(f"{before}{MARKS[0]}\n\n{found}\n\n{MARKS[1]}{after}")
    elif options.check and inside.strip() != found:
        print(f"{DOCUMENT.name} holds another table than tools/lowering_table.py makes: run it with --write")
        return 1
    elif not options.check:
        print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
