"""explain: which implementation serves a call, what it chose, and why every other one declined."""

import torch

from . import _c_api, _causal_conv1d_c_api
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
        operator: "long_conv", "causal_conv1d", "causal_conv1d_update", or the function itself.
        tensors_or_shapes: the operator's tensors (x, k and, if there is one, shortcut; x, weight, bias; x, state, weight, bias), each as a tensor (its data is not read; meta
            tensors will do) or as its shape, which then stands for a contiguous tensor of `dtype` on `device`.
        direction: "forward" or "backward"; an update has none.
        options: those of the operator that choose an implementation (`boundary`, `activation`, `channels_last`, `cu_seqlens`, ...).

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


# The optional tensors of causal_conv1d and its update, which may be given as shapes too; index tensors are int32.
_FLOATING = ("bias", "residual", "initial_state")
_INDICES = ("cu_seqlens", "seq_idx", "lengths", "state_indices", "output_state_indices", "cache_seqlens", "num_accepted", "query_start_loc")


def _optional_views(device, dtype, tensors):
    views = {}
    for name, tensor in tensors.items():
        if tensor is not None and name not in _FLOATING + _INDICES:
            raise TypeError(f"{name}: not an option of this operator")
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            tensor = _meta(tensor, dtype if name in _FLOATING else torch.int32)
        views[name] = _view(tensor, name, device)
    return views


def _explain_causal_conv1d(direction, device, tensors, bias=None, activation=None, channels_last=False, **optional):
    if not 2 <= len(tensors) <= 3:
        raise ValueError(f"causal_conv1d: expected x, weight and perhaps bias, got {len(tensors)} tensors or shapes")
    x, weight = tensors[:2]
    optional["bias"] = tensors[2] if len(tensors) == 3 else bias
    code = _causal_conv1d_c_api.code(_causal_conv1d_c_api.ACTIVATIONS, activation, "activation")
    options = _causal_conv1d_c_api.options(channels_last, code, **_optional_views(device, x.dtype, optional))
    return _causal_conv1d_c_api.explain(direction, _view(x, "x", device), _view(weight, "weight", device), options)


def _explain_causal_conv1d_update(direction, device, tensors, bias=None, activation=None, window="trailing", channels_last=False, **optional):
    if not 3 <= len(tensors) <= 4:
        raise ValueError(f"causal_conv1d_update: expected x, state, weight and perhaps bias, got {len(tensors)} tensors or shapes")
    x, state, weight = tensors[:3]
    optional["bias"] = tensors[3] if len(tensors) == 4 else bias
    codes = _causal_conv1d_c_api
    options = codes.update_options(
        channels_last, codes.code(codes.ACTIVATIONS, activation, "activation"), codes.code(codes.WINDOWS, window, "window"),
        **_optional_views(device, x.dtype, optional),
    )  # fmt: skip
    views = (_view(t, name, device) for t, name in ((x, "x"), (state, "state"), (weight, "weight")))
    return codes.explain_update(*views, options)


_EXPLAINERS = {
    "long_conv": _explain_long_conv,
    "causal_conv1d": _explain_causal_conv1d,
    "causal_conv1d_update": _explain_causal_conv1d_update,
}
