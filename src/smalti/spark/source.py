"""The data source: the methods that Spark calls, each passed on to the module that does the work.

Spark also imports this module in a process that only looks for formats, so what needs pyarrow is imported when it is
used. Tasks import `read` or `write`, and never `plan`, which is for the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from smalti.errors import PaimonTableError
from smalti.spark.names import skip_name_check
from smalti.spark.options import ReadOptions, parse_read_options, parse_write_options

if TYPE_CHECKING:
    import pyarrow as pa

    from smalti.spark.driver.plan import Table
    from smalti.spark.paimon import SnapshotTable

FORMAT = "mosaic"


class MosaicDataSource(DataSource):
    """`spark.read.format("mosaic")`, `df.write.format("mosaic")` and their streaming twins."""

    #: The table that the schema was derived from. The same files are then read.
    _table: Table | SnapshotTable | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    @cached_property
    def _read_options(self) -> ReadOptions:
        return parse_read_options(self.options)

    def schema(self) -> StructType:
        from smalti.spark.driver.plan import find_table
        from smalti.spark.types import spark_schema

        self._table = find_table(self._read_options)
        return spark_schema(self._table.schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        table, self._table = self._table, None  # Spark sends this object to every task, which needs no list of files
        return MosaicReader(self._read_options, schema, table)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from smalti.spark.task.write import MosaicBatchWriter, StreamedBatchWriter

        options = parse_write_options(self.options)
        try:
            return (MosaicBatchWriter if options.batch is None else StreamedBatchWriter)(options, schema, overwrite)
        except PaimonTableError as error:
            if PurePosixPath(error.place["path"]) != PurePosixPath(options.root.path):
                raise  # It lies in one.
        from smalti.spark.paimon import PaimonBatchWriter

        return PaimonBatchWriter(options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from smalti.io import locate
        from smalti.spark.stream import MosaicStreamReader  # needs Spark 4.2; everything else needs 4.1
        from smalti.table.paimon_layout import is_paimon_table

        self._table = None
        options = self._read_options
        locations = [locate(path, storage=options.storage) for path in options.paths]
        if not options.plain and len(locations) == 1 and is_paimon_table(locations[0]):
            from smalti.spark.snapshots import SnapshotStreamReader

            return SnapshotStreamReader(options, schema)
        return MosaicStreamReader(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from smalti.spark.stream import MosaicStreamWriter

        return MosaicStreamWriter(parse_write_options(self.options), schema, overwrite)


class MosaicReader(DataSourceReader):
    """One DataFrame, where Spark plans it without the Java provider: `partitions` runs on the driver, `read` in tasks.

    All scans of a DataFrame share this object, so it must not be told of filters: those of one scan would drop rows of
    another.
    """

    def __init__(self, options: ReadOptions, schema: StructType, table: Table | SnapshotTable | None) -> None:
        from smalti.spark.types import arrow_schema

        self._options = options
        self._schema = arrow_schema(schema)
        self._table = table
        skip_name_check(schema)

    def partitions(self) -> Sequence[InputPartition]:
        from smalti.spark.driver.plan import find_table

        splits = (self._table or find_table(self._options)).splits(self._schema)
        return [InputPartition(split) for split in splits] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from smalti.spark.task.read import read_split

        return read_split(partition.value, self._schema, self._options)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_table": None}  # a task gets its split and needs no list of files
