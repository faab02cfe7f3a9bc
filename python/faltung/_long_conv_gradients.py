"""Autograd of long_conv, any number of times: two autograd functions whose backwards call each other.

An operator of the dispatcher with an autograd registration costs every call a trip through Python, also where nothing requires a
gradient; here such calls reach the operator at once, and the others pay for one torch.autograd.Function (`_apply`).
"""

import torch
from torch.autograd import Function

from . import _errors, _long_conv_vmap

_forward = torch.ops.faltung.long_conv.default
_backward = torch.ops.faltung.long_conv_backward.default
# Inside a transform of torch.func the functions below have the rules of every level; requires_grad tells of the innermost alone.
_in_transform = torch._C._are_functorch_transforms_active


def _apply(function, *inputs):
    """function.apply(*inputs); in plain eager mode without its Python half, which binds default arguments by inspect.signature: 15 of
    the 21 microseconds that it takes on a tensor of one element."""
    if torch.compiler.is_compiling() or _in_transform():
        return function.apply(*inputs)
    return super(Function, function).apply(*inputs)


def differentiable(x, k, shortcut, boundary, channels_last, centre):
    """long_conv with the operators' arguments: boundary as a code, centre per spatial axis or None."""
    grad = torch.is_grad_enabled() and (x.requires_grad or k.requires_grad or (shortcut is not None and shortcut.requires_grad))
    if grad or _in_transform():
        return _apply(LongConv, x, k, shortcut, boundary, channels_last, centre)
    return _forward(x, k, shortcut, boundary, channels_last, centre)


def differentiable_backward(dy, x, k, shortcut, *options):
    """The gradients (dx, dk, dshortcut), of shape [0] where not needed; options as in the operator."""
    grad = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (dy, x, k, shortcut))
    if grad or _in_transform():
        return _apply(LongConvBackward, dy, x, k, shortcut, *options)
    try:
        return _backward(dy, x, k, shortcut, *options)
    except RuntimeError as error:
        raise _errors.translated(error, dy=dy, x=x, k=k, shortcut=shortcut) from None


class LongConv(Function):
    @staticmethod
    def forward(x, k, shortcut, boundary, channels_last, centre):
        return _forward(x, k, shortcut, boundary, channels_last, centre)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, k, shortcut, *ctx.options = inputs
        ctx.save_for_backward(x, k, shortcut)

    @staticmethod
    def backward(ctx, dy):
        x, k, shortcut = ctx.saved_tensors
        need = ctx.needs_input_grad[:3]
        gradients = differentiable_backward(dy, x, k, shortcut, *ctx.options, *need)
        dx, dk, dshortcut = (gradient if needed else None for gradient, needed in zip(gradients, need))
        return dx, dk, dshortcut, None, None, None

    vmap = staticmethod(_long_conv_vmap.forward(differentiable))


class LongConvBackward(Function):
    @staticmethod
    def forward(dy, x, k, shortcut, boundary, channels_last, centre, need_dx, need_dk, need_dshortcut):
        return _backward(dy, x, k, shortcut, boundary, channels_last, centre, need_dx, need_dk, need_dshortcut)

    @staticmethod
    def setup_context(ctx, inputs, output):
        dy, x, k, shortcut, *options = inputs
        ctx.options, ctx.needed = options[:3], options[3:]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(dy, x, k, shortcut)

    @staticmethod
    def backward(ctx, gdx, gdk, gdshortcut):
        # dx is linear in (dy, k, shortcut), dk and dshortcut in (dy, x). With u, v, w the gradients that came for dx, dk, dshortcut
        #   <u, dx(dy, k, shortcut)>           = <dy, long_conv(u, k, shortcut)>
        #   <v, dk(dy, x)> + <w, dshortcut>    = <dy, long_conv(x, v, w)>
        # and each of the two right sides, read as a function of its other arguments, has the gradients of long_conv.
        dy, x, k, shortcut = ctx.saved_tensors
        u, v, w = (g if needed else None for g, needed in zip((gdx, gdk, gdshortcut), ctx.needed))
        need_dy, need_x, need_k, need_shortcut = ctx.needs_input_grad[:4]
        g_dy = g_x = g_k = g_shortcut = None
        if u is not None:
            if need_dy:
                g_dy = differentiable(u, k, shortcut, *ctx.options)
            if need_k or need_shortcut:
                _, g_k, g_shortcut = differentiable_backward(dy, u, k, shortcut, *ctx.options, False, need_k, need_shortcut)
        if v is not None or w is not None:
            v = torch.zeros_like(k) if v is None else v
            if need_dy:
                other = differentiable(x, v, w, *ctx.options)
                g_dy = other if g_dy is None else g_dy + other
            if need_x:
                g_x, _, _ = differentiable_backward(dy, x, v, w, *ctx.options, True, False, False)
        return g_dy, g_x, g_k if need_k else None, g_shortcut if need_shortcut else None, *(None,) * 6

    vmap = staticmethod(_long_conv_vmap.backward(differentiable_backward))
