"""Answers what Java asks while Spark plans, writes and streams; see `jvm/Planner.java`.

A question is JSON and byte strings, and so is its answer; `smalti.spark.worker` receives and sends them. What Java only
passes on (a table, a scan, a write) is pickled, and nobody but Python looks into it.

The tables that were opened last are kept in this process, so that the list of files of a table and what is known of
them do not travel with every question. Java has a copy, and sends it if the process that it asks does not know the
table.
"""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.types import StructType

from smalti.logical.types import is_list_like
from smalti.spark.driver.offsets import Offset
from smalti.spark.driver.plan import Table, find_table
from smalti.spark.driver.stream import find_stream
from smalti.spark.driver.write import begin_write
from smalti.spark.filters import parse_filters
from smalti.spark.hidden import ROW_GROUP, asks_for, stored_part
from smalti.spark.options import parse_read_options, parse_write_options
from smalti.spark.task.read import TaskScan
from smalti.spark.types import arrow_schema, default_row, fits, spark_schema

if TYPE_CHECKING:
    from smalti.spark.paimon import SnapshotTable
    from smalti.table.splits import Piece

    OpenedTable = Table | SnapshotTable

#: Facts for Java, and byte strings.
Answer = tuple[dict[str, Any], Sequence[bytes]]
Question = Mapping[str, Any]

#: A table whose schema is given is opened for its statistics only if it has at most this many files.
_MAX_OPENED = 64
#: This process keeps at most this many tables. A table takes about a kilobyte for each file, and what statistics
#: take; see `plan`.
_MAX_TABLES = 4
_tables: dict[str, OpenedTable] = {}
#: Schemas by their addresses, as text. The schema is kept beside it, so that no other one gets its address.
_schemas: dict[int, tuple[pa.Schema, str]] = {}


class UnknownTableError(Exception):
    """This process does not have the table of a question: Java asks again and sends its copy."""


# --- reading --------------------------------------------------------------------------------------------------------


def open_table(question: Question, _: Sequence[bytes]) -> Answer:
    """List a table, and derive its schema from the files unless one is given. The bytes are the table."""
    options = parse_read_options(question["options"], question.get("session", {}))
    is_given = question.get("given", False)
    table = find_table(options, may_be_empty=is_given, may_be_missing=options.of_catalog)
    schema = None if is_given else _schema_text(table.schema())
    table.learn_facts(most=_MAX_OPENED)
    partitions = table.partitions().names
    name = uuid.uuid4().hex
    _keep(name, table)
    facts = {
        "table": name,
        "schema": schema,
        "partitions": partitions,
        "filterable": sorted(table.filterable()),
        "files": len(table.files),
        "groups": table.num_row_groups,
        "digest": hashlib.sha256(repr(table.files).encode()).hexdigest(),
    }
    return facts, [pickle.dumps(table)]


def plan(question: Question, parts: Sequence[bytes]) -> Answer:
    """Share the files of a table out among tasks. The bytes are what they have in common, and what each reads."""
    table = _narrowed(question, parts)
    schema = _parse_arrow_schema(question["schema"])
    filters = parse_filters(question["filters"])
    order, limit, hidden = question["order"], question.get("limit"), question["hidden"]
    stored = stored_part(schema, hidden)
    splits = table.splits(stored, filters, limit=None if order else limit)
    if asks_for(schema, hidden, ROW_GROUP):
        splits = _by_row_group(table, splits)
    defaults = default_row(question["defaults"], schema)
    order = [tuple(key) for key in order]
    scan = TaskScan(table.options, schema, filters, limit, order, table.source, defaults, hidden)
    pieces = [piece for split in splits for piece in split]
    facts: dict[str, Any] = {**table.summarize(pieces)}
    if isinstance(table, Table) and table.lacking:
        lacking, facts["stored"] = table.lacking
        facts["lacking"] = [name for name in lacking if name not in question["defaults"]] or None
    if question["statistics"]:
        facts["columns"] = table.statistics(stored, pieces)
    return facts, [pickle.dumps(scan), *map(pickle.dumps, splits)]


