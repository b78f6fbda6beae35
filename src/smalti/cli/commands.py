"""The commands: what each is for and what it reads from a file. Their code is imported when they are run.

`reads` is shown by `--help` and in the docs, and `tests/cli/test_reads.py` counts bytes to prove it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes
    ----------
    name, summary : str
    reads : str
        What is fetched from the file.
    module : str
        Below `smalti.cli`; has `arguments_<name>(parser)` and `run_<name>(arguments, screen) -> int`.
    group : {"look", "work"}
    """

    name: str
    summary: str
    reads: str
    module: str
    group: str


TAIL = "the tail"
COLUMNS = "the tail, then the buckets (or slots) of the columns shown and of `--where`, row group by row group"

COMMANDS = {
    command.name: command
    for command in (
        Command("schema", "names and types of the columns", TAIL, "inspect", "look"),
        Command("meta", "size, compression, row groups and how much is in them", TAIL, "inspect", "look"),
        Command(
            "layout",
            "how columns are stored: buckets, modes, encodings, bytes",
            "the tail and every bucket; with `--column` or `--bucket`, those buckets only",
            "physical",
            "look",
        ),
        Command("stats", "minimum, maximum and null count of the columns that have them", TAIL, "inspect", "look"),
        Command(
            "head",
            "the first rows",
            COLUMNS + "; stops after the row groups that hold the rows shown",
            "rows",
            "look",
        ),
        Command("cat", "all rows, as a table, CSV or JSON lines", COLUMNS + "; stops after `-n` rows", "rows", "look"),
        Command(
            "count",
            "how many rows there are, or match a condition",
            "the tail; with `--where`, the buckets (or slots) of its columns, where statistics do not decide",
            "rows",
            "look",
        ),
        Command(
            "diff",
            "what differs between two files, in schema and data",
            "both tails; unless `--schema`, the buckets of the compared columns of both files",
            "compare",
            "look",
        ),
        Command("report", "one HTML page that draws the file", "all of the file, once", "picture", "look"),
        Command(
            "convert",
            "CSV, JSON lines, Parquet, ORC, Arrow, Kudu CFile or Mosaic into any of them",
            "the tail, and the columns asked for",
            "jobs",
            "work",
        ),
        Command("compact", "many small files into few", "all of the files", "jobs", "work"),
        Command("verify", "check every checksum, invariant and statistic", "all of the files", "jobs", "work"),
        Command(
            "profile", "values, nulls and encodings of every column of many files", "all of the files", "jobs", "work"
        ),
        Command("bench", "this file as Mosaic and as Parquet: size and time", "all of the file", "bench", "work"),
    )
}
