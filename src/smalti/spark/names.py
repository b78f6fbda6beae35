"""Keeping Spark's worker from comparing every name of a wide schema with every other.

Before the first batch of each task, the worker asks of every field name whether it is in the list of the batch's
names, a list that is built anew for each question: at 10,000 columns nearly a minute. It then compares both schemas
whole, names and types and order, which says the same at once. So the names it loops over are a list that is as long
as it should be and empty when walked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import StructType


def skip_name_check(schema: StructType) -> None:
    """Make `schema.fieldNames()` return names that are not walked; the schema itself is unchanged otherwise."""
    schema.fieldNames = _FieldNames(schema.names)  # type: ignore[method-assign]


class _FieldNames:
    """Stands in for the method on one instance, and travels with it to the tasks."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def __call__(self) -> list[str]:
        return _UnwalkedNames(self._names)


class _UnwalkedNames(list[str]):
    def __iter__(self) -> Iterator[Any]:
        return iter(())
