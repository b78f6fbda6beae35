"""Kinds of Paimon tables, each made by pypaimon itself: what a reader of plain files gets wrong, and some more.

A kind is a function that makes a table below a directory, through a catalog of pypaimon's, and returns its path.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory
from pypaimon import Schema as PaimonSchema
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import Move, SchemaChange

MOSAIC = {"file.format": "mosaic"}
BASIC = pa.schema([("id", pa.int64()), ("x", pa.string()), ("n", pa.int32())])
EVOLVING = {**MOSAIC, "row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def rows(start: int, stop: int, word: str = "x") -> pa.Table:
    ids = range(start, stop)
    return pa.table({"id": list(ids), "x": [f"{word}{i}" for i in ids], "n": [i % 7 for i in ids]}, schema=BASIC)


class Maker:
    """A table of the catalog `root`, and what one does with it."""

    def __init__(
        self,
        root: Path,
        schema: pa.Schema = BASIC,
        options: dict[str, str] = MOSAIC,
        partition_by: Sequence[str] = (),
        primary_key: Sequence[str] = (),
    ) -> None:
        self.catalog = CatalogFactory.create({"warehouse": str(root)})
        self.catalog.create_database("db", True)
        definition = PaimonSchema.from_pyarrow_schema(schema, list(partition_by), list(primary_key), dict(options))
        self.catalog.create_table("db.t", definition, False)
        self.path = str(root / "db.db" / "t")

    @property
    def table(self) -> Any:
        return self.catalog.get_table("db.t")

    def write(self, data: pa.Table, *, replacing: dict[str, str] | None = None, columns: Sequence[str] = ()) -> Maker:
        builder = self.table.new_batch_write_builder()
        if replacing is not None:
            builder = builder.overwrite(replacing)
        writer, commit = builder.new_write(), builder.new_commit()
        if columns:
            writer = writer.with_write_type(list(columns))
        writer.write_arrow(data)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()
        return self

    def update(self, change: Callable[[Any], Any]) -> Maker:
        builder = self.table.new_batch_write_builder()
        commit = builder.new_commit()
        commit.commit(change(builder.new_update()))
        commit.close()
        return self

    def alter(self, *changes: Any) -> Maker:
        self.catalog.alter_table("db.t", list(changes), False)
        return self


def append(root: Path) -> str:
    return Maker(root).write(rows(0, 50)).write(rows(50, 80)).path


def primary_key_updated(root: Path) -> str:
    made = Maker(root, options={**MOSAIC, "bucket": "2"}, primary_key=["id"])
    return made.write(rows(0, 30)).write(rows(10, 40, "new")).path


def primary_key_deleted(root: Path) -> str:
    schema = pa.schema([*BASIC, ("kind", pa.string())])
    made = Maker(root, schema, {**MOSAIC, "bucket": "1", "rowkind.field": "kind"}, primary_key=["id"])
    for kind, data in (("+I", rows(0, 20)), ("-D", rows(5, 9)), ("+U", rows(12, 14, "up"))):
        made.write(data.append_column("kind", pa.array([kind] * data.num_rows)))
    return made.path


def emptied(root: Path) -> str:
    """All rows are deleted, by a commit that has nothing but deletions."""
    schema = pa.schema([*BASIC, ("kind", pa.string())])
    made = Maker(root, schema, {**MOSAIC, "bucket": "1", "rowkind.field": "kind"}, primary_key=["id"])
    for kind in ("+I", "-D"):
        made.write(rows(0, 8).append_column("kind", pa.array([kind] * 8)))
    return made.path


def deleted_by_vectors(root: Path) -> str:
    """No row is left, of one file of two."""
    made = Maker(root, options={**EVOLVING, "deletion-vectors.enabled": "true"}).write(rows(0, 5)).write(rows(5, 9))
    return made.update(lambda update: update.delete_by_row_id(list(range(5)))).path


def primary_key_dynamic(root: Path) -> str:
    made = Maker(root, options={**MOSAIC, "bucket": "-1"}, primary_key=["id"])
    return made.write(rows(0, 30)).write(rows(20, 35, "new")).path


def primary_key_partitioned(root: Path) -> str:
    made = Maker(root, options={**MOSAIC, "bucket": "2"}, partition_by=["n"], primary_key=["id", "n"])
    return made.write(rows(0, 30)).write(rows(10, 20, "new")).path


def partial_update(root: Path) -> str:
    made = Maker(root, options={**MOSAIC, "bucket": "1", "merge-engine": "partial-update"}, primary_key=["id"])
    made.write(pa.table({"id": [1, 2], "x": ["a", "b"], "n": [None, None]}, schema=BASIC))
    return made.write(pa.table({"id": [1, 3], "x": [None, "c"], "n": [10, 30]}, schema=BASIC)).path


def overwritten(root: Path) -> str:
    return Maker(root).write(rows(0, 20)).write(rows(100, 105), replacing={}).path


def partition_overwritten(root: Path) -> str:
    made = Maker(root, partition_by=["n"])
    made.write(rows(0, 20))
    fresh = rows(100, 110)
    return made.write(fresh.filter(pa.compute.equal(fresh["n"], 3)), replacing={"n": "3"}).path


def data_evolution(root: Path) -> str:
    made = Maker(root, options=EVOLVING).write(rows(0, 10))
    changed = pa.table({"_ROW_ID": list(range(10)), "n": pa.array(range(100, 110), pa.int32())})
    return made.update(lambda update: update.with_update_type(["n"]).update_by_arrow_with_row_id(changed)).path


def deletion_vectors(root: Path) -> str:
    made = Maker(root, options={**EVOLVING, "deletion-vectors.enabled": "true"}).write(rows(0, 20)).write(rows(20, 30))
    return made.update(lambda update: update.delete_by_row_id([0, 3, 19, 25])).path


def renamed(root: Path) -> str:
    made = Maker(root).write(rows(0, 10)).alter(SchemaChange.rename_column("x", "label"))
    later = rows(10, 20)
    return made.write(later.rename_columns(["id", "label", "n"])).path


def added_and_dropped(root: Path) -> str:
    made = Maker(root).write(rows(0, 10))
    made.alter(SchemaChange.drop_column("x"), SchemaChange.add_column("y", AtomicType("DOUBLE")))
    made.write(pa.table({"id": [20], "n": pa.array([2], pa.int32()), "y": [0.5]}))
    # A dropped name that comes back is another column: the old values stay dropped.
    made.alter(SchemaChange.add_column("x", AtomicType("STRING")))
    return made.write(pa.table({"id": [30], "n": pa.array([3], pa.int32()), "y": [1.5], "x": ["again"]})).path


def renamed_over(root: Path) -> str:
    """Two columns have swapped their names since the first file, so that a name leads to the values of the other."""
    schema = pa.schema([("id", pa.int64()), ("x", pa.string()), ("label", pa.string())])
    made = Maker(root, schema).write(pa.table({"id": [1, 2], "x": ["x1", "x2"], "label": ["l1", "l2"]}))
    for old, new in (("x", "t"), ("label", "x"), ("t", "label")):
        made.alter(SchemaChange.rename_column(old, new))
    return made.write(pa.table({"id": [3], "label": ["x3"], "x": ["l3"]}).select(["id", "label", "x"])).path


def widened(root: Path) -> str:
    made = Maker(root).write(rows(0, 10)).alter(SchemaChange.update_column_type("n", AtomicType("BIGINT")))
    return made.write(pa.table({"id": [99], "x": ["z"], "n": [1 << 40]})).path


def retyped(root: Path) -> str:
    made = Maker(root).write(rows(0, 10)).alter(SchemaChange.update_column_type("n", AtomicType("STRING")))
    return made.write(pa.table({"id": [99], "x": ["z"], "n": ["many"]})).path


def reordered(root: Path) -> str:
    made = Maker(root).write(rows(0, 10)).alter(SchemaChange.update_column_position(Move.first("n")))
    return made.write(rows(10, 12).select(["n", "id", "x"])).path


def date_partition(root: Path) -> str:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 1, 1)]
    return Maker(root, schema, partition_by=["day"]).write(pa.table({"id": [1, 2, 3], "day": days}, schema=schema)).path


def null_partition(root: Path) -> str:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    cities = ["São Paulo", None, "a/b=c", "50 % {a}:b?#&\\", "..", "__HIVE_DEFAULT_PARTITION__", "null"]
    data = pa.table({"id": list(range(len(cities))), "city": cities}, schema=schema)
    return Maker(root, schema, partition_by=["city"]).write(data).path


def typed_partitions(root: Path) -> str:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("flag", pa.bool_()),
            ("price", pa.decimal128(6, 2)),
            ("share", pa.float64()),
            ("small", pa.int8()),
        ]
    )
    columns = {
        "id": list(range(6)),
        "flag": [True, False, None] * 2,
        "price": [Decimal("1.50"), None, Decimal("-0.01")] * 2,
        "share": [0.1, None, -2.5] * 2,
        "small": [-1, None, 7] * 2,
    }
    made = Maker(root, schema, partition_by=["flag", "price", "share", "small"])
    return made.write(pa.table(columns, schema=schema)).path


def two_partition_levels(root: Path) -> str:
    schema = pa.schema([*BASIC, ("day", pa.date32())])
    data = rows(0, 30)
    days = [dt.date(2024, 1, 1 + i % 3) for i in range(30)]
    return Maker(root, schema, partition_by=["n", "day"]).write(data.append_column("day", pa.array(days))).path


def nested(root: Path) -> str:
    schema = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int64()))])
    data = {"id": [1, 2, 3], "l": [[1, 2], None, []], "m": [[("a", 1)], [], None]}
    return Maker(root, schema).write(pa.table(data, schema=schema)).path


def all_types(root: Path) -> str:
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678901)
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "b": (pa.bool_(), [True, None, False]),
        "i8": (pa.int8(), [-128, None, 127]),
        "i16": (pa.int16(), [-1, None, 1]),
        "i32": (pa.int32(), [-(1 << 31), None, 1]),
        "i64": (pa.int64(), [-(1 << 63), None, 1]),
        "f32": (pa.float32(), [0.5, None, -1.25]),
        "f64": (pa.float64(), [0.5, None, float("inf")]),
        "s": (pa.string(), ["", None, "ü"]),
        "bin": (pa.binary(), [b"", None, b"\xff"]),
        "dec": (pa.decimal128(10, 2), [Decimal("1.25"), None, Decimal("-3.50")]),
        "dec38": (pa.decimal128(38, 4), [Decimal("12345678901234567890.1234"), None, Decimal("-1")]),
        "day": (pa.date32(), [dt.date(2024, 1, 1), None, dt.date(1969, 12, 31)]),
        "ms": (pa.timestamp("ms"), [moment.replace(microsecond=678000), None, moment.replace(microsecond=0)]),
        "us": (pa.timestamp("us"), [moment, None, moment]),
        "ltz": (pa.timestamp("us", tz="UTC"), [moment.replace(tzinfo=dt.UTC), None, None]),
    }
    schema = pa.schema([(name, type_) for name, (type_, _) in columns.items()])
    return Maker(root, schema).write(pa.table([v for _, v in columns.values()], schema=schema)).path


def tagged(root: Path) -> str:
    made = Maker(root).write(rows(0, 10))
    made.table.create_tag("first")
    return made.write(rows(10, 20)).write(rows(50, 52), replacing={}).path


def without_snapshot(root: Path) -> str:
    return Maker(root).path


KINDS: dict[str, Callable[[Path], str]] = {
    make.__name__: make
    for make in (
        append,
        primary_key_updated,
        primary_key_deleted,
        emptied,
        primary_key_dynamic,
        primary_key_partitioned,
        partial_update,
        overwritten,
        partition_overwritten,
        data_evolution,
        deletion_vectors,
        deleted_by_vectors,
        renamed,
        renamed_over,
        added_and_dropped,
        widened,
        retyped,
        reordered,
        date_partition,
        null_partition,
        typed_partitions,
        two_partition_levels,
        nested,
        all_types,
        tagged,
        without_snapshot,
    )
}


def read_by_pypaimon(path: str, options: dict[str, str] | None = None) -> pa.Table:
    """All rows as pypaimon reads them, with whatever module `mosaic` is."""
    from pypaimon.table.file_store_table import FileStoreTable

    table = FileStoreTable.from_path(path)
    builder = (table.copy(options) if options else table).new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    """Rows in an order of their own, so that tables can be compared whose rows have none."""
    return sorted(table.to_pylist(), key=repr)
