#!/usr/bin/env python3
"""Checks that all mentions of a version agree with versions.toml and VERSION; prints one line for each breach and exits 1 where there is any.

watched    mentions that must be there: what builds, requires or promises the version, by file
found      mentions anywhere in the tracked files that read as the statement of a requirement
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATED = "versions.toml"


def joined(*groups):
    return ".".join(groups)


def from_hexadecimal(major, minor):
    return f"{int(major, 16)}.{int(minor, 16)}"


# (file, pattern, name in versions.toml, how its groups make a version). Each pattern must match; every match must agree.
WATCHED = [
    ("CHANGELOG.md", r"^## \[(\d+\.\d+\.\d+)\]", "library", joined),
    ("include/faltung/faltung.h", r'/\* "(\d+\.\d+\.\d+)" \*/', "library", joined),
    ("CMakeLists.txt", r"file\(READ (VERSION) faltung_version\)", "VERSION", joined),
    ("pyproject.toml", r'^input = "(VERSION)"', "VERSION", joined),
    ("pyproject.toml", r'^dependencies = \["torch>=(\d+\.\d+)"\]', "torch_minimum", joined),
    ("bindings/torch/CMakeLists.txt", r"TORCH_TARGET_VERSION=0x(\w\w)(\w\w)0{12}\b", "torch_minimum", from_hexadecimal),
    ("bindings/torch/CMakeLists.txt", r"headers of torch (\d+\.\d+) or later", "torch_minimum", joined),
    ("python/faltung/_library.py", r"\((\d+\.\d+) or later is needed\)", "torch_minimum", joined),
    ("run", r"^TORCH_MINIMUM=(\d+\.\d+)\b", "torch_minimum", joined),
    ("run", r"^TORCH_PIN=(\d+\.\d+)\.\d+\b", "torch_installed", joined),
    ("README.md", r"torch (\d+\.\d+) or newer", "torch_minimum", joined),
    ("docs/install.md", r"torch (\d+\.\d+) or newer", "torch_minimum", joined),
    ("pyproject.toml", r'^requires-python = ">=(\d+\.\d+)"', "python_minimum", joined),
    ("run", r"sys\.version_info < \((\d+), (\d+)\)", "python_minimum", joined),
    ("docs/install.md", r"Python (\d+\.\d+) or newer", "python_minimum", joined),
    ("CMakeLists.txt", r"^cmake_minimum_required\(VERSION (\d+\.\d+)\)", "cmake_minimum", joined),
    ("CMakePresets.json", r'"cmakeMinimumRequired": \{"major": (\d+), "minor": (\d+),', "cmake_minimum", joined),
    ("pyproject.toml", r'^cmake\.version = ">=(\d+\.\d+)"', "cmake_minimum", joined),
    ("docs/install.md", r"CMake (\d+\.\d+) or newer", "cmake_minimum", joined),
    ("CMakeLists.txt", r"set\(CMAKE_CXX_STANDARD (\d+)\)", "cxx_standard", joined),
    ("CMakeLists.txt", r"\bcxx_std_(\d+)\b", "cxx_standard", joined),
    ("CMakeLists.txt", r"set\(CMAKE_C_STANDARD (\d+)\)", "c_standard", joined),
    ("include/faltung/faltung.h", r"C ABI \(C(\d+)\)", "c_standard", joined),
    ("cmake/cuda.cmake", r"\bCUDA_STANDARD (\d+)\b", "cxx_standard", joined),
    ("cmake/cuda.cmake", r"-std=c\+\+(\d+)\b", "cxx_standard", joined),
    ("cmake/cuda.cmake", r"find_package\(CUDAToolkit (\d+\.\d+) REQUIRED\)", "cuda", joined),
    ("CMakeLists.txt", r"needs nvcc (\d+\.\d+)", "cuda", joined),
    ("run", r"toolkit=build/cuda-toolkit wanted=(\d+\.\d+)$", "cuda", joined),
    ("README.md", r"CUDA needs nvcc (\d+\.\d+)", "cuda", joined),
    ("docs/install.md", r"CUDA toolkit (\d+\.\d+) or newer", "cuda", joined),
]
# (pattern, name): wherever it matches, the group must be the stated version.
FOUND = [
    (r"\btorch (\d+\.\d+)(?:\.\d+)?,? (?:or|and) (?:later|newer)", "torch_minimum"),
    (r"\btorch>=(\d+\.\d+)", "torch_minimum"),
    (r"\b[Pp]ython (\d\.\d+)(?:\.\d+)?,? (?:or|and) (?:later|newer)", "python_minimum"),
    (r"\bCMake (\d\.\d+)(?:\.\d+)?,? (?:or|and) (?:later|newer)", "cmake_minimum"),
    (r"cmake_minimum_required\(VERSION (\d+\.\d+)\)", "cmake_minimum"),
    (r"\bnvcc (\d+\.\d+)", "cuda"),
    (r"\bCUDA (?:toolkit )?(\d+\.\d+)\b", "cuda"),
    (r"\bC\+\+(\d\d)\b", "cxx_standard"),
]
# Records of what was run, and tests that plant wrong mentions.
EXEMPT = re.compile(r"docs/design/\d|bench/results/|tests/python/test_versions\.py|LICENSE")


def stated(root: Path) -> dict[str, str]:
    """The versions by name. (tomllib came with Python 3.11.)"""
    versions = dict(re.findall(r'^(\w+) = "([^"]+)"', (root / STATED).read_text(), flags=re.M))
    return {**versions, "library": (root / "VERSION").read_text().strip(), "VERSION": "VERSION"}


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def check_watched(root: Path, versions: dict[str, str]) -> list[str]:
    breaches = []
    for path, pattern, name, version in WATCHED:
        file = root / path
        text = file.read_text(errors="replace") if file.is_file() else ""
        matches = list(re.finditer(pattern, text, flags=re.M))
        if not matches:
            breaches.append(f"{path}: no longer mentions {name} where the check looks for it ({pattern})")
        for match in matches:
            if (got := version(*match.groups())) != versions[name]:
                breaches.append(f"{path}:{line_of(text, match.start())}: says {name} {got}, stated is {versions[name]}")
    return breaches


def check_found(root: Path, versions: dict[str, str]) -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    breaches = []
    for path in sorted(set(listed)):
        if not path or EXEMPT.match(path) or not (root / path).is_file():
            continue
        text = (root / path).read_bytes().decode(errors="replace")
        for pattern, name in FOUND:
            for match in re.finditer(pattern, text):
                if match[1] != versions[name]:
                    breaches.append(f"{path}:{line_of(text, match.start())}: '{match[0]}', stated for {name} is {versions[name]}")
    return breaches


def main() -> int:
    versions = stated(ROOT)
    breaches = check_watched(ROOT, versions) + check_found(ROOT, versions)
    for breach in breaches:
        print(breach)
    print(f"{len(WATCHED)} watched mentions of versions: {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
