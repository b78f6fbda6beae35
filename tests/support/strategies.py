"""Hypothesis strategies: Arrow types, values, tables and writer options that Mosaic can hold."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st


def examples(count: int) -> settings:
    """Settings of a property test that tries `count` examples, and more of them with the profile "explore"."""
    return settings(max_examples=count * settings().max_examples // 100)


EXACT = Context(prec=60)
UNITS = st.sampled_from(["ms", "us", "ns"])
ZONES = st.sampled_from([None, "UTC", "Europe/Paris", "+05:30"])

fixed_types = st.sampled_from(
    [
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.time32("ms"),
    ]
)
decimal_types = st.integers(1, 38).flatmap(
    # Arrow makes decimals of at most 38 digits from Python's, those that a negative scale adds included.
    lambda precision: st.builds(pa.decimal128, st.just(precision), st.integers(max(-3, precision - 38), precision))
)
scalar_types = st.one_of(
    fixed_types,
    st.sampled_from([pa.string(), pa.binary()]),
    decimal_types,
    st.builds(pa.timestamp, UNITS, ZONES),
)


def _lists(element: pa.DataType, name: str, nullable: bool) -> pa.DataType:
    return pa.list_(pa.field(name, element, nullable=nullable))


types = st.recursive(
    scalar_types,
    lambda inner: st.one_of(
        st.builds(_lists, inner, st.sampled_from(["item", "element", "", "é"]), st.booleans()),
        st.builds(pa.map_, scalar_types, inner),
    ),
    max_leaves=3,
)

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
names = st.one_of(
    st.text(characters, min_size=1, max_size=12),
    st.builds("_".join, st.lists(st.sampled_from(["sensor", "cabin", "mean", "max", "7"]), min_size=1, max_size=4)),
)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Non-null values of a type, as Python."""
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_time(kind):
        return st.integers(0, 86_399_999)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        half = 1 << kind.bit_width - 1
        return st.integers(-half, half - 1)
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width)
    if pa.types.is_string(kind):
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    if pa.types.is_binary(kind):
        return st.binary(max_size=12)
    if pa.types.is_decimal(kind):
        top = 10**kind.precision - 1
        return st.integers(-top, top).map(lambda digits: Decimal(digits).scaleb(-kind.scale, EXACT))
    if pa.types.is_list(kind):
        return st.lists(_maybe(kind.value_field), max_size=4)
    return st.lists(st.tuples(values(kind.key_type), _maybe(kind.item_field)), max_size=3)


def _maybe(field: pa.Field) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values(field.type)) if field.nullable else values(field.type)


@st.composite
def columns(draw: st.DrawFn, field: pa.Field, rows: int) -> pa.Array:
    """A column of few or many distinct values, so that every encoding comes up."""
    pool = draw(st.lists(_maybe(field), min_size=1, max_size=draw(st.sampled_from([1, 2, 5, max(rows, 1)]))))
    picks = draw(st.lists(st.integers(0, len(pool) - 1), min_size=rows, max_size=rows))
    return pa.array([pool[pick] for pick in picks], field.type)


@st.composite
def fields(draw: st.DrawFn, kinds: st.SearchStrategy[pa.DataType] = types) -> pa.Field:
    return pa.field(draw(names), draw(kinds), nullable=draw(st.sampled_from([True, True, True, False])))


@st.composite
def tables(
    draw: st.DrawFn,
    kinds: st.SearchStrategy[pa.DataType] = types,
    min_columns: int = 0,
    max_columns: int = 7,
    max_rows: int = 20,
) -> pa.Table:
    schema = pa.schema(
        draw(st.lists(fields(kinds), min_size=min_columns, max_size=max_columns, unique_by=lambda field: field.name))
    )
    rows = draw(st.integers(0, max_rows))
    if not len(schema):
        return pa.table({"x": pa.nulls(rows)}).select([])
    return pa.Table.from_arrays([draw(columns(field, rows)) for field in schema], schema=schema)


@st.composite
def options_for(draw: st.DrawFn, table: pa.Table | None = None) -> dict[str, Any]:
    """Options both writers take; statistics only for columns of the table that can have them, and hold no NaN."""
    options: dict[str, Any] = {
        "compression": draw(st.sampled_from(["none", "zstd"])),
        "compression_level": draw(st.sampled_from([1, 3, 9])),
        "num_buckets": draw(st.sampled_from([1, 2, 3, 100])),
        "dict_max_entries": draw(st.sampled_from([1, 2, 3, 255, 1000])),
        "dict_max_bytes": draw(st.sampled_from([1, 8, 32768])),
        "page_size_threshold": draw(st.sampled_from([0, 1, 20, 32768])),
    }
    if table is not None:
        able = [field.name for field in table.schema if orderable(field.type) and not has_nan(table[field.name])]
        if able:
            options["stats_columns"] = draw(st.lists(st.sampled_from(able), unique=True))
    return options


def orderable(kind: pa.DataType) -> bool:
    """Can the type have statistics?"""
    if pa.types.is_decimal(kind):
        return kind.precision <= 18
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind))


def has_nan(column: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(column.type) and any(
        value != value for value in column.to_pylist() if value is not None
    )
