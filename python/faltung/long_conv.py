"""long_conv: depthwise convolution with filters as large as the grid, or larger, over one, two or three axes."""

import torch

from . import _errors
from ._long_conv_gradients import differentiable

# The code of the operators for one boundary on every axis, by the number of axes: 2 bits an axis (faltung_boundary).
_CODES = {"zero": (0, 0, 0, 0), "circular": (0, 1, 5, 21), "causal": (0, 2, 10, 42)}


def boundary_code(boundary, axes):
    """The operators' code of a boundary (one name, or one per spatial axis)."""
    if isinstance(boundary, str):
        if boundary in _CODES:
            return _CODES[boundary][axes] if 0 <= axes <= 3 else 0  # other ranks are refused in the library's words
        raise ValueError(f'boundary: expected "zero", "circular" or "causal", or one of them per spatial axis, got {boundary!r}')
    if not isinstance(boundary, (tuple, list)):
        raise TypeError(f"boundary: expected a str or a sequence of str, got {type(boundary).__name__}")
    for name in boundary:
        if name not in _CODES:
            raise ValueError(f'boundary: expected "zero", "circular" or "causal" for each axis, got {name!r}')
    if len(boundary) != axes:
        raise ValueError(f"boundary: expected one name, or one for each of {axes} spatial axes, got {len(boundary)}")
    return sum(_CODES[name][1] << (2 * axis) for axis, name in enumerate(boundary))


def long_conv(x, k, shortcut=None, *, boundary="zero", channels_last=False):
    """Convolves every channel of `x` with its own filter and keeps the size: y = x * k + shortcut x.

    Per spatial axis with N points and K taps (x is 0 outside the grid, unless circular):

    ============ ======================================================== =======================
    boundary     y[i]
    ============ ======================================================== =======================
    "zero"       sum over m of x[i + floor(K/2) - m] k[m]                 "same", true convolution
    "circular"   sum over m of x[(i + floor((K-1)/2) - m) mod N] k[m]     wraps; K > N adds up
    "causal"     sum over m of x[i - m] k[m]                              y[i] depends on no later x
    ============ ======================================================== =======================

    Args:
        x: ``[B, C, *S]`` with 1, 2 or 3 spatial axes, or ``[B, *S, C]`` with `channels_last`. Any strides. B and C may be 0, a
            spatial extent may not.
        k: the filters, ``[C, *K]`` or ``[1, C, *K]``, or one per sample, ``[B, C, *K]``; with `channels_last` ``[*K, C]``,
            ``[1, *K, C]`` or ``[B, *K, C]``. Any K >= 1, also K > 2N.
        shortcut: ``[C]``, optional: y += shortcut[c] x, added before the one rounding to the dtype of y.
        boundary: one name for all axes, or a sequence with one per axis.
        channels_last: whether the channels are the last axis of `x` and `k` (the shape says so; memory layout is free).

    Returns:
        y with the shape and dtype of `x` and the strides of ``torch.empty_like(x)``.

    dtypes: float64, float32, bfloat16, float16; `k` and `shortcut` may have another one than `x` (gradients come in the dtype
    of their input). Under autocast `x` goes to the autocast dtype, unless it is float64; the filters stay as they are.
    Errors against exact arithmetic, as a relative L2 norm, r being that of correct rounding: bfloat16 1.1 r, float16 1.2 r (2.2 r
    where the convolution is transformed), float32 3e-7 up to 64 points an axis and 1e-6 for anything, float64 1e-13.
    The same inputs give the same bits; y[b, c] depends on no other sample or channel. Differentiable any number of times,
    works under torch.compile, torch.func.vmap, torch.func.grad and torch.export. CPU threads: torch.set_num_threads.

    Raises:
        ValueError: a shape or a boundary does not fit; the message says what was expected and what came.
        TypeError: an argument is no dense floating tensor, or the devices differ.

    Sources: Romero et al. 2021, "CKConv: Continuous kernel convolution for sequential data" (arXiv:2102.02611); Poli et al. 2023,
    "Hyena hierarchy" (arXiv:2302.10866); Fu et al. 2023, "FlashFFTConv" (arXiv:2311.05908), which compute the same sums by
    rfft, product and irfft.
    """
    try:
        code = boundary_code(boundary, x.dim() - 2)
        # The first question is cheap: the name of the device takes the interpreter longer than the rest of this function.
        if torch.compiler.is_compiling() or torch._C._is_any_autocast_enabled():
            device = x.device.type
            if device != "meta" and torch.is_autocast_enabled(device):
                x = autocast(x)
        return differentiable(x, k, shortcut, code, channels_last, None)
    except (RuntimeError, AttributeError) as error:
        other = _errors.translated(error, x=x, k=k, shortcut=shortcut)
        if other is error:
            raise
        raise other from None


def autocast(x):
    """x in the dtype that autocast asks for: as torch's own rule for its lower-precision operators, float64 is left alone."""
    if x.dtype == torch.float64 or not x.is_floating_point():
        return x
    return x.to(torch.get_autocast_dtype(x.device.type))
