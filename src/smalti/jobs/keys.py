"""Finding rows of the data of a job by key columns: an index over the keys of the data, asked with those of the table.

Keys are compared by value in the types of the table. A null key never equals another key, not even a null one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from smalti._compat.arrow import null_array
from smalti.errors import SchemaError, no_column
from smalti.logical.adapt import fit_array
from smalti.logical.arrays import as_compared
from smalti.logical.types import compared_type, is_string_like, storage_kind
from smalti.logical.widen import widen_values
from smalti.mosaic.rows import row_numbers


def check_keys(on: Sequence[str], table: pa.Schema, data: pa.Schema) -> pa.Schema:
    """Return the key columns in the types of the table, or raise if one is missing or cannot be compared."""
    if not on:
        raise SchemaError("a join needs at least one key column", found=list(on))
    if len(set(on)) < len(on):
        raise SchemaError("a key column is named twice", found=list(on))
    fields = []
    for name in on:
        for schema, where in ((table, "in the table, to join by"), (data, "in the data, to join by")):
            if schema.get_field_index(name) < 0:
                raise no_column(name, schema.names, where)
        kind = storage_kind(table.field(name).type)
        if pa.types.is_nested(kind) or pa.types.is_null(kind):
            raise SchemaError("rows cannot be joined by a column of this type", column=name, found=str(kind))
        refuse_fractions_as_text(data.field(name), table.field(name))
        fit_array(null_array(0, data.field(name).type), table.field(name))
        fields.append(table.field(name))
    return pa.schema(fields)


def refuse_fractions_as_text(data: pa.Field, table: pa.Field) -> None:
    """Refuse to look for fractions among texts, such as names of directories: 2.0 is written as 2, 2.0 or 2e0."""
    found, expected = storage_kind(data.type), storage_kind(table.type)
    if is_string_like(expected) and pa.types.is_floating(found):
        reason = "rows cannot be joined, because a number may be written as text in several ways"
        raise SchemaError(reason, column=data.name, found=str(found), expected=str(expected))


def fit_keys(data: pa.Table, keys: pa.Schema) -> pa.Table:
    """The key columns of the data in the types of the table's keys. Values that do not fit are refused."""
    columns = []
    for field in keys:
        column = data.column(field.name)
        try:
            parts = [widen_values(chunk, field.type) for chunk in column.chunks]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise SchemaError(
                f"keys of the data do not fit the type of the table's column ({error})",
                column=field.name,
                found=str(column.type),
                expected=str(field.type),
            ) from None
        columns.append(pa.chunked_array([comparable(part) for part in parts], compared_type(field.type)))
    return pa.table(columns, names=keys.names)


def comparable(array: Any) -> Any:
    """Values as they are compared: without dictionaries and extensions, and with one zero and one NaN."""
    found = as_compared(array)
    if pa.types.is_floating(found.type):  # Arrow's lookup tells 0.0 from -0.0, and a NaN from one with other bits.
        found = pc.add(found, pa.scalar(0, found.type))
        found = pc.if_else(pc.is_nan(found), pa.scalar(float("nan"), found.type), found)
    return found


class KeyIndex:
    """The rows of a table of keys, which `fit_keys` has made, to be found by other keys of the same types.

    Every key is given a number, in the order in which keys occur. `refuse_duplicate` has to be asked before `find`: if
    all keys differ, the number of a key is that of its row, not counting rows with a null key.
    """

    def __init__(self, keys: pa.Table) -> None:
        self.keys = keys
        #: For each key column its values; and, from the second on, the pairs of a number so far and a value that occur.
        self._values: list[Any] = []
        self._pairs: list[Any] = []
        self._codes = self._number(keys, is_new=True)
        #: The rows that can be found. Rows with a null key cannot.
        self._rows = pc.indices_nonzero(self._codes.is_valid()).cast(pa.int64())

    @property
    def null_keys(self) -> int:
        """How many rows have a null key."""
        return self.keys.num_rows - len(self._rows)

    def _number(self, keys: pa.Table, *, is_new: bool) -> Any:
        codes = None
        for index, column in enumerate(keys.columns):
            values = column.combine_chunks()
            if is_new:
                self._values.append(values.unique().drop_null())
            found = pc.index_in(values, value_set=self._values[index], skip_nulls=True).cast(pa.int64())
            if codes is None:
                codes = found
                continue
            count = pa.scalar(max(1, len(self._values[index])), pa.int64())
            pairs = pc.add(pc.multiply(codes, count), found)
            if is_new:  # All pairs could be more than a number can count, so those that occur are numbered again.
                self._pairs.append(pairs.unique().drop_null())
            codes = pc.index_in(pairs, value_set=self._pairs[index - 1], skip_nulls=True).cast(pa.int64())
        return codes

    def find(self, keys: pa.Table) -> Any:
        """The row of each key, null where there is none."""
        return self._rows.take(self._number(keys, is_new=False))

    def refuse_duplicate(self) -> None:
        """Raise if several rows have the same key."""
        codes = self._codes.drop_null()
        last = (self._pairs or self._values)[-1]
        if len(last) == len(codes):
            return
        row = self._rows[pc.index(pc.not_equal(codes, row_numbers(0, len(codes))), True).as_py()].as_py()
        raise duplicate_key_error(self.keys, row)


def duplicate_key_error(keys: pa.Table, row: int) -> SchemaError:
    found = {name: keys.column(name)[row].as_py() for name in keys.column_names}
    return SchemaError(
        "the data has several rows with the same key, so it is not clear which of them to take", found=str(found)
    )
