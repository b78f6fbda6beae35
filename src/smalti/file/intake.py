"""What a writer accepts: Arrow data from anywhere, made to fit the columns of the file, or refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from smalti.errors import SchemaError
from smalti.file.columnless import columnless_batch
from smalti.spec import MAX_NAME_SIZE, MAX_NAMES_SIZE
from smalti.types import stored_schema


class Intake:
    """Fits batches to a schema.

    Parameters
    ----------
    schema : pyarrow.Schema
        As the user gave it.

    Attributes
    ----------
    schema : pyarrow.Schema
        As it is stored; batches leave `conform` like this.
    descriptors : list of bytes
        Its packed types.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._given = schema
        stored = stored_schema(schema)
        self.schema = stored.schema
        self.descriptors = stored.descriptors
        check_names(self.schema.names)

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the columns of the schema, found by name, in its order and its stored types."""
        if batch.schema.equals(self.schema):
            return batch
        if batch.schema.names != self.schema.names:
            batch = self._reorder(batch)
        if not batch.schema.equals(self._given):
            self._check_types(batch.schema)
        from smalti.file.logical import to_stored  # see there why not at the top

        arrays = []
        for field, array in zip(self.schema, batch.columns, strict=True):
            try:
                arrays.append(array if array.type == field.type else to_stored(array, field.type))
            except SchemaError as error:
                raise error.locate(column=field.name) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _reorder(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        check_names(batch.schema.names)
        positions = {name: i for i, name in enumerate(batch.schema.names)}
        missing = [name for name in self.schema.names if name not in positions]
        if missing:
            raise SchemaError("batch lacks columns of the schema", found=missing[:5])
        if len(positions) != len(self.schema):
            known = set(self.schema.names)
            raise SchemaError("batch has columns the schema lacks", found=[n for n in positions if n not in known][:5])
        return batch.select([positions[name] for name in self.schema.names])

    def _check_types(self, schema: pa.Schema) -> None:
        """Another type is fine if it is stored the same way; nothing is converted between stored types."""
        for given, stored in zip(stored_schema(schema).schema, self.schema, strict=True):
            if not _same_storage(given.type, stored.type):
                raise SchemaError(
                    "batch has another type than the schema",
                    column=stored.name,
                    found=str(given.type),
                    expected=str(stored.type),
                )


def _same_storage(a: pa.DataType, b: pa.DataType) -> bool:
    """Equal but for names and nullability of nested fields, which the values themselves are checked against."""
    if a == b:
        return True
    if pa.types.is_list(a) and pa.types.is_list(b):
        return _same_storage(a.value_type, b.value_type)
    if pa.types.is_map(a) and pa.types.is_map(b):
        return _same_storage(a.key_type, b.key_type) and _same_storage(a.item_type, b.item_type)
    return False


def check_names(names: list[str]) -> None:
    """Refuse names a file cannot hold, or that this reader would not read back."""
    sizes = [len(name.encode()) for name in names]
    if 0 in sizes:
        raise SchemaError("column name is empty", found=names.index(""), expected="a name")
    if "\0" in "".join(names):
        raise SchemaError("column name holds NUL", found=next(name for name in names if "\0" in name))
    if sizes and max(sizes) > MAX_NAME_SIZE:
        raise SchemaError("column name is too long", found=f"{max(sizes)} bytes", expected=f"at most {MAX_NAME_SIZE}")
    if sum(sizes) > MAX_NAMES_SIZE:
        raise SchemaError("column names are too long together", found=sum(sizes), expected=MAX_NAMES_SIZE)
    if len(set(names)) != len(names):
        seen: set[str] = set()
        repeated = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise SchemaError("duplicate column name", found=repeated)


def arrow_reader(data: Any) -> Any:
    """A Table, RecordBatch or RecordBatchReader of anything that offers Arrow data."""
    if isinstance(data, (pa.RecordBatchReader, pa.Table, pa.RecordBatch)):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return pa.record_batch(data)
    raise TypeError(f"expected a Table, RecordBatch, RecordBatchReader or an Arrow stream, got {type(data).__name__}")


def arrow_batches(data: Any) -> Iterator[pa.RecordBatch]:
    """The batches of the same."""
    data = arrow_reader(data)
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        batches = data.to_batches()
        if not batches and data.num_rows:  # no columns, so Arrow sees no batches
            batches = [columnless_batch(data.num_rows)]
        yield from batches
    else:
        yield from data
