"""causal_conv1d as its contract is written, in float64 with torch's own differentiable operators: one window of W tokens at a time."""

import torch


def runs_of(x, cu_seqlens=None, seq_idx=None, lengths=None):
    """(row, begin, end, sequence whose state precedes it or None, sequence whose final state it gives or None) of x [B, D, T]."""
    batch, _, time = x.shape
    if cu_seqlens is not None:
        cu = cu_seqlens.tolist()
        return [(0, begin, end, n, n) for n, (begin, end) in enumerate(zip(cu, cu[1:]))]
    if lengths is not None:
        return [(b, 0, end, b, b) for b, end in enumerate(lengths.tolist())]
    if seq_idx is None:
        return [(b, 0, time, b, b) for b in range(batch)]
    found = []
    for b, labels in enumerate(seq_idx.tolist()):
        edges = [0] + [t for t in range(1, time) if labels[t] != labels[t - 1]] + [time]
        runs = [(begin, end) for begin, end in zip(edges, edges[1:]) if end > begin and labels[begin] >= 0] or [(0, 0)]
        found += [(b, begin, end, b if i == 0 else None, b if i == len(runs) - 1 else None) for i, (begin, end) in enumerate(runs)]
    return found


def causal_conv1d(
    x, weight, bias=None, *, activation=None, residual=None, initial_state=None, state_columns=None, channels_last=False, **cut
):  # fmt: skip
    """(y, final_state) in float64; state_columns as in faltung.causal_conv1d."""
    x, weight, bias, residual, initial_state = (t if t is None else t.double() for t in (x, weight, bias, residual, initial_state))
    if channels_last:
        x, residual = x.transpose(1, 2), residual if residual is None else residual.transpose(1, 2)
    channels, width = weight.shape
    columns = state_columns if state_columns is not None else width - 1 if initial_state is None else initial_state.shape[2]
    y, final = {}, {}
    for row, begin, end, before, after in runs_of(x, **cut):
        history = x.new_zeros(channels, width - 1)
        if before is not None and initial_state is not None:
            history = initial_state[before, :, initial_state.shape[2] - (width - 1) :]
        xs = torch.cat([history, x[row, :, begin:end]], 1)
        z = (xs.unfold(1, width, 1) * weight[:, None]).sum(2) if end > begin else xs[:, :0]
        z = z if bias is None else z + bias[:, None]
        z = torch.nn.functional.silu(z) if activation else z
        y[row, begin] = (end, z if residual is None else z + residual[row, :, begin:end])
        if after is not None:
            padded = torch.cat([xs.new_zeros(channels, 1), xs], 1)
            final[after] = padded[:, padded.shape[1] - columns :]
    rows = []
    for row in range(x.shape[0]):
        parts, at = [], 0
        for (_, begin), (end, tokens) in sorted((key, value) for key, value in y.items() if key[0] == row and value[0] > key[1]):
            parts += [x.new_zeros(channels, begin - at), tokens]
            at = end
        rows.append(torch.cat([*parts, x.new_zeros(channels, x.shape[2] - at)], 1))
    out = torch.stack(rows) if rows else torch.zeros_like(x)
    state = torch.stack([final[n] for n in sorted(final)]) if final else x.new_zeros(0, channels, columns)
    return out.transpose(1, 2) if channels_last else out, state


def relative_error(got, expected):
    scale = float(expected.norm())
    return float((got.double() - expected).norm()) / scale if scale else float(got.double().norm())


def bound(dtype, expected, single=True):
    """Largest relative error that the contract allows; `single`: of a call that adds in float32."""
    r = relative_error(expected.to(dtype), expected)
    allowed = {torch.float64: 1e-13, torch.float32: 5e-7, torch.bfloat16: 1.1 * r, torch.float16: 1.2 * r}[dtype]
    return max(allowed, 5e-7) if single else allowed
