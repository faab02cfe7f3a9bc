#!/usr/bin/env python3
"""Compiles a small model with both operators ahead of time: a folder with model.pt2, an example input and the output that it should give.

    python package.py FOLDER [cpu|cuda]

The model is written with torch.fft: faltung.compile.rewrite puts the operator into the exported graph. run.cpp runs the package without Python.
"""
import sys
from pathlib import Path

import faltung.compile
import faltung.nn
import torch
from torch import nn


class Model(nn.Module):
    """[batch, channels, time] -> the same: a short causal convolution with SiLU, then one as long as the sequence."""

    def __init__(self, channels: int, length: int):
        super().__init__()
        self.short = faltung.nn.CausalConv1d(channels, 4, activation="silu")
        self.long = faltung.nn.CKConv1d(1, channels, L_cache=length, boundary="causal", fft_backend="torch_fft")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.long(self.short(x))


def main(folder: Path, device: str = "cpu") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    model, x = Model(6, 40).to(device).eval(), torch.randn(3, 6, 40, device=device)
    with torch.no_grad():
        expected = model(x)
        batch = torch.export.Dim("batch", min=1, max=64)
        program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
        rewritten = faltung.compile.rewrite(program.graph)
        if rewritten != 1:
            raise SystemExit(f"expected one chain to be rewritten, got {rewritten}: {faltung.compile.lowering_stats()}")
        program.graph_module.recompile()
        torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "model.pt2"))
    for name, tensor in (("input", x), ("expected", expected)):
        tensor.cpu().numpy().tofile(folder / f"{name}.bin")
    print(f"Wrote {folder / 'model.pt2'}, for inputs [batch, 6, 40]")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
