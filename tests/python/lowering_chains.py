"""Chains of torch.fft as models spell them, each with what the lowering makes of it: rewritten, or the reason why not. Tests and the table of
docs/compile.md (tools/lowering_table.py) read this list.

A chain is a function of (x, k, shortcut) and comes with the shapes of its inputs. `same` writes the common middle part, so that a form says what
is special about it.
"""

import math
import os
from dataclasses import dataclass
from typing import Callable

import torch

REWRITTEN = "rewritten"
CHANNELS = 3


@dataclass(frozen=True)
class Form:
    name: str
    chain: Callable
    x: tuple
    k: tuple
    expected: str = REWRITTEN
    strict: str | None = None  # in strict mode, where the outcome differs; "" where strict mode sees no chain at all
    dtype: torch.dtype = torch.float32
    k_dtype: torch.dtype | None = None
    shortcut: bool = False
    options: tuple = ()  # of rewrite

    @property
    def rank(self):
        return len(self.x) - 2

    def inputs(self, dtype=None, seed=0):
        generator = torch.Generator().manual_seed(seed)
        dtype = dtype or self.dtype
        x, k, shortcut = (torch.randn(shape, generator=generator, device="cpu") for shape in (self.x, self.k, (CHANNELS,)))
        k = k / math.prod(self.k[-self.rank :]) ** 0.5
        device = torch.get_default_device()
        return x.to(device, dtype), k.to(device, self.k_dtype or dtype), shortcut.to(device, dtype)


def padded(points, taps):
    """nvSubquadratic's transform length for a "same" convolution."""
    return min(points + (taps + 1) // 2, 2 * points)


def doubled(x, k, shortcut):
    """Transforms of twice the extents, whatever the filter."""
    rows, columns = x.shape[-2:]
    a, b = k.shape[-2:]
    assert a <= 2 * rows and b <= 2 * columns
    s = (2 * rows, 2 * columns)
    y = torch.fft.irfft2(torch.fft.rfft2(x, s=s) * torch.fft.rfft2(k, s=s), s=s)
    return y[..., a // 2 : a // 2 + rows, b // 2 : b // 2 + columns]


def times_(a, b):
    a.mul_(b)
    return a


def times_equals(a, b):
    a *= b
    return a


def real_parts(a, b):
    """Complex product in real arithmetic, as models write it for Inductor."""
    a, b = torch.view_as_real(a), torch.view_as_real(b)
    real = a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1]
    imaginary = a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]
    return torch.view_as_complex(torch.stack([real, imaginary], dim=-1))


def attributes(a, b):
    return torch.complex(b.real * a.real - b.imag * a.imag, a.imag * b.real + b.imag * a.real)


def conjugated(a, b):
    a, b = torch.view_as_real(a), torch.view_as_real(b)
    real = a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1]
    imaginary = a[..., 1] * b[..., 0] - a[..., 0] * b[..., 1]
    return torch.view_as_complex(torch.stack([real, imaginary], dim=-1))


