"""Arrow data of unknown origin, proven safe to read before anything else looks at it.

A batch may come from a damaged or hostile IPC file, or from another library through Arrow's C interface, and neither
Arrow nor our kernels look at an offset twice. Owns the proof; what the values mean is the business of others.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.types as pt

from smalti._core.extents import Extents, is_flat
from smalti._core.input import InputBatch
from smalti.errors import SchemaError
from smalti.logical.types import contains_type


class Inspector:
    """Inspects batch after batch; what follows from their schema is worked out once."""

    def __init__(self) -> None:
        self._extents: Extents | None = None
        #: The columns with runs, which the kernel passes over, with the values in them.
        self._with_runs: list[int] = []

    def inspect(self, batch: pa.RecordBatch) -> InputBatch:
        """The batch, held through Arrow's C interface; of a batch whose buffers are not aligned, a copy.

        Raises
        ------
        SchemaError
            If reading the arrays would lead outside their buffers; names the column and, where it is one, the row.
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
            types = enumerate(batch.schema.types)
            self._with_runs = [i for i, type_ in types if contains_type(type_, pt.is_run_end_encoded)]
        problem = self._extents.problem(taken)
        if problem is None:
            for i in self._with_runs:  # They are few, so Arrow may look at all of them, however long that takes.
                _validate(batch.column(i), batch.schema.names[i], full=True)
            return taken
        column, nested, reason, row, found, expected = problem
        name = batch.schema.names[column]
        if reason is None:
            return self.inspect(_aligned(batch))
        within = f" (in its field {nested!r})" if nested else ""
        raise SchemaError(
            f"Arrow array is not valid: {reason}{within}", column=name, row=row, found=found, expected=expected
        )


def sound_array(array: pa.Array, name: str, *, full: bool = False) -> pa.Array:
    """A single array after the same inspection; errors call it `name`. With `full`, texts are UTF-8 too."""
    _validate(array, name, full=full)  # A batch cannot even be made of some arrays.
    return Inspector().inspect(pa.record_batch([array], [name])).batch.column(0)


def _validate(array: pa.Array, name: str, *, full: bool) -> None:
    try:
        array.validate(full=full)
    except pa.ArrowException as error:
        raise SchemaError(f"Arrow array is not valid: {error}", column=name) from None


def _unsound_column(batch: pa.RecordBatch, error: Exception) -> SchemaError:
    """The error of the column that Arrow refuses, which it tells by its number.

    The column itself is not touched: making an object of it ends the process where entries of a map are null.
    """
    found = re.match(r"In column (\d+): (?:Invalid: )?(.*)", str(error), re.DOTALL)
    if found is None:
        return SchemaError(f"Arrow batch is not valid: {error}")
    return SchemaError(f"Arrow array is not valid: {found[2]}", column=batch.schema.names[int(found[1])])


def _aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A copy with aligned buffers. Arrow checks all of the batch first, because copying trusts it as well."""
    try:
        batch.validate(full=True)
    except pa.ArrowException as error:
        raise _unsound_column(batch, error) from None
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)
