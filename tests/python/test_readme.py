"""The examples of README.md: the Python ones run, the commands exist."""
import re
import subprocess
from pathlib import Path

import faltung
import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language):
    found = re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.S | re.M)
    assert found, f"README.md has no {language} example"
    return found


@pytest.mark.parametrize("block", blocks("python"))
def test_python_examples_run(block, capsys):
    try:
        exec(compile(block, "README.md", "exec"), {})
    finally:
        for name in faltung.compat.NAMES:
            faltung.compat.uninstall(name)
    assert ("explain" in block) == ("chosen: cpu." in capsys.readouterr().out)


def test_commands_exist():
    usage = subprocess.run([ROOT / "run", "help"], capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"\./run (\w+)", README)) - {"help"}
    assert {"demo", "test"} <= named
    for command in named:
        assert re.search(rf"^  {command}\b", usage, flags=re.M), f"./run help does not list {command}"


def test_an_unknown_command_fails():
    done = subprocess.run([ROOT / "run", "tests"], capture_output=True, text=True)
    assert done.returncode != 0 and "unknown command 'tests'" in done.stderr
