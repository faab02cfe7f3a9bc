"""transformers' models with a short convolution, small and with random weights: on the drop-in for causal_conv1d, installed before the model's
module is imported, they compute what transformers' own slow path computes, over prompts and token by token."""

import functools
import importlib
import sys

import faltung
import pytest
import torch
from faltung.compat import causal_conv1d as drop_in

SMALL = {"vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64}
# By model: the class of its configuration, of the model, and the configuration.
MODELS = {
    "mamba": ("MambaConfig", "MambaForCausalLM", {"state_size": 8}),
    "mamba2": ("Mamba2Config", "Mamba2ForCausalLM", {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8}),
    "falcon_mamba": ("FalconMambaConfig", "FalconMambaForCausalLM", {"state_size": 8}),
    "lfm2": ("Lfm2Config", "Lfm2ForCausalLM", {**ATTENTION, "layer_types": ["conv", "full_attention"], "block_multiple_of": 16}),
    "jamba": ("JambaConfig", "JambaForCausalLM", {
        **ATTENTION, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "num_experts_per_tok": 1, "mamba_d_state": 8,
    }),
}  # fmt: skip


def model_class(name):
    """The class out of a freshly imported module: what it found at import is what it uses."""
    module = f"transformers.models.{name}.modeling_{name}"
    sys.modules.pop(module, None)
    return getattr(importlib.import_module(module), MODELS[name][1])


@pytest.fixture
def calls(monkeypatch):
    """The drop-in's functions, counted, under the name causal_conv1d."""
    counts = {}

    def counted(name):
        function = getattr(drop_in, name)

        @functools.wraps(function)  # transformers reads the signature
        def wrapper(*arguments, **options):
            counts[name] = counts.get(name, 0) + 1
            return function(*arguments, **options)

        monkeypatch.setattr(drop_in, name, wrapper)

    counted("causal_conv1d_fn")
    counted("causal_conv1d_update")
    assert faltung.compat.install("causal_conv1d")
    yield counts
    faltung.compat.uninstall("causal_conv1d")
    for name in MODELS:
        sys.modules.pop(f"transformers.models.{name}.modeling_{name}", None)


def slow_model(name, dtype):
    """The model on the slow path, made without the drop-in, whose module is forgotten again; and its configuration."""
    configuration, _, options = MODELS[name]
    transformers = importlib.import_module("transformers")
    config = getattr(transformers, configuration)(**SMALL, **options)
    slow = model_class(name)(config)
    for parameter in slow.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    del sys.modules[type(slow).__module__]
    return slow.to(dtype).eval(), config


def fast(name, config, slow, dtype):
    model = model_class(name)(config)
    model.load_state_dict(slow.state_dict())
    return model.to(dtype).eval()


def prefill_and_decode(model, prompt, steps=5):
    """Logits of the prompt, then of given tokens that follow one by one, with the model's cache."""
    following = torch.arange(3, 61)[torch.arange(64) * 7 % 58].tolist()  # not the model's choice, which a rounding may turn
    with torch.no_grad():
        whole = model(prompt, use_cache=False).logits
        found = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=steps, min_new_tokens=steps, use_cache=True,
            output_logits=True, return_dict_in_generate=True, prefix_allowed_tokens_fn=lambda row, ids: [following[len(ids) + row]],
        )  # fmt: skip
    return whole, torch.stack(found.logits, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_prefill_and_decode(name, dtype, request):
    slow, config = slow_model(name, dtype)
    prompt = torch.randint(3, 61, (2, 9))
    expected = prefill_and_decode(slow, prompt)
    calls = request.getfixturevalue("calls")
    got = prefill_and_decode(fast(name, config, slow, dtype), prompt)
    assert calls.get("causal_conv1d_fn", 0) > 0 and calls.get("causal_conv1d_update", 0) > 0, calls
    for a, b in zip(got, expected):
        assert (a - b).float().norm() <= (2e-5 if dtype == torch.float32 else 4e-2) * b.float().norm()


@pytest.mark.parametrize("name", MODELS)
def test_training(name, request):
    slow, config = slow_model(name, torch.float32)
    tokens = torch.randint(3, 61, (2, 12))
    calls = request.getfixturevalue("calls")
    found = []
    for model in (slow, fast(name, config, slow, torch.float32)):
        model.train()
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(2):
            optimiser.zero_grad()
            loss = model(tokens, labels=tokens, use_cache=False).loss
            loss.backward()
            losses.append(float(loss.detach()))
            optimiser.step()
        found.append((losses, [p.grad for p in model.parameters() if p.grad is not None]))
        assert (calls.get("causal_conv1d_fn", 0) > 0) == (model is not slow)
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    for a, b in zip(found[0][1], found[1][1]):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * float(a.abs().max()) + 1e-7)


def test_installed_too_late_is_not_used_and_warned_of(request):
    slow, _ = slow_model("mamba", torch.float32)
    module = importlib.import_module(type(slow).__module__)
    with pytest.warns(UserWarning, match=rf"{module.__name__} was imported before and keeps what it found as causal_conv1d"):
        calls = request.getfixturevalue("calls")
    prefill_and_decode(slow, torch.randint(3, 61, (1, 5)))
    assert not calls
    del sys.modules[module.__name__]


def test_packed_sequences_stay_apart(calls):
    """What transformers' slow path refuses: labels of sequences in one row."""
    config = importlib.import_module("transformers").Mamba2Config(**SMALL, **MODELS["mamba2"][2])
    mixer = sys.modules[model_class("mamba2").__module__]
    x, weight = torch.randn(1, 6, 10), torch.randn(6, 4)
    labels = torch.tensor([[0] * 4 + [1] * 6], dtype=torch.int32)
    got = mixer.causal_conv1d_fn(x, weight, None, activation=config.hidden_act, seq_idx=labels)
    parts = [mixer.causal_conv1d_fn(x[..., a:b], weight, None, activation=config.hidden_act) for a, b in ((0, 4), (4, 10))]
    assert torch.equal(got, torch.cat(parts, -1)) and calls["causal_conv1d_fn"] == 3
