"""Makes the op functions, which differ in the number of axes, the layout and the boundary alone."""

from ... import _calls

_SHAPES = {False: "[B, H, {}]", True: "[B, {}, H]"}


def convolve(x, kernel, shortcut, axes, boundary, channels_last, centre=None):
    """faltung.long_conv in the dtype of x, with the number of axes that the function's name says."""
    spatial = ", ".join("XYZ"[:axes]) if axes > 1 else "L"
    _calls.expect_rank(x, axes + 2, "x", _SHAPES[channels_last].format(spatial))
    return _calls.long_conv(x, kernel, shortcut, boundary=boundary, channels_last=channels_last, centre=centre)


def check_chunk_size(chunk_size):
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"chunk_size: expected a positive number or None, got {chunk_size}")


def _named(function, name, module, text):
    # Code of its own too: torch.compile counts recompilations by code object, profilers and tracebacks show its name.
    function.__code__ = function.__code__.replace(co_name=name)
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = text
    return function


def _layout(name):
    return not name.removesuffix("_chunked").endswith("_bhl")


def linear(name, module, axes, boundary="zero", chunked=False):
    """A function (x, kernel, shortcut=None), with a chunk_size behind if `chunked`."""
    last = _layout(name)
    centre = "causal: tap 0 is the current token's" if boundary == "causal" else "tap floor(K/2) of each axis is the centre"

    def function(x, kernel, shortcut=None):
        return convolve(x, kernel, shortcut, axes, boundary, last)

    def chunked_function(x, kernel, shortcut=None, chunk_size=None):
        check_chunk_size(chunk_size)
        return convolve(x, kernel, shortcut, axes, boundary, last)

    text = f"Long convolution over {axes} axes ({centre}) + shortcut x, channels {'last' if last else 'first'}, in the dtype of x."
    return _named(chunked_function if chunked else function, name, module, text)


def circular(name, module, axes):
    """A function (x, kernel, shortcut=None, use_phase_shift=True)."""
    last = _layout(name)

    def function(x, kernel, shortcut=None, use_phase_shift=True):
        return convolve(x, kernel, shortcut, axes, "circular", last)

    text = (
        f"Circular convolution over {axes} axes (tap floor((K-1)/2) of each axis is the centre) + shortcut x, channels "
        f"{'last' if last else 'first'}. use_phase_shift chose how the original shifts, and is ignored."
    )
    return _named(function, name, module, text)


def mixed(name, module, axes, chunked=False):
    """A function (x, kernel, periodic, shortcut=None, use_phase_shift=True), with a chunk_size behind if `chunked`."""
    last = _layout(name)

    def function(x, kernel, periodic, shortcut=None, use_phase_shift=True):
        return convolve(x, kernel, shortcut, axes, ["circular" if wraps else "zero" for wraps in periodic], last)

    def chunked_function(x, kernel, periodic, shortcut=None, use_phase_shift=True, chunk_size=None):
        check_chunk_size(chunk_size)
        return function(x, kernel, periodic, shortcut, use_phase_shift)

    text = f"Convolution over {axes} axes, circular where periodic[axis], zero elsewhere, + shortcut x, channels {'last' if last else 'first'}."
    return _named(chunked_function if chunked else function, name, module, text)
