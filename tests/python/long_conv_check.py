"""One call of long_conv, forward and backward with every gradient, held to the contract's bounds against float64."""

import faltung
import long_conv_reference as reference
import torch
from faltung import _c_api
from long_conv_cases import make

forward = torch.ops.faltung.long_conv_detached.default
backward = torch.ops.faltung.long_conv_backward_detached.default


def code(boundaries):
    return sum(_c_api.BOUNDARIES[name] << (2 * axis) for axis, name in enumerate(boundaries))


def is_transformed(direction, x, k, s, geometry, channels_last):
    views = (None if t is None else _c_api.view_of(t.resolve_neg(), "t") for t in (x, k, s))
    options = _c_api.long_conv_options(code(geometry.boundaries), channels_last, geometry.centres)
    return "transformed" in faltung.Explanation(_c_api.long_conv_explain(direction, *views, options)).chosen


def check(geometry, x_dtype, k_dtype, channels_last=False, **variation):
    x, k, s, dy, options = make(geometry, x_dtype, k_dtype, channels_last=channels_last, **variation)
    arguments = s, code(geometry.boundaries), channels_last, geometry.centres
    options["centre"] = geometry.centres

    squares = [None if t is None else t.double().square() for t in (x, k, s, dy)]

    def close(what, direction, got, expected, squared_terms, like):
        assert got.dtype == like.dtype and got.shape == like.shape and got.stride() == torch.empty_like(like).stride(), what
        transformed = is_transformed(direction, x, k, s, geometry, channels_last)
        conditioning = reference.conditioning(expected, squared_terms)
        limit = reference.bound(expected, x_dtype, geometry.extents, transformed, like.dtype, conditioning)
        error = reference.relative_error(got, expected)
        assert error <= limit, f"{what}: relative error {error:.3e}, bound {limit:.3e}"

    x2, k2, s2, dy2 = squares
    close("y", "forward", forward(x, k, *arguments), reference.long_conv(x, k, s, **options), reference.long_conv(x2, k2, s2, **options), x)
    got = backward(dy, x, k, *arguments, True, True, s is not None)
    expected, terms = reference.gradients(dy, x, k, s, **options), reference.gradients(dy2, x2, k2, s2, **options)
    for what, gradient, value, squared, like in zip(("dx", "dk", "dshortcut"), got, expected, terms, (x, k, s)):
        close(what, "backward", gradient, value, squared, like)
