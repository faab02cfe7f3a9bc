"""Autograd of long_conv, any number of times, for every way in which torch may ask for it.

The operators exist twice. `torch.ops.faltung.long_conv` and its backward have an autograd kernel (at the end of this file), which costs a
call several microseconds even where nothing requires a gradient. So `faltung.long_conv` calls the `..._detached` ones:

- nothing requires a gradient: at once;
- eager mode and torch.compile: below a torch.autograd.Function, `LongConv`.

torch.func's transforms, forward-mode derivatives and torch.export (whose graph must stay differentiable) get the operators with a kernel:
they work on dispatcher keys, and Dynamo, inside torch.func, would differentiate the forward of a Function and ignore its backward.
"""

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import Function, forward_ad

from . import _errors, _long_conv_vmap

_forward = torch.ops.faltung.long_conv_detached.default
_backward = torch.ops.faltung.long_conv_backward_detached.default
_kernel_forward = torch.ops.faltung.long_conv.default
_kernel_backward = torch.ops.faltung.long_conv_backward.default
_func_active = torch._C._are_functorch_transforms_active


def differentiable(x, k, shortcut, boundary, channels_last, centre):
    """long_conv with the operators' arguments: boundary as a code, centre per spatial axis or None."""
    if _func_active() or forward_ad._current_level >= 0:
        return _kernel_forward(x, k, shortcut, boundary, channels_last, centre)
    if torch.is_grad_enabled() and (x.requires_grad or k.requires_grad or (shortcut is not None and shortcut.requires_grad)):
        return _apply(LongConv, _kernel_forward, x, k, shortcut, boundary, channels_last, centre)
    return _forward(x, k, shortcut, boundary, channels_last, centre)


def differentiable_backward(dy, x, k, shortcut, *options):
    """The gradients (dx, dk, dshortcut), of shape [0] where not needed; options as in the operator."""
    try:
        if _func_active() or forward_ad._current_level >= 0:
            return _kernel_backward(dy, x, k, shortcut, *options)
        if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (dy, x, k, shortcut)):
            return _apply(LongConvBackward, _kernel_backward, dy, x, k, shortcut, *options)
        return _backward(dy, x, k, shortcut, *options)
    except RuntimeError as error:
        raise _errors.translated(error, dy=dy, x=x, k=k, shortcut=shortcut) from None


def _apply(function, operator, *inputs):
    if torch.compiler.is_compiling():
        return operator(*inputs) if torch.compiler.is_exporting() else function.apply(*inputs)
    # function.apply without its Python half, which binds default arguments by inspect.signature: 15 of the 21 microseconds that a
    # call takes on a tensor of one element.
    return super(Function, function).apply(*inputs)


def _or_zeros(tensor, like):
    return torch.zeros_like(like) if tensor is None else tensor


def _sum(a, b):
    return b if a is None else a if b is None else a + b


# ---- The formulas, over the calls that compute them


def _setup(ctx, inputs, output):
    x, k, shortcut, *ctx.options = inputs
    ctx.save_for_backward(x, k, shortcut)


def _gradient(backward):
    def rule(ctx, dy):
        x, k, shortcut = ctx.saved_tensors
        need = ctx.needs_input_grad[:3]
        gradients = backward(dy, x, k, shortcut, *ctx.options, *need)
        dx, dk, dshortcut = (gradient if needed else None for gradient, needed in zip(gradients, need))
        return dx, dk, dshortcut, None, None, None

    return rule


def _setup_backward(ctx, inputs, output):
    dy, x, k, shortcut, *options = inputs
    ctx.options, ctx.needed = options[:3], options[3:]
    ctx.save_for_backward(dy, x, k, shortcut)


def _gradient_of_gradient(forward, backward):
    # dx is linear in (dy, k, shortcut), dk and dshortcut in (dy, x). With u, v, w the gradients that came for dx, dk, dshortcut
    #   <u, dx(dy, k, shortcut)>                      = <dy, long_conv(u, k, shortcut)>
    #   <v, dk(dy, x)> + <w, dshortcut(dy, x)>        = <dy, long_conv(x, v, w)>
    # and each right side, read as a function of its other arguments, has the gradients of long_conv: three more long convolutions.
    def rule(ctx, u, v, w):
        dy, x, k, shortcut = ctx.saved_tensors
        u, v, w = (g if needed else None for g, needed in zip((u, v, w), ctx.needed))
        need_dy, need_x, need_k, need_shortcut = ctx.needs_input_grad[:4]
        g_dy = g_x = g_k = g_shortcut = None
        if u is not None:
            if need_dy:
                g_dy = forward(u, k, shortcut, *ctx.options)
            if need_k or need_shortcut:
                _, g_k, g_shortcut = backward(dy, u, k, shortcut, *ctx.options, False, need_k, need_shortcut)
        if v is not None or w is not None:
            v = _or_zeros(v, k)
            if need_dy:
                g_dy = _sum(g_dy, forward(x, v, w, *ctx.options))
            if need_x:
                g_x, _, _ = backward(dy, x, v, w, *ctx.options, True, False, False)
        return g_dy, g_x, g_k if need_k else None, g_shortcut if need_shortcut else None, *(None,) * 6

    return rule


