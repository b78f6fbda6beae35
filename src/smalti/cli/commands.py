"""The commands: what each is for, what it reads from a file, and the module that holds its code.

A command's module is imported only when the command is run. `reads` is shown by `--help` and in the docs, and
`tests/cli/test_reads.py` counts bytes to prove it.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One command; its module below `smalti.cli` has `arguments_<name>(parser)` and `run_<name>(options, screen)`.

    The latter returns an exit code, or None where all is well. Aliases are the names that the reference's command line
    has for the same.
    """

    name: str
    module: str
    summary: str
    reads: str
    aliases: tuple[str, ...] = ()

    @property
    def function(self) -> str:
        """The name as it is part of the names of functions."""
        return self.name.replace("-", "_")


# What the commands read.
TAIL = "the tail"
FILES = "all of the files"
COLUMNS = "the tail, then the buckets (or slots) of the columns shown and of `--where`, row group by row group"
LAYOUT = "the tail and every bucket; with `--column` or `--bucket`, those buckets only"
COUNT = "the tail; with `--where`, the buckets (or slots) of its columns, where statistics do not decide"
DIFF = "both tails; unless `--schema`, the buckets of the compared columns of both files"
SIZE = "the tail and every bucket of Mosaic files, the footer of Parquet files"
DICTIONARY = "the tail, then the buckets (or slots) of the columns that have dictionaries"
SQL = "the tail, then the columns and rows that the query needs"
CONVERT = "the tail, and the columns asked for"

COMMANDS = {
    command.name: command
    for command in (
        Command("schema", "metadata", "names and types of the columns", TAIL),
        Command("meta", "metadata", "size, compression, row groups and how much is in them", TAIL, ("footer",)),
        Command(
            "layout",
            "layout",
            "how columns are stored: buckets, modes, encodings, bytes",
            LAYOUT,
            ("buckets", "pages"),
        ),
        Command(
            "size",
            "size",
            "bytes by column or by prefix of names, largest first",
            SIZE,
            ("column-size",),
        ),
        Command("dictionary", "size", "the values in the dictionaries of columns", DICTIONARY),
        Command("stats", "metadata", "minimum, maximum and null count of the columns that have them", TAIL),
        Command("head", "rows", "the first rows", f"{COLUMNS}; stops after the row groups that hold the rows shown"),
        Command("tail", "rows", "the last rows", f"{COLUMNS}, from the last one backwards"),
        Command("sample", "rows", "rows chosen at random", f"{COLUMNS}; row groups without a chosen row are left out"),
        Command("cat", "rows", "all rows, as a table, CSV or JSON lines", f"{COLUMNS}; stops after `-n` rows"),
        Command("count", "rows", "how many rows there are, or match a condition", COUNT),
        Command(
            "sql",
            "query",
            "a query over files, run by DuckDB",
            SQL,
        ),
        Command("diff", "diff", "what differs between two files or tables: columns, types, order, values", DIFF),
        Command("report", "report", "one HTML page that draws a file, or many side by side", "all of the files, once"),
        Command(
            "convert", "jobs", "CSV, JSON lines, Parquet, ORC, Arrow, Kudu CFile or Mosaic into any of them", CONVERT
        ),
        Command("compact", "jobs", "many small files into few", FILES),
        Command("clean", "jobs", "finish interrupted commits, remove what killed jobs left", "records of commits"),
        Command("verify", "jobs", "check every checksum, invariant and statistic", FILES),
        Command("profile", "jobs", "values, nulls and encodings of every column of many files", FILES),
        Command("spark-jar", "spark", "the jar that makes Mosaic a full format of Spark, for `--jars`", "no file"),
        Command("bench", "bench", "this file as Mosaic and as Parquet: size and time", "all of the file"),
        Command("completion", "completion", "completion of commands and options for bash, zsh and fish", "nothing"),
    )
}


def command_of(name: str) -> Command:
    """A command by its name or one of its aliases."""
    return next(command for command in COMMANDS.values() if name in (command.name, *command.aliases))
