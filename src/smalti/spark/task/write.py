"""Writing, in a task: Arrow batches become files below a directory of the task's own, which no reader lists.

A task answers with the names of its files. If it ran several times, Spark passes one of the answers to the commit, and
only the files that this answer names become visible; see `smalti.table.records`.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable

import pyarrow as pa

from smalti.errors import SchemaError
from smalti.logical.adapt import Adapter
from smalti.spark.types import convert_array
from smalti.table.staging import DirectoryPlan, StagingWriter


class DirectoryWritePlan(DirectoryPlan):
    """Where and how the rows of a DataFrame are written. The driver makes it once, and it is sent to the tasks."""

    def write(self, task: int, batches: Iterable[pa.RecordBatch]) -> bytes:
        """Write the rows of a task, and return what the commit needs, pickled. After an error nothing stays behind."""
        adapter = Adapter(self.schema, self.schema.names, convert=to_stored)

        def adapt(batch: pa.RecordBatch) -> pa.RecordBatch:
            return batch if batch.schema.equals(self.schema) else adapter.adapt(batch)

        # Spark sorts the rows of a task by partition before it writes them, so one file is open at a time.
        writer = StagingWriter(self, f"{task}-{uuid.uuid4().hex[:12]}", task, adapt)
        try:
            for batch in batches:
                writer.write(batch)
            return pickle.dumps([file.path for file in writer.finish()])
        except BaseException:
            writer.abort()
            raise


def to_stored(array: pa.Array, target: pa.Field) -> pa.Array:
    """An array of Spark's in the type that it is stored in."""
    try:
        return convert_array(array, target.type)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            "value cannot be stored", column=target.name, found=str(error), expected=str(target.type)
        ) from None
    except SchemaError as error:
        raise error.locate(column=target.name) from None
