"""Arguments that several commands share, and what their values mean."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from smalti.errors import MosaicError
from smalti.logical.patterns import match_names
from smalti.units import parse_bytes


def adding(*adders: Callable[[argparse.ArgumentParser], None]) -> Callable[[argparse.ArgumentParser], None]:
    """The arguments of a command that has shared ones only."""

    def add(parser: argparse.ArgumentParser) -> None:
        for adder in adders:
            adder(parser)

    return add


#: The names of the formats of `smalti.jobs.formats.registry`, which help would take too long to import.
FORMATS = "mosaic, parquet, orc, arrow, arrows, csv, json (one object per line), cfile"


def add_files(parser: argparse.ArgumentParser, formats: str = "Mosaic, or any format that `convert` reads") -> None:
    about = (
        "files, directories, patterns such as 'days/*.mosaic' or URIs such as s3://bucket/wide.mosaic, read as "
        f"one table; {formats}; - is standard input"
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help=about)
    add_format(parser)


def add_format(parser: argparse.ArgumentParser) -> None:
    about = f"the format of the files, if their suffix does not say it: {FORMATS}"
    parser.add_argument("--source-format", "--from", metavar="FORMAT", help=about)


def add_mosaic_files(parser: argparse.ArgumentParser) -> None:
    about = "Mosaic files, directories of them, patterns such as 'days/*.mosaic' or URIs; - is standard input"
    parser.add_argument("files", nargs="+", metavar="FILE", help=about)


def add_columns(parser: argparse.ArgumentParser) -> None:
    about = "columns: names or globs such as 'sensor_*', separated by commas; may be repeated"
    parser.add_argument("-c", "--columns", action="append", metavar="NAMES", help=about)


def add_where(parser: argparse.ArgumentParser) -> None:
    about = (
        "only rows that match, such as \"a > 5 and b like 'x%%'\"; text is in single quotes, and names with odd "
        "characters are in double quotes"
    )
    parser.add_argument("--where", metavar="CONDITION", help=about)


def add_row_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--row-group", type=whole_number, metavar="N", help="only row group N, counted from 0")


def add_output(parser: argparse.ArgumentParser, json_help: str = "print JSON", **more: str) -> None:
    """How to print; `more` are further options that exclude each other and these, each with its help."""
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help=json_help)
    shape.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    for option, about in more.items():
        shape.add_argument(option, action="store_true", help=about)
    parser.add_argument("--no-pager", action="store_true", help="do not show long output in a pager")


def check_below(what: str, found: int | None, count: int) -> None:
    """Refuse the number of a row group or bucket that the file does not have; None was not asked for."""
    if found is not None and found >= count:
        raise MosaicError(f"no {what} {found}; there {'is' if count == 1 else 'are'} {count:,}, counted from 0")


def whole_number(text: str) -> int:
    """An integer of 0 or more; anything else is wrong usage."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def byte_count(text: str, least: int = 1) -> int:
    """A number of bytes of `least` or more, such as 64M; anything else is wrong usage."""
    try:
        return parse_bytes(text, least=least)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def key_value(text: str) -> tuple[str, str]:
    """A key and its value; anything else is wrong usage, and is not repeated, because a value may be a secret."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError("an option is KEY=VALUE")
    return key, value


def select_columns(names: Sequence[str], patterns: Sequence[str] | None) -> list[str] | None:
    """The columns that `-c` asks for, without repeats, in the order of the patterns; None if there are no patterns.

    A pattern is a name, a glob, or several of them with commas between. A column whose own name has a comma or `*` in
    it is found by that name.

    Examples
    --------
    >>> select_columns(["id", "sensor_1", "sensor_2"], ["sensor_*,id"])
    ['sensor_1', 'sensor_2', 'id']
    """
    if not patterns:
        return None
    known = set(names)
    pieces = [[pattern] if pattern in known else pattern.split(",") for pattern in patterns]
    return match_names(names, [piece for parts in pieces for piece in parts if piece])
