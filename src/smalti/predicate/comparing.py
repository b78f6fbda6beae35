"""Two columns compared with each other, exactly, also where Arrow would round one of them, or refuse."""

from __future__ import annotations

from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti._compat.arrow import as_comparable
from smalti.predicate import tree as t
from smalti.predicate.fitting import exact_number, step_of

_PYTHON = {"equal": eq, "not_equal": ne, "less": lt, "less_equal": le, "greater": gt, "greater_equal": ge}
#: Decimals are rounded by less than this share of themselves when Arrow makes floating-point numbers of them.
_ROUNDED = 1e-12


def compare_arrays(op: str, left: Any, right: Any) -> Any:
    """The answer of a comparison for each row; null where one of the values is.

    Examples
    --------
    >>> seconds, nanos = pa.array([1 << 40, 5], pa.timestamp("s")), pa.array([0, 5_000_000_001], pa.timestamp("ns"))
    >>> compare_arrays("less", seconds, nanos).to_pylist()
    [False, True]
    """
    if pt.is_null(left.type) or pt.is_null(right.type):
        return pa.nulls(len(left), pa.bool_())
    if left.type == right.type:
        return getattr(pc, op)(as_comparable(left), as_comparable(right))
    left, right = _with_sign(left), _with_sign(right)
    if pt.is_temporal(left.type) and pt.is_temporal(right.type):
        return _compare_units(op, left, right)
    if pt.is_floating(left.type) and not pt.is_floating(right.type):
        return compare_arrays(t.SWAPPED.get(op, op), right, left)
    if pt.is_integer(left.type) and pt.is_floating(right.type):
        return _compare_integers(op, left, right)
    if pt.is_decimal(left.type) and pt.is_floating(right.type):
        return _compare_decimals(op, left, right)
    return getattr(pc, op)(left, right)


def _with_sign(array: Any) -> Any:
    """Cast uint64 to decimals: Arrow would compare them with other types as signed integers."""
    return array.cast(pa.decimal128(20, 0)) if pt.is_uint64(array.type) else array


def _compare_units(op: str, left: Any, right: Any) -> Any:
    """Compare moments, times or durations of two units. Values of the coarse unit can be out of range in the fine one.

    A coarse value is compared with the fine value rounded down. Where they are equal, the fine one may still be more.
    """
    ratio = step_of(left.type) / step_of(right.type)
    if ratio < 1:
        return _compare_units(t.SWAPPED.get(op, op), right, left)
    coarse, fine = _ticks(left), _ticks(right)
    zero, steps = pa.scalar(0, pa.int64()), pa.scalar(int(ratio), pa.int64())
    quotient = pc.divide(fine, steps)
    rest = pc.subtract(fine, pc.multiply(quotient, steps))
    below = pc.subtract(quotient, pc.less(rest, zero).cast(pa.int64()))
    is_equal = pc.and_(pc.equal(coarse, below), pc.equal(rest, zero))
    if op in ("equal", "not_equal"):
        return is_equal if op == "equal" else pc.invert(is_equal)
    if op in ("less_equal", "greater"):
        return getattr(pc, op)(coarse, below)
    answer = pc.or_(pc.greater(coarse, below), is_equal)
    return answer if op == "greater_equal" else pc.invert(answer)


def _ticks(array: Any) -> Any:
    return array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()).cast(pa.int64())


def _compare_integers(op: str, whole: Any, floating: Any) -> Any:
    """Compare integers with floating-point numbers, where Arrow refuses integers of more than 53 bits.

    Rounding an integer to a floating-point number keeps its order among them, unless the two become equal. Then the
    floating-point number is whole, and is compared as an integer, or it is 2^63, which is above all integers.
    """
    compare = getattr(pc, op)
    rounded, floating = whole.cast(pa.float64(), safe=False), floating.cast(pa.float64())
    is_tie, is_held = pc.equal(rounded, floating), pc.less(floating, pa.scalar(2.0**63))
    exact = compare(whole, pc.if_else(pc.and_(is_tie, is_held), floating, pa.scalar(0.0)).cast(pa.int64()))
    is_below = pa.scalar(op in ("less", "less_equal", "not_equal"))
    return pc.if_else(is_tie, pc.if_else(is_held, exact, is_below), compare(rounded, floating))


def _compare_decimals(op: str, decimals: Any, floating: Any) -> Any:
    """Compare decimals with floating-point numbers: rounded where they are far from each other, exactly elsewhere."""
    rounded, floating = decimals.cast(pa.float64()), floating.cast(pa.float64())
    is_near = pc.less_equal(pc.abs(pc.subtract(rounded, floating)), pc.multiply(pc.abs(floating), _ROUNDED))
    is_near = is_near.fill_null(False)
    pairs = zip(decimals.filter(is_near).to_pylist(), floating.filter(is_near).to_pylist(), strict=True)
    exact = [_PYTHON[op](exact_number(one), exact_number(other)) for one, other in pairs]
    return pc.replace_with_mask(getattr(pc, op)(rounded, floating), is_near, pa.array(exact, pa.bool_()))
