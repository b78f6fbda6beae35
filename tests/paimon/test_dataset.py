"""Every kind of Paimon table read through `smalti.paimon.dataset`, compared with pypaimon's own reader."""

from __future__ import annotations

import datetime as dt
import pickle
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from hashlib import md5
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import smalti
import smalti.duckdb
import smalti.paimon
import smalti.polars
from smalti.io.sources import WrappedSource
from smalti.paimon.split_reader import SplitReader
from smalti.paimon.tables import PaimonTable, open_table, pypaimon_options
from smalti.predicate import filter_batch, normalize_filters
from smalti.table.listing import FoundFile
from tests.paimon.kinds import BASIC, KINDS, MOSAIC, Maker, in_order, read_by_pypaimon, rows

#: How many of the splits of each kind smalti reads by itself; what is not here, all of them.
MERGED = {
    "primary_key_updated",
    "primary_key_deleted",
    "emptied",
    "primary_key_dynamic",
    "partial_update",
    "data_evolution",
    "deletion_vectors",
    "deleted_by_vectors",
    "retyped",
}
SOME = {"primary_key_partitioned"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_what_pypaimon_reads(kind: str, made: Callable[..., str], written_by: str) -> None:
    path = made(kind, written_by)
    expected = read_by_pypaimon(path)
    dataset = smalti.paimon.dataset(path)
    found = dataset.to_table()
    assert found.schema.equals(expected.schema)
    assert in_order(found) == in_order(expected)
    assert dataset.count_rows() == expected.num_rows
    # Columns in another order, one column, none.
    for names in (expected.column_names[::-1], expected.column_names[:1], []):
        part = dataset.to_table(names)
        assert (part.num_rows, part.column_names) == (expected.num_rows, names)
        assert in_order(part) == in_order(expected.select(names)) if names else True
    # Rows by number, row numbers and a loader: in the order of the table, merged or not.
    count = found.num_rows
    indices = [index * 7 % count for index in range(-5, 2 * count)] if count else []
    assert dataset.take(indices).equals(found.take(pa.array(indices, pa.int64())))
    middle = dataset.to_table(rows=slice(count // 3, -1), with_row_index="row number")
    assert middle.column(0).to_pylist() == list(range(count))[count // 3 : -1]
    assert middle.select(found.column_names).equals(found[count // 3 : max(count // 3, count - 1)])
    odd = dataset.to_table([], [("row number", ">", count - 3)], with_row_index="row number")
    assert odd.column(0).to_pylist() == list(range(count))[max(0, count - 2) :]
    batches = list(smalti.loader(dataset, batch_size=3, shuffle=True, output="arrow"))
    assert in_order(pa.concat_tables(batches) if batches else found) == in_order(expected)
    # Plain access is refused.
    with pytest.raises(smalti.PaimonTableError):
        smalti.dataset(path)
    # Who has read what.
    reader = SplitReader(open_table(path), dataset.schema)
    raw = {reader.is_raw(split) for split in dataset.splits()}
    assert raw == ({False} if kind in MERGED else {True, False} if kind in SOME else {True} if raw else set())


#: Filters by column; every kind is asked those that its columns have.
FILTERS: dict[str, list[Any]] = {
    "id": [("id", "=", 7), ("id", ">", 25), ("id", "in", [3, 25, 1000]), ("id", "!=", 2)],
    "x": [("x", "=", "new12"), ("x", ">=", "x5"), ("x", "in", ["x1", "a"])],
    "label": [("label", "=", "x3"), ("label", ">", "x11")],
    "n": [("n", "=", 3), ("n", "<", 2)],
    "y": [("y", ">", 0.7)],
    "day": [("day", "=", dt.date(2024, 1, 1)), ("day", ">", dt.date(2024, 1, 1))],
    "city": [("city", "=", "a/b=c"), ("city", "!=", "a/b=c"), ("city", "=", "..")],
    "price": [("price", "=", Decimal("-0.01")), ("price", "<", 1)],
    "flag": [("flag", "=", False)],
    "share": [("share", "<", 0.0)],
    "dec": [("dec", ">", Decimal("0"))],
    "us": [("us", ">", dt.datetime(2024, 1, 1))],
    "f64": [("f64", ">", 0.6)],
}


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"retyped", "without_snapshot"}))
def test_filters_keep_the_rows_that_match(kind: str, made: Callable[..., str]) -> None:
    path = made(kind)
    everything = read_by_pypaimon(path)
    dataset = smalti.paimon.dataset(path)
    asked = [condition for name in everything.column_names for condition in FILTERS.get(name, [])]
    alternatives: list[Any] = [[condition] for condition in asked]
    first = everything.column_names[0]
    expressions = [
        *(ask for name in everything.column_names for ask in (pc.field(name).is_null(), pc.field(name).is_valid())),
        *([pc.starts_with(pc.field("x"), "x1"), ~pc.field("x").isin(["x1"])] if "x" in everything.column_names else []),
    ]
    for number, filters in enumerate((*alternatives, alternatives, *expressions)):
        (whole,) = everything.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], everything.schema)]
        expected = pa.Table.from_batches([filter_batch(whole, normalize_filters(filters))])
        names = everything.column_names if number % 2 else [first]
        assert in_order(dataset.to_table(names, filters=filters)) == in_order(expected.select(names)), filters
    assert dataset.count_rows(alternatives) == filter_batch(whole, normalize_filters(alternatives)).num_rows


