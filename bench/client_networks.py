#!/usr/bin/env python3
"""A training step of nvSubquadratic's networks (forward, backward, AdamW): as they are, with the drop-ins, compiled, and compiled with the lowering.

    python bench/client_networks.py [--device cuda|cpu] [--threads N] [--json FILE] [--networks NAME...] [--dtypes NAME...] [--forms FORM...] [--quick]

nvsubquadratic is fetched by pip, as for tests/clients. Outputs and gradients of each form are compared with those of the network as it is before
anything is timed (torch's own compiled form is not timed where it is wrong or does not compile, and the table says so: torch 2.13 gets filter gradients
of a network with two such chains wrong on the CPU, torch 2.11 has no Triton type for complex numbers); the time is that of steps one after another, host
and device together. Records are written as they are made; those of other networks and dtypes that the file holds stay.
"""
import argparse
import copy
import sys
from pathlib import Path

import measure

if __name__ == "__main__":
    measure.warm_heap()
sys.path.insert(0, str(measure.ROOT / "tests/clients"))

import faltung  # noqa: E402
import faltung.compile  # noqa: E402
import packages  # noqa: E402
import torch  # noqa: E402

AS_IS, DROP_IN, COMPILED, LOWERED = "as it is", "with the drop-ins", "compiled", "compiled with the lowering"
FORMS = (AS_IS, DROP_IN, COMPILED, LOWERED)
LIMITS = {"float32": 1e-4, "bfloat16": 6e-2}  # of outputs and gradients against the network as it is


def networks(device, quick):
    """By name: the function that makes the network, and the shape of its input."""
    import nvsubquadratic_models as models
    from nvsubquadratic.lazy_config import instantiate

    batch, width, points, blocks = (2, 8, 8, 1) if quick else (32, 384, 32, 2) if device == "cuda" else (8, 64, 32, 2)
    return {
        "CKConvND": (lambda: instantiate(models.ckconv(2, width, points=points)), (batch, points, points, width)),
        "Hyena": (lambda: models.Query(instantiate(models.hyena(2, width, points=points)), width), (batch, points, points, width)),
        "ViT-5": (lambda: models.classifier(width=width, patches=points, blocks=blocks), (batch, 2 * points, 2 * points, 3)),
    }


def make(build, form, state, device, dtype):
    """The network in a form, with the parameters of `state`; modules take their functions when they are made."""
    if form == DROP_IN:
        faltung.compat.install("nvsubquadratic", force=True)
    try:
        model = build().to(device)
        for module in model.modules():  # in the dtype of x, as their functions want it; the rest stays float32, under autocast
            if isinstance(getattr(module, "shortcut", None), torch.nn.Parameter):
                module.shortcut.data = module.shortcut.data.to(dtype)
    finally:
        faltung.compat.uninstall("nvsubquadratic")
    model.load_state_dict(state)
    if form == COMPILED:
        return torch.compile(model)
    return torch.compile(model, options=faltung.compile.lowering_options()) if form == LOWERED else model


