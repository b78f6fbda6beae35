"""smalti in the place of paimon-mosaic, inside pypaimon."""

from __future__ import annotations

import inspect
import io
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
import pypaimon
import pytest
from pypaimon.globalindex.indexed_split import IndexedSplit
from pypaimon.read.reader import format_mosaic_reader
from pypaimon.utils.range import Range

import mosaic as reference
import smalti
import smalti.paimon
from smalti.format.types import has_statistics
from smalti.paimon import mosaic as ours
from smalti.paimon.engine import engine
from tests.paimon.kinds import BASIC, EVOLVING, MOSAIC, Maker, in_order, read_by_pypaimon, rows
from tests.support.tables import SCALARS


@pytest.fixture(autouse=True)
def nothing_installed() -> None:
    sys.modules["mosaic"] = reference


def encoded(module: Any, table: pa.Table, **options: Any) -> bytes:
    stream = io.BytesIO()
    module.write_table(table, stream, module.WriterOptions(**options))
    return stream.getvalue()


def opened(module: Any, data: bytes) -> Any:
    return module.MosaicReader.from_input_file(lambda offset, size: data[offset : offset + size], len(data))


def test_pypaimon_finds_every_name_that_it_asks_for() -> None:
    """The names are read from its source, so that a version of pypaimon that asks for more is noticed."""
    asked = {
        name
        for path in Path(pypaimon.__file__).parent.rglob("*.py")
        for names in re.findall(r"\bmosaic\.([A-Za-z_]+)\(|from mosaic import (.+)", path.read_text())
        for name in "".join(names).split(", ")
    }
    assert asked == {"MosaicReader", "WriterOptions", "write_table"}
    assert all(hasattr(reference, name) and hasattr(ours, name) for name in asked)
    of_reader = set(re.findall(r"\b_reader\.([a-z_]+)", inspect.getsource(format_mosaic_reader)))
    assert {"schema", "project", "read_row_group"} < of_reader
    assert of_reader <= set(dir(ours.MosaicReader))
    assert vars(reference.WriterOptions()).keys() > inspect.signature(ours.WriterOptions).parameters.keys()


@pytest.mark.parametrize("writer", [reference, ours], ids=["by the reference", "by smalti"])
def test_both_read_what_either_writes(writer: Any) -> None:
    table = rows(0, 200)
    data = encoded(writer, table, stats_columns=["id", "x"], num_buckets=2)
    theirs, mine = opened(reference, data), opened(ours, data)
    assert [field.name for field in mine.schema] == [field.name for field in theirs.schema] == table.column_names
    assert mine.num_row_groups == theirs.num_row_groups
    assert mine.row_group_num_rows(0) == theirs.row_group_num_rows(0)
    found, expected = (reader.get_row_group_statistics(0) for reader in (mine, theirs))
    assert {name: (s.null_count, s.min, s.max, s.has_min_max) for name, s in found.items()} == {
        name: (s.null_count, s.min, s.max, s.has_min_max) for name, s in expected.items()
    }
    assert mine.read_row_group(0).equals(theirs.read_row_group(0))
    for reader in (mine, theirs):
        reader.project(["n", "id"])
    assert mine.read_row_group(0).equals(theirs.read_row_group(0))


