"""The part of include/faltung/faltung.h that Python calls by ctypes: views of shapes, options, explain. Tensor data never passes
through here, but for the tests' calls of an implementation by name."""

import ctypes

import torch

from . import _errors
from ._library import c

DTYPES = {torch.float64: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3, torch.int32: 4, torch.int64: 5}
BOUNDARIES = {"zero": 0, "circular": 1, "causal": 2}
DIRECTIONS = {"forward": 0, "backward": 1}
DEFAULT_CENTRE = -(2**63)
MAX_RANK = 6
MAX_SPATIAL_RANK = 3


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("device", ctypes.c_int),
        ("device_index", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
    ]


class LongConvOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("layout", ctypes.c_int),
        ("boundary", ctypes.c_int * MAX_SPATIAL_RANK),
        ("centre", ctypes.c_int64 * MAX_SPATIAL_RANK),
        ("stream", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_size", ctypes.c_size_t),
        ("parallel_for", ctypes.c_void_p),
        ("parallel_context", ctypes.c_void_p),
        ("implementation", ctypes.c_char_p),
    ]


def check(status):
    if status:
        raise _errors.of_status(status, c.faltung_last_error().decode())


def view(shape, strides, dtype, device, name, data=None):
    """A faltung_tensor of these plain ints; strides in elements."""
    if dtype not in DTYPES:
        raise TypeError(f"{name}: expected a floating dtype, got {str(dtype).removeprefix('torch.')}")
    if len(shape) > MAX_RANK:
        raise ValueError(f"{name}: expected at most {MAX_RANK} axes, got {len(shape)}")
    cuda = device.type == "cuda"
    result = Tensor(data, DTYPES[dtype], int(cuda), (device.index or 0) if cuda else 0, len(shape))
    result.shape[: len(shape)] = shape
    result.strides[: len(shape)] = strides
    return result


def view_of(tensor, name, data=False):
    return view(tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device, name, tensor.data_ptr() if data else None)


def reference(value):
    """The argument for an optional pointer to a struct."""
    return None if value is None else ctypes.byref(value)


def long_conv_options(boundary, channels_last, centre, implementation=None):
    """`boundary` as the operators take it: the code of spatial axis i in bits 2i and 2i + 1."""
    options = LongConvOptions()
    c.faltung_long_conv_options_default(ctypes.byref(options))
    options.layout = int(channels_last)
    options.boundary[:] = [(boundary >> (2 * i)) & 3 for i in range(MAX_SPATIAL_RANK)]
    if centre is not None:
        options.centre[: len(centre)] = centre
    options.implementation = implementation.encode() if implementation else None
    return options


def long_conv_explain(direction, x, k, shortcut, options):
    """The text of faltung_long_conv_explain for views; raises what the call itself would raise for these shapes and dtypes."""
    arguments = DIRECTIONS[direction], reference(x), reference(k), reference(shortcut), reference(options)
    needed = ctypes.c_int64()
    check(c.faltung_long_conv_explain(*arguments, None, ctypes.c_int64(0), ctypes.byref(needed)))
    text = ctypes.create_string_buffer(needed.value)
    check(c.faltung_long_conv_explain(*arguments, text, needed, None))
    return text.value.decode()
