"""Answers what the Java provider asks while Spark plans a query; see `jvm/Planner.java`.

A question is JSON and bytes, and the answer is JSON and byte strings; see `worker`.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from smalti.spark.driver.plan import Table
    from smalti.spark.paimon import SnapshotTable

#: Facts for the planner, and byte strings.
Answer = tuple[dict[str, Any], Sequence[bytes]]

#: A table whose schema is given is opened for its statistics only if it has at most so many files.
_MAX_OPENED = 64


def load(question: Mapping[str, Any], _: bytes) -> Answer:
    """List a table, and derive its schema from the files unless one is given. The table itself comes back pickled."""
    from smalti.spark.driver.plan import find_table
    from smalti.spark.options import parse_read_options
    from smalti.spark.types import spark_schema

    options = parse_read_options(question["options"])
    given = question.get("schema")
    table = find_table(options, has_schema=given is not None)
    schema = spark_schema(table.schema()) if given is None else _schema(given)
    table.learn(most=_MAX_OPENED)
    partitions = table.partitions().names
    facts = {
        "schema": schema.json(),
        "partitions": partitions,
        "filterable": sorted(table.filterable()),
        "files": len(table.files),
        "groups": table.num_row_groups,
        "digest": hashlib.sha256(repr(table.files).encode()).hexdigest(),
    }
    return facts, [pickle.dumps(table)]


def plan(question: Mapping[str, Any], state: bytes) -> Answer:
    """Share the files of a table out among tasks. The bytes are what they have in common, and what each reads."""
    from smalti.spark.filters import parse_filters
    from smalti.spark.hidden import stored_part
    from smalti.spark.task.read import Scan
    from smalti.spark.types import arrow_schema

    table = _narrowed(question, state)
    schema = arrow_schema(_schema(question["schema"]))
    filters = parse_filters(question["filters"])
    order, limit = question["order"], question.get("limit")
    splits = table.splits(stored_part(schema), filters, limit=None if order else limit)
    if stored_part(schema) is not schema:  # The hidden column tells of row groups, so they are read one by one.
        table.learn()
        splits = [tuple(table.by_row_group(split)) for split in splits]
    scan = Scan(table.options, schema, filters, limit, [tuple(key) for key in order])
    pieces = [piece for split in splits for piece in split]
    facts: dict[str, Any] = {**table.summarize(pieces)}
    if question["statistics"]:
        facts["columns"] = table.statistics(stored_part(schema), pieces)
    return facts, [pickle.dumps(scan), *map(pickle.dumps, splits)]


def aggregate(question: Mapping[str, Any], state: bytes) -> Answer:
    """Answer `count`, `min` and `max` from the index of the files, if they tell."""
    from smalti.spark.types import arrow_schema

    table = _narrowed(question, state)
    return {
        "rows": table.aggregate(arrow_schema(_schema(question["schema"])), question["functions"], question["groups"])
    }, ()


def decide(question: Mapping[str, Any], state: bytes) -> Answer:
    """Which filters of a query the partitions decide for all rows."""
    from smalti.spark.filters import parse_filters
    from smalti.spark.types import arrow_schema

    table: Table | SnapshotTable = pickle.loads(state)
    return {"decided": table.decides(arrow_schema(_schema(question["schema"])), parse_filters(question["filters"]))}, ()


def partitions(question: Mapping[str, Any], state: bytes) -> Answer:
    """The partitions that have rows, as lists of values."""
    from smalti.spark.types import arrow_schema

    table: Table | SnapshotTable = pickle.loads(state)
    return {"values": table.partition_values(arrow_schema(_schema(question["schema"])))}, ()


def exists(question: Mapping[str, Any], _: bytes) -> Answer:
    """Whether there is something where a table is to be written."""
    from smalti.io import locate
    from smalti.spark.options import parse_write_options

    options = parse_write_options(question["options"])
    return {"exists": locate(options.path, storage=options.storage).exists() or None}, ()


def truncate(question: Mapping[str, Any], _: bytes) -> Answer:
    """Remove all rows of a table, or those of a partition."""
    from smalti.spark.options import parse_write_options
    from smalti.spark.task.write import MosaicBatchWriter

    schema = _schema(question["schema"])
    MosaicBatchWriter(parse_write_options(question["options"]), schema, overwrite=True).commit([])
    return {}, ()


_QUESTIONS: dict[str, Callable[[Mapping[str, Any], bytes], Answer]] = {
    "load": load,
    "plan": plan,
    "aggregate": aggregate,
    "decide": decide,
    "partitions": partitions,
    "exists": exists,
    "truncate": truncate,
}


def _narrowed(question: Mapping[str, Any], state: bytes) -> Table | SnapshotTable:
    """The table, without the files that filters rule out which Spark does not apply again."""
    from smalti.spark.filters import parse_filters
    from smalti.spark.types import arrow_schema

    table: Table | SnapshotTable = pickle.loads(state)
    if question["decided"]:
        table.narrow(arrow_schema(_schema(question["partitions"])), parse_filters(question["decided"]))
    return table


def _schema(written: str) -> StructType:
    return StructType.fromJson(json.loads(written))


def answer(question: Mapping[str, Any], state: bytes) -> Answer:
    """Answer one question."""
    return _QUESTIONS[question["question"]](question, state)
