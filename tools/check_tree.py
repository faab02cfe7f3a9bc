#!/usr/bin/env python3
"""Checks that the tree keeps its own rules; prints one line for each breach and exits 1 where there is any.

mirror     tests/cpp, tests/python and bench name operators that src/ has, and each operator of src/ has tests in both and a benchmark
paths      no path of one machine in a tracked file
size       no source over 400 lines that LONG_FILES does not list with its reason
call       every file and symbol that docs/how-a-call-travels.md names exists
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 400
SOURCES = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".py", ".sh", ".cmake"}
# Files of more than LIMIT lines, each with the reason why it is one thing. A file that shrank below must leave the list.
LONG_FILES: dict[str, str] = {}
# Folders of src/ that are no operators.
NOT_OPERATORS = {"core", "simd", "cuda", "fft", "c_api"}
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|tmp|home/\w+)/")


class Tree:
    """The tracked files of a checkout (and those that git would not ignore), read lazily."""

    def __init__(self, root: Path = ROOT):
        self.root = root
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
        self.files = sorted({path for path in listed.split("\0") if path and (root / path).is_file()})

    def text(self, path: str) -> str:
        return (self.root / path).read_text(errors="replace")

    def has(self, path: str) -> bool:
        return (self.root / path).exists()


def operators(tree: Tree) -> set[str]:
    folders = {path.split("/")[1] for path in tree.files if path.startswith("src/") and path.count("/") > 1}
    return folders - NOT_OPERATORS


def check_mirror(tree: Tree) -> list[str]:
    names = operators(tree)
    breaches = []
    for operator in sorted(names):
        wanted = {
            f"include/faltung/{operator}.hpp": "the C++ veneer",
            f"src/c_api/{operator}.cpp": "the C ABI",
            f"python/faltung/{operator}.py": "the Python front end",
            f"bench/{operator}_cpu.py": "the benchmark",
        }
        breaches += [f"mirror: {path} is missing ({what} of src/{operator})" for path, what in wanted.items() if not tree.has(path)]
        for folder in ("tests/cpp", "tests/python"):
            if not any(path.startswith(folder + "/") and operator in path for path in tree.files):
                breaches.append(f"mirror: no file or folder of {folder} is named after src/{operator}")
    for path in tree.files:
        found = re.fullmatch(r"bench/(\w+)_(?:cpu|cuda)\.py", path)
        if found and found[1] not in names:
            breaches.append(f"mirror: {path} measures {found[1]}, which src/ does not have")
    return breaches


def check_paths(tree: Tree) -> list[str]:
    breaches = []
    for path in tree.files:
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if MACHINE_PATH.search(line):
                breaches.append(f"paths: {path}:{number}: a path of one machine: {line.strip()[:80]}")
    return breaches


def check_size(tree: Tree) -> list[str]:
    breaches = []
    for path in tree.files:
        if Path(path).suffix not in SOURCES and path != "run":
            continue
        lines = len(tree.text(path).splitlines())
        if lines > LIMIT and path not in LONG_FILES:
            breaches.append(f"size: {path} has {lines} lines, expected at most {LIMIT} or a reason in tools/check_tree.py")
        if lines <= LIMIT and path in LONG_FILES:
            breaches.append(f"size: {path} has {lines} lines and no longer needs its place in LONG_FILES")
    return breaches + [f"size: LONG_FILES lists {path}, which does not exist" for path in LONG_FILES if not tree.has(path)]


# In the document, `path/to/file` in backquotes is a file or folder, `name` in backquotes after a file belongs to that file.
def check_call(tree: Tree, document: str = "docs/how-a-call-travels.md") -> list[str]:
    if not tree.has(document):
        return [f"call: {document} is missing"]
    breaches, current, named = [], None, 0
    text = re.sub(r"^```.*?^```", "", tree.text(document), flags=re.S | re.M)
    for quoted in re.findall(r"`([^`]+)`", text):
        if "/" in quoted and re.fullmatch(r"[\w./*-]+", quoted):
            named += 1
            current = quoted if tree.has(quoted) else None
            if current is None:
                breaches.append(f"call: {document} names {quoted}, which does not exist")
        elif current and re.fullmatch(r"[\w:.]+(\(\))?", quoted):
            named += 1
            symbol = re.split(r"::|\.", quoted.removesuffix("()"))[-1]
            where = [current] if (tree.root / current).is_file() else [path for path in tree.files if path.startswith(current)]
            if not any(re.search(rf"\b{re.escape(symbol)}\b", tree.text(path)) for path in where):
                breaches.append(f"call: {document} names {quoted} in {current}, which does not hold {symbol}")
    return breaches if named else [f"call: {document} names no file"]


CHECKS = {"mirror": check_mirror, "paths": check_paths, "size": check_size, "call": check_call}


def main() -> int:
    tree = Tree()
    breaches = [breach for check in CHECKS.values() for breach in check(tree)]
    for breach in breaches:
        print(breach)
    print(f"{len(CHECKS)} checks of {len(tree.files)} files: {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
