"""Partition columns: their types and values, from the directories that `smalti.table.names` parses, and back. Pure.

When a table is read, a partition column whose values are all whole numbers is int64 and any other is string, unless the
schema of the table gives a type. A partition column that a file stores too is read from the file. When a table is
written, values become directories in Arrow's text form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from smalti._compat.arrow import decimal_scalar
from smalti.errors import SchemaError, no_column
from smalti.logical.adapt import ConstantOf
from smalti.logical.arrays import as_compared
from smalti.logical.rows import take_batch
from smalti.logical.types import storage_kind
from smalti.moments import DAY, EPOCH, in_seconds, scalar_text
from smalti.mosaic.rows import row_numbers
from smalti.table.names import partition_directory, unquote_value

if TYPE_CHECKING:
    from smalti.table.listing import FoundFile

# --- reading --------------------------------------------------------------------------------------------------------


def partition_schema(
    files: Sequence[FoundFile],
    infer: Callable[[Collection[str | None]], pa.DataType] | None = None,
    ruled_out: Mapping[str, Set[str | None]] | None = None,
) -> pa.Schema:
    """Return the partition columns of some files, which must all be partitioned in the same way.

    `infer` tells the type of a column from its values, by default `infer_type`. `ruled_out` has the
    values of directories that were not listed; the type of a column has to hold them as well.
    """
    infer, ruled_out = infer or infer_type, ruled_out or {}
    names = list(files[0].partition) if files else []
    for file in files:
        if list(file.partition) != names:
            raise SchemaError(
                "files are partitioned in different ways", path=file.path, found=list(file.partition), expected=names
            )
    values = {name: {file.partition[name] for file in files} | ruled_out.get(name, set()) for name in names}
    return pa.schema([pa.field(name, infer(found - {None})) for name, found in values.items()])


def level_values(path: str, names: Sequence[str]) -> dict[str, str | None]:
    """Return the values that the levels of directories of a path are, null where there are fewer levels than names.

    Examples
    --------
    >>> level_values("2026/S%C3%A3o/part.mosaic", ["year", "city", "more"])
    {'year': '2026', 'city': 'São', 'more': None}
    """
    directories = list(map(unquote_value, path.split("/")[:-1]))
    return {name: directories[level] if level < len(directories) else None for level, name in enumerate(names)}


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
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if text is not None and pt.is_decimal(field.type):
            return decimal_scalar(text, field.type)
        value: pa.Scalar = pa.scalar(None, field.type) if text is None else pa.scalar(text).cast(field.type)
        if not _is_far(value):
            return value
    raise SchemaError(
        "a partition value does not fit the type of its column",
        column=field.name,
        found=text,
        expected=str(field.type),
    )


def _is_far(value: Any) -> bool:
    """Return whether a value is a date or timestamp outside the years that Python has: 1 to 9999."""
    if not value.is_valid or not (pt.is_date(value.type) or pt.is_timestamp(value.type)):
        return False
    return not -EPOCH * DAY <= in_seconds(value) < (date.max.toordinal() - EPOCH) * DAY


def constants_of(
    partition: Mapping[str, str | None],
    shared: Callable[[pa.Field], Mapping[str | None, pa.Scalar]] | None = None,
) -> ConstantOf:
    """Return the partition values of a file as the constants of a `smalti.logical.adapt.Adapter`.

    `shared` has the values of all files for a field with a dictionary, see `shared_dictionary`.
    """

    def constant_of(field: pa.Field) -> pa.Scalar | None:
        if field.name not in partition:
            return None
        if shared is not None and pt.is_dictionary(field.type):
            return shared(field)[partition[field.name]]
        return partition_value(partition, field)

    return constant_of


def shared_dictionary(files: Sequence[FoundFile], field: pa.Field) -> dict[str | None, pa.Scalar]:
    """Return the value of a partition column for each text that directories have, all of one dictionary.

    So the batches of all files have the same dictionary, which writers of Arrow's streams ask for.
    """
    texts = sorted({text for file in files if (text := file.partition.get(field.name)) is not None})
    assert isinstance(field.type, pa.DictionaryType)
    plain = pa.field(field.name, field.type.value_type)
    values = pa.array([partition_value({field.name: text}, plain).as_py() for text in texts], plain.type)
    try:
        indices = pa.array([*range(len(texts)), None], field.type.index_type)
    except (pa.ArrowInvalid, OverflowError):
        raise SchemaError(
            "the indices of a dictionary cannot count the values of a partition column",
            column=field.name,
            found=len(texts),
            expected=str(field.type),
        ) from None
    entries = pa.DictionaryArray.from_arrays(indices, values, ordered=field.type.ordered)
    return {text: entries[at] for at, text in enumerate([*texts, None])}


# --- writing --------------------------------------------------------------------------------------------------------


def check_partition_columns(names: Sequence[str], schema: pa.Schema) -> None:
    """Refuse partition columns that are missing, have no text form, or leave no column to write."""
    for name in names:
        index = schema.get_field_index(name)
        if index < 0:
            raise no_column(name, schema.names, "to partition by")
        type_ = storage_kind(schema.field(index).type)
        if pt.is_nested(type_) or pt.is_binary(type_):
            raise SchemaError("columns of this type cannot be partitioned by", column=name, found=str(type_))
        if name.startswith("."):
            raise SchemaError("a column to partition by becomes a directory, which a dot would hide", found=name)
    if len(set(names)) != len(names):
        raise SchemaError("a column is partitioned by twice", found=list(names))
    if names and len(names) == len(schema):
        raise SchemaError("every column is partitioned by, none is left to write", found=list(names))


def by_directory(
    batch: pa.RecordBatch, names: Sequence[str], stored: Collection[str] = ()
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Cut a batch into its partitions; directories in the order of their first rows.

    Partition columns are left out, except those that are `stored` in files as well.
    """
    if not names:
        yield "", batch
        return
    left_out = set(names).difference(stored)
    rest = batch.select([name for name in batch.schema.names if name not in left_out])
    keys = [f"key {level}" for level in range(len(names))]
    for name in names:
        _refuse_far(name, batch.column(name))
    texts = [partition_texts(batch.column(name)) for name in names]
    numbered = pa.table([*texts, row_numbers(0, batch.num_rows)], [*keys, "row"])
    # Without threads, partitions come in the order of their first rows, and the rows of each in their order.
    groups = numbered.group_by(keys, use_threads=False).aggregate([("row", "list")])
    for group in range(groups.num_rows):
        directory = partition_directory(
            [(name, groups[key][group].as_py()) for name, key in zip(names, keys, strict=True)]
        )
        # Rows of each partition are taken by themselves, so that its memory does not depend on when others are written.
        yield directory, rest if groups.num_rows == 1 else take_batch(rest, groups["row_list"][group].values)


