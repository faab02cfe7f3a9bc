"""tools/check_versions.py: passes on this tree; fails where a watched mention has gone, where one differs, and where a new one does."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("check_versions", ROOT / "tools/check_versions.py")
check_versions = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_versions)
WATCHED = check_versions.WATCHED


@pytest.fixture
def tree(tmp_path):
    """A checkout of the watched files alone."""
    for path in {"VERSION", "versions.toml", "tools/check_versions.py", *(path for path, *_ in WATCHED)}:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def breaches(root):
    versions = check_versions.stated(root)
    return check_versions.check_watched(root, versions) + check_versions.check_found(root, versions)


def test_this_tree_agrees():
    assert breaches(ROOT) == []


def test_every_stated_version_is_watched(tree):
    assert breaches(tree) == []
    assert set(check_versions.stated(ROOT)) == {name for _, _, name, _ in WATCHED}


@pytest.mark.parametrize("number", range(len(WATCHED)), ids=lambda i: f"{WATCHED[i][0]}-{WATCHED[i][2]}")
def test_a_mention_that_goes_is_missed(number, tree):
    path, pattern, name, _ = WATCHED[number]
    text = (tree / path).read_text()
    (tree / path).write_text(re.sub(pattern, "", text, flags=re.M))
    assert any(line.startswith(f"{path}: no longer mentions {name}") for line in breaches(tree))


@pytest.mark.parametrize("name", sorted({name for _, _, name, _ in WATCHED} - {"VERSION"}))
def test_a_version_that_changes_in_one_place_is_found_in_all_others(name, tree):
    file, pattern = ("VERSION", r"\S+") if name == "library" else ("versions.toml", rf'(?<={name} = ")[^"]+')
    (tree / file).write_text(re.sub(pattern, "7.7.7", (tree / file).read_text(), count=1))
    found = breaches(tree)
    for path in {path for path, _, watched, _ in WATCHED if watched == name}:
        assert any(line.startswith(f"{path}:") and "stated is 7.7.7" in line for line in found), path


@pytest.mark.parametrize(
    "words",
    [
        "needs torch 2.9 or newer", "torch>=2.11", "Python 3.9 or later", "CMake 3.28 or newer", "compiled by nvcc 12.8", "a CUDA 12.4 toolkit",
        "written in C++17", "cmake_minimum_required(VERSION 3.20)",
    ],
)  # fmt: skip
def test_a_new_mention_that_differs_is_found(words, tree):
    (tree / "notes.md").write_text(f"one line\nThis is {words}, it says.\n")
    assert any(line.startswith("notes.md:2: ") for line in breaches(tree))


def test_the_program_exits_with_failure_on_a_breach(tree):
    run = [sys.executable, "tools/check_versions.py"]
    assert subprocess.run(run, cwd=tree).returncode == 0
    (tree / "VERSION").write_text("9.9.9\n")
    done = subprocess.run(run, cwd=tree, capture_output=True, text=True)
    assert done.returncode == 1 and "says library 0.1.0, stated is 9.9.9" in done.stdout
