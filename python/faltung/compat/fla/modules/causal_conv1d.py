"""fla.modules.causal_conv1d's function: tokens before channels, states of W columns."""

from ... import _calls


def causal_conv1d(
    x,
    weight=None,
    bias=None,
    residual=None,
    initial_state=None,
    output_final_state=False,
    activation=None,
    backend="triton",
    cu_seqlens=None,
    cu_seqlens_cpu=None,
    chunk_indices=None,
    cp_context=None,
    seq_idx=None,
    **kwargs,
):
    """(y, final_state) of x ``[B, T, D]``, or ``[B, T, H, K]`` with H K = D, and weight ``[D, W]``.

    Args:
        bias: ``[D]`` or None. residual: like x or None, added after the activation. activation: None, "silu" or "swish".
        initial_state: ``[N, D, W]``, the tokens before each sequence, of which the oldest column is not read.
        output_final_state: whether final_state is ``[N, D, W]``; else it is None.
        cu_seqlens: ``[N+1]``, the sequences of the only row. seq_idx: ``[B, T]`` int32, labels of sequences.

    backend, cu_seqlens_cpu and chunk_indices choose and help fla's kernels, and are ignored. Context parallelism (cp_context) is not here.
    """
    if cp_context is not None:
        raise NotImplementedError("cp_context: expected None, context parallelism is not part of this drop-in")
    _calls.expect_tensor(x, "x")
    shape = x.shape
    if weight is not None and x.shape[-1] != weight.shape[0]:
        x, residual = x.flatten(2), residual if residual is None else residual.flatten(2)
    options = {
        "activation": activation, "residual": residual, "initial_state": initial_state, "cu_seqlens": cu_seqlens, "seq_idx": seq_idx,
        "channels_last": True,
    }  # fmt: skip
    if not output_final_state:
        return _calls.causal_conv1d(x, weight, bias, **options).view(shape), None
    columns = None if weight is None else weight.shape[-1]
    y, final_state = _calls.causal_conv1d(x, weight, bias, return_final_state=True, state_columns=columns, **options)
    return y.view(shape), final_state.to(x.dtype)


__all__ = ["causal_conv1d"]