def _refuse_far(name: str, array: Any) -> None:
    """Refuse dates and timestamps whose text would not be read as what they were."""
    kind = storage_kind(array.type)
    if not (pt.is_date(kind) or pt.is_timestamp(kind)):
        return
    import pyarrow.compute as pc

    bounds: Any = pc.min_max(as_compared(array))
    for bound in filter(_is_far, (bounds["min"], bounds["max"])):
        raise SchemaError(
            "a date or timestamp cannot be a partition value",
            column=name,
            found=scalar_text(bound),
            expected="the years 1 to 9999",
        )


def partition_texts(array: pa.Array) -> pa.Array:
    """Return values in the form that they have in names of directories.

    Floating-point numbers are spelled as Java spells them, so that Spark does not read them as whole numbers.
    """
    import pyarrow.compute as pc

    try:
        texts = array.cast(pa.string())
    except pa.ArrowNotImplementedError:  # such as views and runs
        array = as_compared(array)
        texts = array.cast(pa.string())
    if not pt.is_floating(array.type):
        return texts
    spelled = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    found: Any = pc.dictionary_encode(texts)
    known = found.dictionary.to_pylist()
    java = [f"{text}.0" if text.lstrip("-").isdigit() else spelled.get(text, text) for text in known]
    return pa.array(java, pa.string()).take(found.indices)
