"""The data source itself: what Spark calls, passed on to the modules that know.

Spark imports this in a process of its own only to learn that there is a format called mosaic, so whatever needs pyarrow
is imported when it is called for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from smalti.spark.options import parse_read_options, parse_write_options

if TYPE_CHECKING:
    from smalti.table.listing import FoundFile

FORMAT = "mosaic"


class MosaicDataSource(DataSource):
    """`spark.read.format("mosaic")`, `df.write.format("mosaic")` and their streaming twins."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._files: list[FoundFile] | None = None  # what the schema was made from is what is read

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        from smalti.spark.table import Table
        from smalti.spark.types import spark_schema

        table = Table(parse_read_options(self.options))
        self._files = table.files()
        return spark_schema(table.schema(self._files))

    def reader(self, schema: StructType) -> DataSourceReader:
        from smalti.spark.scan import MosaicReader

        files, self._files = self._files, None  # what is left of this object goes to every task
        return MosaicReader(parse_read_options(self.options), schema, files)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from smalti.spark.write import MosaicBatchWriter

        return MosaicBatchWriter(parse_write_options(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from smalti.spark.stream import MosaicStreamReader  # needs Spark 4.2; the rest, 4.1

        return MosaicStreamReader(parse_read_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from smalti.spark.stream import MosaicStreamWriter

        return MosaicStreamWriter(parse_write_options(self.options), schema, overwrite)
