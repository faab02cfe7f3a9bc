"""vmap of the long_conv operators: the mapped axis joins the batch where all samples share the filters, else the channels. The bits of
a result depend on neither, so that a mapped call gives what a loop of calls gives."""


def _into(tensor, mapped, axis, size):
    """Merges the mapped axis (None: the tensor is the same for all) into `axis` of the unmapped tensor, the mapped one outermost."""
    if tensor is None:
        return None
    if mapped is None:
        tensor = tensor.unsqueeze(axis)
        shape = list(tensor.shape)
        shape[axis] = size
        tensor = tensor.expand(shape)
    else:
        tensor = tensor.movedim(mapped, axis)
    return tensor.flatten(axis, axis + 1)


def _rank(tensor, mapped):
    return tensor.dim() - (mapped is not None)


def _channel_axes(x, x_mapped, k, k_mapped, channels_last):
    x_rank, k_rank = _rank(x, x_mapped), _rank(k, k_mapped)
    return (x_rank - 1, k_rank - 1) if channels_last else (1, k_rank - (x_rank - 1))


def _is_shared(x, x_mapped, k, k_mapped):
    """Whether the samples of one (unmapped) call share its filters."""
    return _rank(k, k_mapped) < _rank(x, x_mapped) or k.shape[0] == 1


def forward(call):
    """The vmap rule of an operator `call` with the signature of long_conv."""

    def rule(info, in_dims, x, k, shortcut=None, boundary=0, channels_last=False, centre=None):
        x_at, k_at, shortcut_at = in_dims[0], in_dims[1], in_dims[2] if len(in_dims) > 2 else None
        size = info.batch_size
        if k_at is None and shortcut_at is None and _is_shared(x, x_at, k, k_at):
            y = call(_into(x, x_at, 0, size), k, shortcut, boundary, channels_last, centre)
            return y.unflatten(0, (size, y.shape[0] // size)), 0
        x_axis, k_axis = _channel_axes(x, x_at, k, k_at, channels_last)
        x, k = _into(x, x_at, x_axis, size), _into(k, k_at, k_axis, size)
        y = call(x, k, _into(shortcut, shortcut_at, 0, size), boundary, channels_last, centre)
        return y.unflatten(x_axis, (size, y.shape[x_axis] // size)), x_axis

    return rule


def backward(call):
    """The vmap rule of an operator `call` with the signature of long_conv_backward."""

    def rule(info, in_dims, dy, x, k, shortcut=None, boundary=0, channels_last=False, centre=None, *needs):
        needs = needs + (True, True, False)[len(needs) :]
        dy_at, x_at, k_at, shortcut_at = *in_dims[:3], in_dims[3] if len(in_dims) > 3 else None
        size = info.batch_size
        x_axis, k_axis = _channel_axes(x, x_at, k, k_at, channels_last)
        if needs == (True, False, False) and k_at is None and shortcut_at is None and _is_shared(x, x_at, k, k_at):
            x_axis = 0
            dy, x = _into(dy, dy_at, 0, size), _into(x, x_at, 0, size)
        else:
            dy, x, k = _into(dy, dy_at, x_axis, size), _into(x, x_at, x_axis, size), _into(k, k_at, k_axis, size)
            shortcut = _into(shortcut, shortcut_at, 0, size)
        gradients = call(dy, x, k, shortcut, boundary, channels_last, centre, *needs)
        axes = (x_axis, k_axis, 0)
        split = (g.unflatten(axis, (size, g.shape[axis] // size)) if need else g for g, need, axis in zip(gradients, needs, axes))
        return tuple(split), tuple(axis if need else None for need, axis in zip(needs, axes))

    return rule
