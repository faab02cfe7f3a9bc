"""The lowering as a pass of torch.compile: options, a context manager, and the pass itself."""

import contextlib
import hashlib
import pathlib

import torch
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass

from .. import _library
from .walker import rewrite

_SOURCES = sorted(pathlib.Path(__file__).parent.glob("*.py"))


class FusedConvLowering(CustomGraphPass):
    """The pass: first the one that was set before, then `rewrite`.

    Args:
        strict, allow_reduced_precision: as in `rewrite`.
        previous: another pass (or several) to run first; by default what `pre_grad_custom_pass` of Inductor's configuration holds now.
    """

    def __init__(self, *, strict=False, allow_reduced_precision=True, previous=...):
        self.strict, self.allow_reduced_precision = strict, allow_reduced_precision
        if previous is ...:
            previous = config.pre_grad_custom_pass
        previous = () if previous is None else tuple(previous) if isinstance(previous, (tuple, list)) else (previous,)
        self.previous = tuple(other for other in previous if not isinstance(other, FusedConvLowering))

    def __call__(self, graph):
        for other in self.previous:
            other(graph)
        rewrite(graph, strict=self.strict, allow_reduced_precision=self.allow_reduced_precision)

    def uuid(self):
        """What torch's caches tell this pass by: its sources, the library, its options, and what the kernels support."""
        state = hashlib.sha256()
        for source in _SOURCES:
            state.update(source.read_bytes())
        state.update(repr((_library.version, self.strict, self.allow_reduced_precision, _kernels())).encode())
        for other in self.previous:
            identity = other.uuid() if isinstance(other, CustomGraphPass) else None
            if identity is None:
                return None  # nobody can tell what it does: torch then caches nothing
            state.update(repr(identity).encode())
        return state.digest()


def _kernels():
    """Which libraries are loaded, and the device that they would serve."""
    has_cuda = (_library.folder / "libfaltung_torch_cuda.so").is_file() and torch.cuda.is_available()
    return (has_cuda, torch.cuda.get_device_capability() if has_cuda else None)


def lowering_options(*, strict=False, allow_reduced_precision=True):
    """For ``torch.compile(model, options=faltung.compile.lowering_options())``. torch.compile takes options or a mode, not both: for
    a mode there are `lowering` and ``backend="faltung"``."""
    return {"pre_grad_custom_pass": FusedConvLowering(strict=strict, allow_reduced_precision=allow_reduced_precision)}


@contextlib.contextmanager
def lowering(*, strict=False, allow_reduced_precision=True):
    """While it is entered, all that torch.compile compiles is lowered: enter it around the first call of a compiled model.

    >>> with faltung.compile.lowering():
    ...     torch.compile(model, mode="reduce-overhead")(x)
    """
    before = config.pre_grad_custom_pass
    config.pre_grad_custom_pass = FusedConvLowering(strict=strict, allow_reduced_precision=allow_reduced_precision, previous=before)
    try:
        yield config.pre_grad_custom_pass
    finally:
        config.pre_grad_custom_pass = before