def stepper(model, x, dtype):
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def gradients():
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            y = model(x)
        optimiser.zero_grad(set_to_none=True)
        y.float().square().mean().backward()
        return [y.detach().float(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    def step():
        gradients()
        optimiser.step()
        if x.device.type == "cuda":
            torch.cuda.synchronize()

    return gradients, step


def measure_network(name, build, shape, dtype, device, forms, seconds):
    torch.manual_seed(1)
    x, state = torch.randn(shape).to(device, dtype), copy.deepcopy(build().state_dict())
    text = str(dtype).removeprefix("torch.")
    steps, results, rewritten = {}, {}, 0
    for form in forms:
        torch._dynamo.reset()
        faltung.compile.reset_lowering_stats()
        model = make(build, form, state, device, dtype)
        gradients, step = stepper(model, x, dtype)
        try:
            results[form], steps[form] = gradients(), step
        except torch._dynamo.exc.TorchDynamoException:
            if form != COMPILED:
                raise
        if form == LOWERED:
            rewritten = faltung.compile.lowering_stats().get("rewritten", 0)
    errors = {}
    for form in results:
        if form == AS_IS:
            continue
        pairs = [(a, b) for a, b in zip(results[form], results[AS_IS]) if b.norm() > 1e-6]
        if dtype != torch.float32:  # small gradients are mostly rounding there: all of them together
            pairs = [pairs[0], tuple(torch.cat([pair[i].flatten().float() for pair in pairs[1:]]) for i in (0, 1))]
        errors[form] = max(measure.relative_error(a, b.double()) for a, b in pairs)
        if errors[form] > LIMITS[text] and form == COMPILED:
            del steps[form]
        elif errors[form] > LIMITS[text]:
            raise SystemExit(f"{name}, {text}, {form}: differs by {errors[form]:.1e}, expected at most {LIMITS[text]}: not timed")
    timings = measure.time_alternating(list(steps.values()), seconds=seconds * len(steps))
    times = {form: timing.warm for form, timing in zip(steps, timings)}
    return {
        "operator": "client_networks", "direction": "training step", "network": name, "dtype": text, "shape": {"x": list(shape)},
        "rewritten": rewritten, "wall_ms": times[DROP_IN], "error": errors,
        "peers": {form: {"wall_ms": time} for form, time in times.items() if form != DROP_IN},
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--json", type=Path, help="where the records go (default: bench/results/<machine>/client_networks.json)")
    parser.add_argument("--networks", nargs="+", choices=("CKConvND", "Hyena", "ViT-5"), default=["CKConvND", "Hyena", "ViT-5"])
    parser.add_argument("--dtypes", nargs="+", choices=tuple(LIMITS), help="default: float32, on a GPU bfloat16 (autocast) too")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS, help=f"{AS_IS!r} and {DROP_IN!r} are always among them")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each form of a network")
    parser.add_argument("--cache", action="store_true", help="take compiled code from Inductor's caches (rewritten chains may not be counted then)")
    parser.add_argument("--quick", action="store_true", help="small networks, a moment each")
    options = parser.parse_args()
    if reason := packages.find("nvsubquadratic"):
        raise SystemExit(f"nvsubquadratic: {reason}")
    torch._inductor.config.force_disable_caches = not options.cache
    if options.device == "cpu":
        torch.set_num_threads(options.threads)
    forms = [form for form in FORMS if form in (AS_IS, DROP_IN, *options.forms)]
    dtypes = options.dtypes or (["float32", "bfloat16"] if options.device == "cuda" else ["float32"])
    name = torch.cuda.get_device_name() if options.device == "cuda" else measure.processor()
    path = options.json or measure.RESULTS / ("h200" if "H200" in name else options.device) / "client_networks.json"
    records = []
    for network, (build, shape) in networks(options.device, options.quick).items():
        for dtype in dtypes if network in options.networks else ():
            records.append(measure_network(network, build, shape, getattr(torch, dtype), options.device, forms, 0.05 if options.quick else options.seconds))
            if options.device == "cpu":
                records[-1]["threads"] = torch.get_num_threads()
            measure.write_records(path, records, replaces=("network", "dtype"))
    rows = [
        [r["network"], r["dtype"], *(f"{time:.3g}" for time in (r["peers"][AS_IS]["wall_ms"], r["wall_ms"])), f"{r['peers'][AS_IS]['wall_ms'] / r['wall_ms']:.1f}",
         *(f"{r['peers'][form]['wall_ms']:.3g}" if form in r["peers"] else f"wrong by {r['error'][form]:.1g}" if form in r["error"] else "does not compile"
           for form in forms[2:]),
         str(r["rewritten"]), f"{max(error for form, error in r['error'].items() if form == DROP_IN or form in r['peers']):.1e}"]
        for r in records
    ]  # fmt: skip
    measure.print_table(["network", "dtype", "as it is, ms", "drop-ins, ms", "ratio", *(f"{form}, ms" for form in forms[2:]), "rewritten", "difference"], rows)
    print(f"Wrote {path}")


if __name__ == "__main__":
    sys.exit(main())
