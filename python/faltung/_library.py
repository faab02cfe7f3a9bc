"""Finds libfaltung and libfaltung_torch, loads the operators into torch and the C ABI into ctypes.

Where they are looked for, first find wins:
1. the folder that the environment variable FALTUNG_LIBRARY_DIR names (then nowhere else),
2. the folders of this package: beside this file in an installed wheel; in an editable install also where the libraries were put,
3. in a checkout, the most recently built of build/ and build/*/ at its root.
"""

import ctypes
import os
import pathlib
import sys

import torch

_operators = "libfaltung_torch.so"
_cuda_operators = "libfaltung_torch_cuda.so"


def _folders():
    if named := os.environ.get("FALTUNG_LIBRARY_DIR"):
        return [pathlib.Path(named)]
    here = pathlib.Path(__file__).resolve().parent
    root = here.parent.parent
    built = []
    if (root / "include/faltung/faltung.h").is_file():
        built = [file.parent for file in (root / "build").glob(f"**/{_operators}") if len(file.relative_to(root).parts) <= 3]
        built.sort(key=lambda folder: (folder / _operators).stat().st_mtime, reverse=True)
    package = [pathlib.Path(folder) for folder in sys.modules[__package__].__path__]
    return [here, *package, *built]


def _find():
    folders = _folders()
    for folder in folders:
        if (folder / _operators).is_file():
            return folder
    searched = ", ".join(str(folder) for folder in folders)
    raise ImportError(
        f"faltung: {_operators} was not found in {searched}. Install the package (pip install .), or build it in the checkout "
        "(cmake -DFALTUNG_TORCH=ON), or set FALTUNG_LIBRARY_DIR to the folder that has it."
    )


def _load(folder, name):
    try:
        torch.ops.load_library(str(folder / name))
    except OSError as error:
        raise ImportError(f"faltung: {folder / name} does not load into torch {torch.__version__} (2.10 or later is needed): {error}") from error


def _load_c(folder):
    for name in ("libfaltung.so", "libfaltung.so.0"):
        if (folder / name).is_file():
            return ctypes.CDLL(str(folder / name))
    return ctypes.CDLL("libfaltung.so.0")  # an installed C library, where libfaltung_torch found it too


folder = _find()
_load(folder, _operators)
if torch.version.cuda and (folder / _cuda_operators).is_file():
    _load(folder, _cuda_operators)
c = _load_c(folder)
torch_threads = ctypes.cast(ctypes.CDLL(str(folder / _operators)).faltung_torch_threads, ctypes.c_void_p)  # a faltung_parallel_for
c.faltung_version.restype = ctypes.c_char_p
c.faltung_last_error.restype = ctypes.c_char_p
version = c.faltung_version().decode()
