"""faltung.explain: the list with reasons, from tensors or shapes, with the errors of the call itself."""

import faltung
import pytest
import torch


def test_text():
    found = faltung.explain("long_conv", (8, 64, 32, 32), (64, 63, 63), dtype=torch.bfloat16)
    assert found.problem.startswith("long_conv2d forward on cpu: x bfloat16 [8, 64, 32, 32], k bfloat16 [shared, 63, 63]")
    assert found.chosen in found.implementations and str(found).endswith("chosen: " + found.chosen)
    assert all(said.startswith(("accepts: ", "declines: ")) for said in found.implementations.values())
    assert found.implementations[found.chosen].startswith("accepts")
    assert found.chosen in repr(found)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_tensors_shapes_and_the_function(direction):
    x, k = torch.randn(2, 8, 8, 3), torch.randn(5, 5, 3)
    options = {"boundary": ("zero", "causal"), "channels_last": True, "direction": direction}
    from_tensors = faltung.explain(faltung.long_conv, x, k, **options)
    assert str(from_tensors) == str(faltung.explain("long_conv", tuple(x.shape), list(k.shape), **options))
    assert direction in from_tensors.problem and "zero@2 causal@0" in from_tensors.problem


def test_shortcut_and_mixed_dtypes():
    x, k = torch.empty(2, 3, 9, dtype=torch.float16, device="meta"), torch.empty(3, 9, device="meta")
    text = str(faltung.explain("long_conv", x, k, (3,)))
    assert "x float16" in text and "k float32" in text
    with pytest.raises(ValueError, match="shortcut has 4 channels, x has 3"):
        faltung.explain("long_conv", x, k, (4,))


def test_a_device_without_a_backend():
    if not torch.cuda.is_available():
        assert faltung.explain("long_conv", (1, 1, 8), (1, 8), device="cuda").chosen == "none"


@pytest.mark.parametrize(
    "kind, words, call",
    [
        (ValueError, "expected one of long_conv", lambda: faltung.explain("conv", (1, 1, 8), (1, 8))),
        (ValueError, "direction", lambda: faltung.explain("long_conv", (1, 1, 8), (1, 8), direction="up")),
        (ValueError, "k has 2 channels, x has 1", lambda: faltung.explain("long_conv", (1, 1, 8), (2, 8))),
        (TypeError, "int64", lambda: faltung.explain("long_conv", (1, 1, 8), (1, 8), dtype=torch.int64)),
        (TypeError, "a tensor or a shape, got 3", lambda: faltung.explain("long_conv", 3, (1, 8))),
        (ValueError, "expected x, k and perhaps shortcut, got 1", lambda: faltung.explain("long_conv", (1, 1, 8))),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_errors(kind, words, call):
    with pytest.raises(kind, match=words):
        call()
