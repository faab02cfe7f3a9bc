"""``torch.compile(model, backend="faltung")``: Inductor with the lowering; takes a mode as well. The installed package announces it under the
entry point torch_dynamo_backends."""

import torch

from .graph_pass import lowering_options


def faltung(graph_module, inputs, *, mode=None, options=None):
    from torch._inductor.compile_fx import compile_fx

    patches = dict(torch._inductor.list_mode_options(mode)) if mode and mode != "default" else {}
    patches.update(options or {})
    patches.update(lowering_options())
    return compile_fx(graph_module, inputs, config_patches=patches)
