"""Puts drop-in modules under the import names of the packages that they stand in for, for this process."""

import importlib
import importlib.util
import sys
import warnings

# The drop-ins by import name, with the modules below each.
_MODULES = {
    "causal_conv1d": ("causal_conv1d_interface", "causal_conv1d_varlen", "cpp_functions"),
    "cudnn": ("causal_conv1d_bulk_sm100", "ops"),
    "fla": (),
    "nvsubquadratic": (
        "ops", "ops.circular_fftconv", "ops.fftconv", "ops.fftconv_chunked", "ops.fftconv_custom", "ops.mixed_fftconv",
    ),
    "subquadratic_ops_torch": (
        "b2b_causal_conv1d", "causal_conv1d", "fft_causal_conv1d", "fft_conv1d", "fft_conv2d", "fused_fft_conv2d", "rearrange",
    ),
}  # fmt: skip
# Packages of which an installed one keeps its place: its functions in these modules are replaced, and the rest of it goes on working.
_REPLACED = {
    "cudnn": ("causal_conv1d_bulk_sm100", "ops"),
    "fla": ("modules.causal_conv1d",),
    "nvsubquadratic": ("ops.circular_fftconv", "ops.fftconv", "ops.fftconv_chunked", "ops.fftconv_custom", "ops.mixed_fftconv"),
}
_ONLY_INSTALLED = ("fla",)  # without the package there is nothing that one function would help
NAMES = tuple(_MODULES)
# Functions whose presence in another module's globals says that it has looked for the package already.
_KEPT = {"causal_conv1d": ("causal_conv1d_fn", "causal_conv1d_update")}

_undo = {}  # name -> functions that restore what was there, latest last


def install(name, force=False):
    """Makes `import name` give Faltung's drop-in module in this process.

    Args:
        name: one of `faltung.compat.NAMES`.
        force: also where a package of that name is installed. Without it such a package is left alone, and a warning says so.

    Returns:
        Whether the name now leads to Faltung. Installing twice does nothing the second time.

    An installed package is replaced as a whole, except those that do more than convolve (cudnn, fla, nvsubquadratic): there the functions that the
    drop-in has are replaced, with everything in the package's modules that refers to them. fla needs no `force`, and without it nothing is done.
    Packages look for each other when they are imported, and keep what they found: install before importing what uses the name (a warning
    names modules for which it is too late, where that can be seen).
    `uninstall` restores what was there.
    """
    if name not in NAMES:
        raise ValueError(f"install: expected one of {', '.join(map(repr, NAMES))}, got {name!r}")
    if name in _undo:
        return True
    present = _is_installed(name)
    if not present and name in _ONLY_INSTALLED:
        warnings.warn(f"faltung.compat: {name} is not installed, there is nothing to replace", stacklevel=2)
        return False
    if present and not force and name not in _ONLY_INSTALLED:
        warnings.warn(f"faltung.compat: {name} is installed and was left alone; install({name!r}, force=True) replaces it", stacklevel=2)
        return False
    undo = []
    try:
        if present and name in _REPLACED:
            _replace_functions(name, undo)
        else:
            _put_modules(name, undo)
    except BaseException:
        _restore(undo)
        raise
    _undo[name] = undo
    if late := _looked_before(name):
        words = "was imported before and keeps" if len(late) == 1 else "were imported before and keep"
        warnings.warn(f"faltung.compat: {', '.join(late)} {words} what it found as {name}: install({name!r}) first", stacklevel=2)
    return True


def _looked_before(name):
    """Modules that were imported too early: they hold such a function, and not ours."""

    def kept(module):
        found = (vars(module).get(function) for function in _KEPT.get(name, ()))
        return any(callable(function) and not str(function.__module__).startswith("faltung.") for function in found)

    return sorted(loaded for loaded, module in list(sys.modules.items()) if module is not None and hasattr(module, "__dict__") and kept(module))


def uninstall(name):
    """Restores what `install(name)` found. Returns whether there was anything to restore."""
    if name not in _undo:
        return False
    _restore(_undo.pop(name))
    return True


def _restore(undo):
    for restore in reversed(undo):
        restore()


def _is_installed(name):
    return name in sys.modules or importlib.util.find_spec(name) is not None


def _put_modules(name, undo):
    """The drop-in as the whole package. Modules of a package that was imported before are put aside."""
    before = {loaded: module for loaded, module in sys.modules.items() if loaded == name or loaded.startswith(name + ".")}
    names = [name, *(f"{name}.{below}" for below in _MODULES[name])]

    def restore():
        for placed in names:
            sys.modules.pop(placed, None)
        sys.modules.update(before)

    undo.append(restore)
    for loaded in before:
        del sys.modules[loaded]
    for placed in names:
        sys.modules[placed] = importlib.import_module(f"{__package__}.{placed}")


def _replace_functions(name, undo):
    """The drop-in's functions in the installed package, wherever its modules refer to theirs."""
    replacement = {}
    for below in _REPLACED[name]:
        theirs, ours = importlib.import_module(f"{name}.{below}"), importlib.import_module(f"{__package__}.{name}.{below}")
        for function in ours.__all__:
            try:
                original = getattr(theirs, function)
            except (AttributeError, ImportError):  # not in that version, or behind a dependency that is missing: then it is there now
                setattr(theirs, function, getattr(ours, function))
                undo.append(lambda theirs=theirs, function=function: delattr(theirs, function))
            else:
                replacement[id(original)] = original, getattr(ours, function)
    back = {id(ours): (ours, theirs) for theirs, ours in replacement.values()}
    undo.append(lambda: _substitute(name, back))
    _substitute(name, replacement)


def _substitute(name, replacement):
    """Replaces objects in the globals of the package's loaded modules, and in dicts, lists and tuples there."""

    def substituted(value):
        if id(value) in replacement:
            return replacement[id(value)][1]
        if type(value) is tuple:
            items = tuple(map(substituted, value))
            return items if any(new is not old for new, old in zip(items, value)) else value
        if type(value) in (dict, list):
            for key, item in value.items() if type(value) is dict else enumerate(value):
                new = substituted(item)
                if new is not item:
                    value[key] = new
        return value

    for loaded, module in list(sys.modules.items()):
        if module is not None and (loaded == name or loaded.startswith(name + ".")):
            for key, value in list(vars(module).items()):
                if not key.startswith("__"):
                    new = substituted(value)
                    if new is not value:
                        setattr(module, key, new)
