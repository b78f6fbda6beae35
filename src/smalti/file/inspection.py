"""Arrow data of unknown origin, proven safe to read before anything else reads it.

A batch may come from a damaged or hostile IPC file, or from another library through Arrow's C interface, and neither
Arrow nor our kernels check an offset when they use it. This module owns the proof. It does not judge the values.
"""

from __future__ import annotations

import re
from bisect import bisect_left

import pyarrow as pa
import pyarrow.types as pt

from smalti._core.extents import Extents, is_flat
from smalti._core.input import InputBatch
from smalti.errors import SchemaError
from smalti.logical.types import contains_type

#: Ids of the commonest types, which are not made of others.
_SIMPLE = frozenset(
    type_.id
    for type_ in (
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()),
        *(pa.binary(), pa.date32(), pa.timestamp("us"), pa.decimal128(10), pa.large_string(), pa.string_view()),
    )
)


class Inspector:
    """Inspects batch after batch; keeps the exported schema from one batch to the next."""

    def __init__(self) -> None:
        self._extents: Extents | None = None
        #: Indices of the columns with run-end encoding, which the kernel does not check.
        self._with_runs: list[int] = []

    def inspect(self, batch: pa.RecordBatch) -> InputBatch:
        """Return the batch, held through Arrow's C interface, or an aligned copy if its buffers are not aligned.

        Raises
        ------
        SchemaError
            If reading the arrays would lead outside their buffers; names the column and, if there is one, the row.
        """
        try:
            batch.validate()  # compares lengths and last offsets with the sizes of buffers, which only Arrow knows
        except pa.ArrowException as error:
            raise _unsound_column(batch, error) from None
        taken = InputBatch(batch)
        if is_flat(taken):
            return taken
        if self._extents is None or not self._extents.schema.equals(batch.schema):
            self._extents = Extents(batch.schema)
            types = batch.schema.types
            self._with_runs = [
                i
                for i, type_ in enumerate(types)
                if type_.id not in _SIMPLE and contains_type(type_, pt.is_run_end_encoded)
            ]
        problem = self._extents.problem(taken)
        if problem is None:
            for i in self._with_runs:  # Runs are few, so a full validation by Arrow costs little.
                _validate(batch.column(i), batch.schema.names[i], full=True)
            return taken
        column, verdict = problem
        if verdict == "misaligned":
            return self.inspect(_aligned(batch))
        reason = "length or offset of an array is impossible"
        if verdict != "impossible":
            reason = "offsets, indices or the number of nulls contradict the buffers"
            try:
                batch.validate(full=True)
            except pa.ArrowException as error:  # Arrow's reason has the numbers.
                found = _parse_reason(error)
                reason = found[1] if found is not None and found[0] == column else reason
        row = _first_unsound_row(batch, self._extents) if verdict == "unsound" else None
        raise SchemaError(f"Arrow array is not valid: {reason}", column=batch.schema.names[column], row=row)


def sound_array(array: pa.Array, name: str, *, full: bool = False) -> pa.Array:
    """Inspect a single array; errors call it `name`. With `full`, strings must be UTF-8 too."""
    _validate(array, name, full=full)  # A batch cannot even be made of some arrays.
    return Inspector().inspect(pa.record_batch([array], [name])).batch.column(0)


def _first_unsound_row(batch: pa.RecordBatch, extents: Extents) -> int | None:
    """Find the first row without which the batch would be sound; None if the problem belongs to no row."""

    def is_unsound(rows: int) -> bool:
        return extents.problem(InputBatch(batch.slice(0, rows))) is not None

    if is_unsound(0) or not is_unsound(batch.num_rows):
        return None
    return bisect_left(range(batch.num_rows), True, key=lambda row: is_unsound(row + 1))


def _validate(array: pa.Array, name: str, *, full: bool) -> None:
    try:
        array.validate(full=full)
    except pa.ArrowException as error:
        raise SchemaError(f"Arrow array is not valid: {error}", column=name) from None


def _parse_reason(error: Exception) -> tuple[int, str] | None:
    """Take the index of the column and the reason from Arrow's error about a batch."""
    found = re.match(r"In column (\d+): (?:Invalid: )?(.*)", str(error), re.DOTALL)
    return None if found is None else (int(found[1]), found[2])


def _unsound_column(batch: pa.RecordBatch, error: Exception) -> SchemaError:
    """Make the error of the column that Arrow refuses.

    The column itself is not touched: making an object of it ends the process where entries of a map are null.
    """
    found = _parse_reason(error)
    if found is None:
        return SchemaError(f"Arrow batch is not valid: {error}")
    return SchemaError(f"Arrow array is not valid: {found[1]}", column=batch.schema.names[found[0]])


def _aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copy a batch to aligned buffers. Arrow checks all of the batch first, because copying trusts it as well."""
    try:
        batch.validate(full=True)
    except pa.ArrowException as error:
        raise _unsound_column(batch, error) from None
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)
