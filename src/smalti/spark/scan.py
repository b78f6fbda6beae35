"""Reading as Spark calls it: planned on the driver by `table`, carried out on executors by `read`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from smalti.spark.names import skip_name_check
from smalti.spark.options import ReadOptions
from smalti.spark.read import read_split
from smalti.spark.table import Table
from smalti.spark.types import arrow_schema
from smalti.table.listing import FoundFile


class MosaicReader(DataSourceReader):
    """Plans a read on the driver, carries out its splits on executors.

    Spark refuses a class that has `pushFilters` of its own unless a setting is on, and filters are only safe where a
    scan has its source object to itself. So the method is there for those scans alone, on the instance.
    """

    def __init__(self, options: ReadOptions, schema: StructType, files: list[FoundFile] | None) -> None:
        self._options = options
        self._schema = arrow_schema(schema)
        self._files = files
        self._filters: list[Filter] = []
        skip_name_check(schema)
        if options.own_scan:
            self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def partitions(self) -> Sequence[InputPartition]:
        table = Table(self._options)
        files = self._files
        if files is None:
            files = table.files()
            table.check(files, self._schema)
        splits = table.splits(files, self._schema, self._filters)
        return [InputPartition(split) for split in splits] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(partition.value, self._schema, self._options, self._filters)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": None}  # tasks have their splits and need no list of all files


class _PushFilters:
    """`MosaicReader.pushFilters`, bound; passes for the base class's where Spark looks whether it is overridden."""

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: MosaicReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        self._reader._filters = list(filters)
        return filters  # Spark applies all of them again
