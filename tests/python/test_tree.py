"""The checks of tools/: each passes on this tree and fails on a tree with the breach that it is for."""
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = "docs/how-a-call-travels.md"


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_tree = load("check_tree")
cuda_sources_hash = load("cuda_sources_hash")
check_cuda_library = load("check_cuda_library")


@pytest.fixture
def small_tree(tmp_path, monkeypatch):
    """A git checkout that passes every check, and a function that writes a file into it and reads the tree anew."""
    monkeypatch.setattr(check_tree, "LONG_FILES", {})  # those of this tree
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
        return check_tree.Tree(tmp_path)

    for path, text in {
        "include/faltung/faltung.h": "char const* faltung_version(void);\n",
        "include/faltung/long_conv.hpp": "#pragma once\n",
        "src/long_conv/api.cpp": "void forward() {}\n",
        "src/c_api/long_conv.cpp": "\n",
        "python/faltung/long_conv.py": "\n",
        "bench/long_conv_cpu.py": "\n",
        "tests/cpp/long_conv.cpp": "\n",
        "tests/python/test_long_conv.py": "\n",
        DOCUMENT: "`src/long_conv/api.cpp` validates in `forward`.\n",
    }.items():
        write(path, text)
    return write


@pytest.mark.parametrize("name", check_tree.CHECKS)
def test_this_tree_passes(name):
    assert check_tree.CHECKS[name](check_tree.Tree()) == []


@pytest.mark.parametrize("name", check_tree.CHECKS)
def test_a_good_tree_passes(name, small_tree):
    assert check_tree.CHECKS[name](small_tree("notes.md", "nothing\n")) == []


@pytest.mark.parametrize(
    "name, path, text, expected",
    [
        ("mirror", "src/other_conv/api.cpp", "\n", "src/c_api/other_conv.cpp is missing"),
        ("mirror", "bench/forgotten_cpu.py", "\n", "src/ does not have"),
        ("paths", "notes.md", "see /" + "root/thing\n", "a path of one machine"),
        ("size", "src/long_conv/long.cpp", "\n" * 401, "has 401 lines, expected at most 400"),
        ("call", DOCUMENT, "`src/long_conv/gone.cpp` is gone.\n", "src/long_conv/gone.cpp, which does not exist"),
        ("call", DOCUMENT, "`src/long_conv/api.cpp` has `backward`.\n", "which does not hold backward"),
        ("call", DOCUMENT, "nothing\n", "names no file"),
    ],
)
def test_each_breach_is_found(name, path, text, expected, small_tree):
    breaches = check_tree.CHECKS[name](small_tree(path, text))
    assert any(expected in breach for breach in breaches), breaches


def test_a_long_file_with_a_reason_passes_until_it_shrinks(small_tree, monkeypatch):
    monkeypatch.setattr(check_tree, "LONG_FILES", {"src/long_conv/long.cpp": "one table"})
    assert check_tree.check_size(small_tree("src/long_conv/long.cpp", "\n" * 401)) == []
    assert "no longer needs" in check_tree.check_size(small_tree("src/long_conv/long.cpp", "\n"))[0]


def test_the_program_exits_with_failure_on_a_breach(small_tree, tmp_path):
    small_tree("notes.md", "see /" + "root/thing\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/check_tree.py").write_text((ROOT / "tools/check_tree.py").read_text())
    done = subprocess.run([sys.executable, "tools/check_tree.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "a path of one machine" in done.stdout


def test_the_hash_follows_cuda_sources_alone(small_tree, tmp_path):
    small_tree("src/long_conv/cuda/forward.cu", "one\n")
    before = cuda_sources_hash.cuda_sources_hash(tmp_path)
    small_tree("src/long_conv/cpu/direct.cpp", "two\n")
    assert cuda_sources_hash.cuda_sources_hash(tmp_path) == before
    small_tree("src/long_conv/cuda/forward.cu", "three\n")
    assert cuda_sources_hash.cuda_sources_hash(tmp_path) != before


def test_records_from_other_sources_are_reported(small_tree, tmp_path):
    present = cuda_sources_hash.cuda_sources_hash(tmp_path)
    small_tree("bench/results/h200/long_conv.json", json.dumps({"cuda_sources": present}))
    assert cuda_sources_hash.check(tmp_path) == []
    small_tree("src/long_conv/cuda/forward.cu", "changed\n")
    assert present in cuda_sources_hash.check(tmp_path)[0]


def test_architectures_are_read_from_a_fat_binary():
    def entry(kind, architecture, payload):
        head = kind.to_bytes(2, "little") + b"\1\0" + (64).to_bytes(4, "little") + len(payload).to_bytes(8, "little")
        return (head + b"\0" * 12 + architecture.to_bytes(4, "little")).ljust(64, b"\0") + payload

    body = entry(2, 90, b"elf") + entry(1, 120, b"ptx")
    fatbin = bytes.fromhex("50ed55ba") + b"\1\0\x10\0" + len(body).to_bytes(8, "little") + body
    assert check_cuda_library.compiled_architectures(b"junk" + fatbin + b"junk") == [90]


@pytest.mark.parametrize("page", ("README.md", "docs/compile.md"))
def test_figures_that_differ_from_the_records_are_found(monkeypatch, tmp_path, page):
    figures = load("figures")
    (tmp_path / "docs").mkdir()
    for name in figures.PAGES:
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "bench").symlink_to(ROOT / "bench")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["figures.py"])
    assert figures.main() == 0
    monkeypatch.setattr(sys, "argv", ["figures.py", "--check"])
    assert figures.main() == 0
    wrong = tmp_path / page
    wrong.write_text(wrong.read_text().replace(figures.END, "| a wrong row |\n" + figures.END))
    assert figures.main() == 1
