"""Arguments that several commands share."""

from __future__ import annotations

import argparse


def add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a path, or a URI such as s3://bucket/wide.mosaic")


def add_columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-c",
        "--columns",
        action="append",
        metavar="NAMES",
        help="columns: names or globs such as 'sensor_*', with commas between; may be repeated",
    )


def add_where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--where",
        metavar="CONDITION",
        help='rows to keep, such as "a > 5 and b is not null"; names with odd characters in double quotes, '
        "text in single quotes",
    )


def add_output(parser: argparse.ArgumentParser, json_help: str = "print JSON") -> None:
    parser.add_argument("--json", action="store_true", help=json_help)
    parser.add_argument("--no-pager", action="store_true", help="do not page what is longer than the terminal")


def whole_number(text: str) -> int:
    """0, 1, 2, … or wrong usage."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def byte_count(text: str) -> int:
    """Bytes, with an optional K, M or G (powers of 1,024).

    Examples
    --------
    >>> byte_count("64K"), byte_count("1.5GiB")
    (65536, 1610612736)
    """
    number = text.strip().lower().removesuffix("b").removesuffix("i")
    suffix = number[-1:] if number[-1:] in ("k", "m", "g") else ""
    try:
        value = float(number.removesuffix(suffix))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes, such as 256M") from None
    if not 1 <= value * _SUFFIXES[suffix] < 1 << 62:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes, such as 256M")
    return int(value * _SUFFIXES[suffix])
