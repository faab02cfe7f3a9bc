"""Fake kernels of the long_conv operators: shapes and strides without data. Outputs have the strides of empty_like of their inputs, as
those of bindings/torch have."""

import torch

from . import _c_api

def _plain(size):
    """A size as an int: its hint where it is symbolic, None where there is none (a size that depends on data)."""
    if isinstance(size, int):
        return size
    return size.node.hint if size.node.has_hint() else None


def _check(direction, x, k, shortcut, boundary, channels_last, centre):
    """Raises what the real kernel would raise, in the library's words."""
    views = []
    for tensor, name in ((x, "x"), (k, "k"), (shortcut, "shortcut")):
        shape = None if tensor is None else [_plain(size) for size in tensor.shape]
        if shape and None in shape:
            return  # the real kernel will look at the real sizes
        views.append(None if shape is None else _c_api.view(shape, [0] * len(shape), tensor.dtype, tensor.device, name))
    _c_api.long_conv_explain(direction, *views, _c_api.long_conv_options(boundary, channels_last, centre))
    # What was found of the hints must hold of the symbols: guards, which cost plain ints nothing.
    channel = -1 if channels_last else 1
    k_leading = k.dim() - x.dim() + 1
    torch._check(k.shape[-1 if channels_last else k_leading] == x.shape[channel])
    if k_leading and k.shape[0] != 1:
        torch._check(k.shape[0] == x.shape[0])


@torch.library.register_fake("faltung::long_conv")
@torch.library.register_fake("faltung::long_conv_detached")
def _fake_forward(x, k, shortcut=None, boundary=0, channels_last=False, centre=None):
    _check("forward", x, k, shortcut, boundary, channels_last, centre)
    return torch.empty_like(x)


@torch.library.register_fake("faltung::long_conv_backward")
@torch.library.register_fake("faltung::long_conv_backward_detached")
def _fake_backward(
    dy, x, k, shortcut=None, boundary=0, channels_last=False, centre=None, need_dx=True, need_dk=True, need_dshortcut=False
):
    _check("backward", x, k, shortcut, boundary, channels_last, centre)
    return (
        torch.empty_like(x) if need_dx else x.new_empty(0),
        torch.empty_like(k) if need_dk else k.new_empty(0),
        torch.empty_like(shortcut) if need_dshortcut else x.new_empty(0),
    )
