#!/usr/bin/env python3
"""The hash of the CUDA sources, and the check of committed GPU records against it.

Without arguments: prints the hash, which a benchmark on a GPU writes into its records as `cuda_sources`. With --check: warns for each
file under bench/results/h200 that was made from other sources; a warning is no failure, since a GPU is not at hand everywhere.
"""
import argparse
import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "cmake", "bindings")


def is_cuda_source(path: str) -> bool:
    """Files of a cuda/ folder, CUDA files anywhere, and whatever is named after CUDA among the build rules and the bindings. Code that
    the CPU shares is left out: it changes daily, and CPU tests prove it."""
    parts = path.split("/")
    return "cuda" in parts[:-1] or parts[-1].endswith((".cu", ".cuh")) or (parts[0] in ("cmake", "bindings") and "cuda" in parts[-1])


def cuda_sources(root: Path) -> list[str]:
    files = (path.relative_to(root).as_posix() for folder in FOLDERS for path in (root / folder).rglob("*") if path.is_file())
    return sorted(filter(is_cuda_source, files))


def cuda_sources_hash(root: Path = ROOT) -> str:
    total = hashlib.sha256()
    for path in cuda_sources(root):
        total.update(f"{path}\0".encode())
        total.update(hashlib.sha256((root / path).read_bytes()).digest())
    return total.hexdigest()[:16]


def check(root: Path = ROOT) -> list[str]:
    """One line for each file of records whose sources differ from the present ones."""
    present = cuda_sources_hash(root)
    warnings = []
    for path in sorted((root / "bench/results/h200").glob("*.json")):
        recorded = json.loads(path.read_text()).get("cuda_sources")
        if recorded != present:
            warnings.append(f"{path.relative_to(root)}: measured with CUDA sources {recorded}, the present ones are {present}")
    return warnings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare bench/results/h200/*.json with the present sources")
    if not parser.parse_args().check:
        print(cuda_sources_hash())
        return 0
    if not any((ROOT / "bench/results/h200").glob("*.json")):
        print("bench/results/h200 holds no records yet: nothing has been measured on a GPU")
        return 0
    warnings = check()
    if not warnings:
        print("the GPU records were made from the present CUDA sources")
        return 0
    print("!" * 100)
    print("WARNING: CUDA sources changed since the GPU last ran them. What runs on a GPU is unproven until it has run again:")
    for line in warnings:
        print("  " + line)
    print("!" * 100)
    return 0


if __name__ == "__main__":
    sys.exit(main())
