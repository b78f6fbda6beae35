"""Partitions: directories called `name=value` on one side, columns on the other. Pure.

When a table is read, a partition column whose values are all whole numbers is int64 and any other is string, unless a
schema says more. A column that files store as well is read from them. When it is written, values take Arrow's text
form, and what a path could misread is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.types as pt

from smalti._compat.arrow import decimal_scalar
from smalti.errors import SchemaError, no_column
from smalti.logical.adapt import ConstantOf

if TYPE_CHECKING:
    from smalti.table.listing import FoundFile

#: What Hive and Spark write for a null partition value, and what Paimon does.
HIVE_NULL, PAIMON_NULL = "__HIVE_DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"
#: File systems take names of up to 255 bytes.
MAX_NAME = 255

# --- names of directories -------------------------------------------------------------------------------------------


def parse_partition(directories: Sequence[str]) -> dict[str, str | None]:
    """Partition values of a path, in order.

    Examples
    --------
    >>> parse_partition(["raw", "day=2024-01-01", "city=S%C3%A3o%20Paulo"])
    {'day': '2024-01-01', 'city': 'São Paulo'}
    """
    values: dict[str, str | None] = {}
    for directory in directories:
        key, equals, value = directory.partition("=")
        if equals and key:
            values[unquote(key)] = None if value in (HIVE_NULL, PAIMON_NULL) else unquote(value)
    return values


def partition_directory(values: Sequence[tuple[str, str | None]]) -> str:
    """The directory of a partition.

    Examples
    --------
    >>> partition_directory([("day", "2024-01-01"), ("city", "São/Paulo"), ("x", None)])
    'day=2024-01-01/city=S%C3%A3o%2FPaulo/x=__HIVE_DEFAULT_PARTITION__'
    """
    parts = {name: f"{quote(name, safe='')}={_quoted(text)}" for name, text in values}
    for name, part in parts.items():
        if len(part) > MAX_NAME:  # It is all ASCII.
            raise SchemaError(
                "the value is too long for the name of a directory",
                column=name,
                found=f"{len(part)} bytes as {part[:40]}…",
                expected=f"{MAX_NAME} bytes at most",
            )
    return "/".join(parts.values())


def _quoted(text: str | None) -> str:
    """The text of a value as part of a path. One that says what stands for null is escaped, so that it stays text.

    Examples
    --------
    >>> _quoted("__HIVE_DEFAULT_PARTITION__")
    '%5F_HIVE_DEFAULT_PARTITION__'
    """
    if text is None:
        return HIVE_NULL
    return f"%5F{text[1:]}" if text in (HIVE_NULL, PAIMON_NULL) else quote(text, safe="")


# --- reading --------------------------------------------------------------------------------------------------------


def partition_schema(
    files: Sequence[FoundFile], infer: Callable[[Collection[str | None]], pa.DataType] | None = None
) -> pa.Schema:
    """The partition columns of some files, which must all be partitioned in the same way.

    `infer` tells the type of a column from its values, by default `infer_type`.
    """
    infer = infer or infer_type
    names = list(files[0].partition) if files else []
    for file in files:
        if list(file.partition) != names:
            raise SchemaError(
                "files are partitioned in different ways", path=file.path, found=list(file.partition), expected=names
            )
    return pa.schema([pa.field(name, infer({file.partition[name] for file in files} - {None})) for name in names])


def infer_type(values: Collection[str | None]) -> pa.DataType:
    """The type of a partition column with these values.

    Examples
    --------
    >>> infer_type({"1", "-2"}), infer_type({"1", "007"})
    (DataType(int64), DataType(string))
    """
    return pa.int64() if values and all(map(_is_whole, values)) else pa.string()


def _is_whole(text: str | None) -> bool:
    """Whether a text is a whole number in its usual form: "007" and "1e3" stay text, so that nothing is lost."""
    try:
        return text is not None and str(int(text)) == text and abs(int(text)) < 1 << 63
    except ValueError:
        return False


def with_partitions(stored: pa.Schema, partitions: pa.Schema) -> pa.Schema:
    """A schema with the partition columns at its end, but for those that are stored: what a file stores is the value,
    and the text of its directory may be another form of it, as Paimon's numbers of days are for dates."""
    names = set(stored.names)
    fields = [*stored, *(field for field in partitions if field.name not in names)]
    return pa.schema(fields).with_metadata(stored.metadata or {})


def partition_value(partition: Mapping[str, str | None], field: pa.Field) -> pa.Scalar:
    """A partition value as a scalar of its column's type."""
    text = partition.get(field.name)
    try:
        if text is not None and pt.is_decimal(field.type):
            return decimal_scalar(text, field.type)
        value: pa.Scalar = pa.scalar(None, field.type) if text is None else pa.scalar(text).cast(field.type)
        return value
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise SchemaError(
            "partition value does not fit the schema asked for",
            column=field.name,
            found=text,
            expected=str(field.type),
        ) from None


def constants_of(partition: Mapping[str, str | None]) -> ConstantOf:
    """The partition values of a file as the constants of a `smalti.logical.adapt.Adapter`."""
    return lambda field: partition_value(partition, field) if field.name in partition else None


# --- writing --------------------------------------------------------------------------------------------------------


def check_partition_columns(names: Sequence[str], schema: pa.Schema) -> None:
    """Refuse partition columns that are not there, cannot be text, or leave no column to write."""
    for name in names:
        index = schema.get_field_index(name)
        if index < 0:
            raise no_column(name, schema.names, "to partition by")
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
    keys = zip(*[_texts(batch.column(name)) for name in names], strict=True)
    seen: dict[tuple[str | None, ...], int] = {}
    codes = pa.array([seen.setdefault(key, len(seen)) for key in keys], pa.int32())
    for key, code in seen.items():
        rows = rest if len(seen) == 1 else rest.filter(pc.equal(codes, pa.scalar(code)))
        yield partition_directory(list(zip(names, key, strict=True))), rows


def _texts(array: pa.Array) -> list[str | None]:
    """Values as the names of directories have them; floating-point numbers as Java spells them, which tells them from
    whole numbers, so that Spark reads them as what they were."""
    texts: list[str | None] = array.cast(pa.string()).to_pylist()
    if not pt.is_floating(array.type):
        return texts
    spelled = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return [
        text if text is None else f"{text}.0" if text.lstrip("-").isdigit() else spelled.get(text, text)
        for text in texts
    ]
