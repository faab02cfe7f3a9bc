"""The built binding: no symbol of torch's unstable C++ interface, one named minimum of torch, clear words where it is missing."""

import ctypes
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys

import faltung
import pytest
from faltung import _c_api, _library

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINDINGS = sorted(_library.folder.glob("libfaltung_torch*.so"))


def symbols(library, *options):
    return subprocess.run(["nm", "-D", *options, library], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("library", BINDINGS, ids=lambda p: p.name)
def test_only_the_stable_interface(library):
    """Itanium mangling: _ZN2at, _ZN3c10 and _ZN5torch are at::, c10:: and torch::, with K, V or T-prefixed spellings between."""
    listed = symbols(library)
    assert "aoti_torch_get_sizes" in listed and "faltung_long_conv_forward" in listed
    assert re.findall(r"\S*(?:2at|3c10|5torch)\S*", listed) == []
    assert re.findall(r"\bPy[A-Z_]\w*", listed) == []


@pytest.mark.parametrize("library", BINDINGS, ids=lambda p: p.name)
def test_exports_nothing(library):
    defined = symbols(library, "--defined-only").split()
    assert not [name for name in defined if name.startswith("_Z") and "faltung" in name]


def test_one_minimum_of_torch():
    """2.10 in the compiled target, the wheel's requirement and the words of a failed load."""
    target = re.search(r"TORCH_TARGET_VERSION=0x(\w\w)(\w\w)0{12}\b", (ROOT / "bindings/torch/CMakeLists.txt").read_text())
    assert (int(target[1], 16), int(target[2], 16)) == (2, 10)
    assert 'dependencies = ["torch>=2.10"]' in (ROOT / "pyproject.toml").read_text()
    assert "(2.10 or later is needed)" in pathlib.Path(_library.__file__).read_text()


def test_version():
    assert faltung.__version__ == (ROOT / "VERSION").read_text().strip()


def test_the_mirror_of_the_header():
    """ctypes' structs against the header: the size that the library fills in, and the field that it sets to a value of its own."""
    options = _c_api.long_conv_options(0b100100, True, None)
    assert options.size == ctypes.sizeof(_c_api.LongConvOptions)
    assert list(options.centre) == [_c_api.DEFAULT_CENTRE] * 3 and list(options.boundary) == [0, 1, 2] and options.layout == 1
    header = (ROOT / "include/faltung/faltung.h").read_text()
    for struct, name in ((_c_api.Tensor, "faltung_tensor"), (_c_api.LongConvOptions, "faltung_long_conv_options")):
        body = re.search(r"typedef struct \{([^}]*)\} " + name + ";", header)[1]
        declared = re.findall(r"(\w+)(?:\[\w+\])?;", re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL))
        assert declared == [field for field, _ in struct._fields_]


def test_the_installed_wheel():
    """Where the package is installed: one wheel for every Python, with the library and its bindings, and nothing of torch's."""
    try:
        installed = importlib.metadata.distribution("faltung")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed here")
    assert re.search(r"^Tag: py3-none-\w+$", installed.read_text("WHEEL"), re.MULTILINE)
    objects = sorted(file.name for file in installed.files if ".so" in file.name)
    cuda = ["libfaltung_cuda.so", "libfaltung_torch_cuda.so"] if "libfaltung_cuda.so" in objects else []
    assert objects == sorted(["libfaltung.so", "libfaltung_torch.so", *cuda])
    assert "torch>=2.10" in installed.requires and installed.version == faltung.__version__
    assert installed.metadata["License-Expression"] == "Apache-2.0"


def run(code, **environment):
    path = os.pathsep.join(p for p in sys.path if p)
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def test_a_missing_library_is_said_clearly(tmp_path):
    result = run("import faltung", FALTUNG_LIBRARY_DIR=str(tmp_path))
    assert "ImportError: faltung: libfaltung_torch.so was not found in " + str(tmp_path) in result.stderr


def test_import_is_light():
    """Nothing of torch's compiler is loaded by the import."""
    code = "import sys, torch; before = set(sys.modules); import faltung; print(*sorted(set(sys.modules) - before))"
    loaded = run(code, FALTUNG_LIBRARY_DIR=str(_library.folder)).stdout.split()
    assert "faltung.long_conv" in loaded
    assert not [name for name in loaded if name.startswith(("torch._dynamo", "torch._inductor", "numpy", "sympy"))]
