"""Partition columns: their types and values, from the directories that `smalti.table.names` parses, and back. Pure.

When a table is read, a partition column whose values are all whole numbers is int64 and any other is string, unless the
schema of the table gives a type. A partition column that a file stores too is read from the file. When a table is
written, values become directories in Arrow's text form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from smalti._compat.arrow import decimal_scalar
from smalti.errors import SchemaError, no_column
from smalti.logical.adapt import ConstantOf
from smalti.table.names import partition_directory

if TYPE_CHECKING:
    from smalti.table.listing import FoundFile

# --- reading --------------------------------------------------------------------------------------------------------


def partition_schema(
    files: Sequence[FoundFile],
    infer: Callable[[Collection[str | None]], pa.DataType] | None = None,
    also: Mapping[str, Set[str | None]] | None = None,
) -> pa.Schema:
    """Return the partition columns of some files, which must all be partitioned in the same way.

    `infer` tells the type of a column from its values, by default `infer_type`. `also` has values of partitions that
    are not read, and count for the type all the same.
    """
    infer, also = infer or infer_type, also or {}
    names = list(files[0].partition) if files else []
    for file in files:
        if list(file.partition) != names:
            raise SchemaError(
                "files are partitioned in different ways", path=file.path, found=list(file.partition), expected=names
            )
    values = {name: {file.partition[name] for file in files} | also.get(name, set()) for name in names}
    return pa.schema([pa.field(name, infer(found - {None})) for name, found in values.items()])


def infer_type(values: Collection[str | None]) -> pa.DataType:
    """Return the type of a partition column with these values.

    Examples
    --------
    >>> infer_type({"1", "-2"}), infer_type({"1", "007"})
    (DataType(int64), DataType(string))
    """
    return pa.int64() if values and all(map(_is_whole, values)) else pa.string()


def _is_whole(text: str | None) -> bool:
    """Return whether a text is a whole number in its usual form: "007" and "1e3" stay text, so that nothing is lost."""
    try:
        return text is not None and str(int(text)) == text and abs(int(text)) < 1 << 63
    except ValueError:
        return False


def with_partitions(stored: pa.Schema, partitions: pa.Schema) -> pa.Schema:
    """Add the partition columns that are not stored to the end of a schema.

    If a column is stored, the file has its value. The directory may have the value in another form: Paimon, for
    example, writes the number of days for a date.
    """
    if not len(partitions):
        return stored
    names = set(stored.names)
    fields = [*stored, *(field for field in partitions if field.name not in names)]
    return pa.schema(fields).with_metadata(stored.metadata or {})


def partition_value(partition: Mapping[str, str | None], field: pa.Field) -> pa.Scalar:
    """Return a partition value as a scalar of its column's type."""
    return _parse_value(partition.get(field.name), field)


@lru_cache(maxsize=1 << 12)  # Many files share a partition, and Arrow takes microseconds for a value.
def _parse_value(text: str | None, field: pa.Field) -> pa.Scalar:
    try:
        if text is not None and pt.is_decimal(field.type):
            return decimal_scalar(text, field.type)
        value: pa.Scalar = pa.scalar(None, field.type) if text is None else pa.scalar(text).cast(field.type)
        return value
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise SchemaError(
            "a partition value does not fit the type of its column",
            column=field.name,
            found=text,
            expected=str(field.type),
        ) from None


def constants_of(partition: Mapping[str, str | None]) -> ConstantOf:
    """Return the partition values of a file as the constants of a `smalti.logical.adapt.Adapter`."""
    return lambda field: partition_value(partition, field) if field.name in partition else None


# --- writing --------------------------------------------------------------------------------------------------------


def check_partition_columns(names: Sequence[str], schema: pa.Schema) -> None:
    """Refuse partition columns that are missing, have no text form, or leave no column to write."""
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
    """Cut a batch into its partitions, without the partition columns; directories in the order of their first rows."""
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
    """Return values in the form that they have in names of directories.

    Floating-point numbers are spelled as Java spells them, so that Spark does not read them as whole numbers.
    """
    texts: list[str | None] = array.cast(pa.string()).to_pylist()
    if not pt.is_floating(array.type):
        return texts
    spelled = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return [
        text if text is None else f"{text}.0" if text.lstrip("-").isdigit() else spelled.get(text, text)
        for text in texts
    ]
