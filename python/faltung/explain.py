"""explain: which implementation serves a call, what it chose, and why every other one declined."""

import torch

from . import _c_api
from .long_conv import boundary_code


class Explanation:
    """What `explain` found; print it, or read `text`, `problem`, `chosen` and `implementations` ({name: what it said})."""

    def __init__(self, text):
        self.text = text
        self.problem, *lines = text.rstrip("\n").split("\n")
        entries = dict(line.strip().split(": ", 1) for line in lines if ": " in line)
        self.chosen = entries.pop("chosen", "none")
        self.implementations = entries

    def __str__(self):
        return self.text.rstrip("\n")

    def __repr__(self):
        return f"<faltung.Explanation: {self.problem}: {self.chosen}>"


def explain(operator, *tensors_or_shapes, dtype=torch.float32, device="cpu", direction="forward", **options):
    """Explains the call ``operator(*tensors, **options)`` without making it.

    Args:
        operator: "long_conv", or the function `faltung.long_conv`.
        tensors_or_shapes: the operator's tensors (x, k and, if there is one, shortcut), each as a tensor (its data is not read; meta
            tensors will do) or as its shape, which then stands for a contiguous tensor of `dtype` on `device`.
        direction: "forward" or "backward".
        options: those of the operator (`boundary`, `channels_last`).

    Returns:
        An `Explanation`; printed, it is the problem, then the ordered list of implementations, each with ``accepts`` and its policy
        or ``declines`` and its reason, then the one chosen.

    Raises:
        ValueError, TypeError: as the call itself would.

        >>> print(faltung.explain("long_conv", (8, 64, 32, 32), (64, 63, 63), dtype=torch.bfloat16))
    """
    name = operator if isinstance(operator, str) else getattr(operator, "__name__", repr(operator))
    if name not in _EXPLAINERS:
        raise ValueError(f"operator: expected one of {', '.join(_EXPLAINERS)}, got {name}")
    if direction not in _c_api.DIRECTIONS:
        raise ValueError(f'direction: expected "forward" or "backward", got {direction!r}')
    tensors = [t if t is None or isinstance(t, torch.Tensor) else _meta(t, dtype) for t in tensors_or_shapes]
    return Explanation(_EXPLAINERS[name](direction, torch.device(device), tensors, **options))


def _meta(shape, dtype):
    try:
        return torch.empty(tuple(shape), dtype=dtype, device="meta")
    except TypeError:
        raise TypeError(f"expected a tensor or a shape, got {shape!r}") from None


def _view(tensor, name, device):
    if tensor is None:
        return None
    on = device if tensor.device.type == "meta" else tensor.device
    return _c_api.view(tuple(tensor.shape), tensor.stride(), tensor.dtype, on, name)


def _explain_long_conv(direction, device, tensors, shortcut=None, boundary="zero", channels_last=False):
    if not 2 <= len(tensors) <= 3:
        raise ValueError(f"long_conv: expected x, k and perhaps shortcut, got {len(tensors)} tensors or shapes")
    x, k = tensors[:2]
    shortcut = tensors[2] if len(tensors) == 3 else shortcut
    if shortcut is not None and not isinstance(shortcut, torch.Tensor):
        shortcut = _meta(shortcut, x.dtype)
    options = _c_api.long_conv_options(boundary_code(boundary, x.dim() - 2), channels_last, None)
    views = (_view(t, name, device) for t, name in ((x, "x"), (k, "k"), (shortcut, "shortcut")))
    return _c_api.long_conv_explain(direction, *views, options)


_EXPLAINERS = {"long_conv": _explain_long_conv}
