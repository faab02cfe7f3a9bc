"""examples/mamba_block.py: chunks and single tokens give what one call gives, the convolution's part bit for bit; it trains."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import faltung
import pytest
import torch

PATH = Path(__file__).resolve().parents[2] / "examples/mamba_block.py"


def load():
    spec = importlib.util.spec_from_file_location("mamba_block", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


example = load()


@pytest.mark.parametrize("chunks, decoded", [([13, 20], 0), ([1, 2, 25], 5), ([0, 3, 0], 30), ([], 33)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_any_cut_gives_the_same(chunks, decoded, dtype):
    block = example.MambaBlock(16, 24).to(dtype)
    x = torch.randn(2, 33, 16).to(dtype)
    chunks = chunks or [0]
    with torch.no_grad():
        u = block.in_proj(x)[..., :24]
        assert torch.equal(example.convolution_alone(block, u, chunks, decoded), example.convolution_alone(block, u, [33], 0))
        whole, end = block(x)
        pieces, memory = example.run(block, x, chunks, decoded)
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(pieces, whole, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(memory.conv, end.conv, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(memory.scan, end.scan, rtol=tolerance, atol=tolerance)


def test_gradients_reach_every_parameter():
    block = example.MambaBlock(8, 12)
    y, memory = block(torch.randn(2, 9, 8))
    y, _ = block(torch.randn(2, 4, 8), memory)  # through the carried state too
    y.square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in block.parameters())


def test_the_script():
    package = Path(faltung.__file__).resolve().parents[1]  # in a checkout nothing is installed
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run([sys.executable, PATH, "--tokens", "40", "--decoded", "7"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "the same bits" in done.stdout, done.stdout + done.stderr