def _by_row_group(table: OpenedTable, splits: Sequence[tuple[Piece, ...]]) -> list[tuple[Piece, ...]]:
    """Splits with a piece for each row group. Opens files whose row groups are not known."""
    table.learn_facts()
    return [tuple(table.by_row_group(split)) for split in splits]


def aggregate(question: Question, parts: Sequence[bytes]) -> Answer:
    """Answer `count`, `min` and `max` from the index of the files, if they tell."""
    table = _narrowed(question, parts)
    schema = _parse_arrow_schema(question["schema"])
    return {"rows": table.aggregate(schema, question["functions"], question["groups"])}, ()


def decide(question: Question, parts: Sequence[bytes]) -> Answer:
    """Which filters of a query the partitions decide for all rows."""
    table, filters = _table(question, parts), parse_filters(question["filters"])
    return {"decided": table.decides(_parse_arrow_schema(question["schema"]), filters)}, ()


def partitions(question: Question, parts: Sequence[bytes]) -> Answer:
    """The partitions that have rows, as lists of values."""
    return {"values": _table(question, parts).partition_values(_parse_arrow_schema(question["schema"]))}, ()


def unfit(question: Question, _: Sequence[bytes]) -> Answer:
    """Stored types of the columns that ALTER TABLE would lose: renamed ones, and those that do not fit a new type."""
    options = parse_read_options(question["options"], question["session"])
    table = find_table(options, may_be_empty=True, may_be_missing=True)
    retyped = _parse_arrow_schema(question["schema"])
    fold = str if options.case_sensitive else str.lower
    stored = {fold(field.name): field.type for field in (table.schema() if table.files else ())}
    found: dict[str, pa.DataType] = {}
    for name, *inner in question["renamed"]:
        type_ = stored.get(fold(name))
        for part in inner:
            type_ = None if type_ is None else _part(type_, part, fold)
        if type_ is not None:
            found[name] = type_
    for field in retyped:
        type_ = stored.get(fold(field.name), field.type)
        if type_ != field.type and not fits(type_, field.type):
            found[field.name] = type_
    return {"unfit": {name: str(type_) for name, type_ in found.items()}}, ()


def _part(type_: Any, name: str, fold: Callable[[str], str]) -> Any:
    """The type of a part of a nested type, as Spark names parts; None if there is none."""
    if pt.is_struct(type_):
        return next((field.type for field in type_ if fold(field.name) == fold(name)), None)
    if pt.is_map(type_):
        return type_.key_type if name == "key" else type_.item_type
    return type_.value_type if is_list_like(type_) else None


# --- streams: offsets are texts to Java, as Spark keeps them --------------------------------------------------------


def offsets(question: Question, _: Sequence[bytes]) -> Answer:
    """Where a stream starts and how much there is now; or, with a start, how far the next batch reads."""
    options = parse_read_options(question["options"], question.get("session", {}))
    stream = find_stream(options)
    if "start" not in question:
        first, most = _text(stream.first_offset()), options.max_files_per_trigger
        return {"first": first, "available": stream.available(), "maxFiles": most}, ()
    following = stream.next_offset(json.loads(question["start"]), question["available"], question["maxFiles"])
    return {"next": _text(following)}, ()


def _text(offset: Offset) -> str:
    """An offset as it was always written: Spark compares texts to know whether there is anything new."""
    return json.dumps(offset, separators=(",", ":"), ensure_ascii=False)


def batch(question: Question, _: Sequence[bytes]) -> Answer:
    """Share out what a stream reads between two offsets. The bytes are those of `plan`."""
    options = parse_read_options(question["options"], question.get("session", {}))
    schema = _parse_arrow_schema(question["schema"])
    hidden, stream = question["hidden"], find_stream(options)
    ends = json.loads(question["start"]), json.loads(question["end"])
    splits = stream.splits(stored_part(schema, hidden), *ends)
    if asks_for(schema, hidden, ROW_GROUP):
        splits = _by_row_group(stream.table, splits)
    defaults = default_row(question["defaults"], schema)
    scan = TaskScan(options, schema, source=stream.source, defaults=defaults, hidden=hidden)
    return {}, [pickle.dumps(scan), *map(pickle.dumps, splits)]


