"""What a task of a planned scan runs: its split comes pickled from the driver, batches go to Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from smalti.spark.filters import SparkFilter
from smalti.spark.options import ReadOptions


class ReadTask:
    """The function that Spark's Python workers call, once for each task, with a batch that holds the pickled split."""

    def __init__(
        self, options: ReadOptions, schema: pa.Schema, filters: tuple[SparkFilter, ...], limit: int | None
    ) -> None:
        self._options = options
        self._schema = schema
        self._filters = filters
        self._limit = limit

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from smalti.spark.read import read_split

        split: Any
        (split,) = chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
        rows = 0
        for batch in read_split(pickle.loads(split), self._schema, self._options, self._filters):
            if self._limit is not None:
                batch = batch.slice(0, self._limit - rows)
                rows += batch.num_rows
            yield batch
            if self._limit is not None and rows >= self._limit:
                return