def test_a_row_group_is_one_batch_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large row groups are cut where they are iterated over, and this is not where."""
    monkeypatch.setattr("smalti.mosaic.scan.BATCH_BYTES", 1000)
    table = rows(0, 2000)
    data = encoded(ours, table, num_buckets=2)
    mine = opened(ours, data)
    assert pa.Table.from_batches([mine.read_row_group(0)]).equals(table)
    mine.project([])
    assert mine.read_row_group(0).num_rows == 2000


@pytest.mark.parametrize(
    "name", [name for name, type_ in SCALARS.items() if has_statistics(type_) and name != "decneg"]
)
def test_raw_statistics_are_the_references(name: str) -> None:
    number = pa.array([None, 1, 5, 3], pa.int64())
    type_ = SCALARS[name]
    through = (
        pa.int32() if type_ in (pa.date32(), pa.time32("ms")) else pa.string() if pt.is_decimal(type_) else number.type
    )
    column = number.cast(through).cast(type_)
    data = encoded(ours, pa.table({"a": column}), stats_columns=["a"])
    found, expected = (opened(module, data).get_row_group_statistics(0)["a"] for module in (ours, reference))
    assert (found.null_count, found.min, found.max) == (expected.null_count, expected.min, expected.max)


class TestInstalling:
    def test_is_undone(self) -> None:
        smalti.paimon.install()
        smalti.paimon.install()
        assert sys.modules["mosaic"] is ours
        assert ours.read_table is reference.read_table, "pypaimon does not ask for it, but others may"
        with engine():
            smalti.paimon.uninstall()
            assert sys.modules["mosaic"] is ours
        assert sys.modules["mosaic"] is reference
        smalti.paimon.uninstall()
        assert sys.modules["mosaic"] is reference

    def test_needs_no_reference(self, tmp_path: Path) -> None:
        script = """
            import sys
            from importlib.machinery import PathFinder
            from pathlib import Path

            find = PathFinder.find_spec
            PathFinder.find_spec = lambda name, *rest: None if name == "mosaic" else find(name, *rest)
            import smalti.paimon
            from tests.paimon.kinds import Maker, read_by_pypaimon, rows

            smalti.paimon.install()
            assert read_by_pypaimon(Maker(Path(sys.argv[1])).write(rows(0, 10)).path).num_rows == 10
            assert not hasattr(sys.modules["mosaic"], "read_table")
            smalti.paimon.uninstall()
            assert "mosaic" not in sys.modules
            try:
                import mosaic
            except ModuleNotFoundError:
                print("not there")
        """
        command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
        assert subprocess.run(command, timeout=600, check=True, capture_output=True, text=True).stdout == "not there\n"

    def test_pypaimons_options_reach_the_writer(self, tmp_path: Path) -> None:
        options = {**MOSAIC, "mosaic.num-buckets": "2", "mosaic.stats-columns": "id,x", "file.block-size": "8kb"}
        made = Maker(tmp_path, options=options)
        smalti.paimon.install()
        made.write(rows(0, 3000))
        assert in_order(read_by_pypaimon(made.path)) == in_order(rows(0, 3000))
        smalti.paimon.uninstall()
        assert in_order(read_by_pypaimon(made.path)) == in_order(rows(0, 3000))
        (path,) = smalti.paimon.dataset(made.path).files
        with smalti.open(path) as file:
            assert file.num_buckets == 2
            assert file.num_row_groups > 1
            assert set(file.row_group(0).statistics) == {"id", "x"}

    def test_row_groups_are_skipped_by_statistics(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made = Maker(tmp_path, options={**MOSAIC, "mosaic.stats-columns": "id", "file.block-size": "8kb"})
        smalti.paimon.install()
        made.write(rows(0, 3000))
        read: list[int] = []
        original = ours.MosaicReader.read_row_group

        def counting(self: Any, group: int) -> pa.RecordBatch:
            read.append(group)
            return original(self, group)

        monkeypatch.setattr(ours.MosaicReader, "read_row_group", counting)
        builder = made.table.new_read_builder()
        builder = builder.with_filter(builder.new_predicate_builder().equal("id", 7))
        assert builder.new_read().to_arrow(builder.new_scan().plan().splits())["id"].to_pylist() == [7]
        smalti.paimon.uninstall()
        assert read == [0]


@pytest.mark.parametrize("options", [MOSAIC, EVOLVING], ids=["plain", "row_tracking"])
def test_rows_by_position(options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pypaimon reads by position is taken from the row groups that have it, and is the same as without smalti."""
    maker = Maker(tmp_path, BASIC, options).write(rows(0, 500)).write(rows(500, 900))
    names = [*BASIC.names, "_ROW_ID"] if options is EVOLVING else BASIC.names
    builder = maker.table.new_read_builder().with_projection(names)
    splits = builder.new_scan().plan().splits()
    ranges = [Range(3, 5), Range(498, 502), Range(4, 9)]

    def read() -> pa.Table:
        return pa.concat_tables([builder.new_read().to_arrow([IndexedSplit(split, ranges)]) for split in splits])

    expected = read()
    selected: list[int] = []
    select = ours.MosaicReader.select_rows
    monkeypatch.setattr(ours.MosaicReader, "select_rows", lambda self, r: selected.extend(r) or select(self, r))
    with engine():
        found = read()
    assert found.equals(expected)
    assert found["id"].to_pylist() == [*range(3, 10), *range(498, 503)]
    assert selected == [*range(3, 10), 498, 499, 0, 1, 2]


def test_pytorch_reads_mosaic_tables(tmp_path: Path) -> None:
    """pypaimon's own dataset for PyTorch, by row and by batch; needs PyTorch beside pypaimon."""
    data = pytest.importorskip("torch.utils.data")
    maker = Maker(tmp_path, BASIC, EVOLVING).write(rows(0, 300)).write(rows(300, 400))
    builder = maker.table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    with engine():
        by_row = builder.new_read().to_torch(splits)
        assert [by_row[index]["id"] for index in (0, 350, 299)] == [0, 350, 299]
        loaded = data.DataLoader(by_row, batch_size=64, shuffle=True)
        assert sorted(int(row) for batch in loaded for row in batch["id"]) == list(range(400))
        stream = builder.new_read().to_torch(splits, streaming=True)
        assert sorted(row["id"] for row in stream) == list(range(400))
