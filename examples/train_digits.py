#!/usr/bin/env python3
"""Trains a classifier of handwritten digits whose layers are global convolutions, and compares Faltung with the torch.fft chain.

Each layer convolves its 32x32 image with one 63x63 filter per channel, which a small network makes out of the taps' coordinates
(faltung.nn.CKConv2d; Romero et al. 2021), so that their size costs no parameters. The model is written with torch.fft and trained under torch.compile
with faltung.compile, which puts the operator in the place of each chain. The digits are the 1797 real ones that scikit-learn ships, 8x8, interpolated
to 32x32. Writes a picture of what was learned and measured.
"""
import argparse
import copy
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import measure  # noqa: E402

if __name__ == "__main__":
    measure.warm_heap()  # serves both sides alike; the chain allocates more and gains more

import faltung.compile  # noqa: E402
import faltung.nn  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from tqdm import tqdm  # noqa: E402

SIDE = 32
TAPS = 2 * SIDE - 1


BACKENDS = {"Faltung": "faltung", "torch.fft": "torch_fft"}


class GlobalConvolution(nn.Module):
    """Normalise, convolve each channel with a filter as large as the grid, mix the channels, add."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.convolution = faltung.nn.CKConv2d(2, channels, L_cache=SIDE, omega_0=12.0, hidden_omega_0=12.0)
        self.mix = nn.Conv2d(channels, channels, 1, bias=False)  # the next normalisation would take a bias away

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mix(nn.functional.gelu(self.convolution(self.norm(x))))


class Classifier(nn.Module):
    def __init__(self, channels: int = 32, layers: int = 3):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 1, bias=False)
        self.layers = nn.Sequential(*(GlobalConvolution(channels) for _ in range(layers)))
        self.norm = nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.norm(self.layers(self.stem(images)))
        return self.head(nn.functional.gelu(features).mean((2, 3)))

    def use(self, backend: str) -> "Classifier":
        for layer in self.layers:
            layer.convolution.fft_backend = backend
        return self


def load_digits(device: torch.device):
    """Images [1797, 1, 32, 32] of mean 0 and variance 1, labels, and the indices of 1437 training and 360 held-out ones."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    images = torch.tensor(raw.images, dtype=torch.float32)[:, None]
    images = nn.functional.interpolate(images, (SIDE, SIDE), mode="bilinear", align_corners=False)
    images = (images - images.mean()) / images.std()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return images.to(device), torch.tensor(raw.target).to(device), order[360:].to(device), order[:360].to(device)


def choose_device(wanted: str) -> torch.device:
    if wanted != "auto":
        return torch.device(wanted)
    if not torch.cuda.is_available():
        return torch.device("cpu")
    shape = (8, 32, SIDE, SIDE), (32, TAPS, TAPS)
    if faltung.explain("long_conv", *shape, device="cuda").chosen == "none":
        print("There is a GPU, but this build of Faltung does not serve it: running on the CPU")
        return torch.device("cpu")
    return torch.device("cuda")


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Step:
    """One training step: forward, loss, backward, update of the parameters."""

    def __init__(self, model: nn.Module, steps: int):
        self.model = model
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimiser, 4e-3, total_steps=steps, pct_start=0.15)

    def __call__(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.model(images), labels, label_smoothing=0.05)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return loss.detach()


def compiled(model: Classifier) -> nn.Module:
    """The model with torch.fft under torch.compile and the lowering, on the same parameters."""
    model.use("torch_fft")
    # Without torch's cache of graphs: with it the pass would run the first time only, and there would be nothing to report. That of compiled code stays.
    torch._inductor.config.fx_graph_cache = False
    torch._functorch.config.enable_autograd_cache = False
    return torch.compile(model, options=faltung.compile.lowering_options())


