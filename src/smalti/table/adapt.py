"""Batches of one file brought to the schema of a table: the one place that does it, for datasets, jobs and Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import pyarrow as pa

from smalti._compat.arrow import columnless_batch
from smalti._core.allowance import Allowance
from smalti.logical.adapt import count_array, null_array, widen_array
from smalti.table.partitions import partition_value, repeat_value

#: Brings an array of a file to the field of the table.
Convert = Callable[[pa.Array, pa.Field], pa.Array]
_UNPARTITIONED: Mapping[str, str | None] = MappingProxyType({})


class Adapter:
    """Brings batches of one file to a schema: columns by name, missing ones as nulls, partition values as columns.

    Parameters
    ----------
    schema : pyarrow.Schema
        What batches become.
    stored : sequence of str
        The columns of the batches that come, in their order. `adapt` takes no others.
    partition : mapping, optional
        Partition values of the file, as text, for the columns that are not stored.
    convert : callable, optional
        Brings an array to its field, if types differ; by default it is widened.
    """

    def __init__(
        self,
        schema: pa.Schema,
        stored: Sequence[str],
        partition: Mapping[str, str | None] = _UNPARTITIONED,
        convert: Convert = widen_array,
    ) -> None:
        self._schema = schema
        self._partition = partition
        self._convert = convert
        places = {name: place for place, name in enumerate(stored)}
        #: Each field, with the place of its column in the batches that come; None if there is none.
        self._fields = [(field, places.get(field.name)) for field in schema]

    def adapt(self, batch: pa.RecordBatch, allowance: Allowance | None = None) -> pa.RecordBatch:
        """A batch of the schema; arrays that are made for it are counted, if there is an allowance."""
        rows = batch.num_rows
        if not self._fields:
            return columnless_batch(rows)
        if self._convert is widen_array and batch.schema.equals(self._schema):
            return batch
        arrays = []
        nulls: dict[str, pa.Array] = {}  # one for all columns of a type: a table may have thousands that a file lacks
        for field, place in self._fields:
            if place is not None:
                array = batch.column(place)
                if array.type == field.type and self._convert is widen_array:
                    arrays.append(array)
                    continue
                make = partial(self._convert, array, field)
            elif field.name in self._partition:
                make = partial(repeat_value, partition_value(self._partition, field), rows)
            else:
                key = str(field.type)
                if key not in nulls or nulls[key].type != field.type:
                    nulls[key] = count_array(partial(null_array, rows, field.type), rows, field.type, allowance)
                arrays.append(nulls[key])
                continue
            arrays.append(count_array(make, rows, field.type, allowance))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def adapt_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """One batch with exactly the columns of `schema`: widened where they differ, nulls where they are missing."""
    return batch if batch.schema.equals(schema) else Adapter(schema, batch.schema.names).adapt(batch)
