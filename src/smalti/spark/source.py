"""The data source itself: what Spark calls, passed on to the modules that know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from smalti.spark.names import skip_name_check
from smalti.spark.options import ReadOptions, parse_read_options, parse_write_options
from smalti.spark.plan import Split, TableFile
from smalti.spark.read import read_split
from smalti.spark.table import Table
from smalti.spark.types import arrow_schema, spark_schema
from smalti.spark.write import MosaicBatchWriter

FORMAT = "mosaic"


class MosaicDataSource(DataSource):
    """`spark.read.format("mosaic")`, `df.write.format("mosaic")` and their streaming twins."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._files: list[TableFile] | None = None  # what the schema was made from is what is read

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        table = Table(parse_read_options(self.options))
        self._files = table.files()
        return spark_schema(table.schema(self._files))

    def reader(self, schema: StructType) -> DataSourceReader:
        files, self._files = self._files, None  # what is left of this object goes to every task
        return MosaicReader(parse_read_options(self.options), schema, files)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return MosaicBatchWriter(parse_write_options(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from smalti.spark.stream import MosaicStreamReader  # needs Spark 4.2, the rest does not

        return MosaicStreamReader(parse_read_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from smalti.spark.stream import MosaicStreamWriter

        return MosaicStreamWriter(parse_write_options(self.options), schema, overwrite)


class MosaicReader(DataSourceReader):
    """Plans a read on the driver, carries out its splits on executors.

    Spark refuses a class that has `pushFilters` of its own unless a setting is on, and filters are only safe where a
    scan has its source object to itself. So the method is there for those scans alone, on the instance.
    """

    def __init__(self, options: ReadOptions, schema: StructType, files: list[TableFile] | None) -> None:
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
        return [InputPartition(split) for split in splits] or [InputPartition(Split())]

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