def train(model: nn.Module, images, labels, training, epochs: int, batch: int) -> None:
    steps = epochs * (len(training) // batch)
    step, done = Step(model, steps), 0
    generator = torch.Generator().manual_seed(1)
    with tqdm(total=steps, unit="step", desc="training") as progress:
        for _ in range(epochs):
            order = training[torch.randperm(len(training), generator=generator).to(training.device)]
            for chosen in order[: len(order) // batch * batch].split(batch):
                loss = step(images[chosen], labels[chosen])
                step.schedule.step()
                done += 1
                if done % 10 == 0 or done == steps:
                    progress.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
                progress.update()


@torch.no_grad()
def predict(model: Classifier, images: torch.Tensor) -> torch.Tensor:
    model.eval()
    predictions = torch.cat([model(part).argmax(1) for part in images.split(120)])
    model.train()
    return predictions


def compare(model: Classifier, images, labels, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """Milliseconds of a training step with each operator, taking turns; and the largest relative difference between the two (L2 norm of
    the difference over L2 norm), over the logits and over the gradients of the input and of every parameter."""
    outcomes = {}
    for name, backend in BACKENDS.items():
        trial, x = copy.deepcopy(model).use(backend), images.clone().requires_grad_()
        logits = trial(x)
        named = {"the images": x, **dict(trial.named_parameters())}
        gradients = torch.autograd.grad(nn.functional.cross_entropy(logits, labels), list(named.values()))
        outcomes[name] = {"logits": logits.detach(), **dict(zip(named, gradients))}
    ours, theirs = (outcomes[name] for name in BACKENDS)
    differences = {name: ((ours[name] - theirs[name]).norm() / theirs[name].norm()).item() for name in theirs}

    def stepper(backend):
        step = Step(copy.deepcopy(model).use(backend), 10)

        def call():
            step(images, labels)
            synchronise(images.device)

        return call

    times = measure.time_alternating([stepper(backend) for backend in BACKENDS.values()], seconds=seconds, least=5)
    return dict(zip(BACKENDS, (timing.warm for timing in times))), differences


def draw(path: Path, model: Classifier, images, labels, predictions, accuracy: float, times: dict[str, float], title: str) -> None:
    """Learned filters, held-out digits with what the model says (the mistakes first), and the two times as bars."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ours, good, bad, ink = "#1f6f8b", "#2e7d4f", "#b5322c", "#333333"
    figure = pyplot.figure(figsize=(14, 6.8), facecolor="white")
    left, right = figure.subfigures(1, 2, width_ratios=(1.12, 1))
    upper, lower = right.subfigures(2, 1, height_ratios=(1.5, 1))

    with torch.no_grad():
        filters = [layer.convolution.filters((SIDE, SIDE)).cpu() for layer in model.layers]
    shown = 4
    axes = left.subplots(len(filters), shown)
    left.subplots_adjust(left=0.07, right=0.98, top=0.88, bottom=0.03, wspace=0.05, hspace=0.05)
    left.suptitle(f"Learned filters: {TAPS} x {TAPS} taps on a {SIDE} x {SIDE} grid", fontsize=12, color=ink, y=0.94)
    for row, layer in enumerate(filters):
        taps = layer.flatten(1)
        strongest = (taps.std(1) - taps.mean(1).abs()).argsort(descending=True)[:shown]  # those with the most structure
        for axis, channel in zip(axes[row], strongest):
            taps = layer[channel]
            limit = taps.abs().max().item()
            axis.imshow(taps, cmap="RdBu_r", vmin=-limit, vmax=limit)
            axis.set(xticks=[], yticks=[])
            for spine in axis.spines.values():
                spine.set_color("#cccccc")
        axes[row][0].set_ylabel(f"layer {row + 1}", fontsize=10, color=ink)

    wrong = (predictions != labels).nonzero().flatten().tolist()
    order = wrong[:6] + [index for index in range(len(labels)) if index not in set(wrong)]
    upper.suptitle(f"{len(labels)} held-out digits: {accuracy:.1%} right, {len(wrong)} wrong (shown first)", fontsize=12, color=ink, y=0.9)
    digits = upper.subplots(3, 8)
    upper.subplots_adjust(left=0.02, right=0.98, top=0.76, bottom=0.02, wspace=0.12, hspace=0.42)
    for axis, index in zip(digits.flat, order):
        axis.imshow(images[index, 0].cpu(), cmap="gray_r")
        said, truth = int(predictions[index]), int(labels[index])
        axis.set_title(f"{said}" if said == truth else f"{said}, is {truth}", fontsize=10, color=good if said == truth else bad, pad=3)
        axis.set_axis_off()

    axis = lower.subplots()
    lower.subplots_adjust(left=0.17, right=0.9, top=0.76, bottom=0.14)
    values = list(times.values())
    axis.barh(list(times), values, color=[ours, "#b9b9b9"], height=0.56)
    axis.invert_yaxis()
    for position, value in enumerate(values):
        axis.text(value + max(values) * 0.015, position, f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms", va="center", fontsize=11, color=ink)
    axis.set_xlim(0, max(values) * 1.14)
    axis.set_title(f"One training step: {values[1] / values[0]:.1f} x as fast with Faltung", fontsize=12, color=ink, pad=10)
    axis.tick_params(axis="y", length=0, labelsize=11)
    axis.tick_params(axis="x", labelsize=8, colors="#777777")
    axis.spines[["top", "right", "left"]].set_visible(False)
    figure.suptitle(title, fontsize=9, color="#777777", y=0.995, x=0.99, ha="right")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a third of the training")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--output", type=Path, default=Path("demo.png"), help="the picture (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")
    arguments = parser.parse_args()
    began = time.perf_counter()

    device = choose_device(arguments.device)
    torch.manual_seed(3)
    images, labels, training, held_out = load_digits(device)
    model = Classifier().to(device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    where = f"{torch.get_num_threads()} threads of {measure.processor()}" if device.type == "cpu" else torch.cuda.get_device_name(device)
    chosen = faltung.explain("long_conv", (64, 32, SIDE, SIDE), (32, TAPS, TAPS), device=device.type).chosen
    print(f"{len(training)} digits to learn from, {len(held_out)} held out; {parameters} parameters; {where}; Faltung chose {chosen}")

    epochs, batch = (8 if arguments.quick else 24), 64
    faltung.compile.reset_lowering_stats()
    start = time.perf_counter()
    train(compiled(model), images, labels, training, epochs, batch)
    training_seconds = time.perf_counter() - start
    stats = faltung.compile.lowering_stats()
    predictions = predict(model.use("faltung"), images[held_out])
    accuracy = (predictions == labels[held_out]).float().mean().item()
    sample = training[:batch]
    times, differences = compare(model, images[sample], labels[sample], seconds=2 if arguments.quick else 8)
    worst = max((name for name in differences if name != "logits"), key=differences.get)

    declined = ", ".join(f"{name}: {count}" for name, count in stats.items() if name != "rewritten") or "none left alone"
    print(f"torch.compile: {stats.get('rewritten', 0)} chains of torch.fft were rewritten to long_conv ({declined})")
    print(f"Held-out accuracy: {accuracy:.2%} ({int((predictions != labels[held_out]).sum())} of {len(held_out)} wrong) after {epochs} epochs in {training_seconds:.0f} s, compilation included")
    print(f"Training step of {batch} images: {times['Faltung']:.1f} ms with Faltung, {times['torch.fft']:.1f} ms with the torch.fft chain: {times['torch.fft'] / times['Faltung']:.2f} x")
    print(f"Largest relative difference between the two: {differences['logits']:.1e} (logits), {differences[worst]:.1e} (gradients; {worst})")
    title = f"Faltung {faltung.__version__}, torch {torch.__version__}, {where}"
    draw(arguments.output, model, images[held_out], labels[held_out], predictions, accuracy, times, title)
    print(f"Wrote {arguments.output.resolve()}")
    if arguments.json:
        record = {
            "accuracy": accuracy, "epochs": epochs, "parameters": parameters, "training_seconds": training_seconds, "device": where,
            "step_ms": times, "implementation": chosen, "lowering": stats, "relative_difference": {"logits": differences["logits"], "gradients": differences[worst]},
            "picture": str(arguments.output), "seconds": time.perf_counter() - began,
        }  # fmt: skip
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
        print(f"Wrote {arguments.json}")


if __name__ == "__main__":
    main()
