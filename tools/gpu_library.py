"""The C ABI through ctypes, with torch tensors on either device: what tools/gpu_check.py drives.

Kept apart from the torch binding on purpose: a GPU machine can check the kernels with nothing but the two shared objects."""
import ctypes
import os

import torch

DTYPES = {torch.float64: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3, torch.int32: 4, torch.int64: 5}
WINDOWS = {"trailing": 0, "leading": 1, "ring": 2}
BOUNDARIES = {"zero": 0, "circular": 1, "causal": 2}
DEFAULT_CENTRE = -(2**63)


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("device", ctypes.c_int), ("device_index", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * 6), ("strides", ctypes.c_int64 * 6)]


class LongConvOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("layout", ctypes.c_int), ("boundary", ctypes.c_int * 3), ("centre", ctypes.c_int64 * 3),
                ("stream", ctypes.c_void_p), ("workspace", ctypes.c_void_p), ("workspace_size", ctypes.c_size_t),
                ("parallel_for", ctypes.c_void_p), ("parallel_context", ctypes.c_void_p), ("implementation", ctypes.c_char_p)]


_TENSOR = ctypes.POINTER(Tensor)


class CausalConv1dOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("layout", ctypes.c_int), ("activation", ctypes.c_int), ("bias", _TENSOR), ("residual", _TENSOR),
                ("initial_state", _TENSOR), ("cu_seqlens", _TENSOR), ("seq_idx", _TENSOR), ("lengths", _TENSOR), ("check", ctypes.c_int32),
                ("stream", ctypes.c_void_p), ("workspace", ctypes.c_void_p), ("workspace_size", ctypes.c_size_t),
                ("parallel_for", ctypes.c_void_p), ("parallel_context", ctypes.c_void_p), ("implementation", ctypes.c_char_p)]


class CausalConv1dUpdateOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("layout", ctypes.c_int), ("activation", ctypes.c_int), ("window", ctypes.c_int),
                ("bias", _TENSOR), ("state_indices", _TENSOR), ("output_state_indices", _TENSOR), ("cache_seqlens", _TENSOR),
                ("num_accepted", _TENSOR), ("query_start_loc", _TENSOR), ("check", ctypes.c_int32), ("stream", ctypes.c_void_p),
                ("parallel_for", ctypes.c_void_p), ("parallel_context", ctypes.c_void_p), ("implementation", ctypes.c_char_p)]


class LibraryError(RuntimeError):
    pass


def view(tensor):
    """A faltung_tensor over a torch tensor; a null pointer for None."""
    if tensor is None:
        return None
    result = Tensor(tensor.data_ptr(), DTYPES[tensor.dtype], int(tensor.is_cuda), tensor.device.index or 0, tensor.dim())
    result.shape[: tensor.dim()] = list(tensor.shape)
    result.strides[: tensor.dim()] = list(tensor.stride())
    return ctypes.pointer(result)