def test_filters_leave_out_files(tmp_path: Path) -> None:
    made = Maker(tmp_path, options={**MOSAIC, "metadata.stats-mode": "full"}, partition_by=["n"])
    made.write(rows(0, 70)).write(rows(1000, 1070))
    dataset = smalti.paimon.dataset(made.path)

    def files(filters: Any) -> int:
        return sum(len(split.files) for split in dataset.splits(normalize_filters(filters)))

    assert files([("id", ">", -1)]) == 14
    assert files([("n", "=", 3)]) == 2
    assert files([("id", ">", 500)]) == 7
    assert files([("id", ">", 500), ("n", "=", 3)]) == 1


class Counting(WrappedSource):
    read = 0

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        Counting.read += sum(size for _, size in ranges)
        return self._source.read_many(ranges)


@pytest.mark.parametrize("deletions", [False, True])
def test_filters_leave_out_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletions: bool) -> None:
    """By statistics of the file, in a read of ours and in a task of Spark's, with and without a deletion vector.

    A condition that the partition of a file meets does not keep the file from applying the others by itself.
    """
    from smalti.spark.options import ReadOptions
    from smalti.spark.paimon import SplitPiece
    from smalti.spark.task.read import TaskScan

    options = {**MOSAIC, "mosaic.stats-columns": "id", "file.block-size": "64kb"}
    path = smalti.paimon.create(tmp_path / "t", BASIC, partition_by=["n"], options=options)
    texts = [md5(str(i).encode()).hexdigest() for i in range(60_000)]
    smalti.paimon.write(pa.table({"id": range(60_000), "x": texts, "n": [3] * 60_000}), path)
    opened = open_table(path)
    (split,) = smalti.paimon.PaimonDataset(opened).splits()
    if deletions:
        split.data_deletion_files = [deletion_file(tmp_path / "index", [5, 59_000])]
    original = PaimonTable.open
    monkeypatch.setattr(PaimonTable, "open", lambda table, name: Counting(original(table, name)))

    def read(filters: Any) -> tuple[list[int], int]:
        Counting.read = 0
        reader = SplitReader(opened, BASIC, None if filters is None else normalize_filters(filters))
        batches = list(reader.batches([split]))
        return [i for batch in batches for i in batch["id"].to_pylist()], Counting.read

    everything, all_bytes = read(None)
    assert len(everything) == 60_000 - 2 * deletions
    for conditions in ([("id", "in", [5, 7])], [("id", "in", [5, 7]), ("n", "=", 3)]):
        few, few_bytes = read(conditions)
        assert few == ([7] if deletions else [5, 7])
        assert few_bytes < all_bytes / 3
    Counting.read = 0
    scan = TaskScan(ReadOptions((path,)), BASIC, (("IS_NOT_NULL", "id"), ("=", "id", 59_001)), source=opened)
    batches = list(SplitPiece(FoundFile(path, 1), 1, split=split).read(scan))
    assert [i for batch in batches for i in batch["id"].to_pylist()] == [59_001]
    assert Counting.read < all_bytes / 3


def test_tasks_of_spark_do_not_carry_the_table(tmp_path: Path) -> None:
    """What a split takes does not depend on the width of the table, which is sent once."""
    from smalti.spark.options import ReadOptions
    from smalti.spark.paimon import SnapshotTable

    found = []
    for columns in (5, 500):
        schema = pa.schema([("id", pa.int64()), *((f"c{number}", pa.int64()) for number in range(columns))])
        path = smalti.paimon.create(tmp_path / f"t{columns}", schema, partition_by=["id"])
        smalti.paimon.write(pa.table({"id": [1, 2, 3]}), path)
        table = SnapshotTable(ReadOptions((path,), max_partition_bytes=1))
        splits = table.splits(pa.schema([("id", pa.int64())]))
        assert len(splits) == 3
        found.append([len(pickle.dumps(split)) for split in splits])
        assert len(pickle.dumps(table.source)) > 50 * columns
    assert max(map(max, found)) < min(map(min, found)) + 100


