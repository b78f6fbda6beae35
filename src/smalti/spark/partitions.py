"""Partition columns: text in directory names on one side, typed columns on the other. Pure.

When read, a column of whole numbers is a bigint and anything else a string, unless `.schema(...)` says more. When
written, values go through Arrow's text form, with everything a path could misread escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import SchemaError
from smalti.table.partitions import partition_directory

# --- reading --------------------------------------------------------------------------------------------------------


def partition_scalar(text: str | None, target: pa.Field) -> pa.Scalar:
    """A partition value as a scalar of the type Spark asked for."""
    if text is None:
        return pa.scalar(None, target.type)
    try:
        return pa.scalar(text).cast(target.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise SchemaError(
            "partition value does not fit the schema asked for",
            column=target.name,
            found=text,
            expected=str(target.type),
        ) from None


def partition_array(text: str | None, target: pa.Field, rows: int) -> pa.Array:
    """A partition value as a column."""
    scalar = partition_scalar(text, target)
    return pa.repeat(scalar, rows) if scalar.is_valid else pa.nulls(rows, target.type)


def comparable_values(partition: Mapping[str, str | None], schema: pa.Schema) -> dict[str, pa.Scalar]:
    """Partition values that filters can be decided on.

    Whole numbers, text, dates and booleans compare the same way in Arrow and in Spark; other types are left out.
    """
    values = {}
    for name, text in partition.items():
        place = schema.get_field_index(name)
        if place < 0:
            continue
        target = schema.field(place)
        type_ = target.type
        if pt.is_integer(type_) or pt.is_string(type_) or pt.is_date(type_) or pt.is_boolean(type_):
            values[name] = partition_scalar(text, target)
    return values


# --- writing --------------------------------------------------------------------------------------------------------


def check_partition_columns(names: Sequence[str], schema: pa.Schema) -> None:
    """Refuse partition columns that are not there, cannot be text, or leave no column to write."""
    for name in names:
        index = schema.get_field_index(name)
        if index < 0:
            raise SchemaError("no such column to partition by", found=name, expected=", ".join(schema.names[:20]))
        type_ = schema.field(index).type
        if pt.is_nested(type_) or pt.is_binary(type_):
            raise SchemaError("columns of this type cannot be partitioned by", column=name, found=str(type_))
        if name.startswith("."):
            raise SchemaError("a column to partition by becomes a directory, which a dot would hide", found=name)
    if len(set(names)) != len(names):
        raise SchemaError("a column is partitioned by twice", found=list(names))
    if names and len(names) == len(schema):
        raise SchemaError("every column is partitioned by, none is left to write", found=list(names))


def by_directory(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """A batch cut into its partitions, without the partition columns; directories in the order they are met."""
    if not names:
        yield "", batch
        return
    import pyarrow.compute as pc

    rest = batch.select([name for name in batch.schema.names if name not in set(names)])
    keys = zip(*[batch.column(name).cast(pa.string()).to_pylist() for name in names], strict=True)
    seen: dict[tuple[str | None, ...], int] = {}
    codes = pa.array([seen.setdefault(key, len(seen)) for key in keys], pa.int32())
    for key, code in seen.items():
        rows = rest if len(seen) == 1 else rest.filter(pc.equal(codes, code))
        yield partition_directory(list(zip(names, key, strict=True))), rows
