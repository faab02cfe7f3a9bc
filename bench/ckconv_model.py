#!/usr/bin/env python3
"""A training step of an image model of six blocks with global convolutions (faltung.nn.CKConv2d), under bf16 autocast, in the forms in which
people may run it:

    chain                    torch.fft, eager                        fft_backend="torch_fft"
    compiled                 the same under torch.compile, block by block (all blocks share one compilation; --whole: the model as one)
    lowered                  the same under torch.compile with faltung.compile
    lowered, graphs          likewise with mode="reduce-overhead": CUDA graphs
    lowered, bf16 filters    as "lowered, graphs" (on the CPU: as "lowered") with filters rounded to bf16, which a GPU serves faster on larger grids
    operator                 faltung.long_conv, eager                fft_backend="faltung"
    operator, compiled       the same under torch.compile
    chain, captured          the whole step of "chain", optimiser included, captured in one CUDA graph: without the host, and without Inductor
    operator, captured       likewise of "operator"

    python bench/ckconv_model.py [--device cuda|cpu] [--grids N...] [--forms FORM...] [--json FILE]

On a GPU B=32, C=384 on 14x14 or 64x64 points; on the CPU smaller. Forward, loss, backward, AdamW. Prints milliseconds of a step (median, host and
device), the peak of memory, what was rewritten, and how far loss and gradients, and the loss of the fifth step, are from those of the eager chain; each form's
line as soon as it is measured. Records of other forms and grids that the file holds stay.
"""
import argparse
import statistics
import time
from pathlib import Path

import measure

if __name__ == "__main__":
    measure.warm_heap()

import torch  # noqa: E402
from faltung import nn as faltung_nn  # noqa: E402
from faltung.compile import lowering, lowering_options, lowering_stats, reset_lowering_stats  # noqa: E402
from torch import nn  # noqa: E402

FORMS = ("chain", "compiled", "lowered", "lowered, graphs", "lowered, bf16 filters", "operator", "operator, compiled", "chain, captured", "operator, captured")


class Block(nn.Module):
    def __init__(self, channels, grid, backend, filters):
        super().__init__()
        self.norm, self.mix = nn.BatchNorm2d(channels), nn.Conv2d(channels, channels, 1)
        self.convolution = faltung_nn.CKConv2d(2, channels, L_cache=grid, mask="gaussian", fft_backend=backend, filter_dtype=filters)
        self.norm2 = nn.BatchNorm2d(channels)
        self.mlp = nn.Sequential(nn.Conv2d(channels, 2 * channels, 1), nn.GELU(), nn.Conv2d(2 * channels, channels, 1))

    def forward(self, x):
        x = x + self.mix(nn.functional.gelu(self.convolution(self.norm(x))))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """Patches of 4x4 pixels, six blocks, the mean, ten classes."""

    def __init__(self, channels, grid, backend, filters, blocks):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 4, stride=4)
        self.blocks = nn.Sequential(*(Block(channels, grid, backend, filters) for _ in range(blocks)))
        self.head = nn.Linear(channels, 10)

    def forward(self, images):
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


class Step:
    def __init__(self, form, arguments, device):
        torch.manual_seed(0)
        backend = "faltung" if form.startswith("operator") else "torch_fft"
        self.model = Model(arguments.channels, arguments.grid, backend, torch.bfloat16 if "bf16" in form else None, arguments.blocks).to(device)
        self.graph = None
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=device == "cuda", capturable="captured" in form)
        self.images = torch.randn(arguments.batch, 3, 4 * arguments.grid, 4 * arguments.grid, device=device)
        self.labels = torch.randint(10, (arguments.batch,), device=device)
        self.device, self.form = device, form
        self.graphs = device == "cuda" and form in ("lowered, graphs", "lowered, bf16 filters")
        options = {"mode": "reduce-overhead"} if self.graphs else {"options": lowering_options()} if form.startswith("lowered") else {}
        # Block by block, which all share one compilation; or the model as a whole.
        if "compiled" in form or "lowered" in form:
            for module in [self.model] if arguments.whole else self.model.blocks:
                module.compile(**options)

    def loss(self):
        with torch.autocast(self.device, torch.bfloat16):
            return nn.functional.cross_entropy(self.model(self.images), self.labels)

    def first(self):
        """The first step, which compiles: loss, and the gradients as one vector."""
        with lowering() if self.graphs else torch.enable_grad():
            loss = self.loss()
            loss.backward()
        return loss.detach().clone(), torch.cat([p.grad.flatten().float() for p in self.model.parameters()])

    def warm_up(self):
        """Three steps; then the form "captured" has its graph."""
        if "captured" not in self.form:
            for _ in range(3):
                self()
            return
        other = torch.cuda.Stream()  # where torch wants the steps before a capture
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(other)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()

    def _step(self):
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.loss()
        loss.backward()
        self.optimiser.step()
        self.last_loss = loss.detach()

    def __call__(self):
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()
        if self.graph is not None:
            self.graph.replay()
        else:
            self._step()
        if self.device == "cuda":
            torch.cuda.synchronize()


