"""The states that packed sequences leave behind, without convolving them."""

import torch


def causal_conv1d_varlen_states(x, cu_seqlens, state_len):
    """The last `state_len` tokens of each sequence of x ``[total, D]``, as ``[N, D, state_len]``; zeros before a shorter one begins.

    cu_seqlens: ``[N+1]``: sequence n is the rows cu_seqlens[n] up to cu_seqlens[n+1]. It is not read by the host.
    """
    begin, end = cu_seqlens[:-1, None], cu_seqlens[1:, None]
    rows = end - state_len + torch.arange(state_len, device=x.device, dtype=cu_seqlens.dtype)
    if x.shape[0] == 0:
        return x.new_zeros(rows.shape[0], x.shape[1], state_len)
    taken = x[rows.clamp(min=0, max=x.shape[0] - 1)]  # [N, state_len, D]
    return torch.where((rows >= begin)[..., None], taken, 0).transpose(1, 2)


causal_conv1d_varlen_states_ref = causal_conv1d_varlen_states
