"""Drop-in modules: one for each package whose convolutions Faltung computes, under the names, layouts and errors of that package.

    faltung.compat.install("causal_conv1d")        # from here on `import causal_conv1d` means faltung.compat.causal_conv1d
    from causal_conv1d import causal_conv1d_fn

Each module can also be imported from here, without installing anything: `from faltung.compat.causal_conv1d import causal_conv1d_fn`.
docs/drop-in.md has the table of what is there and how it differs from the original.
"""

from ._install import NAMES, install, uninstall

__all__ = ["NAMES", "install", "uninstall"]
