"""Autograd of causal_conv1d, any number of times. The operators exist twice, with an autograd kernel and without, for the reasons that
_long_conv_gradients tells; here too the formulas stand once, over the calls that compute them."""

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import Function, forward_ad

from . import _causal_conv1d_vmap, _errors
from ._long_conv_gradients import _apply, _below_autograd, _or_zeros

_forward = torch.ops.faltung.causal_conv1d_detached.default
_backward = torch.ops.faltung.causal_conv1d_backward_detached.default
_kernel_forward = torch.ops.faltung.causal_conv1d.default
_kernel_backward = torch.ops.faltung.causal_conv1d_backward.default
_func_active = torch._C._are_functorch_transforms_active
_INPUTS = 12  # of the forward


def _wants_grad(tensors):
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def differentiable(*inputs):
    """(y, final_state) of the operator's inputs; final_state has shape [0] where it is not asked for."""
    if _func_active() or forward_ad._current_level >= 0:
        return _kernel_forward(*inputs)
    if _wants_grad(inputs[:5]):
        return _apply(CausalConv1d, _kernel_forward, *inputs)
    return _forward(*inputs)


def differentiable_backward(*inputs):
    """(dx, dweight, dbias, dinitial_state, dresidual), of shape [0] where not needed."""
    try:
        if _func_active() or forward_ad._current_level >= 0:
            return _kernel_backward(*inputs)
        if _wants_grad(inputs[:6]):
            return _apply(CausalConv1dBackward, _kernel_backward, *inputs)
        return _backward(*inputs)
    except RuntimeError as error:
        names = ("dy", "x", "weight", "bias", "initial_state", "dfinal_state")
        raise _errors.translated(error, **dict(zip(names, inputs))) from None