class TestTimeTravel:
    def test_by_snapshot_tag_and_moment(self, tmp_path: Path) -> None:
        path = KINDS["tagged"](tmp_path)
        expected = {"scan.snapshot-id": "2", "scan.tag-name": "first", "scan.timestamp-millis": None}
        assert in_order(smalti.paimon.dataset(path, snapshot=2).to_table()) == in_order(
            read_by_pypaimon(path, {"scan.snapshot-id": expected["scan.snapshot-id"] or ""})
        )
        assert smalti.paimon.dataset(path, tag="first").count_rows() == 10
        before = int(time.time() * 1000)
        time.sleep(0.01)
        smalti.paimon.write(rows(900, 901), path)
        assert smalti.paimon.dataset(path).count_rows() == 3
        for moment in (before, str(before), dt.datetime.fromtimestamp(before / 1000)):
            assert smalti.paimon.dataset(path, timestamp=moment).count_rows() == 2

    def test_a_dataset_stays_at_its_snapshot(self, tmp_path: Path) -> None:
        path = KINDS["append"](tmp_path)
        dataset = smalti.paimon.dataset(path)
        smalti.paimon.write(rows(0, 5), path, mode="overwrite")
        assert (dataset.snapshot_id, dataset.count_rows(), dataset.to_table().num_rows) == (2, 80, 80)
        assert smalti.paimon.dataset(path).count_rows() == 5

    def test_an_old_snapshot_has_its_own_columns(self, made: Callable[..., str]) -> None:
        path = made("renamed")
        assert smalti.paimon.dataset(path, snapshot=1).schema.names == ["id", "x", "n"]
        assert smalti.paimon.dataset(path).schema.names == ["id", "label", "n"]

    def test_what_is_not_there_is_an_error(self, made: Callable[..., str], tmp_path: Path) -> None:
        path = made("append")
        for asked in ({"snapshot": 77}, {"tag": "nightly"}, {"timestamp": 1}, {"snapshot": 1, "tag": "x"}):
            with pytest.raises((smalti.MosaicError, FileNotFoundError)):
                smalti.paimon.dataset(path, **asked).to_table()  # type: ignore[arg-type]
        with pytest.raises(FileNotFoundError):
            smalti.paimon.dataset(tmp_path / "nothing")
        with pytest.raises(smalti.SchemaError, match="no column 'absent'"):
            smalti.paimon.dataset(path).to_table(["absent"])
        with pytest.raises(smalti.SchemaError, match="no column 'absent'"):
            smalti.paimon.dataset(path).to_table(filters=[("absent", "=", 1)])


def deletion_file(index: Path, gone: Sequence[int]) -> Any:
    """What a split names where rows are deleted."""
    from pypaimon.deletionvectors.bitmap_deletion_vector import BitmapDeletionVector
    from pypaimon.table.source.deletion_file import DeletionFile

    vector = BitmapDeletionVector()
    for position in gone:
        vector.delete(position)
    data = vector.serialize()
    index.write_bytes(b"\x01" + data)
    return DeletionFile(str(index), 1, len(data) - 8, len(gone))


def test_deletion_vectors_of_append_tables(tmp_path: Path) -> None:
    """Paimon in Java writes them for append tables, and pypaimon reads them: here one is added to a split by hand."""
    made = Maker(tmp_path, options={**MOSAIC, "file.block-size": "8kb"})
    smalti.paimon.write(rows(0, 3000), made.path)
    opened = open_table(made.path)
    dataset = smalti.paimon.PaimonDataset(opened)
    (split,) = dataset.splits()
    gone = [0, 1, 999, 1000, 1001, 2999]
    split.data_deletion_files = [deletion_file(tmp_path / "index", gone)]
    with smalti.open(dataset.files[0]) as file:
        assert file.num_row_groups > 1
    read = opened.table.new_read_builder().new_read()
    expected = read.to_arrow([split])
    for names in (BASIC.names, ["x"], []):
        reader = SplitReader(opened, pa.schema([BASIC.field(name) for name in names]))
        assert reader.is_raw(split)
        found = pa.Table.from_batches(list(reader.batches([split])))
        assert found.num_rows == expected.num_rows == 3000 - len(gone)
        assert not names or found.to_pylist() == expected.select(names).to_pylist()


