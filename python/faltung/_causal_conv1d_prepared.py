"""causal_conv1d validated and dispatched once, then launched with other data, lengths and batch sizes: the C ABI's prepared call on tensors.
A launch costs the host a few microseconds less than an operator of torch, which looks at everything again."""

import ctypes
import threading
import weakref

import torch

from . import _c_api, _causal_conv1d_c_api
from ._library import c, torch_threads

_NAMES = ("x", "weight", "y", "bias", "initial_state", "final_state", "cu_seqlens")


class _Slot:
    """One tensor's C struct, and what the tensor that it describes looks like."""

    __slots__ = ("name", "view", "looks")

    def __init__(self, name, sample):
        self.name, self.view, self.looks = name, _c_api.view(*sample, name), None


class _Arguments(threading.local):
    """The C structs of a launch, made once for each thread: launches run without Python's lock."""

    def __init__(self, samples, activation, channels_last):
        self.slots = [_Slot(name, samples[name]) if name in samples else None for name in _NAMES]
        self.fit = False  # whether the tensors of the last launch fitted each other
        x, weight, y, bias, initial_state, final_state, cu_seqlens = (slot and slot.view for slot in self.slots)
        optional = {"bias": bias, "initial_state": initial_state, "cu_seqlens": cu_seqlens}  # the options point at these very views
        self.options = _causal_conv1d_c_api.options(channels_last, activation, **optional)
        self.options.parallel_for = torch_threads
        self.pointers = *(_c_api.reference(view) for view in (x, weight, y, final_state)), ctypes.byref(self.options)


class PreparedCausalConv1d:
    """What the sample tensors ask for. `launch` takes tensors with the dtypes, the device, the channels, the taps and the state columns of the
    samples, present where they are present; batch, time, number of sequences and strides are free.

    Args:
        x, y: ``[B, T, D]``, or ``[B, D, T]`` without `channels_last`; y is the output.
        weight: ``[D, W]``. bias: ``[D]`` or None. activation: None, "silu" or "swish".
        initial_state, final_state: ``[N, D, W-1]`` or ``[N, D, W]`` or None; the first is read, the second written.
        cu_seqlens: ``[N+1]`` int32 or int64 or None.
    """

    def __init__(
        self, x, weight, y, *, bias=None, initial_state=None, final_state=None, cu_seqlens=None, activation=None, channels_last=True
    ):  # fmt: skip
        given = dict(zip(_NAMES, (x, weight, y, bias, initial_state, final_state, cu_seqlens)))
        for name, tensor in given.items():
            if not isinstance(tensor, torch.Tensor) and (tensor is not None or name in ("x", "weight", "y")):
                raise TypeError(f"{name}: expected a torch.Tensor, got {type(tensor).__name__}")
        samples = {name: tensor for name, tensor in given.items() if tensor is not None}
        code = _causal_conv1d_c_api.code(_causal_conv1d_c_api.ACTIVATIONS, activation, "activation")
        shapes = {name: (tuple(t.shape), t.stride(), t.dtype, t.device) for name, t in samples.items()}
        arguments = _Arguments(shapes, code, channels_last)
        handle = ctypes.c_void_p()
        x_view, weight_view, y_view, final_view, options = arguments.pointers
        _c_api.check(c.faltung_causal_conv1d_prepare(x_view, weight_view, y_view, final_view, options, ctypes.byref(handle)))
        weakref.finalize(self, c.faltung_causal_conv1d_destroy, handle)
        size = ctypes.c_size_t()
        _c_api.check(c.faltung_causal_conv1d_workspace(_c_api.DIRECTIONS["forward"], x_view, weight_view, options, ctypes.byref(size)))
        if size.value:  # no implementation asks for any without seq_idx, which is not offered here
            raise NotImplementedError(f"a prepared call has no workspace, this one wants {size.value} bytes")
        self._handle, self._arguments = handle, arguments
        self._channel = 2 if channels_last else 1
        # What may not change: the dtype, and the shape where it is not free.
        free = {"x": (0, 3 - self._channel), "y": (0, 3 - self._channel), "initial_state": (0,), "final_state": (0,), "cu_seqlens": (0,)}
        self._fixed = {
            name: (tensor.dtype, tuple(None if axis in free.get(name, ()) else size for axis, size in enumerate(tensor.shape)))
            for name, tensor in samples.items()
        }
        self._device = x.device

    def launch(self, x, weight, y, *, bias=None, initial_state=None, final_state=None, cu_seqlens=None, stream=None):
        """Writes y, and final_state where there is one; returns nothing. `stream`: a CUDA stream's handle; None: torch's current one."""
        given = x, weight, y, bias, initial_state, final_state, cu_seqlens
        arguments = self._arguments
        for tensor, slot, name in zip(given, arguments.slots, _NAMES):
            if tensor is None or slot is None:
                if tensor is not slot:
                    raise ValueError(f"{name}: {'expected one' if tensor is None else 'expected None'}, as when the call was prepared")
                continue
            looks = tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.is_neg()
            if looks != slot.looks:  # mostly a tensor looks as the one before it did
                arguments.fit = False
                self._accept(slot, *looks)
            slot.view.data = tensor.data_ptr()
        if not arguments.fit:
            self._check_fit(*given)
            arguments.fit = True
        if self._device.type == "cuda":
            self._launch_cuda(stream)
        else:
            _c_api.check(c.faltung_causal_conv1d_launch(self._handle, *self._arguments.pointers))

    def _accept(self, slot, shape, stride, dtype, device, is_negated):
        fixed_dtype, fixed_shape = self._fixed[slot.name]
        if dtype is not fixed_dtype or device != self._device or is_negated:
            raise TypeError(f"{slot.name}: expected {fixed_dtype} on {self._device} as prepared, got {dtype} on {device}")
        if len(shape) != len(fixed_shape) or any(size not in (None, shape[axis]) for axis, size in enumerate(fixed_shape)):
            expected = ", ".join("any" if size is None else str(size) for size in fixed_shape)
            raise ValueError(f"{slot.name}: expected [{expected}] as prepared, got shape {tuple(shape)}")
        slot.view.shape[: len(shape)] = shape
        slot.view.strides[: len(shape)] = stride
        slot.looks = shape, stride, dtype, device, is_negated

    def _check_fit(self, x, weight, y, bias, initial_state, final_state, cu_seqlens):
        if y.shape != x.shape:
            raise ValueError(f"y: expected the shape of x, {tuple(x.shape)}, got {tuple(y.shape)}")
        if cu_seqlens is not None and x.shape[0] != 1:
            raise ValueError(f"x: expected a batch of 1 with cu_seqlens, got {x.shape[0]}")
        sequences = x.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
        for name, state in (("initial_state", initial_state), ("final_state", final_state)):
            if state is not None and state.shape[0] != sequences:
                raise ValueError(f"{name}: expected states of {sequences} sequences, got {state.shape[0]}")

    def _launch_cuda(self, stream):
        options = self._arguments.options
        with torch.cuda.device(self._device):
            options.stream = torch.cuda.current_stream().cuda_stream if stream is None else int(stream)
            _c_api.check(c.faltung_causal_conv1d_launch(self._handle, *self._arguments.pointers))