# ---- Autograd functions over the detached operators


class LongConv(Function):
    @staticmethod
    def forward(x, k, shortcut, boundary, channels_last, centre):
        return _forward(x, k, shortcut, boundary, channels_last, centre)

    setup_context = staticmethod(_setup)
    backward = staticmethod(_gradient(differentiable_backward))


class LongConvBackward(Function):
    @staticmethod
    def forward(dy, x, k, shortcut, boundary, channels_last, centre, need_dx, need_dk, need_dshortcut):
        return _backward(dy, x, k, shortcut, boundary, channels_last, centre, need_dx, need_dk, need_dshortcut)

    setup_context = staticmethod(_setup_backward)
    backward = staticmethod(_gradient_of_gradient(differentiable, differentiable_backward))


# ---- Kernels of the operators for the dispatcher's autograd key. torch.library.register_autograd would do, were it not that its
# functions refuse torch.func's transforms.


def _below_autograd(operator, detached, keys, inputs):
    keys = keys & torch._C._after_autograd_keyset
    with torch._C._AutoDispatchBelowAutograd():
        if not _func_active():
            return detached.redispatch(keys, *inputs)  # cheaper, in the graphs of torch.compile too
        # The next level of a torch.func transform must find gradients, though the forward of a Function runs without.
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            return operator.redispatch(keys, *inputs)


class KernelLongConv(Function):
    @staticmethod
    def forward(ctx, *inputs_and_keys):
        *inputs, keys = inputs_and_keys
        y = _below_autograd(_kernel_forward, _forward, keys, inputs)
        _setup(ctx, inputs, y)
        ctx.save_for_forward(*inputs[:3])
        return y

    @staticmethod
    def backward(ctx, dy):
        return *_kernel_gradient(ctx, dy), None

    @staticmethod
    def jvp(ctx, tx, tk, tshortcut, *_):
        x, k, shortcut = ctx.saved_tensors
        ty = None
        if tx is not None:
            ty = _kernel_forward(tx, k, shortcut, *ctx.options)
        if tk is not None or tshortcut is not None:
            ty = _sum(ty, _kernel_forward(x, _or_zeros(tk, k), tshortcut, *ctx.options))
        return ty


class KernelLongConvBackward(Function):
    @staticmethod
    def forward(ctx, *inputs_and_keys):
        *inputs, keys = inputs_and_keys
        gradients = _below_autograd(_kernel_backward, _backward, keys, inputs)
        _setup_backward(ctx, inputs, gradients)
        ctx.save_for_forward(*inputs[:4])
        return gradients

    @staticmethod
    def backward(ctx, u, v, w):
        return *_kernel_gradient_of_gradient(ctx, u, v, w), None

    @staticmethod
    def jvp(ctx, tdy, tx, tk, tshortcut, *_):
        dy, x, k, shortcut = ctx.saved_tensors
        need_dx, need_dk, need_dshortcut = ctx.needed
        # Zeros also for what is not needed: torch wants a tangent of each output.
        total = [x.new_zeros(0), k.new_zeros(0), x.new_zeros(0)]

        def add(needs, *tensors):
            gradients = _kernel_backward(*tensors, *ctx.options, *needs) if any(needs) else ()
            for i, gradient in enumerate(gradients):
                if needs[i]:
                    total[i] = total[i] + gradient if total[i].shape == gradient.shape else gradient

        if tdy is not None:
            add(ctx.needed, tdy, x, k, shortcut)
        if tx is not None:
            add((False, need_dk, need_dshortcut), dy, tx, k, shortcut)
        if tk is not None or tshortcut is not None:
            add((need_dx, False, False), dy, x, _or_zeros(tk, k), tshortcut)
        return tuple(total)


_kernel_gradient = _gradient(_kernel_backward)
_kernel_gradient_of_gradient = _gradient_of_gradient(_kernel_forward, _kernel_backward)
_library = torch.library.Library("faltung", "IMPL")


def _autograd_kernel(name, function):
    operator = getattr(torch.ops.faltung, name).default
    defaults = [argument.default_value for argument in operator._schema.arguments]

    def kernel(keys, *inputs):
        inputs = inputs + tuple(defaults[len(inputs) :])
        with enable_single_level_autograd_function():
            return super(Function, function).apply(*inputs, keys)

    _library.impl(name, kernel, "Autograd", with_keyset=True)


_autograd_kernel("long_conv", KernelLongConv)
_autograd_kernel("long_conv_backward", KernelLongConvBackward)
torch.library.register_vmap("faltung::long_conv", _long_conv_vmap.forward(_kernel_forward))
torch.library.register_vmap("faltung::long_conv_backward", _long_conv_vmap.backward(_kernel_backward))
