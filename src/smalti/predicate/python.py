"""Filters as Python programs write them, pyarrow's tuples and its expressions, parsed to a tree.

Expressions cannot be walked from Python, but Arrow's own serialised form of them can: a prefix list of
calls, field references and literals in the metadata of a one-row batch. Whatever in it has no meaning here becomes
`Opaque`: it is still applied to rows, it just skips nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from smalti._core.arrow_c import schema_metadata
from smalti.errors import MosaicError, SchemaError
from smalti.predicate import tree as t
from smalti.predicate.evaluate import Filter, to_expression

#: A filter as users pass it: an expression, tuples joined by AND, lists of them joined by OR; or already parsed.
AnyFilter: TypeAlias = (
    "pc.Expression | list[tuple[str, str, object]] | list[list[tuple[str, str, object]]] | t.Tree | Filter | None"
)
#: Arrow's functions that join two conditions.
_JOINS: dict[str, type[t.And] | type[t.Or]] = {"and_kleene": t.And, "and": t.And, "or_kleene": t.Or, "or": t.Or}
#: Arrow's numbers for what its "is in" does with nulls in the list of values.
_MATCH_NULL, _SKIP_NULL = 0, 1


def normalize_filters(filters: object) -> Filter:
    """Bring `filters` to one form.

    Parameters
    ----------
    filters : pyarrow.compute.Expression, list of tuples, list of lists of tuples, Tree or Filter
        As in `pyarrow.parquet.read_table`: tuples are (column, op, value), joined by AND; outer lists by OR. The value
        may be an expression, such as another column.
    """
    if isinstance(filters, Filter):
        return filters
    if isinstance(filters, pc.Expression):
        tree, nested = _parse(filters)
        return Filter(tree, _by_paths(tree, nested) if nested else filters, nested)
    tree = filters if isinstance(filters, t.Tree) else _from_tuples(filters)
    return Filter(tree, to_expression(tree))


def _by_paths(tree: t.Tree, nested: frozenset[str]) -> pc.Expression:
    """The expression of a tree that reads fields of structs, which are columns of their own to a filter."""
    try:
        return to_expression(tree)
    except TypeError:  # There is a part that the tree cannot say, and so no other name can be put into it.
        expected = f"the path as one name: pc.field({min(nested)!r})"
        raise SchemaError("a filter computes with a field of a struct", found=min(nested), expected=expected) from None


def _from_tuples(filters: object) -> t.Tree:
    if not isinstance(filters, (list, tuple)) or not filters:
        raise SchemaError("filters must be an Expression or a list of (column, op, value)", found=filters)
    alternatives = []
    for group in [filters] if isinstance(filters[0], tuple) else filters:
        if not isinstance(group, (list, tuple)) or not group:
            raise SchemaError("a group of filters must be a list of (column, op, value)", found=group)
        alternatives.append(t.join(t.And, list(map(_from_tuple, group))))
    return t.join(t.Or, alternatives)


def _from_tuple(condition: object) -> t.Tree:
    if not isinstance(condition, tuple) or len(condition) != 3 or not isinstance(condition[0], str):
        raise SchemaError("a filter must be (column, op, value)", found=condition)
    name, op, value = condition
    if op in t.OPERATORS and isinstance(value, pc.Expression):
        expression = getattr(pc, t.OPERATORS[op])(pc.field(name), value)
        parsed, _ = _parse(expression)
        return replace(parsed, expression=expression) if isinstance(parsed, t.Opaque) else parsed
    if op in t.OPERATORS:
        return t.Compare(name, t.OPERATORS[op], pa.scalar(value))
    if op not in ("in", "not in"):
        raise SchemaError("unknown operator in a filter", found=op, expected=", ".join([*t.OPERATORS, "in", "not in"]))
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise SchemaError(f"operator {op!r} takes a list, tuple or set", found=value)
    matches = _is_in(name, pa.array(list(value)))
    return matches if op == "in" else t.Not(matches)


def _is_in(name: str, values: pa.Array, nulls: int = _MATCH_NULL) -> t.Tree:
    """Arrow's "is in", which is never null: a null is found where the list has one, and else it is not in the list."""
    matches = t.IsIn(name, values.drop_null())
    if nulls == _MATCH_NULL and values.null_count:
        return t.Or(matches, t.IsNull(name))
    return t.And(matches, t.Not(t.IsNull(name)))


# --- Arrow's serialised expressions -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Field(t.Opaque):
    """A column by itself; the call around it may give it a meaning."""


@dataclass(frozen=True)
class _Literal(t.Opaque):
    """A value by itself, likewise."""

    value: pa.Scalar


@dataclass
class _Chain:
    """Parts that are joined by `kind`. Programs make filters of thousands of them, each around the one before."""

    kind: type[t.And] | type[t.Or]
    parts: list[t.Tree | _Chain]


