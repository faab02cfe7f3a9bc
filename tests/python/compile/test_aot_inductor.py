"""examples/aot_inductor: a package with both operators, made by Python, run by a C++ program that has none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import faltung
import pytest
import torch

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/aot_inductor"
LIBRARIES = {"cpu": ["libfaltung_torch.so"], "cuda": ["libfaltung_torch.so", "libfaltung_torch_cuda.so"]}
DEVICES = ["cpu"] + ["cuda"] * (torch.cuda.is_available() and (faltung._library.folder / LIBRARIES["cuda"][1]).is_file())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "c++")) is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("device", DEVICES)
def test_a_package_runs_without_python(device, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(faltung.__file__).parents[1])}
    subprocess.run([sys.executable, str(EXAMPLE / "package.py"), str(tmp_path), device], env=environment, check=True, capture_output=True)
    strings = (tmp_path / "model.pt2").read_bytes()
    assert b"faltung::long_conv" in strings and b"faltung::causal_conv1d" in strings  # the package is not compressed

    root = Path(torch.__path__[0])
    program = tmp_path / "run"
    compiler = os.environ.get("CXX", "c++").split()
    command = [
        *compiler, "-std=c++20", "-O1", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", "-isystem", str(root / "include"),
        "-isystem", str(root / "include/torch/csrc/api/include"), str(EXAMPLE / "run.cpp"), "-o", str(program), f"-L{root / 'lib'}",
        f"-Wl,-rpath,{root / 'lib'}", "-Wl,--no-as-needed", "-ltorch_cpu", "-lc10", "-ldl",
        *(["-ltorch_cuda", "-lc10_cuda"] if device == "cuda" else []),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    assert "python" not in subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout.replace(str(root), "")

    libraries = [str(faltung._library.folder / name) for name in LIBRARIES[device]]
    done = subprocess.run([str(program), str(tmp_path), device, *libraries], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[1] == "batch 1: the same bits"
    # The operators are called, not copied: without their library there is no model.
    other = subprocess.run([str(program), str(tmp_path), device, "libm.so.6"], capture_output=True, text=True)
    assert other.returncode != 0 and "faltung::" in other.stderr
