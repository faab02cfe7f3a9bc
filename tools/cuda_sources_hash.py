#!/usr/bin/env python3
"""The hash of everything that decides what runs on a GPU, and the check of committed GPU records against it.

Without arguments: prints the hash, which a benchmark on a GPU writes into its records as `cuda_sources`. With --check: warns for each
file under bench/results/h200 that was made from other sources; a warning is no failure, since a GPU is not at hand everywhere.
"""
import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "include", "cmake", "bindings")


def is_cuda_source(path: str) -> bool:
    """CUDA and C++ files of a cuda/ folder, the code that both backends share, and the build rules."""
    parts = path.split("/")
    if parts[0] not in FOLDERS:
        return False
    if "cpu" in parts or "simd" in parts or parts[-1] == "simd.cmake":
        return False
    return True


def cuda_sources(root: Path) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", *FOLDERS], cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(path for path in listed.split("\0") if path and is_cuda_source(path) and (root / path).is_file())


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
