"""Relations of sizes that may be symbols (torch.SymInt): true only where they hold for every value that the guards so far allow. Nothing
here adds a guard."""

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy.functions import FloorDiv, Max, Min


def at_least(a, b):
    difference = a - b
    if not isinstance(difference, torch.SymInt):
        return difference >= 0
    if statically_known_true(difference >= 0):
        return True
    expression, shape_env = difference.node.expr, difference.node.shape_env
    if _is_nonnegative(expression, shape_env):
        return True
    # What guards say of two sizes at once, such as K <= 2N: a multiple of it taken off leaves something that is known.
    return any(
        _is_nonnegative(expression - factor * fact, shape_env)
        for fact in _facts(shape_env, expression.free_symbols)
        for factor in (sympy.Rational(1, 2), 1, 2)
    )


def equal(a, b):
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return statically_known_true(a == b) or (at_least(a, b) and at_least(b, a))


def hint(size):
    """The size as an int: its value in this compilation's example where it is a symbol, None where it has none."""
    if isinstance(size, int):
        return size
    return size.node.hint if size.node.has_hint() else None


def _is_nonnegative(expression, shape_env):
    bound = _lower_bound(expression, shape_env)
    return bound is not None and bool(bound >= 0)


def _facts(shape_env, symbols):
    """Expressions of these symbols that are not negative, by the guards."""
    for guard in shape_env.guards:
        fact = guard.expr
        if not isinstance(fact, (sympy.Le, sympy.Lt, sympy.Ge, sympy.Gt)) or not fact.free_symbols <= symbols:
            continue
        yield fact.gts - fact.lts - int(isinstance(fact, (sympy.Lt, sympy.Gt)))


def _lower_bound(expression, shape_env):
    """A lower bound of a sum of symbols, minima, maxima and floor quotients of such sums; None where none was found."""
    expression = sympy.expand(expression)
    # The outermost first: what is inside them is no term of the sum.
    for kind in (FloorDiv, Min, sympy.Min, Max, sympy.Max):
        for term in sympy.Add.make_args(expression):
            factor, rest = term.as_coeff_Mul()
            if not isinstance(rest, kind):
                continue
            others = expression - term
            if kind is FloorDiv:
                numerator, denominator = rest.args
                if not (denominator.is_Integer and denominator > 0):
                    return None
                # (e - (n - 1)) / n <= floor(e / n) <= e / n
                least = numerator - (denominator - 1) if factor > 0 else numerator
                return _lower_bound(others + factor * least / denominator, shape_env)
            bounds = [_lower_bound(others + factor * argument, shape_env) for argument in rest.args]
            # A minimum that is added is one of its arguments, we do not know which; one that is subtracted is at most any of them.
            if (factor > 0) == (kind in (Min, sympy.Min)):
                return None if None in bounds else min(bounds)
            return max((bound for bound in bounds if bound is not None), default=None)
    total = sympy.Integer(0)
    for term in sympy.Add.make_args(expression):
        factor, rest = term.as_coeff_Mul()
        if rest.is_Symbol and rest in shape_env.var_to_range:
            values = shape_env.var_to_range[rest]
            end = values.lower if factor > 0 else values.upper
            if not end.is_Integer:
                return None
            total += factor * end
        elif rest == 1:
            total += factor
        else:
            return None
    return total
