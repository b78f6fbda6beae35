"""Names of partition directories, `key=value`, and the values they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote

#: What hive and Spark write for a null partition value.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def parse_partition(directories: Sequence[str]) -> dict[str, str | None]:
    """Partition values of a path, in order.

    Examples
    --------
    >>> parse_partition(["raw", "day=2024-01-01", "city=S%C3%A3o%20Paulo"])
    {'day': '2024-01-01', 'city': 'São Paulo'}
    """
    values: dict[str, str | None] = {}
    for directory in directories:
        key, equals, value = directory.partition("=")
        if equals and key:
            values[unquote(key)] = None if value == HIVE_NULL else unquote(value)
    return values


def partition_directory(values: Sequence[tuple[str, str | None]]) -> str:
    """
    Examples
    --------
    >>> partition_directory([("day", "2024-01-01"), ("city", "São/Paulo"), ("x", None)])
    'day=2024-01-01/city=S%C3%A3o%2FPaulo/x=__HIVE_DEFAULT_PARTITION__'
    """
    return "/".join(
        f"{quote(name, safe='')}={HIVE_NULL if text is None else quote(text, safe='')}" for name, text in values
    )
