"""The demo's model computes the same with Faltung and with the torch.fft chain, and learns; the picture is drawn."""
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def demo():
    sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "bench")]
    import train_digits

    yield train_digits
    for folder in ("examples", "bench"):
        sys.path.remove(str(ROOT / folder))


def test_the_digits_are_split_once(demo):
    images, labels, training, held_out = demo.load_digits(torch.device("cpu"))
    assert images.shape == (1797, 1, 32, 32) and len(labels) == 1797
    assert sorted(torch.cat([training, held_out]).tolist()) == list(range(1797))


def test_a_small_model_agrees_with_the_chain_and_learns(demo, tmp_path):
    images, labels, training, held_out = demo.load_digits(torch.device("cpu"))
    model = demo.Classifier(channels=8, layers=2)
    chosen = training[:16]
    times, differences = demo.compare(model, images[chosen], labels[chosen], seconds=0.01)
    assert set(times) == {"Faltung", "torch.fft"} and all(time > 0 for time in times.values())
    assert differences["logits"] < 2e-6
    assert max(differences.values()) < 1e-4

    before = torch.nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).item()
    demo.train(model, images, labels, chosen, epochs=30, batch=16)
    after = torch.nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).item()
    assert after < 0.8 * before

    shown = held_out[:32]
    predictions = demo.predict(model, images[shown])
    demo.draw(tmp_path / "demo.png", model, images[shown], labels[shown], predictions, 0.5, times, "a test")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_compiled_model_runs_the_operator(demo):
    """As in `compiled`, without Inductor: the chains of every layer are rewritten."""
    import faltung.compile

    model = demo.Classifier(channels=4, layers=2).use("torch_fft").eval()
    x = torch.randn(2, 1, 32, 32)
    expected = model(x)

    def backend(module, _):
        faltung.compile.rewrite(module.graph)
        module.recompile()
        return module.forward

    faltung.compile.reset_lowering_stats()
    torch.testing.assert_close(torch.compile(model, backend=backend, fullgraph=True)(x), expected, rtol=1e-4, atol=1e-5)
    assert faltung.compile.lowering_stats() == {"rewritten": 2}