def _add(*terms):
    """The sum of the terms that are there."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


# ---- The formulas, over the calls that compute them


def _setup(ctx, inputs, output):
    x, weight, bias, _, initial_state, *cut, ctx.activation, ctx.state_columns, ctx.channels_last, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, weight, bias, initial_state, *cut)


def _gradient(backward):
    def rule(ctx, dy, dfinal_state):
        x, weight, bias, initial_state, *cut = ctx.saved_tensors
        need_x, need_weight, need_bias, need_residual, need_state = ctx.needs_input_grad[:5]
        if ctx.state_columns < 0:
            dfinal_state = None
        if dy is None:
            if dfinal_state is None:
                return (None,) * _INPUTS
            dy = x.new_zeros(()).expand(x.shape)
        is_cut = any(index is not None for index in cut)  # then tokens of no sequence have no dresidual
        need = need_x, need_weight, need_bias, need_state, need_residual and is_cut
        dx = dweight = dbias = dstate = dresidual = None
        if any(need):
            gradients = backward(dy, x, weight, bias, initial_state, dfinal_state, *cut, ctx.activation, ctx.channels_last, *need)
            dx, dweight, dbias, dstate, dresidual = (gradient if needed else None for gradient, needed in zip(gradients, need))
        if need_residual and not is_cut:
            dresidual = dy
        return dx, dweight, dbias, dresidual, dstate, *(None,) * 7

    return rule


def _setup_backward(ctx, inputs, output):
    ctx.set_materialize_grads(False)
    ctx.activation, ctx.channels_last, *ctx.needed = inputs[9:]
    ctx.save_for_backward(*inputs[:9])


def _gradient_of_gradient(forward, backward):
    # Let C(x, k, b; s) be the convolution without activation, z = C(x, weight, bias; state), and u, v, b, s, r the gradients that came
    # for dx, dweight, dbias, dstate, dresidual. Since C is linear in (x, s) and in (k, b), what came pairs with the outputs to
    #   <dz, q> + <r, dy> + <dfinal, F(u; s)>,   dz = act'(z) dy,   q = C(u, weight; s) + C(x, v, b; state),
    # F being the final state. Its gradients are those of C.
    def rule(ctx, *incoming):
        dy, x, weight, bias, state, dfinal, *cut = ctx.saved_tensors
        u, v, b, s, r = (g if needed else None for g, needed in zip(incoming, ctx.needed))
        need_dy, need_x, need_weight, need_bias, need_state, need_dfinal = ctx.needs_input_grad[:6]
        need_dfinal = need_dfinal and dfinal is not None

        def convolve(x, weight, bias, state, columns=-1, residual=None):
            return forward(x, weight, bias, residual, state, *cut, 0, columns, ctx.channels_last, False)

        def gradients(dz, x, weight, state, *need):  # dx, dweight, dbias, dstate, None where not needed
            if not any(need):
                return (None,) * 4
            found = backward(dz, x, weight, bias, state, None, *cut, 0, ctx.channels_last, *need, False)
            return tuple(gradient if needed else None for gradient, needed in zip(found, need))

        q, g_dfinal, first, second = None, None, None, None
        if u is not None or s is not None:
            first = _or_zeros(u, x)
            q, final = convolve(first, weight, None, s, dfinal.shape[-1] if need_dfinal else -1)
            g_dfinal = final.to(dfinal.dtype) if need_dfinal else None
        if v is not None or b is not None:
            second = _or_zeros(v, weight)
            q = _add(q, convolve(x, second, b, state)[0])
        g_dy, dz = q, dy
        g_x = g_weight = g_bias = g_state = None
        if q is not None and ctx.activation:
            z = convolve(x, weight, bias, state)[0]
            sigmoid = torch.sigmoid(z)
            slope = sigmoid * (1 + z * (1 - sigmoid))
            curvature = sigmoid * (1 - sigmoid) * (2 + z * (1 - 2 * sigmoid))
            g_dy, dz = slope * q, dy * slope
            g_x, g_weight, g_bias, g_state = gradients(dy * q * curvature, x, weight, state, need_x, need_weight, need_bias, need_state)
        if r is not None:
            if any(index is not None for index in cut):  # a convolution by zero with the residual r: r where there are tokens
                r = convolve(torch.zeros_like(x), torch.zeros_like(weight), None, None, residual=r)[0]
            g_dy = _add(g_dy, r)
        if first is not None:
            g_weight = _add(g_weight, gradients(dz, first, weight, s, False, need_weight, False, False)[1])
        if second is not None:
            dx, _, _, dstate = gradients(dz, x, second, state, need_x, False, False, need_state)
            g_x, g_state = _add(g_x, dx), _add(g_state, dstate)
        return g_dy if need_dy else None, g_x, g_weight, g_bias, g_state, g_dfinal, *(None,) * 10

    return rule


# ---- Autograd functions over the detached operators


class CausalConv1d(Function):
    @staticmethod
    def forward(x, weight, bias, residual, initial_state, cu_seqlens, seq_idx, lengths, activation, state_columns, channels_last, check):
        return _forward(
            x, weight, bias, residual, initial_state, cu_seqlens, seq_idx, lengths, activation, state_columns, channels_last, check
        )

    setup_context = staticmethod(_setup)
    backward = staticmethod(_gradient(differentiable_backward))


class CausalConv1dBackward(Function):
    @staticmethod
    def forward(
        dy, x, weight, bias, initial_state, dfinal_state, cu_seqlens, seq_idx, lengths, activation, channels_last,
        need_dx, need_dweight, need_dbias, need_dinitial_state, need_dresidual,
    ):  # fmt: skip
        return _backward(
            dy, x, weight, bias, initial_state, dfinal_state, cu_seqlens, seq_idx, lengths, activation, channels_last,
            need_dx, need_dweight, need_dbias, need_dinitial_state, need_dresidual,
        )  # fmt: skip

    setup_context = staticmethod(_setup_backward)
    backward = staticmethod(_gradient_of_gradient(differentiable, differentiable_backward))


# ---- Kernels of the operators for the dispatcher's autograd key


class KernelCausalConv1d(Function):
    @staticmethod
    def forward(ctx, *inputs_and_keys):
        *inputs, keys = inputs_and_keys
        results = _below_autograd(_kernel_forward, _forward, keys, inputs)
        _setup(ctx, inputs, results)
        ctx.save_for_forward(*(inputs[i] for i in (0, 1, 2, 4, 5, 6, 7)))
        return results

    @staticmethod
    def backward(ctx, dy, dfinal_state):
        return *_kernel_gradient(ctx, dy, dfinal_state), None

    @staticmethod
    def jvp(ctx, tx, tweight, tbias, tresidual, tstate, *_):
        x, weight, bias, state, *cut = ctx.saved_tensors

        def convolve(x, weight, bias, state, columns, residual=None):
            return _kernel_forward(x, weight, bias, residual, state, *cut, 0, columns, ctx.channels_last, False)

        ty, tfinal = convolve(_or_zeros(tx, x), weight, None, tstate, ctx.state_columns)
        if tweight is not None or tbias is not None:
            ty = ty + convolve(x, _or_zeros(tweight, weight), tbias, state, -1)[0]
        if ctx.activation:
            z = convolve(x, weight, bias, state, -1)[0]
            sigmoid = torch.sigmoid(z)
            ty = ty * sigmoid * (1 + z * (1 - sigmoid))
        if tresidual is not None:
            ty = ty + convolve(torch.zeros_like(x), torch.zeros_like(weight), None, None, -1, tresidual)[0]
        return ty, tfinal


class KernelCausalConv1dBackward(Function):
    @staticmethod
    def forward(ctx, *inputs_and_keys):
        *inputs, keys = inputs_and_keys
        gradients = _below_autograd(_kernel_backward, _backward, keys, inputs)
        _setup_backward(ctx, inputs, gradients)
        ctx.save_for_forward(*inputs[:9])
        return gradients

    @staticmethod
    def backward(ctx, *incoming):
        return *_kernel_gradient_of_gradient(ctx, *incoming), None

    @staticmethod
    def jvp(ctx, tdy, tx, tweight, tbias, tstate, tdfinal, *_):
        dy, x, weight, bias, state, dfinal, *cut = ctx.saved_tensors
        need_dx, need_dweight, need_dbias, need_dstate, need_dresidual = ctx.needed

        def convolve(x, weight, bias, state):
            return _kernel_forward(x, weight, bias, None, state, *cut, 0, -1, ctx.channels_last, False)[0]

        # dz, and its tangent: the gradients are bilinear in dz and in what it meets.
        dz, tdz = dy, tdy
        if ctx.activation:
            z = convolve(x, weight, bias, state)
            sigmoid = torch.sigmoid(z)
            slope = sigmoid * (1 + z * (1 - sigmoid))
            tz = convolve(_or_zeros(tx, x), weight, None, tstate)
            if tweight is not None or tbias is not None:
                tz = tz + convolve(x, _or_zeros(tweight, weight), tbias, state)
            curvature = sigmoid * (1 - sigmoid) * (2 + z * (1 - 2 * sigmoid))
            dz, tdz = slope * dy, _add(tz * curvature * dy, None if tdy is None else slope * tdy)
        # Zeros also for what is not needed: torch wants a tangent of each output.
        total = [
            torch.zeros_like(like) if needed else x.new_zeros(0)
            for like, needed in ((x, need_dx), (weight, need_dweight), (bias, need_dbias), (state, need_dstate), (x, need_dresidual))
        ]

        def add(needs, dz, x, weight, state, dfinal=None):
            if any(needs):
                found = _kernel_backward(dz, x, weight, bias, state, dfinal, *cut, 0, ctx.channels_last, *needs)
                for i, gradient in enumerate(found):
                    if needs[i]:
                        total[i] = total[i] + gradient

        if tdz is not None or tdfinal is not None:
            add((need_dx, need_dweight, need_dbias, need_dstate, False), _or_zeros(tdz, x), x, weight, state, tdfinal)
        if tweight is not None:
            add((need_dx, False, False, need_dstate, False), dz, x, tweight, state)
        if tx is not None or tstate is not None:
            add((False, need_dweight, False, False, False), dz, _or_zeros(tx, x), weight, tstate)
        if tdy is not None:
            add((False, False, False, False, need_dresidual), tdy, x, weight, state)
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


_autograd_kernel("causal_conv1d", KernelCausalConv1d)
_autograd_kernel("causal_conv1d_backward", KernelCausalConv1dBackward)
torch.library.register_vmap("faltung::causal_conv1d", _causal_conv1d_vmap.forward(_kernel_forward))
torch.library.register_vmap("faltung::causal_conv1d_backward", _causal_conv1d_vmap.backward(_kernel_backward))