def same(product=torch.mul, dims=(2, 3), up=torch.Tensor.float, down=True, start=None, lengths=None, norm=None, tail=None):
    """A 2D chain of nvSubquadratic's shape."""

    def chain(x, k, shortcut):
        points = [x.shape[d] for d in dims]
        taps = [k.shape[d if d < 0 else d - x.dim()] for d in dims]
        assert all(m <= 2 * n for n, m in zip(points, taps))
        s = lengths or tuple(padded(n, m) for n, m in zip(points, taps))
        transformed = torch.fft.rfft2(up(x), s=s, dim=dims, norm=norm)
        filters = torch.fft.rfft2(up(k), s=s, dim=dims, norm=norm)
        y = torch.fft.irfft2(product(transformed, filters), s=s, dim=dims, norm=norm)
        begin = start or tuple(m // 2 for m in taps)
        rows, columns = (slice(b, b + n) for b, n in zip(begin, points))
        y = y[:, rows, columns, :] if dims == (1, 2) else y[..., rows, columns]
        y = y.to(x.dtype) if down else y
        return tail(y, x, shortcut) if tail else y

    return chain


def plus_shortcut(y, x, shortcut):
    return y + shortcut.view(1, -1, 1, 1) * x


def positional(x, k, shortcut):
    s = (padded(6, 5), padded(7, 3))
    y = torch.fft.irfft2(torch.fft.rfft2(x, s, (2, 3)) * torch.fft.rfft2(k, s, (2, 3)), s, (2, 3))
    return y[..., 2:8, 1:8]


def keywords(x, k, shortcut):
    s = (padded(6, 5), padded(7, 3))
    y = torch.fft.irfft2(
        input=torch.mul(input=torch.fft.rfft2(input=x, s=s, dim=(2, 3)), other=torch.fft.rfft2(input=k, s=s, dim=(2, 3))), s=s, dim=(2, 3)
    )
    return y[..., 2:8, 1:8]


def causal_1d(x, k, shortcut):
    n = 2 * x.shape[-1]
    y = torch.fft.irfft(torch.fft.rfft(x, n=n) * torch.fft.rfft(k, n=n), n=n)[..., : x.shape[-1]]
    return y + x * shortcut.unsqueeze(-1)


def causal_1d_in_float(x, k, shortcut):
    """Shortcut and cast the other way round: everything in float32, one rounding."""
    u = x.float()
    n = 2 * x.shape[-1]
    y = torch.fft.irfft(torch.fft.rfft(u, n=n) * torch.fft.rfft(k.float(), n=n), n=n)[..., : x.shape[-1]]
    return (y + u * shortcut[:, None]).to(x.dtype)


def blh_1d(x, k, shortcut):
    n = x.shape[1] + k.shape[1]
    y = torch.fft.irfft(torch.fft.rfft(x.to(torch.float32), n=n, dim=1) * torch.fft.rfft(k.to(torch.float32), n=n, dim=1), n=n, dim=1)
    return y[:, : x.shape[1], :].to(x.dtype) + shortcut * x


def narrowed(x, k, shortcut):
    n = x.shape[-1] + k.shape[-1] - 1
    y = torch.fft.irfft(torch.fft.rfft(x, n=n) * torch.fft.rfft(k, n=n)[None], n=n)
    return y.narrow(-1, k.shape[-1] // 2, x.shape[-1])


def from_the_end(x, k, shortcut):
    """N + K - 1 points, of which the last N: negative bounds."""
    n = x.shape[-1] + k.shape[-1] - 1
    return torch.fft.irfft(torch.fft.rfft(x, n=n) * torch.fft.rfft(k, n=n), n=n)[..., -x.shape[-1] :]


def volume(x, k, shortcut):
    s = [padded(n, m) for n, m in zip(x.shape[2:], k.shape[-3:])]
    y = torch.fft.irfftn(torch.fft.rfftn(x, s=s, dim=(2, 3, 4)) * torch.fft.rfftn(k, s=s, dim=(-3, -2, -1)), s=s, dim=(2, 3, 4))
    a, b, c = (m // 2 for m in k.shape[-3:])
    return y[:, :, a : a + x.shape[2], b : b + x.shape[3], c : c + x.shape[4]]


def circular(x, k, shortcut):
    dims, points = (2, 3), x.shape[2:]
    assert all(m <= n for n, m in zip(points, k.shape[-2:]))
    return torch.fft.irfft2(torch.fft.rfft2(x, dim=dims) * torch.fft.rfft2(k, s=points, dim=(-2, -1)), s=points, dim=dims)


def circular_rolled(x, k, shortcut):
    return torch.roll(circular(x, k, shortcut), shifts=tuple(-((m - 1) // 2) for m in k.shape[-2:]), dims=(2, 3))


def circular_ramp(x, k, shortcut):
    """The centred circular convolution by a phase ramp, made with gradients off as nvSubquadratic's cache makes it."""
    points, shift = x.shape[-1], -((k.shape[-1] - 1) // 2)
    spectrum, filters = torch.fft.rfft(x, n=points, dim=2), torch.fft.rfft(k, n=points, dim=2)
    with torch.no_grad():
        phases = -2.0 * math.pi * (shift * torch.fft.rfftfreq(points, d=1.0, device=x.device))
        ramp = torch.complex(torch.cos(phases), torch.sin(phases))
    spectrum.mul_(filters * ramp)
    return torch.fft.irfft(spectrum, n=points, dim=2)


def circular_ramp_2d(x, k, shortcut):
    rows, columns = x.shape[-2:]
    f = torch.fft.fftfreq(rows, device=x.device)[:, None] * 2.0 + torch.fft.rfftfreq(columns, device=x.device)[None, :]
    ramp = torch.polar(torch.ones_like(f), 2 * math.pi * f)
    return torch.fft.irfft2(torch.fft.rfft2(x) * torch.fft.rfft2(k, s=(rows, columns)) * ramp, s=(rows, columns))


def half_shift(x, k, shortcut):
    points = x.shape[-1]
    ramp = torch.exp(2j * math.pi * 0.5 * torch.fft.rfftfreq(points, device=x.device))
    return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(k, n=points) * ramp, n=points)


def ring_and_zero(x, k, shortcut):
    """Circular over rows, zero over columns."""
    rows, columns = x.shape[2:]
    s = (rows, columns + k.shape[-1] // 2 + 1)
    y = torch.fft.irfft2(torch.fft.rfft2(x, s=s) * torch.fft.rfft2(k, s=s), s=s)
    return y[..., k.shape[-1] // 2 : k.shape[-1] // 2 + columns]


def two_casts(x, k, shortcut):
    """Rounded to bfloat16 on purpose: that is not the chain's last cast."""
    return same(down=False)(x, k, shortcut).to(torch.bfloat16).float()


def shared_spectrum(x, k, shortcut):
    s = (padded(6, 5), padded(7, 3))
    spectrum = torch.fft.rfft2(x, s=s, dim=(2, 3))
    y = torch.fft.irfft2(spectrum * torch.fft.rfft2(k, s=s, dim=(2, 3)), s=s, dim=(2, 3))[..., 2:8, 1:8]
    return y + spectrum.abs().mean()


def late_product(x, k, shortcut):
    s = (padded(6, 5), padded(7, 3))
    spectrum = torch.fft.rfft2(x, s=s, dim=(2, 3))
    y = torch.fft.irfft2(spectrum, s=s, dim=(2, 3))[..., 2:8, 1:8]
    spectrum.mul_(torch.fft.rfft2(k, s=s, dim=(2, 3)))
    return y


def two_crops(x, k, shortcut):
    n = 2 * x.shape[-1]
    y = torch.fft.irfft(torch.fft.rfft(x, n=n) * torch.fft.rfft(k, n=n), n=n)
    return y[..., : x.shape[-1]] + y[..., x.shape[-1] :]


def other_lengths(x, k, shortcut):
    y = torch.fft.irfft2(torch.fft.rfft2(x, s=(9, 9)) * torch.fft.rfft2(k, s=(9, 9)), s=(9, 8))
    return y[..., 2:8, 1:8]


def short_crop(x, k, shortcut):
    y = torch.fft.irfft2(torch.fft.rfft2(x, s=(9, 9)) * torch.fft.rfft2(k, s=(9, 9)), s=(9, 9))
    return y[..., 2:7, 1:7]


def clipped_crop(x, k, shortcut):
    y = torch.fft.irfft2(torch.fft.rfft2(x, s=(8, 9)) * torch.fft.rfft2(k, s=(8, 9)), s=(8, 9))
    return y[..., 4:10, 1:8]  # six rows are asked for, four are there


def last_axis_of_four(x, k, shortcut):
    n = 2 * x.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(x, n=n) * torch.fft.rfft(k, n=n), n=n)[..., : x.shape[-1]]


def written_operand(x, k, shortcut):
    s = (padded(6, 5), padded(7, 3))
    u = x * 1
    spectrum = torch.fft.rfft2(u, s=s, dim=(2, 3)) * torch.fft.rfft2(k, s=s, dim=(2, 3))
    u.view(-1).add_(1)
    return torch.fft.irfft2(spectrum, s=s, dim=(2, 3))[..., 2:8, 1:8] + u


def filters_without_gradient(x, k, shortcut):
    s = (padded(6, 5), padded(7, 3))
    with torch.no_grad():
        filters = torch.fft.rfft2(k, s=s, dim=(2, 3))
    return torch.fft.irfft2(torch.fft.rfft2(x, s=s, dim=(2, 3)) * filters, s=s, dim=(2, 3))[..., 2:8, 1:8]


def under_autocast(x, k, shortcut):
    with torch.autocast(x.device.type, torch.bfloat16):
        return same(down=True, up=lambda t: t)(x, k, shortcut)


def strided_result(x, k, shortcut):
    y = torch.fft.irfft(torch.fft.rfft(x, n=16) * torch.fft.rfft(k, n=16), n=16)[..., :8]
    return y.as_strided((2, 3, 4), (48, 16, 2))


X, K = (2, 3, 6, 7), (1, 3, 5, 3)
LAST_X, LAST_K = (2, 6, 7, 3), (1, 5, 3, 3)
LINE, TAPS = (2, 3, 8), (3, 8)
DEVICE = torch.get_default_device().type
# With a default device set Dynamo prints `X *= K` as X.mul_(K).
TIMES_EQUALS = "no-rfft2-product" if not os.environ.get("FALTUNG_TEST_DEVICE") else REWRITTEN
f64, bf16, f16 = torch.float64, torch.bfloat16, torch.float16

FORMS = [
    # 2D, as nvSubquadratic writes it
    Form("2D, X * K", same(up=lambda t: t, down=False), X, K),
    Form("2D, X.mul_(K), bf16 with casts", same(times_), X, K, dtype=bf16),
    Form("2D, X.mul_(K), fp16 with casts", same(times_), X, K, dtype=f16),
    Form("2D, X.mul_(K), casts, shortcut", same(times_, tail=plus_shortcut), X, K, dtype=bf16, shortcut=True),
    Form("2D, X *= K", same(times_equals), X, K, strict=TIMES_EQUALS),
    Form("2D, K = 2N - 1", same(times_), X, (1, 3, 11, 13)),
    Form("2D, filter per sample", same(times_), X, (2, 3, 5, 4)),
    Form("2D, filter without batch axis", same(dims=(-2, -1)), X, (3, 5, 3), strict="irfft-args-mismatch"),
    Form("2D, positional arguments", positional, X, K),
    Form("2D, keyword arguments", keywords, X, K, strict="no-rfft2-product"),
    Form("2D, real arithmetic, view_as_real", same(real_parts), X, K, strict="no-rfft2-product"),
    Form("2D, real arithmetic, .real and .imag", same(attributes), X, K, strict="no-rfft2-product", dtype=bf16),
    Form("2D, channels last", same(times_, dims=(1, 2)), LAST_X, LAST_K, strict="irfft-args-mismatch"),
    Form("2D, fp64", same(times_, up=lambda t: t), X, K, dtype=f64, strict="unsupported-dtype"),
    Form("2D, bf16 input, fp32 filter", same(times_), X, K, dtype=bf16, k_dtype=torch.float32, strict="kernel-dtype-or-device-mismatch"),
    Form("2D, other padding than the recipe's", same(lengths=(12, 16)), X, K, strict="not-the-reference-recipe"),
    Form("2D, other centre than the recipe's", same(lengths=(12, 16), start=(1, 2)), X, K, strict="not-the-reference-recipe"),
    Form("2D, under autocast, no cast in sight", under_autocast, X, K, dtype=bf16),
    Form("2D, circular rows, zero columns", ring_and_zero, X, K, strict="irfft-args-mismatch"),
    Form("2D, circular", circular, X, K, strict="no-same-crop"),
    Form("2D, circular, centred by roll", circular_rolled, X, K, strict="no-same-crop", shortcut=False),
    Form("2D, circular, centred by a phase ramp", circular_ramp_2d, X, K, strict="irfft-args-mismatch"),
    # 1D and 3D
    Form("1D, causal, n = 2L, shortcut", causal_1d, LINE, TAPS, strict="", shortcut=True),
    Form("1D, causal, all in fp32, one cast", causal_1d_in_float, LINE, TAPS, strict="", dtype=bf16, shortcut=True),
    Form("1D, causal, channels last, shortcut", blh_1d, (2, 9, 3), (1, 7, 3), strict="", dtype=bf16, shortcut=True),
    Form("1D, narrow, filter[None]", narrowed, LINE, (3, 5), strict=""),
    Form("1D, crop from the end", from_the_end, LINE, (3, 5), strict=""),
    Form("1D, circular, phase ramp", circular_ramp, LINE, (1, 3, 6), strict=""),
    Form("3D", volume, (2, 3, 4, 5, 6), (1, 3, 3, 4, 7), strict=""),
    # Declined
    Form("norm ortho", same(norm="ortho"), X, K, "irfft-args-mismatch"),
    Form("another spectrum than a product", same(lambda a, b: a + b), X, K, "no-rfft2-product"),
    Form("correlation in real arithmetic", same(conjugated), X, K, "no-rfft2-product"),
    Form("shift by half a point", half_shift, LINE, TAPS, "no-rfft2-product", strict=""),
    Form("mul_ after the inverse transform", late_product, X, K, "no-rfft2-product"),
    Form("spectrum used elsewhere", shared_spectrum, X, K, "spectrum-has-other-users"),
    Form("overlap-add: two crops", two_crops, LINE, TAPS, "no-same-crop", strict=""),
    Form("crop smaller than the input", short_crop, X, K, "operand-roles-ambiguous", strict="irfft-args-mismatch"),
    Form("crop over the end", clipped_crop, X, K, "crop-is-not-same-size", strict="irfft-args-mismatch"),
    Form("forward and inverse lengths differ", other_lengths, X, K, "rfft-args-mismatch", strict="irfft-args-mismatch"),
    Form("two channel axes", last_axis_of_four, (2, 3, 4, 8), (3, 4, 8), "not-4d", strict=""),
    Form("taps that wrap around", same(lengths=(8, 9), start=(1, 1)), X, K, "not-the-reference-recipe"),
    Form("one filter for all channels", same(), X, (1, 1, 5, 3), "channel-or-batch-mismatch"),
    Form("2D, of integers: the cast is no upcast and stays", same(), X, K, strict="unsupported-dtype", dtype=torch.int64),
    Form("fp32 input, fp64 filter", same(up=lambda t: t), X, K, "kernel-dtype-or-device-mismatch", k_dtype=f64),
    Form("16 bits, allow_reduced_precision=False", same(times_), X, K, "reduced-precision-disabled", dtype=bf16, options=(("allow_reduced_precision", False),)),
    Form("bf16 in, fp32 out", same(down=False), X, K, "output-dtype-or-device-mismatch", dtype=bf16),
    Form("operand written to before the end", written_operand, X, K, "operand-mutated"),
    Form("filter transformed without gradient", filters_without_gradient, X, K, "mode-changes"),
    Form("strides of the result read", strided_result, LINE, (3, 5), "output-strides-observed", strict=""),
    # Not the last cast: the rounding stays outside
    Form("2D, then rounded to bf16 and back", two_casts, X, K),
]  # fmt: skip
if DEVICE != "cpu":  # autocast casts for torch.fft on the CPU alone
    FORMS = [form for form in FORMS if form.chain is not under_autocast]
