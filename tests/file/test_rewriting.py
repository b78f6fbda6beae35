"""Rewriting files: whatever is copied or new, the result is what the same change gives on an Arrow table in memory."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.file.rewriting import GroupSource, RewriteSummary, rewrite_file
from tests.support import reference
from tests.support.any_arrow import Money, any_array, any_table, any_type, meanings
from tests.support.compare import assert_same
from tests.support.files import read, written
from tests.support.golden import GOLDEN_FILES, MALFORMED, MALFORMED_CASES, golden_bytes
from tests.support.long import repeated
from tests.support.tables import TYPES, column, matrix
from tests.tools.fuzzing.targets import MAX_CELLS, run

PAGED: Any = {"num_buckets": 3, "page_size_threshold": 0}


@pytest.fixture(scope="module", autouse=True)
def _known_extension() -> Iterator[None]:
    pa.register_extension_type(Money(pa.int8()))
    yield
    pa.unregister_extension_type("smalti.tests.money")


def rewritten(schema: pa.Schema, groups: Any, **options: Any) -> tuple[bytes, RewriteSummary]:
    stream = io.BytesIO()
    summary = rewrite_file(stream, schema, groups, **options)
    assert summary.bytes == len(stream.getvalue())
    return stream.getvalue(), summary


def sound(data: bytes, where: Path) -> None:
    """Verify finds nothing, and the reference reads the same stored columns."""
    where.write_bytes(data)
    report = jobs.verify(where)
    assert report.ok, str(report)
    with smalti.open(data, logical=False) as file:
        stored = file.read()
    assert_same(reference.read(data), stored)


# --- any change equals the same change in memory ----------------------------------------------------------------------


def layouts(choose: random.Random) -> dict[str, Any]:
    return {
        "compression": choose.choice(["zstd", "zstd", "none"]),
        "num_buckets": choose.choice([1, 2, 5, 30, None]),
        "page_size_threshold": choose.choice([0, 0, 60, 1 << 30]),
        "row_group_max_rows": choose.choice([3, 8, 100]),
        "stats_columns": choose.choice(["auto", "all", ()]),
        "checksum": choose.random() < 0.5,
        "threads": choose.choice([1, 2]),
    }


class Made:
    """Makes columns of one type."""

    def __init__(self, choose: random.Random, field: pa.Field, *, any_arrow: bool) -> None:
        self.type, self._nullable, self._choose, self._any_arrow = field.type, field.nullable, choose, any_arrow

    def __call__(self, rows: int) -> pa.ChunkedArray:
        if self._any_arrow:
            array = any_array(self._choose, self.type, rows, self._nullable)
        else:
            pattern = self._choose.choice(["N", "C", "Cn", "D", "Dn", "P", "Pn"])
            array = column(self.type, self._choose, rows, pattern)
        return pa.chunked_array([array], self.type)


class Change:
    """A random change of some files: where the row groups come from, and the table that must come out."""

    def __init__(
        self, choose: random.Random, files: list[smalti.MosaicFile], new_type: Callable[[], Any], *, any_arrow: bool
    ) -> None:
        def make(field: pa.Field) -> Made:
            return Made(choose, field, any_arrow=any_arrow)

        kept = [name for name in files[0].column_names if choose.random() < 0.8] or files[0].column_names[:1]
        choose.shuffle(kept)
        self.names = {
            name if choose.random() < 0.8 else f"new {choose.randrange(1 << 30)} {name}": name for name in kept
        }
        mark = choose.randrange(1 << 30)
        if choose.random() < 0.2:
            self.names[f"twice {mark}"] = kept[0]
        fresh = {f"added {mark} {i}": make(pa.field("", new_type())) for i in range(choose.choice([0, 1, 2]))}
        replaced = {new: make(files[0].schema.field(old)) for new, old in self.names.items() if choose.random() < 0.2}
        types = [files[0].schema.field(old).with_name(new) for new, old in self.names.items()]
        types += [pa.field(name, made.type) for name, made in fresh.items()]
        choose.shuffle(types)
        self.schema = pa.schema(types, {"changed": "yes"} if choose.random() < 0.3 else None)
        self.groups: list[GroupSource] = []
        expected: list[pa.Table] = []
        for file in files:
            for group in range(file.num_row_groups):
                if choose.random() < 0.1:
                    continue
                old = file.row_group(group).read()
                rows = old.num_rows
                columns = {new: old.column(name) for new, name in self.names.items()}
                columns |= {name: made(rows) for name, made in fresh.items()}
                if choose.random() < 0.5:
                    columns |= {name: made(rows) for name, made in replaced.items()}
                    new = set(fresh) | set(replaced)
                else:
                    new = set(fresh)
                table = pa.table([columns[name] for name in self.schema.names], schema=self.schema)
                if choose.random() < 0.2:
                    first = choose.randrange(rows)  # Arrow cannot filter arrays of every type.
                    table = table.slice(first, choose.randint(0, rows - first))
                    self.groups.append(GroupSource(None, fresh=table))
                else:
                    data = table.select([name for name in table.column_names if name in new]) if new else None
                    copied = {name: old for name, old in self.names.items() if name not in new}
                    self.groups.append(GroupSource(file, group, copied, data))
                expected.append(table)
        self.expected = expected


@pytest.mark.parametrize("seed", range(repeated(80)))
def test_any_change_of_stored_types(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    tables = [matrix(seed + at, choose.choice([1, 9, 23])) for at in range(choose.choice([1, 1, 2, 3]))]
    names = choose.sample(tables[0].column_names, choose.choice([1, 4, 15, 60]))
    data = []
    for table in tables:
        table = table.select(names)
        if choose.random() < 0.3:
            options = {name: value for name, value in layouts(choose).items() if name in reference.NAMES}
            options.pop("stats_columns")
            data.append(reference.write(table, **{name: value for name, value in options.items() if value is not None}))
        else:
            data.append(written(table, **layouts(choose)))
    for _ in range(choose.choice([1, 2, 3])):
        with ExitStack() as stack:
            files = [stack.enter_context(smalti.open(each)) for each in data]
            change = Change(choose, files, lambda: choose.choice(list(TYPES.values())), any_arrow=False)
            asked = smalti.WriterOptions(**layouts(choose)) if choose.random() < 0.2 else None
            new, summary = rewritten(change.schema, iter(change.groups), verify=choose.random() < 0.3, options=asked)
        found = read(new)
        assert_same(found, pa.concat_tables([change.schema.empty_table(), *change.expected]))
        assert summary.rows == found.num_rows
        sound(new, tmp_path / "new.mosaic")
        data = [new]


@pytest.mark.parametrize("seed", range(repeated(160)))
def test_any_change_of_any_type(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    table = any_table(choose, choose.choice([1, 3, 8]))
    data = written(table, **layouts(choose) | {"compression": "zstd"})
    for _ in range(choose.choice([1, 2])):
        with smalti.open(data) as file:
            change = Change(choose, [file], lambda: any_type(choose), any_arrow=True)
            data, _ = rewritten(change.schema, change.groups)
        found = read(data)
        for name in change.schema.names:
            assert meanings(found[name]) == [each for table in change.expected for each in meanings(table[name])], name
        sound(data, tmp_path / "new.mosaic")


# --- what is copied, and how ------------------------------------------------------------------------------------------


def wide(rows: int = 40, columns: int = 30, seed: int = 1) -> pa.Table:
    choose = random.Random(seed)
    return pa.table({f"c{i:03d}": [choose.randrange(1 << 40) for _ in range(rows)] for i in range(columns)})


def groups_of(file: smalti.MosaicFile, **arguments: Any) -> list[GroupSource]:
    return [GroupSource(file, group, **arguments) for group in range(file.num_row_groups)]


def test_slots_are_copied_as_bytes_and_only_new_columns_are_encoded() -> None:
    table = wide()
    with smalti.open(written(table, **PAGED, row_group_max_rows=20)) as file:
        added = pa.table({"c010x": range(20)})
        schema = pa.schema([*file.schema, *added.schema])
        data, summary = rewritten(schema, groups_of(file, fresh=added))
        before = {column.name: column for column in file.layout().row_groups[0].buckets[0].columns}
    new = smalti.open(data)
    assert new.num_buckets == 3
    assert all(bucket.mode == "paged" for group in new.layout().row_groups for bucket in group.buckets)
    after = {column.name: column for column in new.layout().row_groups[0].buckets[0].columns}
    assert all(after[name].size == before[name].size for name in before if name in after)
    assert (summary.row_groups, summary.row_groups_copied) == (2, 0)
    only_new = written(added, page_size_threshold=0, num_buckets=1)
    assert summary.bytes_encoded < 2 * len(only_new)
    assert summary.bytes_copied + summary.bytes_encoded == new._tail.footer.schema_offset
    assert_same(new.read(), pa.concat_tables([table.slice(at, 20).append_column("c010x", added[0]) for at in (0, 20)]))


class Recorded(smalti.ReadAt):
    """Bytes of a file, and the ranges that were asked for."""

    def __init__(self, data: bytes, *, is_remote: bool = False) -> None:
        self.ranges: list[tuple[int, int]] = []

        def read_at(offset: int, size: int) -> bytes:
            self.ranges.append((offset, size))
            return data[offset : offset + size]

        super().__init__(read_at, len(data), is_remote=is_remote)


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_monolithic_buckets_of_files_with_the_same_columns_are_copied_whole(compression: str) -> None:
    options: Any = {"num_buckets": 5, "page_size_threshold": 1 << 31, "compression": compression}
    tables = [wide(seed=seed) for seed in range(3)]
    data = [written(table, **options) for table in tables]
    with ExitStack() as stack:
        files = [stack.enter_context(smalti.open(each)) for each in data]
        new, summary = rewritten(files[0].schema, [source for file in files for source in groups_of(file)])
        buckets = [file._tail.footer.schema_offset for file in files]
    assert new[: sum(buckets)] == b"".join(each[:size] for each, size in zip(data, buckets, strict=True))
    assert (summary.bytes_copied, summary.bytes_encoded, summary.row_groups_copied) == (sum(buckets), 0, 3)
    assert_same(read(new), pa.concat_tables(tables))


@pytest.mark.parametrize(("limit", "mode"), [(1 << 29, "monolithic"), (1000, "paged")])
def test_columns_of_a_monolithic_bucket_are_cut_out_without_decoding(
    monkeypatch: pytest.MonkeyPatch, limit: int, mode: str
) -> None:
    """A block that would be too large for readers becomes pages."""
    table = wide().append_column("list", pa.array([[1, None], []] * 20))
    with smalti.open(written(table, num_buckets=4, page_size_threshold=1 << 31)) as file:
        schema = pa.schema([field for field in file.schema if field.name != "c007"])
        import smalti.mosaic.rewriter as rewriter

        monkeypatch.setattr(rewriter, "Batch", None)  # decodes
        monkeypatch.setattr(rewriter, "MAX_JOINED_BLOCK", limit)
        data, summary = rewritten(schema, groups_of(file))
        monkeypatch.undo()
    assert summary.bytes_encoded == 0
    layout = smalti.open(data).layout()
    assert mode in {bucket.mode for bucket in layout.row_groups[0].buckets}
    assert_same(read(data), table.drop_columns("c007"))


def test_a_remote_file_is_read_in_few_requests() -> None:
    table = wide(rows=3000, columns=400)
    recorded = Recorded(written(table, num_buckets=20, page_size_threshold=0), is_remote=True)
    with smalti.open(recorded) as file:
        opened = len(recorded.ranges)
        schema = pa.schema([field for index, field in enumerate(file.schema) if index % 7])  # 57 are left out
        data, summary = rewritten(schema, groups_of(file))
        asked = recorded.ranges[opened:]
        assert len(asked) <= 20 + 60 + 20  # directories, and slots before, between and behind the columns left out
        assert sum(size for _, size in asked) < 1.2 * summary.bytes_copied
    assert summary.bytes_encoded == 0
    assert_same(read(data), table.select(schema.names))
    # The new file tells where its slots are, as any file: a column is one request away.
    recorded = Recorded(data, is_remote=True)
    with smalti.open(recorded) as file:
        opened = len(recorded.ranges)
        file.read(columns=["c004"])
    assert len(recorded.ranges) - opened == len(written_requests(table.select(schema.names)))


def written_requests(table: pa.Table) -> list[tuple[int, int]]:
    """The requests of a read of one column, in a file that was written at once."""
    recorded = Recorded(written(table, num_buckets=20, page_size_threshold=0), is_remote=True)
    with smalti.open(recorded) as file:
        opened = len(recorded.ranges)
        file.read(columns=["c004"])
    return recorded.ranges[opened:]


def test_large_buckets_are_copied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    import smalti.mosaic.rewriter as rewriter

    monkeypatch.setattr(rewriter, "PART_BYTES", 500)
    table = wide(rows=60, columns=50).append_column("tags", pa.array([["a", "b"], None, []] * 20))
    recorded = Recorded(written(table, num_buckets=2, page_size_threshold=0))
    with smalti.open(recorded) as file:
        del recorded.ranges[:]
        fresh = pa.table({"d": pa.array(["x"] * 60)})
        data, _ = rewritten(pa.schema([*file.schema, *fresh.schema]), groups_of(file, fresh=fresh))
        assert max(size for _, size in recorded.ranges) <= 700
    assert_same(read(data), table.append_column("d", fresh["d"]))


def test_statistics_are_copied_with_the_columns() -> None:
    table = pa.table({"b": [3, 1, None], "a": ["x" * 300, "y", "z"], "u": pa.array([1, 2, 3], pa.uint8())})
    with smalti.open(written(table, stats_columns=["a", "b", "u"])) as file:
        schema = pa.schema([("z", pa.string()), ("u", pa.uint8()), ("b", pa.int64()), ("fresh", pa.int64())])
        fresh = pa.table({"b": [7, 8, 9], "fresh": [5, 4, 6]})
        copied = {"z": "a", "u": "u"}
        data, _ = rewritten(schema, [GroupSource(file, 0, copied, fresh)])
        old = file.row_group(0).statistics
    new = smalti.open(data).row_group(0).statistics
    assert new["z"] == old["a"]
    assert new["u"] == old["u"]
    assert (new["b"].min, new["b"].max, new["fresh"].max) == (7, 9, 6)


def test_wide_tables_get_no_statistics_that_they_did_not_have() -> None:
    table = wide(rows=4, columns=120)
    with smalti.open(written(table, stats_columns=["c003"])) as file:
        fresh = pa.table({"c003": [1, 2, 3, 4], "c004": [1, 2, 3, 4], "new": [1, 2, 3, 4]})
        schema = pa.schema([*file.schema, pa.field("new", pa.int64())])
        data, _ = rewritten(schema, groups_of(file, fresh=fresh))
    assert list(smalti.open(data).row_group(0).statistics) == ["c003"]


# --- dictionaries -----------------------------------------------------------------------------------------------------


def words(values: list[str | None], entries: list[str]) -> pa.DictionaryArray:
    indices = pa.array([None if value is None else entries.index(value) for value in values], pa.int8())
    return pa.DictionaryArray.from_arrays(indices, pa.array(entries), ordered=True)


def entries_of(data: bytes, name: str) -> list[str]:
    return read(data)[name].chunk(0).dictionary.to_pylist()


def test_values_of_deleted_rows_are_gone_from_the_bytes() -> None:
    entries = ["low", "SECRET-1", "mid", "never used", "high"]
    column = words(["low", "SECRET-1", "mid", "high", "low", None], entries)
    nested = pa.StructArray.from_arrays([column], ["level"])
    table = pa.table({"id": range(6), "level": column, "who": nested})
    old = written(table, row_group_max_rows=2)
    with smalti.open(old) as file:
        kept = table.slice(0, 1)  # whose dictionary still has all entries
        data, _ = rewritten(
            file.schema, [GroupSource(None, fresh=kept), GroupSource(file, 1), GroupSource(file, 2)], like=file
        )
        description = file.columns.entries(next(iter(file.columns.described(["level"])[0].stored)))
        assert description is not None
        assert description.to_pylist() == entries
    found = read(data)
    assert entries_of(data, "level") == ["low", "mid", "high"]
    assert found["who"].chunk(0).field("level").dictionary.to_pylist() == ["low", "mid", "high"]
    assert found["level"].to_pylist() == ["low", "mid", "high", "low", None]
    with smalti.open(data) as new:
        import zstandard

        assert b"SECRET" not in zstandard.decompress(new._tail.companion.payload)
        assert all(b"SECRET" not in bytes(each) for each in stored_bytes(new))


def stored_bytes(file: smalti.MosaicFile) -> list[bytes]:
    """The stored columns as they are, and the statistics."""
    values = [str(group.raw_statistics).encode() for group in map(file.row_group, range(file.num_row_groups))]
    return [*values, str(file.columns.stored.names).encode()]


def test_entries_stay_where_no_row_group_is_left_out() -> None:
    entries = ["b", "unused", "a"]
    table = pa.table({"d": words(["a", "b", None], entries), "x": [1, 2, 3]})
    with smalti.open(written(table, row_group_max_rows=2)) as file:
        schema = pa.schema([file.schema.field("d").with_name("e")])
        data, _ = rewritten(schema, groups_of(file, copied={"e": "d"}))
    assert entries_of(data, "e") == entries


def test_entries_of_several_files_are_joined() -> None:
    files = [
        smalti.open(written(pa.table({"d": words(["x", "y"], ["y", "x"])}))),
        smalti.open(written(pa.table({"d": words(["z", "y"], ["z", "y"])}))),
    ]
    fresh = pa.table({"d": words(["new"], ["new", "unused"])})
    sources = [*(GroupSource(file) for file in files), GroupSource(None, fresh=fresh)]
    data, _ = rewritten(files[0].schema, sources)
    assert entries_of(data, "d") == ["y", "x", "z", "new"]
    data, _ = rewritten(files[0].schema, sources, unused_entries=["d"])
    assert entries_of(data, "d") == ["y", "x", "z", "new", "unused"]
    assert read(data)["d"].to_pylist() == ["x", "y", "z", "y", "new"]
    # A column that is new has no deleted rows.
    added = pa.table({"e": words(["p"] * 2, ["unused", "p"])})
    data, _ = rewritten(pa.schema([*files[0].schema, *added.schema]), [GroupSource(files[0], fresh=added)])
    assert entries_of(data, "e") == ["unused", "p"]


def test_index_types_that_differ_are_widened() -> None:
    many = [f"w{i:03d}" for i in range(300)]
    narrow = pa.table({"d": pa.array(["w000", "q"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))})
    large = pa.table({"d": pa.array(many).dictionary_encode().cast(pa.dictionary(pa.int16(), pa.string()))})
    files = [smalti.open(written(table)) for table in (narrow, large)]
    assert [file.schema.field("d").type.index_type for file in files] == [pa.int8(), pa.int16()]
    data, _ = rewritten(files[0].schema, [GroupSource(file) for file in files])
    assert read(data)["d"].to_pylist() == ["w000", "q", *many]


# --- bad input --------------------------------------------------------------------------------------------------------


def refused(match: str, schema: pa.Schema, groups: list[GroupSource], where: Path) -> None:
    where.write_bytes(b"before")
    with pytest.raises(smalti.SchemaError, match=match):
        rewrite_file(where, schema, groups)
    assert where.read_bytes() == b"before"
    assert list(where.parent.iterdir()) == [where]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    file = smalti.open(written(pa.table({"a": [1, 2], "s": [{"x": 1}, None], "t": ["p", "q"]})))
    where, int64 = tmp_path / "f.mosaic", pa.int64()
    other = "'a': a column cannot be copied, because it has another type in its file: found int64, expected int32"
    refused(other, pa.schema([("a", pa.int32())]), [GroupSource(file)], where)
    refused("found int64, may be null", pa.schema([pa.field("a", int64, False)]), [GroupSource(file)], where)
    refused("no column 'b' to copy", pa.schema([("b", int64)]), [GroupSource(file)], where)
    refused("did you mean 'a'", pa.schema([("aa", int64)]), [GroupSource(file, copied={"aa": "aa"})], where)
    refused("no column 'q' in the new file", pa.schema([("a", int64)]), [GroupSource(file, copied={"q": "a"})], where)
    refused("neither copied nor fresh", pa.schema([("a", int64), ("b", int64)]), [GroupSource(file, copied={})], where)
    both = GroupSource(file, copied={"a": "a"}, fresh=pa.table({"a": [1, 2]}))
    refused("both copied and fresh", pa.schema([("a", int64)]), [both], where)
    rows = GroupSource(file, fresh=pa.table({"b": [1, 2, 3]}))
    refused("another number of rows: found 3, expected 2", pa.schema([("a", int64), ("b", int64)]), [rows], where)
    typed = GroupSource(file, fresh=pa.table({"b": ["x", "y"]}))
    refused("another type", pa.schema([("a", int64), ("b", int64)]), [typed], where)
    nulls = GroupSource(file, fresh=pa.table({"b": [1, None]}))
    refused(
        "nulls in a column that is NOT NULL", pa.schema([("a", int64), pa.field("b", int64, False)]), [nulls], where
    )
    refused("no file to copy", pa.schema([("a", int64)]), [GroupSource(None)], where)
    struct = pa.schema([pa.field("s", pa.struct([("x", int64)]), False)])
    refused("another type", struct, [GroupSource(file)], where)
    extra = GroupSource(file, fresh=pa.table({"zz": [1, 2]}))
    refused("columns the schema lacks", pa.schema([("a", int64)]), [extra], where)


def test_a_file_may_be_rewritten_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "f.mosaic"
    table = wide()
    smalti.write_table(table, path, **PAGED)
    with smalti.open(path) as file:
        rewrite_file(path, pa.schema([file.schema.field("c003")]), groups_of(file))
    assert_same(smalti.read_table(path), table.select(["c003"]))


def test_a_table_without_rows_gets_a_layout_with_its_first_rows() -> None:
    table = wide(rows=3000, columns=300)
    empty = smalti.open(written(table.schema.empty_table(), compression="none"))
    data, _ = rewritten(table.schema, [GroupSource(None, fresh=table)], like=empty)
    with smalti.open(data) as file, smalti.open(written(table)) as usual:
        assert file.layout().compression == "none"
        assert 1 < file.num_buckets <= usual.num_buckets
    assert_same(read(data), table)


def test_no_row_groups() -> None:
    schema = pa.schema([("a", pa.int64())], {"k": "v"})
    data, summary = rewritten(schema, [])
    assert (summary.rows, summary.row_groups) == (0, 0)
    assert read(data).schema.equals(schema, check_metadata=True)


# --- files of others, damaged and hostile ones ------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, entry in GOLDEN_FILES.items() if entry["mosaic_bytes"] < 100_000])
def test_goldens(name: str, tmp_path: Path) -> None:
    with smalti.open(golden_bytes(name)) as file:
        names = file.column_names[::-1]
        data, summary = rewritten(pa.schema([file.schema.field(each) for each in names]), groups_of(file))
        assert_same(read(data), file.read(columns=names))
    assert summary.bytes_encoded == 0
    sound(data, tmp_path / "new.mosaic")


def test_damage_is_found_on_request_and_never_mended() -> None:
    table = wide(rows=50, columns=12)
    for options in (PAGED, {"num_buckets": 3, "page_size_threshold": 1 << 31}):
        good = written(table, **options)
        with smalti.open(good) as file:
            end = file._tail.footer.schema_offset
        refusals = 0
        for at in range(3, end, 29):
            data = good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :]
            with contextlib.suppress(smalti.CorruptFileError):
                read(data)
                continue  # Decoders ignore one bit of a frame's header.
            with smalti.open(data) as file:
                try:
                    copied, _ = rewritten(file.schema, groups_of(file))
                except smalti.CorruptFileError:
                    refusals += 1
                    continue
                with pytest.raises(smalti.CorruptFileError):
                    read(copied)
                with pytest.raises(smalti.CorruptFileError, match="row group 0, bucket"):
                    rewritten(file.schema, groups_of(file), verify=True)
        assert refusals  # sizes and headers of frames are checked always


def test_malformed_files() -> None:
    """What is wrong is refused with `verify`; without it, what is made of a file reads as the file, or not at all."""
    accepted = set()
    for name, case in MALFORMED_CASES.items():
        data = (MALFORMED / f"{name}.mosaic").read_bytes()
        run("rewrite", data)  # the fuzzer's target, which compares
        with contextlib.suppress(smalti.MosaicError), smalti.open(data) as file:
            if file.num_rows * file.num_columns <= MAX_CELLS:
                rewritten(file.schema, groups_of(file), verify=True)
                assert case["suggested_verdict"] != "reject", name
                accepted.add(name)
    assert len(accepted) > 20


def test_another_file_system() -> None:
    memory = fsspec.filesystem("memory")
    table = wide()
    smalti.write_table(table, "/rewriting/a.mosaic", filesystem=memory, **PAGED)
    with smalti.open("/rewriting/a.mosaic", filesystem=memory) as file:
        schema = pa.schema([file.schema.field(name) for name in ("c005", "c001")])
        rewrite_file("/rewriting/b.mosaic", schema, groups_of(file), filesystem=memory)
    assert_same(smalti.read_table("/rewriting/b.mosaic", filesystem=memory), table.select(["c005", "c001"]))
