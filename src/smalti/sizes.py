"""The sizes that smalti uses unless it is told otherwise: one table, each with its reason. docs/limits.md shows it."""

#: A file of a table, as `convert`, `compact` and Spark write it: large enough to be worth opening, and small enough to
#: be copied, or written again, without trouble.
FILE_BYTES = 256 << 20
#: A row group before compression, if the table has up to 4,096 columns: its columns are long enough to compress well,
#: and a writer can hold it in memory.
ROW_GROUP_BYTES = 256 << 20
#: A row group of Parquet or a stripe of ORC that `convert` writes, in Arrow's memory: their readers hold a whole one.
FOREIGN_GROUP_BYTES = 64 << 20
#: What one task of a job or of Spark reads: enough to be worth starting, little enough to spread and to repeat.
SPLIT_BYTES = 128 << 20
#: The smallest split where cores would be idle: below it, starting a task costs more than another core brings.
MIN_SPLIT_BYTES = 4 << 20
#: A batch of rows in Arrow's memory, if no number of rows is asked for: the costs of a batch are spread over many rows,
#: and several batches fit in memory.
BATCH_BYTES = 64 << 20
#: A batch that goes to Spark: Python and Java hold it at the same time, in every task. Those that Spark sends for a
#: write are as large (`jvm/RowsToArrow`).
SPARK_BATCH_BYTES = 32 << 20
#: CSV or JSON lines that are parsed at once, and from which types are guessed: some hundred lines of 10,000 columns.
TEXT_BLOCK_BYTES = 16 << 20
#: Rows that `compact` sorts and holds in memory at a time: the source is read once more for each such chunk.
SORT_CHUNK_BYTES = 128 << 20
#: Buckets that an open file keeps after they were inflated (`cache_bytes`): a few reads of the same columns.
CACHE_BYTES = 32 << 20
#: Rows that a loader holds to mix them (`buffer_bytes`): many row groups of the columns that a model is trained on.
LOADER_BYTES = 256 << 20
#: What may be read before its turn (`memory_limit` sets another amount): some row groups.
AHEAD_BYTES = 512 << 20
