"""The cuDNN front end 1.32.0, whose convolutions need a GPU of its choice: the drop-in has their signatures, and takes their place in the
installed package, which imports without cuDNN."""

import importlib
import inspect

import cudnn.ops
import faltung
import pytest
import torch
from faltung.compat.cudnn import causal_conv1d_bulk_sm100, ops

THEIRS = {
    "causal_conv1d": "cudnn.ops.causal_conv1d", "causal_conv1d_nwh": "cudnn.ops.causal_conv1d", "b2b_causal_conv1d": "cudnn.ops.causal_conv1d",
    "causal_conv1d_update": "cudnn.ops._causal_conv1d_update", "fft_causal_conv1d": "cudnn.ops.fft_causal_conv1d",
}  # fmt: skip


def theirs(name):
    return getattr(importlib.import_module(THEIRS[name]), name)


@pytest.mark.parametrize("name", THEIRS)
def test_signatures(name):
    got, expected = ([(p.name, p.default, p.kind) for p in inspect.signature(f).parameters.values()] for f in (getattr(ops, name), theirs(name)))
    assert got == expected and set(THEIRS) == set(ops.__all__)


def test_in_the_installed_package():
    before = {name: theirs(name) for name in THEIRS}
    with pytest.warns(UserWarning, match="cudnn is installed and was left alone"):
        assert not faltung.compat.install("cudnn")
    assert faltung.compat.install("cudnn", force=True)
    try:
        from cudnn.causal_conv1d_bulk_sm100 import CausalConv1dBulkFwdSm100
        from cudnn.ops import causal_conv1d

        assert all(getattr(cudnn.ops, name) is getattr(ops, name) is theirs(name) for name in THEIRS)
        assert CausalConv1dBulkFwdSm100 is causal_conv1d_bulk_sm100.CausalConv1dBulkFwdSm100
        x, weight = torch.randn(2, 6, 9), torch.randn(6, 4)
        assert torch.equal(causal_conv1d(x, weight, None, "silu"), faltung.causal_conv1d(x, weight, activation="silu"))
        assert cudnn.__version__ == "1.32.0" and hasattr(cudnn, "pygraph")  # the rest is theirs
    finally:
        assert faltung.compat.uninstall("cudnn")
    assert all(getattr(cudnn.ops, name) is before[name] is theirs(name) for name in THEIRS)
