"""faltung.compat.install: whose module an import gives, before, after and against a package that is installed."""

import importlib
import os
import subprocess
import sys
import textwrap
import types
import warnings

import faltung
import pytest


@pytest.fixture(autouse=True)
def uninstalled():
    yield
    for name in faltung.compat.NAMES:
        faltung.compat.uninstall(name)


def whole_packages():
    return [name for name in faltung.compat.NAMES if name != "fla"]  # of which one function is replaced: test_compat_fla.py


@pytest.fixture
def someone_elses(tmp_path, monkeypatch):
    """A package of this name on the path, with one submodule."""

    def make(name, submodule="inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("owner = 'someone else'\n")
        (tmp_path / name / f"{submodule}.py").write_text("owner = 'someone else'\n")
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()

    yield make
    for name in [module for module in sys.modules if getattr(sys.modules[module], "owner", "") == "someone else"]:
        del sys.modules[name]


def absent(name):
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} is installed here")


@pytest.mark.parametrize("name", whole_packages())
def test_install_and_uninstall(name):
    absent(name)
    assert faltung.compat.install(name) and faltung.compat.install(name)
    module = importlib.import_module(name)
    assert module is importlib.import_module(f"faltung.compat.{name}") and module.__version__
    assert importlib.util.find_spec(name) is not None  # what packages ask who look for it
    assert faltung.compat.uninstall(name) and not faltung.compat.uninstall(name)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)


def test_submodules():
    faltung.compat.install("causal_conv1d")
    from causal_conv1d.causal_conv1d_interface import causal_conv1d_ref, causal_conv1d_update_ref
    from causal_conv1d.causal_conv1d_varlen import causal_conv1d_varlen_states
    from causal_conv1d.cpp_functions import causal_conv1d_bwd_function, causal_conv1d_fwd_function, causal_conv1d_update_function

    functions = (
        causal_conv1d_ref, causal_conv1d_update_ref, causal_conv1d_varlen_states, causal_conv1d_bwd_function, causal_conv1d_fwd_function,
        causal_conv1d_update_function,
    )  # fmt: skip
    assert all(function.__module__.startswith("faltung.compat.causal_conv1d") for function in functions)


def test_an_installed_package_is_left_alone_unless_forced(someone_elses):
    someone_elses("causal_conv1d", "cpp_functions")
    import causal_conv1d.cpp_functions

    with pytest.warns(UserWarning, match="causal_conv1d is installed and was left alone"):
        assert not faltung.compat.install("causal_conv1d")
    assert importlib.import_module("causal_conv1d").owner == "someone else"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert faltung.compat.install("causal_conv1d", force=True)
    assert importlib.import_module("causal_conv1d") is faltung.compat.causal_conv1d
    assert importlib.import_module("causal_conv1d.cpp_functions") is faltung.compat.causal_conv1d.cpp_functions
    faltung.compat.uninstall("causal_conv1d")
    assert importlib.import_module("causal_conv1d.cpp_functions") is causal_conv1d.cpp_functions
    assert causal_conv1d.cpp_functions.owner == "someone else"


def test_a_module_that_looked_before_is_named():
    absent("causal_conv1d")
    early = types.ModuleType("early_model")
    early.causal_conv1d_fn = lambda x: x
    sys.modules["early_model"] = early
    try:
        with pytest.warns(UserWarning, match="early_model was imported before and keeps what it found as causal_conv1d"):
            assert faltung.compat.install("causal_conv1d")
    finally:
        del sys.modules["early_model"]


def test_unknown_names():
    with pytest.raises(ValueError, match="expected one of 'causal_conv1d', .*, got 'casual_conv1d'"):
        faltung.compat.install("casual_conv1d")


def test_importing_faltung_installs_nothing_and_loads_no_drop_in():
    program = textwrap.dedent(
        f"""
        import sys, faltung
        assert not any(name in sys.modules for name in {list(faltung.compat.NAMES)})
        assert [name for name in sys.modules if name.startswith("faltung.compat.")] == ["faltung.compat._install"]
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