def measure_form(form, arguments, device, reference):
    reset_lowering_stats()
    if device == "cuda":  # the CPU's forms are all kept: time_in_turns
        torch._dynamo.reset()
        torch.cuda.empty_cache()
    start = time.perf_counter()
    step = Step(form, arguments, device)
    loss, gradients = step.first()
    compile_seconds = time.perf_counter() - start
    stats = lowering_stats()
    step.warm_up()
    step()
    later = step.last_loss.clone()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times = []
    end = time.perf_counter() + arguments.seconds
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 50):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    record = {
        "operator": "ckconv_model", "direction": "training step", "dtype": "bfloat16", "form": form, "wall_ms": statistics.median(times), "steps": len(times),
        "shape": {"B": arguments.batch, "C": arguments.channels, "N": [arguments.grid] * 2, "K": [2 * arguments.grid - 1] * 2, "blocks": arguments.blocks},
        "first_step_s": compile_seconds, "stats": stats, "loss": float(loss),
    }  # fmt: skip
    if device == "cpu":
        record["threads"] = torch.get_num_threads()
    else:
        record["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    if reference is not None:
        record["difference"] = {
            "loss": abs(float(loss - reference[0])) / float(reference[0]),
            "gradients": float((gradients - reference[1]).norm() / reference[1].norm()),
            "loss of the fifth step": abs(float(later - reference[2])) / float(reference[2]),
        }
    return record, (loss, gradients, later), step


def time_in_turns(records, steps, seconds):
    """The CPU's times again, now that all forms are compiled: they take turns, so that whatever else the machine does meets all alike."""
    times = [[] for _ in steps]
    end = time.perf_counter() + seconds * len(steps)
    while len(times[0]) < 3 or (time.perf_counter() < end and len(times[0]) < 100):
        for step, found in zip(steps, times):
            start = time.perf_counter()
            step()
            found.append((time.perf_counter() - start) * 1e3)
    for record, found in zip(records, times):
        record["wall_ms"], record["steps"] = statistics.median(found), len(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--grids", type=int, nargs="+", default=[14], metavar="N")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--channels", type=int)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--whole", action="store_true", help="compile the model as a whole, not block by block")
    parser.add_argument("--seconds", type=float, default=2.0, help="of timing, each form")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--cache", action="store_true", help="take compiled code from Inductor's caches (rewritten chains may not be counted then)")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = arguments.device
    arguments.batch = arguments.batch or (32 if device == "cuda" else 4)
    arguments.channels = arguments.channels or (384 if device == "cuda" else 64)
    torch._inductor.config.force_disable_caches = not arguments.cache  # stats count compilations
    for grid in arguments.grids:
        measure_grid(argparse.Namespace(**vars(arguments), grid=grid), device)


def measure_grid(arguments, device):
    records, steps, reference = [], [], None

    def write():
        if arguments.json:
            measure.write_records(arguments.json, records, replaces=("shape", "form"))

    for form in arguments.forms:
        if device != "cuda" and (form == "lowered, graphs" or "captured" in form):
            continue
        try:
            record, outcome, step = measure_form(form, arguments, device, reference)
        except torch._dynamo.exc.TorchDynamoException as problem:  # torch 2.11 has no Triton type for complex64
            print(f"{arguments.grid}x{arguments.grid} {form:20} does not compile: {str(problem).strip().splitlines()[0]}", flush=True)
            continue
        reference = reference or outcome
        records.append(record)
        print(
            f"{arguments.grid}x{arguments.grid} {form:20} {record['wall_ms']:9.2f} ms  "
            + (f"{record['peak_gib']:6.2f} GiB  " if "peak_gib" in record else "")
            + f"first step {record['first_step_s']:5.1f} s  {record['stats']}  {record.get('difference', '')}",
            flush=True,
        )
        write()
        if device == "cpu":
            steps.append(step)
        del step  # a GPU's memory is measured form by form
    if steps:
        time_in_turns(records, steps, arguments.seconds)
        write()
        for record in records:
            print(f"{arguments.grid}x{arguments.grid} {record['form']:20} {record['wall_ms']:9.2f} ms in turns, {record['steps']} steps")


if __name__ == "__main__":
    main()