# --- writing --------------------------------------------------------------------------------------------------------


def begin(question: Question, _: Sequence[bytes]) -> Answer:
    """Check a write before its tasks start.

    The bytes are the Arrow schema of the batches, what tasks need, and what the commit needs. There are none if the
    mode is for new tables and there is something already.
    """
    options = parse_write_options(question["options"], question.get("session", {}))
    mode, rows = question["mode"], _parse_schema(question["schema"])
    if mode in ("error", "ignore") and options.root.exists():
        return {"exists": True}, ()
    write = begin_write(options, rows, mode, question.get("partition"), streams=question["streams"])
    batches = arrow_schema(rows).serialize().to_pybytes()
    return {"order": write.order}, [batches, pickle.dumps(write.plan), pickle.dumps(write)]


def commit(question: Question, parts: Sequence[bytes]) -> Answer:
    """Make visible what tasks have written. The bytes are the write that `begin` has answered, and what tasks have."""
    pickle.loads(parts[0]).commit(parts[1:], question.get("batch"))
    return {}, ()


def abort(_: Question, parts: Sequence[bytes]) -> Answer:
    """Remove what tasks have written. The bytes are those of `commit`."""
    pickle.loads(parts[0]).abort(parts[1:])
    return {}, ()


def truncate(question: Question, _: Sequence[bytes]) -> Answer:
    """Remove all rows of a table, or those of a partition."""
    options = parse_write_options(question["options"], question.get("session", {}))
    begin_write(options, _parse_schema(question["schema"]), "overwrite", question.get("partition")).commit([])
    return {}, ()


_QUESTIONS: dict[str, Callable[[Question, Sequence[bytes]], Answer]] = {
    "open": open_table,
    "plan": plan,
    "aggregate": aggregate,
    "decide": decide,
    "partitions": partitions,
    "unfit": unfit,
    "offsets": offsets,
    "batch": batch,
    "begin": begin,
    "commit": commit,
    "abort": abort,
    "truncate": truncate,
}


def answer(question: Question, parts: Sequence[bytes]) -> Answer:
    """Answer one question."""
    return _QUESTIONS[question["question"]](question, parts)


# --- tables ---------------------------------------------------------------------------------------------------------


def _table(question: Question, parts: Sequence[bytes]) -> OpenedTable:
    """The table of a question, which this process has kept or Java has sent.

    It is a copy, because a plan may leave out files that another plan reads; what is known of files is shared.
    """
    name = question["table"]
    if name not in _tables:
        if not parts:
            raise UnknownTableError(name)
        _keep(name, pickle.loads(parts[0]))
    return copy.copy(_tables[name])


def _keep(name: str, table: OpenedTable) -> None:
    _tables[name] = table
    for oldest in list(_tables)[:-_MAX_TABLES]:
        del _tables[oldest]


def _narrowed(question: Question, parts: Sequence[bytes]) -> OpenedTable:
    """The table without the files that decided filters rule out: Spark does not apply these filters again."""
    table = _table(question, parts)
    if question["decided"]:
        table.narrow(_parse_arrow_schema(question["partitions"]), parse_filters(question["decided"]))
    return table


def _schema_text(schema: pa.Schema) -> str:
    """A schema as Spark's JSON. pyspark takes 0.1 s for 10,000 columns, so the texts that were made last are kept.

    Tables with the same columns have the same object; see `smalti.spark.driver.plan`.
    """
    known = _schemas.get(id(schema))
    if known is None:
        known = schema, spark_schema(schema).json()
        _schemas[id(schema)] = known
        for oldest in list(_schemas)[:-_MAX_TABLES]:
            del _schemas[oldest]
    return known[1]


def _parse_schema(text: str) -> StructType:
    return StructType.fromJson(json.loads(text))


def _parse_arrow_schema(text: str) -> pa.Schema:
    return arrow_schema(_parse_schema(text))
