"""`sql`: a query over files, run by DuckDB through `smalti.duckdb`."""

from __future__ import annotations

import argparse
import re
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any

from smalti.cli.arguments import add_format
from smalti.cli.inputs import open_table
from smalti.cli.rows import add_row_output, show_rows
from smalti.cli.screen import Screen
from smalti.errors import MosaicError


def arguments_sql(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", help="a statement in DuckDB's SQL; FROM 'file.mosaic' names a file")
    about = "a table of the query and its name there; without NAME=, it is named after its file"
    parser.add_argument("tables", nargs="*", default=[], metavar="[NAME=]FILE", help=about)
    add_format(parser)
    add_row_output(parser)


def run_sql(options: argparse.Namespace, screen: Screen) -> None:
    from smalti.duckdb import query_reader

    if options.source_format and not options.tables:
        raise MosaicError("--source-format applies to files that are named after the query")
    with ExitStack() as opened:
        tables: dict[str, Any] = {
            name: opened.enter_context(open_table(paths, options.source_format))
            for name, paths in named_tables(options.tables).items()
        }
        reader = opened.enter_context(query_reader(options.query, **tables))
        if reader is not None:
            show_rows(options, screen, reader, reader.schema)


def named_tables(arguments: list[str]) -> dict[str, list[str]]:
    """Tables by name; a name that is given several times stands for all of its files together.

    What is a path as a whole, such as that of a file in a directory `day=1`, is not taken apart.

    Examples
    --------
    >>> named_tables(["t=a.mosaic", "t=b.mosaic", "data/days-2026.mosaic"])
    {'t': ['a.mosaic', 'b.mosaic'], 'days_2026': ['data/days-2026.mosaic']}
    """
    tables: dict[str, list[str]] = {}
    for argument in arguments:
        found = re.match(r"([^\W\d]\w*)=(.+)", argument)
        if found is not None and not Path(argument).exists():
            name, path = found[1], found[2]
        else:
            path = argument
            stem = "stdin" if path == "-" else PurePosixPath(path.rstrip("/")).name.partition(".")[0]
            name = re.sub(r"\W+", "_", stem).strip("_")
            if not name or name[0].isdigit():
                raise MosaicError("this name is no table name", path=path, expected=f"such as t={path}")
        tables.setdefault(name, []).append(path)
    return tables
