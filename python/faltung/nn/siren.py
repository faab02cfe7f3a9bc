"""The networks that make filters: a function of the taps' coordinates with sine activations (Sitzmann et al. 2020), as in CKConv
(Romero et al. 2021), with conditioning of its hidden layers (FiLM: Perez et al. 2018)."""

import math

import torch
from torch import nn


class Siren(nn.Module):
    """[*points, coordinates] -> [*points, outputs]: linear layers with sines between.

    Args:
        coordinates: how many numbers a point has.
        outputs: channels of what comes out.
        hidden: width of the hidden layers; layers: how many of them.
        omega_0: the factor before the first sine, which sets the frequencies that the network starts with; hidden_omega_0: before the others.
        bias: whether layers have a bias.
        film: length of a conditioning vector, or None. With it, each hidden layer h becomes (1 + a) h + b with a and b linear in the vector, and
            the result has a leading axis of the batch of vectors. a and b start at zero.

    Weights start as Sitzmann et al. start them, which makes the variance of the outputs about one, however deep the network.
    """

    def __init__(self, coordinates, outputs, *, hidden=32, layers=2, omega_0=30.0, hidden_omega_0=1.0, bias=True, film=None, device=None, dtype=None):
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers: expected at least one hidden layer, got {layers}")
        self.omega_0, self.hidden_omega_0 = omega_0, hidden_omega_0
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.layers = nn.ModuleList(nn.Linear(hidden if i else coordinates, hidden, **options) for i in range(layers))
        self.output = nn.Linear(hidden, outputs, **options)
        self.film = None if film is None else nn.Linear(film, 2 * hidden * layers, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self):
        for i, layer in enumerate(self.layers):
            bound = math.sqrt(6 / layer.in_features) / self.hidden_omega_0 if i else 1 / layer.in_features
            nn.init.uniform_(layer.weight, -bound, bound)
        nn.init.uniform_(self.output.weight, -math.sqrt(6 / self.output.in_features), math.sqrt(6 / self.output.in_features))
        for layer in (*self.layers, self.output):
            if layer.bias is not None:
                # The phases of the first sines; the others start without.
                nn.init.uniform_(layer.bias, -1 / layer.in_features, 1 / layer.in_features) if layer is self.layers[0] else nn.init.zeros_(layer.bias)
        if self.film is not None:
            nn.init.zeros_(self.film.weight)
            nn.init.zeros_(self.film.bias)

    def forward(self, points, condition=None):
        return self.output(self._hidden(points, condition))

    def outputs_first(self, points, condition=None, scale=1.0):
        """scale times `forward`, as [outputs, *points] or [batch, outputs, *points], contiguous: what a convolution of channels first reads fastest."""
        hidden = self._hidden(points, condition)
        axes = hidden.shape[0 if condition is None else 1 : -1]
        weight, bias, hidden = self.output.weight, self.output.bias, hidden.flatten(-1 - len(axes), -2).transpose(-1, -2)
        if bias is None:
            found = torch.matmul(weight * scale, hidden)
        elif condition is None:
            found = torch.addmm(bias[:, None], weight, hidden, beta=scale, alpha=scale)
        else:
            found = torch.baddbmm(bias[:, None], weight.expand(hidden.shape[0], -1, -1), hidden, beta=scale, alpha=scale)
        return found.reshape(*found.shape[:-1], *axes)

    def _hidden(self, points, condition):
        if (condition is None) != (self.film is None):
            raise ValueError(f"condition: expected {'None' if self.film is None else '[batch, film]'}, got {condition if condition is None else tuple(condition.shape)}")
        changes = None
        if condition is not None:
            points = points.expand(condition.shape[0], *points.shape)
            changes = self.film(condition).unflatten(-1, (len(self.layers), 2, -1))
            changes = changes.reshape(condition.shape[0], *[1] * (points.dim() - 2), len(self.layers), 2, changes.shape[-1])
        for i, layer in enumerate(self.layers):
            points = layer(points)
            if changes is not None:
                points = (1 + changes[..., i, 0, :]) * points + changes[..., i, 1, :]
            points = torch.sin((self.hidden_omega_0 if i else self.omega_0) * points)
        return points

    def extra_repr(self):
        return f"omega_0={self.omega_0}, hidden_omega_0={self.hidden_omega_0}"
