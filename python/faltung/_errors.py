"""Errors of the C++ side, which cross torch's stable ABI as RuntimeError, as the exceptions that Python's users expect."""

import re

import torch

# The kinds of bindings/torch/status.hpp, in the order of faltung_status.
KINDS = {
    "invalid argument": ValueError,
    "invalid type": TypeError,
    "unsupported": NotImplementedError,
    "out of memory": MemoryError,
    "runtime error": RuntimeError,
}
_pattern = re.compile(rf"faltung: ({'|'.join(KINDS)}): (.*)", re.DOTALL)


def of_status(status, words):
    """The exception for a faltung_status other than FALTUNG_OK."""
    return list(KINDS.values())[status - 1](words)


_REQUIRED = ("dy", "k", "state", "weight", "x")


def translated(error, **tensors):
    """The exception that stands for `error`, which a call with these named tensors raised; those that are not required may be None."""
    if match := _pattern.search(str(error)):
        return KINDS[match[1]](match[2])
    for name, value in tensors.items():
        if value is None and name not in _REQUIRED:
            continue
        if not isinstance(value, torch.Tensor):
            return TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")
        if value.layout != torch.strided:
            return TypeError(f"{name}: expected a dense (torch.strided) tensor, got {value.layout}")
        if value.device.type not in ("cpu", "cuda", "meta"):
            return TypeError(f"{name}: expected a tensor on cpu or cuda, got one on {value.device}")
    if isinstance(error, NotImplementedError) and any(t is not None and t.device.type == "cuda" for t in tensors.values()):
        return NotImplementedError("CUDA tensors: this build of faltung has no libfaltung_torch_cuda.so")
    return error
