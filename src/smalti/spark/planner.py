"""Answers what the Java provider asks while Spark plans a query; see `jvm/Planner.java`.

Spark runs this module in a process on the driver, which it keeps for the next question. A question is JSON and bytes.
The answer is JSON and byte strings, or an error with a message that is meant for the user.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from pyspark.cloudpickle import dumps as pickle_function
from pyspark.sql.types import StructType
from pyspark.sql.worker.utils import worker_run

from smalti.errors import MosaicError

#: Facts for the planner, and byte strings.
Answer = tuple[dict[str, Any], Sequence[bytes]]
#: As Java's DataInputStream reads and writes it, before each byte string.
_LENGTH = struct.Struct("!i")


def load(question: Mapping[str, Any], _: bytes) -> Answer:
    """List a table, and derive its schema from the files unless one is given. The table itself comes back pickled."""
    from smalti.spark.options import parse_read_options
    from smalti.spark.plan import Table
    from smalti.spark.types import arrow_schema, spark_schema

    options = parse_read_options(question["options"])
    given = question.get("schema")
    table = Table(options, may_be_empty=given is not None, may_be_missing=options.of_catalog)
    schema = spark_schema(table.schema()) if given is None else StructType.fromJson(json.loads(given))
    partitions = table.partitions().names
    parts = [(file.name, file.size, file.modified) for file in table.files]
    facts = {
        "schema": schema.json(),
        "partitions": partitions,
        "filterable": [name for name in arrow_schema(schema).names if name in partitions],
        "files": len(table.files),
        "digest": hashlib.sha256(repr(parts).encode()).hexdigest(),
    }
    return facts, [pickle.dumps(table)]


def plan(question: Mapping[str, Any], state: bytes) -> Answer:
    """Share the files of a table out among tasks. The bytes are the function that tasks run, and what each reads."""
    from smalti.spark.filters import parse_filters
    from smalti.spark.plan import Table
    from smalti.spark.task import ReadTask
    from smalti.spark.types import arrow_schema

    table: Table = pickle.loads(state)
    rows = StructType.fromJson(json.loads(question["schema"]))
    schema = arrow_schema(rows)
    filters = parse_filters(question["filters"])
    splits = table.splits(schema, filters)
    task = ReadTask(table.options, schema, filters, question.get("limit"))
    files = {piece.file.path: piece.file.size for split in splits for piece in split}
    facts = {"files": len(files), "bytes": sum(piece.num_bytes for split in splits for piece in split)}
    return facts, [pickle_function((task, rows)), *map(pickle.dumps, splits)]  # type: ignore[no-untyped-call]


def exists(question: Mapping[str, Any], _: bytes) -> Answer:
    """Whether there is something where a table is to be written."""
    from smalti.io import locate
    from smalti.spark.options import parse_write_options

    options = parse_write_options(question["options"])
    return {"exists": locate(options.path, storage=options.storage).exists() or None}, ()


def truncate(question: Mapping[str, Any], _: bytes) -> Answer:
    """Remove all rows of a table."""
    from smalti.spark.options import parse_write_options
    from smalti.spark.write import MosaicBatchWriter

    schema = StructType.fromJson(json.loads(question["schema"]))
    MosaicBatchWriter(parse_write_options(question["options"]), schema, overwrite=True).commit([])
    return {}, ()


_QUESTIONS: dict[str, Callable[[Mapping[str, Any], bytes], Answer]] = {
    "load": load,
    "plan": plan,
    "exists": exists,
    "truncate": truncate,
}


def _answer(infile: IO[bytes], outfile: IO[bytes]) -> None:
    question, state = json.loads(_receive(infile)), _receive(infile)
    try:
        facts, parts = _QUESTIONS[question["question"]](question, state)
    except FileNotFoundError as error:
        facts, parts = {"missing": str(error.filename or error)}, ()
    except MosaicError as error:
        facts, parts = {"error": str(error)}, ()
    _send(json.dumps(facts).encode(), outfile)
    outfile.write(_LENGTH.pack(len(parts)))
    for part in parts:
        _send(part, outfile)


def _receive(infile: IO[bytes]) -> bytes:
    return infile.read(_LENGTH.unpack(infile.read(_LENGTH.size))[0])


def _send(data: bytes, outfile: IO[bytes]) -> None:
    outfile.write(_LENGTH.pack(len(data)))
    outfile.write(data)


def main(infile: IO[bytes], outfile: IO[bytes]) -> None:
    worker_run(_answer, infile, outfile)
