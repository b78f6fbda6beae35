"""The commands: what each is for, what it reads from a file, and the module that holds its code.

A command's module is imported only when the command is run. `reads` is shown by `--help` and in the docs, and
`tests/cli/test_reads.py` counts bytes to prove it.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One command; its module below `smalti.cli` has `arguments_<name>(parser)` and `run_<name>(options, screen)`.

    The latter returns an exit code, or None where all is well.
    """

    name: str
    module: str
    summary: str
    reads: str

    @property
    def function(self) -> str:
        """The name as it is part of the names of functions."""
        return self.name.replace("-", "_")


# What several commands read, or what takes a line of its own to say.
TAIL = "the end of the file only"
FILES = "all of the files"
COLUMNS = "the end of the file, then the columns shown and those of `--where`, some rows at a time"
LAYOUT = "all of the file; with `--column` or `--bucket`, its end and that part only"
COUNT = "the end of the file; with `--where`, also its columns, where stored minimum and maximum do not decide"
DIFF = "the ends of both files; unless `--schema`, also the columns that are compared"
SIZE = "all of Mosaic files, the end of Parquet files"
SQL = "the end of the file, then the columns and rows that the query needs"
CONVERT = "the columns asked for, by default all"
COPIED = "all files; columns that stay are copied as bytes"
MATCHED = "the ends of the files, the columns of `--where`, then the files with a matching row"
KEYED = "the ends of the files and the key columns; then the files with a matching row"

_COMMANDS = (
    Command("schema", "metadata", "names and types of the columns", TAIL),
    Command("meta", "metadata", "size, compression, layout and row groups", TAIL),
    Command("layout", "layout", "how columns are stored: buckets, modes, encodings, bytes", LAYOUT),
    Command("size", "size", "bytes of each column, or of all that share a prefix, largest first", SIZE),
    Command("stats", "metadata", "minimum, maximum and null count of columns, where the file has them", TAIL),
    Command("head", "rows", "the first rows", f"{COLUMNS}; stops after the rows shown"),
    Command("tail", "rows", "the last rows", f"{COLUMNS}, from the last ones backwards"),
    Command("sample", "rows", "rows chosen at random", f"{COLUMNS}; parts without a chosen row are left out"),
    Command("cat", "rows", "all rows, as a table, CSV or JSON lines", f"{COLUMNS}; stops after `-n` rows"),
    Command("count", "rows", "the number of rows, or of those that match a condition", COUNT),
    Command("sql", "sql", "a query over files, run by DuckDB", SQL),
    Command("diff", "diff", "the differences of two files or tables: columns, types, order, values", DIFF),
    Command("report", "report", "write an HTML page that draws a file, or several side by side", f"{FILES}, once"),
    Command(
        "convert", "convert", "convert between Mosaic, Parquet, ORC, Arrow, CSV, JSON lines and Kudu CFile", CONVERT
    ),
    Command("compact", "upkeep", "rewrite many small files as few large ones", FILES),
    Command("add-columns", "change", "add columns to a table, from other files", COPIED),
    Command("replace-columns", "change", "give columns of a table other values and types", COPIED),
    Command("drop-columns", "change", "drop columns of a table", COPIED),
    Command("rename-columns", "change", "give columns of a table other names", COPIED),
    Command("reorder-columns", "change", "put columns of a table in another order", COPIED),
    Command("delete", "change", "delete rows that match a condition", MATCHED),
    Command("update", "change", "give columns of rows that match a condition other values", MATCHED),
    Command("merge", "change", "update rows by key, and insert those that are new", KEYED),
    Command(
        "clean", "upkeep", "finish interrupted commits and remove what killed jobs have left", "records of commits"
    ),
    Command("verify", "upkeep", "check every checksum, every value and every statistic", FILES),
    Command("profile", "profile", "measure every column: nulls, range, distinct values, histogram, encodings", FILES),
    Command("spark-jar", "spark", "write the jar that adds Mosaic to Spark, for its option `--jars`", "no file"),
)
COMMANDS = {command.name: command for command in _COMMANDS}
