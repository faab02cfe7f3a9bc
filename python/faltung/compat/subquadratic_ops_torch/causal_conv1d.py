"""causal_conv1d: the short causal convolution, channels first or last."""

from .. import _calls

_ACTIVATIONS = {"identity": None, "silu": "silu"}


def causal_conv1d(x, weight, bias=None, activation="identity", channel_last=False):
    """y of x ``[B, C, L]`` and weight ``[C, K]``, or with `channel_last` of x ``[B, L, C]`` and weight ``[K, C]``.

    The last tap multiplies the current token. bias: ``[C]`` or None. activation: "identity" or "silu".
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f'activation: expected "identity" or "silu", got {activation!r}')
    _calls.expect_rank(weight, 2, "weight", "[K, C]" if channel_last else "[C, K]")
    weight = weight.t() if channel_last else weight
    return _calls.causal_conv1d(x, weight, bias, activation=_ACTIVATIONS[activation], channels_last=channel_last)
