"""The part of include/faltung/faltung.h about causal_conv1d that Python calls by ctypes: options, explain, and the tests' calls of an
implementation by name."""

import ctypes

from ._c_api import DIRECTIONS, Tensor, check, reference, view
from ._library import c

ACTIVATIONS = {None: 0, "silu": 1, "swish": 1}
WINDOWS = {"trailing": 0, "leading": 1, "ring": 2}
_tensor = ctypes.POINTER(Tensor)


def code(codes, value, name):
    """The C value of a name."""
    try:
        return codes[value]
    except (KeyError, TypeError):
        raise ValueError(f"{name}: expected {', '.join(repr(known) for known in codes)}, got {value!r}") from None


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("layout", ctypes.c_int),
        ("activation", ctypes.c_int),
        ("bias", _tensor),
        ("residual", _tensor),
        ("initial_state", _tensor),
        ("cu_seqlens", _tensor),
        ("seq_idx", _tensor),
        ("lengths", _tensor),
        ("check", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_size", ctypes.c_size_t),
        ("parallel_for", ctypes.c_void_p),
        ("parallel_context", ctypes.c_void_p),
        ("implementation", ctypes.c_char_p),
    ]


class UpdateOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("layout", ctypes.c_int),
        ("activation", ctypes.c_int),
        ("window", ctypes.c_int),
        ("bias", _tensor),
        ("state_indices", _tensor),
        ("output_state_indices", _tensor),
        ("cache_seqlens", _tensor),
        ("num_accepted", _tensor),
        ("query_start_loc", _tensor),
        ("check", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("parallel_for", ctypes.c_void_p),
        ("parallel_context", ctypes.c_void_p),
        ("implementation", ctypes.c_char_p),
    ]


def _fill(options, default, channels_last, activation, implementation, tensors):
    default(ctypes.byref(options))
    options.layout = int(channels_last)
    options.activation = activation
    options.implementation = implementation.encode() if implementation else None
    for name, tensor in tensors.items():
        if tensor is not None:
            setattr(options, name, ctypes.pointer(tensor))  # keeps the tensor alive
    return options


def options(channels_last=False, activation=0, implementation=None, **tensors):
    """`tensors`: views by the name of the field."""
    return _fill(Options(), c.faltung_causal_conv1d_options_default, channels_last, activation, implementation, tensors)


def update_options(channels_last=False, activation=0, window=0, implementation=None, **tensors):
    result = UpdateOptions()
    _fill(result, c.faltung_causal_conv1d_update_options_default, channels_last, activation, implementation, tensors)
    result.window = window
    return result


def _text(call, *arguments):
    needed = ctypes.c_int64()
    check(call(*arguments, None, ctypes.c_int64(0), ctypes.byref(needed)))
    text = ctypes.create_string_buffer(needed.value)
    check(call(*arguments, text, needed, None))
    return text.value.decode()


def explain(direction, x, weight, options):
    """The text of faltung_causal_conv1d_explain for views; raises what the call itself would raise for these shapes and dtypes."""
    return _text(c.faltung_causal_conv1d_explain, DIRECTIONS[direction], reference(x), reference(weight), reference(options))


def explain_update(x, state, weight, options):
    return _text(c.faltung_causal_conv1d_update_explain, reference(x), reference(state), reference(weight), reference(options))


def shape_view(shape, tensor, name):
    """A view of a shape in plain ints, with the dtype and the device of `tensor`."""
    return view(shape, [0 if size == 0 else 1 for size in shape], tensor.dtype, tensor.device, name)
