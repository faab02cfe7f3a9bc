"""Any shape, any strides: hypothesis draws a call, float64 says what it should give."""

import faltung
import hypothesis.strategies as st
import long_conv_reference as reference
import torch
from hypothesis import given, settings

BOUNDARIES = ("zero", "circular", "causal")


@st.composite
def strided(draw, shape):
    """A float64 tensor of the shape with its axes in a drawn order in memory, gaps between elements, an offset; or expanded."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.integers(1, 3)) for _ in shape]
    expanded = [draw(st.integers(0, 9)) == 0 for _ in shape]
    stored = [1 if e else n for n, e in zip(shape, expanded)]
    offset = draw(st.integers(0, 3))
    strides, span = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = span * steps[axis]
        span *= max(stored[axis], 1) * steps[axis]
    memory = torch.randn(offset + span + 1, dtype=torch.float64, generator=torch.Generator(torch.get_default_device()).manual_seed(draw(st.integers(0, 99))))
    return memory.as_strided(stored, strides, offset).expand(shape)


@st.composite
def calls(draw):
    rank = draw(st.integers(1, 3))
    limit = {1: 40, 2: 10, 3: 4}[rank]
    batch, channels = draw(st.integers(0, 3)), draw(st.integers(0, 4))
    extents = [draw(st.integers(1, limit)) for _ in range(rank)]
    filters = [draw(st.integers(1, 2 * limit + 2)) for _ in range(rank)]
    leading = draw(st.sampled_from(((), (1,), (batch,))))
    last = draw(st.booleans())
    order = (lambda lead, space: (*lead, *space, channels)) if last else (lambda lead, space: (*lead, channels, *space))
    x, dy = draw(strided(order((batch,), extents))), draw(strided(order((batch,), extents)))
    k = draw(strided(order(leading, filters)))
    shortcut = draw(st.none() | strided((channels,)))
    boundary = tuple(draw(st.sampled_from(BOUNDARIES)) for _ in range(rank))
    return x, k, shortcut, dy, {"boundary": boundary, "channels_last": last}


@settings(max_examples=120, deadline=None, derandomize=True)
@given(calls())
def test_any_call(call):
    x, k, shortcut, dy, options = call
    y = faltung.long_conv(x, k, shortcut, **options)
    assert y.stride() == torch.empty_like(x).stride()
    inputs = [t.detach().requires_grad_() for t in (x, k, shortcut) if t is not None]
    got = torch.autograd.grad(faltung.long_conv(*inputs, **options), inputs, dy)
    if y.numel() == 0:
        assert all(not g.any() for g in got)
        return
    for a, b in zip((y, *got), (reference.long_conv(x, k, shortcut, **options), *reference.gradients(dy, x, k, shortcut, **options))):
        scale = float(b.norm()) + 1e-3 * float(x.norm() * k.norm() + dy.norm() * k.norm() + x.norm() * dy.norm())
        assert float((a - b).norm()) <= 1e-13 * scale