def _chained(kind: type[t.And] | type[t.Or], one: t.Tree | _Chain, other: t.Tree | _Chain) -> _Chain:
    """Two parts as one chain, which takes in those that are of its kind."""
    chain = one if isinstance(one, _Chain) and one.kind is kind else _Chain(kind, [one])
    chain.parts += other.parts if isinstance(other, _Chain) and other.kind is kind else [other]
    return chain


def _settle(part: t.Tree | _Chain) -> t.Tree:
    return t.join(part.kind, [_settle(each) for each in part.parts]) if isinstance(part, _Chain) else part


def _parse(expression: pc.Expression) -> tuple[t.Tree, frozenset[str]]:
    """The tree of an expression, and the names in it that were written as a way into structs, field by field.

    Calls that are not complete wait in a list: there may be more of them than Python can have functions at work.
    """
    _, arguments = cast("tuple[object, tuple[pa.Buffer]]", expression.__reduce__())
    batch = pa.ipc.open_file(arguments[0]).get_batch(0)
    pairs = iter(schema_metadata(batch.schema.__arrow_c_schema__()))
    nested: set[str] = set()
    waiting: list[tuple[str, list[t.Tree | _Chain], dict[str, pa.Scalar]]] = []
    part: t.Tree | _Chain
    for kind, value in pairs:
        if kind == b"call":
            waiting.append((value.decode(), [], {}))
            continue
        if kind == b"options":
            waiting[-1][2].update(dict(batch.column(int(value))[0]))
            continue
        part = _call(*waiting.pop()) if kind == b"end" else _parse_leaf(kind, value, pairs, batch, nested)
        if not waiting:
            return _settle(part), frozenset(nested)
        waiting[-1][1].append(part)
    raise MosaicError("filter ends early")


def _parse_leaf(
    kind: bytes, value: bytes, pairs: Iterator[tuple[bytes, bytes]], batch: pa.RecordBatch, nested: set[str]
) -> t.Tree:
    """A field or a literal of the prefix list."""
    if kind == b"field_ref":
        return _Field((value.decode(),))
    if kind == b"nested_field_ref":  # a field of a struct, which files know by its path
        path = ".".join(next(pairs)[1].decode() for _ in range(int(value)))
        nested.add(path)
        return _Field((path,))
    if kind == b"literal":
        return _Literal((), batch.column(int(value))[0])
    raise MosaicError("filter uses a part this version does not know", found=f"{kind!r} {value!r}")


def _match_like(name: str, pattern: str) -> t.Tree:
    """SQL's LIKE, where the pattern is a text with `%` at its ends at most."""
    text = pattern.strip("%")
    if not text or any(wildcard in text for wildcard in "%_\\"):
        return t.Opaque((name,))
    if text == pattern:
        return t.Compare(name, "equal", pa.scalar(text))
    anywhere = pattern.startswith("%") and pattern.endswith("%")
    return t.MatchText(
        name, "match_substring" if anywhere else "ends_with" if pattern.startswith("%") else "starts_with", text
    )


def _call(function: str, parts: list[t.Tree | _Chain], options: dict[str, pa.Scalar]) -> t.Tree | _Chain:
    kind = _JOINS.get(function)
    if kind is not None and len(parts) == 2:
        return _chained(kind, *parts)
    arguments = [_settle(part) for part in parts]
    match function, arguments:
        case "invert", [operand]:
            return t.Not(operand)
        case _, [_Field((name,)), _Literal(_, value)] if function in t.COMPARISONS:
            return t.Compare(name, function, value)
        case _, [_Literal(_, value), _Field((name,))] if function in t.COMPARISONS:
            return t.Compare(name, t.SWAPPED.get(function, function), value)
        case _, [_Field((name,)), _Field((other,))] if function in t.COMPARISONS:
            return t.CompareColumns(name, function, other)
        case "is_null", [_Field((name,))]:
            return t.IsNull(name, nan_is_null="nan_is_null" in options and options["nan_is_null"].as_py())
        case "is_valid", [_Field((name,))]:
            return t.Not(t.IsNull(name))
        case "is_in", [_Field((name,))]:
            values, nulls = options["value_set"], options["null_matching_behavior"].as_py()
            if isinstance(values, pa.ListScalar) and values.values is not None and nulls in (_MATCH_NULL, _SKIP_NULL):
                return _is_in(name, values.values, nulls)
        case "if_else", [
            t.Not(t.IsNull(name)),
            t.And(t.IsIn(column, _) as found, t.Not(t.IsNull())),
            _Literal(_, value),
        ] if column == name and not value.is_valid:
            return found  # DuckDB's "in", which is null where the column is
        case _, [_Field((name,))] if function in t.TEXT_MATCHES and not options["ignore_case"].as_py():
            return t.MatchText(name, function, options["pattern"].as_py())
        case "match_like", [_Field((name,))] if not options["ignore_case"].as_py():
            return _match_like(name, options["pattern"].as_py())
    return t.Opaque(tuple(name for argument in arguments for name in t.columns_of(argument)))
