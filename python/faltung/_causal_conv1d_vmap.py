"""vmap of the causal_conv1d operators. The mapped axis joins the batch where all samples share the parameters, else the channels where they
share the cuts into sequences; the bits of a result depend on neither. What is left, mapped parameters and mapped cuts at once, is a loop."""

import torch

from ._long_conv_vmap import _into


def _is_mapped(dims):
    return any(dim is not None for dim in dims)


def _loop(call, info, in_dims, arguments):
    """One call per sample, results stacked."""
    results = []
    for i in range(info.batch_size):
        results.append(call(*(a if dim is None else a.select(dim, i) for a, dim in zip(arguments, in_dims))))
    return tuple(torch.stack(parts) for parts in zip(*results)), (0,) * len(results[0])


def _split(results, axes, size):
    """Undoes _into for each result whose axis is not None; the others have shape [0] and belong to no sample."""
    parts = tuple(r if axis is None else r.unflatten(axis, (size, r.shape[axis] // size)) for r, axis in zip(results, axes))
    return parts, tuple(axes)


def forward(call):
    """The vmap rule of an operator `call` with the signature of causal_conv1d."""

    def rule(info, in_dims, *arguments):
        defaults = (None, None, None, None, None, None, 0, -1, False, False)
        arguments = (*arguments, *defaults[len(arguments) - 2 :])
        in_dims = (*in_dims, *(None,) * (12 - len(in_dims)))
        x, weight, bias, residual, state, *cut, activation, columns, channels_last, check = arguments
        x_at, weight_at, bias_at, residual_at, state_at, *cut_at = in_dims[:8]
        size, wants_state = info.batch_size, columns >= 0
        if not _is_mapped((weight_at, bias_at)) and cut[0] is None:
            x, residual, state = (_into(t, at, 0, size) for t, at in ((x, x_at), (residual, residual_at), (state, state_at)))
            cut = [_into(t, at, 0, size) for t, at in zip(cut, cut_at)]
            results = call(x, weight, bias, residual, state, *cut, activation, columns, channels_last, check)
            return _split(results, (0, 0 if wants_state else None), size)
        if _is_mapped(cut_at):
            return _loop(call, info, in_dims, arguments)
        axis = 2 if channels_last else 1
        x, residual, state = (_into(t, at, a, size) for t, at, a in ((x, x_at, axis), (residual, residual_at, axis), (state, state_at, 1)))
        weight, bias = _into(weight, weight_at, 0, size), _into(bias, bias_at, 0, size)
        results = call(x, weight, bias, residual, state, *cut, activation, columns, channels_last, check)
        return _split(results, (axis, 1 if wants_state else None), size)

    return rule


def backward(call):
    """The vmap rule of an operator `call` with the signature of causal_conv1d_backward."""

    def rule(info, in_dims, *arguments):
        defaults = (None, None, None, None, None, None, 0, False, True, True, False, False, False)
        arguments = (*arguments, *defaults[len(arguments) - 3 :])
        in_dims = (*in_dims, *(None,) * (16 - len(in_dims)))
        dy, x, weight, bias, state, dfinal, *cut, activation, channels_last = arguments[:11]
        dy_at, x_at, weight_at, bias_at, state_at, dfinal_at, *cut_at = in_dims[:9]
        needs, size = arguments[11:], info.batch_size
        need_dx, need_dweight, need_dbias, need_dstate, need_dresidual = needs
        if not _is_mapped((weight_at, bias_at)) and cut[0] is None and not (need_dweight or need_dbias):
            dy, x, state, dfinal = (_into(t, at, 0, size) for t, at in ((dy, dy_at), (x, x_at), (state, state_at), (dfinal, dfinal_at)))
            cut = [_into(t, at, 0, size) for t, at in zip(cut, cut_at)]
            axes = (0, None, None, 0, 0)
        elif _is_mapped(cut_at):
            return _loop(call, info, in_dims, arguments)
        else:
            axis = 2 if channels_last else 1
            dy, x = _into(dy, dy_at, axis, size), _into(x, x_at, axis, size)
            state, dfinal = _into(state, state_at, 1, size), _into(dfinal, dfinal_at, 1, size)
            weight, bias = _into(weight, weight_at, 0, size), _into(bias, bias_at, 0, size)
            axes = (axis, 0, 0, 1, axis)
        results = call(dy, x, weight, bias, state, dfinal, *cut, activation, channels_last, *needs)
        return _split(results, tuple(axis if need else None for axis, need in zip(axes, needs)), size)

    return rule
