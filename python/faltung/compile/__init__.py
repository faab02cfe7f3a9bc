"""Models written with torch.fft get the fused operator without a change to their code.

    compiled = torch.compile(model, options=faltung.compile.lowering_options())
    compiled = torch.compile(model, backend="faltung", mode="reduce-overhead")        # the same, with a mode
    with faltung.compile.lowering():                                                  # where someone else calls torch.compile
        trainer.fit()
    print(faltung.compile.lowering_stats())                                           # {"rewritten": 6, "skipped:no-same-crop": 1}

A chain rfft -> multiply -> irfft -> crop in a graph becomes one call of long_conv where it is one: docs/compile.md says which are, and what
the reasons mean. Importing this installs nothing.
"""

from .backend import faltung as backend
from .graph_pass import FusedConvLowering, lowering, lowering_options
from .stats import REASONS, lowering_stats, reset_lowering_stats
from .walker import rewrite

__all__ = ["REASONS", "FusedConvLowering", "backend", "lowering", "lowering_options", "lowering_stats", "reset_lowering_stats", "rewrite"]
