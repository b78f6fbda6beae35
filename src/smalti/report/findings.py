"""What is worth knowing of columns at first sight: those that are empty, constant, or equal to others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

#: The kinds of findings in the order in which they are told, each with its name in words.
KINDS = {"empty": "empty", "constant": "constant", "duplicate": "duplicate", "nearly-empty": "nearly empty"}
#: Columns with at least this share of nulls are nearly empty.
NEARLY = 0.99


@dataclass(frozen=True)
class ColumnFacts:
    """What is known of a column; None is unknown. `same_as` is the first column whose stored bytes are the same."""

    name: str
    rows: int
    nulls: int | None = None
    distinct: int | None = None
    same_as: str | None = None


def facts_of(profile: pa.Table) -> list[ColumnFacts]:
    """What the table of a profile tells of each column."""
    lists = [profile.column(name).to_pylist() for name in ("column", "rows", "nulls", "distinct", "same_as")]
    return [ColumnFacts(*values) for values in zip(*lists, strict=True)]


def find_kind(column: ColumnFacts) -> str | None:
    """The kind of finding that a column is, if any.

    Examples
    --------
    >>> find_kind(ColumnFacts("a", 9, nulls=9)), find_kind(ColumnFacts("a", 9, 0, 1)), find_kind(ColumnFacts("a", 9))
    ('empty', 'constant', None)
    """
    nulls = column.nulls or 0
    if column.rows and nulls == column.rows:
        return "empty"
    if column.distinct == 1 and not nulls:
        return "constant"
    if column.same_as is not None:
        return "duplicate"
    return "nearly-empty" if column.rows and nulls >= NEARLY * column.rows else None


def in_words(columns: Sequence[ColumnFacts]) -> str:
    """All findings in a line, empty if there are none.

    Examples
    --------
    >>> in_words([ColumnFacts("a", 5, 5), ColumnFacts("b", 5, 0, 4), ColumnFacts("c", 5, 0, 4, same_as="b")])
    '1 column is empty, 1 identical to b'
    """
    kinds = Counter(kind for column in columns if (kind := find_kind(column)) is not None)
    parts: list[str] = []
    for kind, words in KINDS.items():
        if not kinds[kind]:
            continue
        if kind == "duplicate":
            firsts = {column.same_as for column in columns if find_kind(column) == kind}
            words = f"identical to {next(iter(firsts)) if len(firsts) == 1 else 'others'}"
        verb = "" if parts else " column is" if kinds[kind] == 1 else " columns are"
        parts.append(f"{kinds[kind]:,}{verb} {words}")
    return ", ".join(parts)
