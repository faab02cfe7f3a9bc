"""HyenaOperator: projections, a short causal convolution, gates and long causal convolutions (Poli et al. 2023)."""

from torch import nn

from .causal_conv1d import CausalConv1d
from .ckconv import CKConv1d


class HyenaOperator(nn.Module):
    """A mixer of sequences [batch, time, channels], causal, in place of attention.

    The input is projected to `order` gates and a value, which a short causal convolution mixes along time; then, from the last gate to the
    second, the value is multiplied by the gate and convolved with a filter as long as the sequence; the first gate multiplies the result.

    Args:
        channels: of the input and the output.
        L_cache: the length that the filters' coordinates are scaled to, mostly that of the training sequences; others work too.
        order: gates; order - 1 long convolutions.
        short_kernel_size: taps of the short convolution.
        mlp_hidden_dim, mlp_layers, omega_0: of the networks that make the filters, see `Siren`; mask: see `CKConv1d`.
        dropout: of the value before each long convolution.
        fft_backend: as in `CKConv1d`.
    """

    def __init__(
        self, channels, L_cache, *, order=2, short_kernel_size=3, mlp_hidden_dim=64, mlp_layers=2, omega_0=10.0, mask="exponential", bias=True, dropout=0.0,
        fft_backend="faltung", device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        if order < 2:
            raise ValueError(f"order: expected 2 or more, got {order}")
        self.channels, self.order = channels, order
        options = {"device": device, "dtype": dtype}
        self.input = nn.Linear(channels, (order + 1) * channels, bias=bias, **options)
        self.short = CausalConv1d((order + 1) * channels, short_kernel_size, channels_last=True, **options)
        self.long = nn.ModuleList(
            CKConv1d(
                1, channels, L_cache=L_cache, boundary="causal", mlp_hidden_dim=mlp_hidden_dim, mlp_layers=mlp_layers, omega_0=omega_0, mask=mask,
                fft_backend=fft_backend, channels_last=True, **options,
            )
            for _ in range(order - 1)
        )  # fmt: skip
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(channels, channels, bias=bias, **options)

    def forward(self, x):
        first, *gates, value = self.short(self.input(x)).split(self.channels, -1)
        for gate, convolution in zip(reversed(gates), self.long):
            value = convolution(self.dropout(gate * value))
        return self.output(first * value)

    def extra_repr(self):
        return f"{self.channels}, order={self.order}"
