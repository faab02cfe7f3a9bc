"""Puts drop-in modules under the import names of the packages that they stand in for, for this process."""

import importlib
import importlib.util
import sys
import warnings

# What install() takes: the packages by import name. Of those in _REPLACED single functions are replaced where the package is
# installed, since the rest of it has other purposes; the others are replaced as a whole.
NAMES = ("causal_conv1d", "subquadratic_ops_torch")
_REPLACED = {}
# The modules of a drop-in that are imported by name, below the package.
_SUBMODULES = {
    "causal_conv1d": ("causal_conv1d_interface", "causal_conv1d_varlen", "cpp_functions"),
    "subquadratic_ops_torch": (
        "b2b_causal_conv1d", "causal_conv1d", "fft_causal_conv1d", "fft_conv1d", "fft_conv2d", "fused_fft_conv2d", "rearrange",
    ),
}  # fmt: skip

_undo = {}  # name -> functions that restore what was there, latest last


def install(name, force=False):
    """Makes `import name` give Faltung's drop-in module in this process.

    Args:
        name: one of `faltung.compat.NAMES`.
        force: also where a package of that name is installed. Without it such a package is left alone, and a warning says so.

    Returns:
        Whether the name now leads to Faltung. Installing twice does nothing the second time.

    Packages look for each other when they are imported, and keep what they found: install before importing what uses it.
    `uninstall` restores what was there.
    """
    if name not in NAMES:
        raise ValueError(f"install: expected one of {', '.join(map(repr, NAMES))}, got {name!r}")
    if name in _undo:
        return True
    present = _is_installed(name)
    if present and not force:
        warnings.warn(f"faltung.compat: {name} is installed and was left alone; install({name!r}, force=True) replaces it", stacklevel=2)
        return False
    undo = _undo[name] = []
    _alias(name, undo)
    return True


def uninstall(name):
    """Restores what `install(name)` found. Returns whether there was anything to restore."""
    if name not in _undo:
        return False
    for restore in reversed(_undo.pop(name)):
        restore()
    return True


def _is_installed(name):
    if name in sys.modules:
        return True
    return importlib.util.find_spec(name) is not None


def _set_module(name, module, undo):
    before = sys.modules.get(name)

    def restore():
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before

    sys.modules[name] = module
    undo.append(restore)


def _alias(name, undo):
    """The drop-in as the whole package: other modules of a package that was imported before are forgotten."""
    for loaded in [module for module in sys.modules if module == name or module.startswith(name + ".")]:
        undo.append(lambda loaded=loaded, module=sys.modules[loaded]: sys.modules.__setitem__(loaded, module))
        del sys.modules[loaded]
    ours = f"{__package__}.{name}"
    _set_module(name, importlib.import_module(ours), undo)
    for submodule in _SUBMODULES.get(name, ()):
        _set_module(f"{name}.{submodule}", importlib.import_module(f"{ours}.{submodule}"), undo)
