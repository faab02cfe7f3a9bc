"""The rows of docs/install.md that a machine without a GPU can do: each from the sources into a fresh virtual environment, and used there."""

import email
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
USE = """
import pathlib, torch, faltung
x, k = torch.randn(2, 3, 9, 8, requires_grad=True), torch.randn(3, 5, 4, requires_grad=True)
y = faltung.long_conv(x, k, boundary="circular")
y.square().sum().backward()
assert k.grad.isfinite().all() and "chosen: cpu." in str(faltung.explain("long_conv", x, k))
assert faltung.compat.install("causal_conv1d")
from causal_conv1d import causal_conv1d_fn, causal_conv1d_update
y, state = causal_conv1d_fn(torch.randn(2, 3, 9), torch.randn(3, 4), return_final_states=True, activation="silu")
causal_conv1d_update(torch.randn(2, 3), state, torch.randn(3, 4))
print(pathlib.Path(faltung.__file__).parent, faltung._library.folder, faltung.__version__)
"""


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=900, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def environment(tmp_path):
    """The python of a new virtual environment that sees this one's torch and build tools, and nothing of the checkout."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    here = {sysconfig.get_path("purelib"), str(Path(torch.__file__).parents[1])}
    # Behind the new environment's own packages; .pth files of the old ones are not followed, so that an editable faltung stays out.
    (packages / "torch_of_the_tests.pth").write_text("\n".join(sorted(here)) + "\n")
    return python


def use(python, tmp_path):
    """Where faltung and its libraries were found, and its version, from a folder without a checkout."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FALTUNG_LIBRARY_DIR")}
    return run(python, "-c", USE, cwd=tmp_path, env=clean).split()


def pip(python, command, *arguments):
    """pip from the sources, in the build folder that ./run has filled already."""
    build = f"--config-settings=build-dir={ROOT / 'build/wheel'}"
    run(python, "-m", "pip", command, "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", build, *arguments, cwd=ROOT)


def test_a_wheel_and_an_editable_install(environment, tmp_path):
    pip(sys.executable, "wheel", "--wheel-dir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("faltung-*.whl")
    assert "-py3-none-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        libraries = {Path(name).name for name in names if ".so" in name}
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = email.message_from_bytes(archive.read(metadata))
    always, on_a_gpu = {"libfaltung.so", "libfaltung_torch.so"}, {"libfaltung_cuda.so", "libfaltung_torch_cuda.so"}
    assert libraries in (always, always | on_a_gpu)  # nothing of torch or CUDA beside them
    assert {"faltung/compat/causal_conv1d/cpp_functions.py", "faltung/compat/nvsubquadratic/ops/fftconv.py"} <= set(names)
    assert fields["Requires-Dist"].startswith("torch>=") and fields["Requires-Python"].startswith(">=3.")
    # The environment of the tests, seen through the .pth file, may hold faltung too.
    run(environment, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--ignore-installed", wheel)
    folder, libraries, version = use(environment, tmp_path)
    assert Path(folder).is_relative_to(tmp_path / "venv") and folder == libraries
    assert version == fields["Version"] == (ROOT / "VERSION").read_text().strip()
    run(environment, "-m", "pip", "uninstall", "--quiet", "--yes", "faltung")
    try:
        pip(environment, "install", "--ignore-installed", "--editable", ROOT)
        folder, libraries, _ = use(environment, tmp_path)
    finally:
        pip(sys.executable, "wheel", "--wheel-dir", tmp_path, ROOT)  # the build folder must not remember a python that goes
    assert Path(folder) == ROOT / "python/faltung" and Path(libraries).is_relative_to(tmp_path / "venv")


def test_cuda_without_a_toolkit_is_refused_in_words(tmp_path):
    without = {name: value for name, value in os.environ.items() if name not in ("CUDA_PATH", "CUDAToolkit_ROOT")}
    options = ["-DFALTUNG_CUDA=ON", "-DFALTUNG_TESTS=OFF", f"-DCMAKE_CUDA_COMPILER_TOOLKIT_ROOT={tmp_path}"]
    command = ["cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja", *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**without, "CUDACXX": str(tmp_path / "nvcc")})
    assert done.returncode != 0 and "needs nvcc, found none" in " ".join(done.stderr.split()), done.stderr
