"""b2b_causal_conv1d: the short convolutions and the gates of a Hyena block, one after the other."""

from .. import _calls


def b2b_causal_conv1d(x, weight_proj, weight_mixer, skip_bias):
    """Of x ``[B, 3C, L]`` the block's output ``[B, C, L]``: with p = causal_conv1d(x, weight_proj), whose channels hold q, a and v in turn,
    and z = a v, it is q (causal_conv1d(z, weight_mixer) + skip_bias z).

    weight_proj: ``[3C, Kp]``; weight_mixer: ``[C, Km]``; the last tap of both multiplies the current token. skip_bias: ``[C]``.
    """
    return _calls.b2b_causal_conv1d(x, weight_proj, weight_mixer, skip_bias)