class Library:
    def __init__(self, folder):
        self.core = ctypes.CDLL(os.path.join(folder, "libfaltung.so"), mode=ctypes.RTLD_GLOBAL)
        self.cuda = ctypes.CDLL(os.path.join(folder, "libfaltung_cuda.so"), mode=ctypes.RTLD_GLOBAL)
        self.core.faltung_last_error.restype = ctypes.c_char_p
        self.core.faltung_version.restype = ctypes.c_char_p

    def check(self, status):
        if status:
            raise LibraryError(f"status {status}: {self.core.faltung_last_error().decode()}")

    def text(self, function, *arguments):
        needed = ctypes.c_int64()
        self.check(function(*arguments, None, ctypes.c_int64(0), ctypes.byref(needed)))
        buffer = ctypes.create_string_buffer(needed.value)
        self.check(function(*arguments, buffer, ctypes.c_int64(needed.value), None))
        return buffer.value.decode()

    def info(self):
        return self.text(self.core.faltung_info)

    def options(self, x, direction, k, shortcut, boundary, channels_last, centre, implementation):
        """The options of a call and the workspace that they point to, which must live as long as the call."""
        options = LongConvOptions()
        self.core.faltung_long_conv_options_default(ctypes.byref(options))
        rank = x.dim() - 2
        names = [boundary] * rank if isinstance(boundary, str) else list(boundary)
        options.layout = int(channels_last)
        options.boundary[:rank] = [BOUNDARIES[name] for name in names]
        if centre is not None:
            options.centre[:rank] = list(centre)
        options.implementation = implementation.encode() if implementation else None
        if x.is_cuda:
            options.stream = torch.cuda.current_stream(x.device).cuda_stream
        size = ctypes.c_size_t()
        self.check(self.core.faltung_long_conv_workspace(direction, view(x), view(k), view(shortcut), ctypes.byref(options),
                                                         ctypes.byref(size)))
        workspace = torch.empty(size.value, dtype=torch.uint8, device=x.device) if size.value else None
        if workspace is not None:
            options.workspace, options.workspace_size = workspace.data_ptr(), size.value
        return options, workspace

    def long_conv_forward(self, x, k, shortcut=None, *, y=None, boundary="zero", channels_last=False, centre=None, implementation=None):
        y = torch.empty_like(x) if y is None else y
        options, workspace = self.options(x, 0, k, shortcut, boundary, channels_last, centre, implementation)
        self.check(self.core.faltung_long_conv_forward(view(x), view(k), view(shortcut), view(y), ctypes.byref(options)))
        return y

    def long_conv_backward(self, dy, x, k, shortcut=None, *, gradients, boundary="zero", channels_last=False, centre=None,
                           implementation=None):
        """`gradients`: the tensors (dx, dk, dshortcut), None where not asked for."""
        options, workspace = self.options(x, 1, k, shortcut, boundary, channels_last, centre, implementation)
        self.check(self.core.faltung_long_conv_backward(view(dy), view(x), view(k), view(shortcut), *map(view, gradients),
                                                        ctypes.byref(options)))
        return gradients

    def long_conv_explain(self, direction, x, k, shortcut=None, *, boundary="zero", channels_last=False, centre=None,
                          implementation=None):
        options, workspace = self.options(x, direction, k, shortcut, boundary, channels_last, centre, implementation)
        return self.text(self.core.faltung_long_conv_explain, direction, view(x), view(k), view(shortcut), ctypes.byref(options))

    def chosen(self, direction, x, k, **options):
        return self.long_conv_explain(direction, x, k, **options).strip().rsplit("chosen: ", 1)[1]

    def _fill(self, options, default, x, channels_last, silu, implementation, tensors):
        default(ctypes.byref(options))
        options.layout, options.activation = int(channels_last), int(silu)
        options.implementation = implementation.encode() if implementation else None
        for name, tensor in tensors.items():
            if tensor is not None:
                setattr(options, name, view(tensor))
        if x.is_cuda:
            options.stream = torch.cuda.current_stream(x.device).cuda_stream
        return options

    def causal_conv1d_options(self, direction, x, weight, channels_last, silu, implementation, tensors):
        """The options of a forward or backward and the workspace that they point to, which must live as long as the call."""
        options = self._fill(CausalConv1dOptions(), self.core.faltung_causal_conv1d_options_default, x, channels_last, silu, implementation, tensors)
        size = ctypes.c_size_t()
        self.check(self.core.faltung_causal_conv1d_workspace(direction, view(x), view(weight), ctypes.byref(options), ctypes.byref(size)))
        workspace = torch.empty(size.value, dtype=torch.uint8, device=x.device) if size.value else None
        if workspace is not None:
            options.workspace, options.workspace_size = workspace.data_ptr(), size.value
        return options, workspace

    def causal_conv1d_forward(self, x, weight, y, final_state=None, *, channels_last=False, silu=False, implementation=None, **tensors):
        options, workspace = self.causal_conv1d_options(0, x, weight, channels_last, silu, implementation, tensors)
        self.check(self.core.faltung_causal_conv1d_forward(view(x), view(weight), view(y), view(final_state), ctypes.byref(options)))

    def causal_conv1d_backward(self, dy, x, weight, gradients, dfinal_state=None, *, channels_last=False, silu=False, implementation=None,
                               **tensors):
        """`gradients`: the tensors (dx, dweight, dbias, dinitial_state, dresidual), None where not asked for."""
        options, workspace = self.causal_conv1d_options(1, x, weight, channels_last, silu, implementation, tensors)
        self.check(self.core.faltung_causal_conv1d_backward(view(dy), view(x), view(weight), view(dfinal_state), *map(view, gradients),
                                                            ctypes.byref(options)))

    def causal_conv1d_update(self, x, state, weight, y, *, window="trailing", channels_last=False, silu=False, implementation=None, **tensors):
        options = self._fill(CausalConv1dUpdateOptions(), self.core.faltung_causal_conv1d_update_options_default, x, channels_last, silu,
                             implementation, tensors)
        options.window = WINDOWS[window]
        self.check(self.core.faltung_causal_conv1d_update(view(x), view(state), view(weight), view(y), ctypes.byref(options)))