def test_streams_and_engines(made: Callable[..., str]) -> None:
    dataset = smalti.paimon.dataset(made("primary_key_updated"))
    batches = list(dataset.to_batches(["id"], batch_size=7))
    assert max(batch.num_rows for batch in batches) <= 7
    assert sorted(i for batch in batches for i in batch["id"].to_pylist()) == list(range(40))
    assert dataset.scan(["x"]).to_table().num_rows == 40
    lazy = smalti.polars.scan_mosaic(dataset).filter(pl.col("id") >= 38).select("x")
    assert sorted(lazy.collect()["x"].to_list()) == ["new38", "new39"]
    assert smalti.duckdb.query("select count(*) from t where id < 10", t=dataset).fetchall() == [(10,)]
    assert len(dataset.to_pandas(["id"])) == 40


def test_a_memory_limit_is_kept(tmp_path: Path) -> None:
    path = smalti.paimon.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    smalti.paimon.write(pa.table({"id": pa.repeat(pa.scalar(7, pa.int64()), 1_000_000)}), path)
    sizes = [batch.nbytes for batch in smalti.paimon.dataset(path, memory_limit=1_000_000).to_batches()]
    assert sum(sizes) == 8_000_000
    assert max(sizes) <= 1_000_000


def test_a_table_of_a_catalog(tmp_path: Path) -> None:
    made = Maker(tmp_path).write(rows(0, 5))
    assert smalti.paimon.dataset(made.table).count_rows() == 5
    assert smalti.paimon.write(rows(5, 8), made.table) == 2
    assert smalti.paimon.dataset(made.table).count_rows() == 8


def test_a_branch(tmp_path: Path) -> None:
    made = Maker(tmp_path).write(rows(0, 5))
    made.table.create_tag("t1")
    made.table.branch_manager().create_branch("dev", "t1")
    made.write(rows(5, 8))
    branch = made.catalog.get_table("db.t$branch_dev")
    smalti.paimon.write(rows(100, 102), branch)
    assert smalti.paimon.dataset(branch).to_table()["id"].to_pylist() == [0, 1, 2, 3, 4, 100, 101]
    assert in_order(smalti.paimon.dataset(made.path).to_table()) == in_order(rows(0, 8))
    assert in_order(read_by_pypaimon(made.path)) == in_order(rows(0, 8))


@pytest.mark.parametrize("kind", ["append", "primary_key_updated"])
def test_files_that_have_gone_are_an_error(kind: str, tmp_path: Path) -> None:
    """As when a snapshot expires while it is read: rows are never left out in silence."""
    dataset = smalti.paimon.dataset(KINDS[kind](tmp_path))
    batches = dataset.to_batches()
    for path in dataset.files[1:]:
        Path(path).unlink()
    with pytest.raises(FileNotFoundError):
        list(batches)
    with pytest.raises(FileNotFoundError):
        dataset.to_table()


class TestStores:
    @pytest.mark.parametrize(
        ("uri", "storage", "expected"),
        [
            ("t", {}, {}),
            ("s3a://b/t", {"accesskey": "k", "secret_key": "s"}, {"s3.access-key": "k", "s3.secret-key": "s"}),
            ("s3://b/t", {"s3.endpoint": "h", "region": "r"}, {"s3.endpoint": "h", "s3.region": "r"}),
            ("oss://b/t", {"endpoint_override": "h"}, {"fs.oss.endpoint": "h"}),
            ("oss://b/t", {"fs.oss.impl": "legacy"}, {"fs.oss.impl": "legacy"}),
            ("gs://b/t", {"access_token": "t", "project_id": "p"}, {"gcs.access-token": "t", "gcs.project-id": "p"}),
            ("hdfs://h:1/t", {"hdfs.conf-dir": "/c"}, {"hdfs.conf-dir": "/c"}),
        ],
    )
    def test_options_are_pypaimons(self, uri: str, storage: dict[str, str], expected: dict[str, str]) -> None:
        assert pypaimon_options(uri, storage) == expected

    @pytest.mark.parametrize(
        ("uri", "storage", "said"),
        [
            ("abfs://c/t", {}, "does not reach this service: found abfs, expected s3, oss, gs, hdfs"),
            ("s3://b/t", {"anonymous": "true"}, "storage option 'anonymous'"),
            ("gs://b/t", {"endpoint_override": "h"}, "storage option 'endpoint_override'"),
            ("hdfs://h/t", {"user": "u"}, "storage option 'user'"),
            ("s3://b/t", {"colour": "red"}, "storage option 'colour'"),
        ],
    )
    def test_what_pypaimon_lacks_is_refused_by_name(self, uri: str, storage: dict[str, str], said: str) -> None:
        with pytest.raises(smalti.MosaicError, match=said):
            smalti.paimon.dataset(uri, storage_options=storage)
