"""The "reads" column of the docs, proven: every byte a command fetches is counted and must be one it may fetch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
import smalti.file.reader
from smalti.io import Source, open_source
from smalti.io.sources import WrappedSource
from smalti.mosaic.layout import FileLayout


class Counted(WrappedSource):
    """A source that remembers the ranges asked of it, and reads its tail no further than it must."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.tail_size = 32  # the footer: whatever else is fetched then is asked for on purpose
        self.ranges: list[tuple[int, int]] = []

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.ranges += [(offset, offset + size) for offset, size in ranges]
        return self._source.read_many(ranges)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[Counted]:
    monkeypatch.setenv("COLUMNS", "100")
    opened: list[Counted] = []

    def counted(source: Any, filesystem: Any = None) -> Counted:
        opened.append(Counted(open_source(source, filesystem)))
        return opened[-1]

    monkeypatch.setattr(smalti.file.reader, "open_source", counted)
    if importlib.util.find_spec("smalti.jobs") is not None:  # `verify` opens files without a reader
        monkeypatch.setattr("smalti.table.listing.open_source", counted)
    return opened


@pytest.fixture(scope="module", params=["monolithic", "paged"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 row groups, 10 buckets of 4 columns: a00 to a39, and statistics of a00."""
    rows = 300
    table = pa.table({f"a{i:02d}": pa.array([(i + 1) * j % 9973 for j in range(rows)]) for i in range(40)})
    table = table.set_column(0, "a00", pa.array(range(rows)))
    path = tmp_path_factory.mktemp("reads") / "t.mosaic"
    threshold = 0 if request.param == "paged" else 1 << 30
    smalti.write_table(
        table, path, num_buckets=10, row_group_max_rows=100, page_size_threshold=threshold, stats_columns=["a00"]
    )
    return path


def layout_of(path: Path) -> FileLayout:
    with smalti.open(path) as file:
        return file.layout()


def allowed(layout: FileLayout, names: set[str], groups: set[int]) -> list[tuple[int, int]]:
    """The tail, and the buckets (or directories and slots) of columns in row groups."""
    ranges = [(layout.schema_block.offset, layout.size)]
    for group in layout.row_groups:
        for bucket in group.buckets:
            if group.index not in groups or not names & {column.name for column in bucket.columns}:
                continue
            if bucket.mode != "paged":
                ranges.append((bucket.offset, bucket.offset + bucket.size))
                continue
            at = bucket.offset + bucket.size - sum(column.stored_size or 0 for column in bucket.columns)
            ranges.append((bucket.offset, at))
            for column in bucket.columns:
                if column.name in names:
                    ranges.append((at, at + (column.stored_size or 0)))
                at += column.stored_size or 0
    return ranges


def covered(ranges: list[tuple[int, int]]) -> set[int]:
    return {byte for start, stop in ranges for byte in range(start, stop)}


NAMES = {f"a{i:02d}" for i in range(40)}
#: The columns whose names have room side by side on a screen of 100 characters.
ROOM = {f"a{i:02d}" for i in range(20)}
EVERY = {0, 1, 2}
CASES: dict[str, tuple[list[str], set[str], set[int]]] = {
    "schema": (["schema"], set(), set()),
    "meta": (["meta"], set(), set()),
    "stats": (["stats"], set(), set()),
    "count": (["count"], set(), set()),
    "count, decided by statistics": (["count", "--where", "a00 >= 200"], set(), set()),
    "count where": (["count", "--where", "a00 >= 150 and a05 > 3"], {"a00", "a05"}, {1, 2}),
    "head of one column": (["head", "-c", "a07"], {"a07"}, {0}),
    "head across row groups": (["head", "-n", "150", "-c", "a07"], {"a07"}, {0, 1}),
    "head": (["head"], ROOM, {0}),
    "head of all columns": (["head", "--json"], NAMES, {0}),
    "head of all columns as Markdown": (["head", "--markdown"], NAMES, {0}),
    "head of more columns than fit": (["head", "-c", "a1*,a2*,a3*"], {f"a{i}" for i in range(10, 30)}, {0}),
    "head where": (["head", "--where", "a35 > 3"], ROOM | {"a35"}, {0}),
    "tail": (["tail"], ROOM, {2}),
    "sample of all columns": (["sample", "-n", "1", "--seed", "1"], ROOM, {0}),
    "cat": (["cat", "--csv"], NAMES, EVERY),
    "cat where": (["cat", "-c", "a07,a30", "--where", "a00 < 50"], {"a00", "a07", "a30"}, {0}),
    "tail of one column": (["tail", "-n", "60", "-c", "a07"], {"a07"}, {2}),
    "tail across row groups": (["tail", "-n", "160", "-c", "a07"], {"a07"}, {1, 2}),
    "head --rows": (["head", "--rows", "145:147", "-c", "a07"], {"a07"}, {1}),
    "sample": (["sample", "-n", "1", "--seed", "1", "-c", "a07"], {"a07"}, {0}),
    "sql": (["sql", "select sum(a07) from t where a00 > 250", "t=PATH"], {"a00", "a07"}, {2}),
    "size": (["size"], NAMES, EVERY),
    "layout": (["layout"], NAMES, EVERY),
    "layout of a column": (["layout", "--column", "a07"], {"a04", "a05", "a06", "a07"}, EVERY),
    "layout of a bucket": (["layout", "--bucket", "9"], {"a36", "a37", "a38", "a39"}, EVERY),
    "report": (["report", "-o", "OUT"], NAMES, EVERY),
}


@pytest.mark.parametrize("case", CASES)
def test_reads_what_it_says_and_nothing_else(
    run: Callable[..., Any], sources: list[Counted], path: Path, tmp_path: Path, case: str
) -> None:
    layout = layout_of(path)
    sources.clear()
    (command, *rest), names, groups = CASES[case]
    places = {"OUT": str(tmp_path / "out.html"), "t=PATH": f"t={path}"}
    done = run(command, *([] if "t=PATH" in rest else [path]), *[places.get(part, part) for part in rest])
    assert done.code == 0, done
    read = covered([found for source in sources for found in source.ranges])
    assert read == covered(allowed(layout, names, groups))


@pytest.mark.parametrize("command", ["head", "tail", "sample", "cat"])
def test_columns_without_room_are_not_read_from_a_table_either(
    run: Callable[..., Any], sources: list[Counted], path: Path, tmp_path: Path, command: str
) -> None:
    for name in ("1.mosaic", "2.mosaic"):
        (tmp_path / name).write_bytes(path.read_bytes())
    layout = layout_of(path)
    sources.clear()
    done = run(command, tmp_path, "-n", "3")
    assert "of 40 columns not shown" in done.out, done
    read = covered([found for source in sources for found in source.ranges])
    assert read <= covered(allowed(layout, ROOM, EVERY))
    assert read > covered(allowed(layout, set(), set()))


def test_nothing_is_read_twice(run: Callable[..., Any], sources: list[Counted], path: Path, tmp_path: Path) -> None:
    """But the footer, which says how far back the tail goes."""
    for arguments in (["cat", path, "--csv"], ["layout", path], ["report", path, "-o", tmp_path / "x.html"]):
        sources.clear()
        assert run(*arguments).code == 0
        total = sum(stop - start for source in sources for start, stop in source.ranges)
        assert total == len(covered([found for source in sources for found in source.ranges]))


def test_diff_reads_the_compared_columns(run: Callable[..., Any], sources: list[Counted], path: Path) -> None:
    layout = layout_of(path)
    for arguments, names in ((["--schema"], set()), (["-c", "a07"], {"a07"}), ([], NAMES)):
        sources.clear()
        assert run("diff", path, path, *arguments).code == 0
        for source in sources:
            assert covered(source.ranges) == covered(allowed(layout, names, EVERY))


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["convert", "PATH", "OUT.parquet", "-c", "a07,a08"], {"a07", "a08"}),
        (["convert", "PATH", "OUT.mosaic"], NAMES),
        (["compact", "DIRECTORY", "OUT"], NAMES),
        (["verify", "PATH"], NAMES),
        (["profile", "PATH"], NAMES),
    ],
)
def test_jobs_read_the_columns_they_need(
    run: Callable[..., Any],
    sources: list[Counted],
    path: Path,
    tmp_path: Path,
    arguments: list[str],
    names: set[str],
) -> None:
    layout = layout_of(path)
    sources.clear()
    places = {"PATH": str(path), "DIRECTORY": str(path.parent), "OUT": str(tmp_path / "out")}
    done = run(*[places.get(part, part.replace("OUT", places["OUT"])) for part in arguments])
    assert done.code == 0, done
    read = covered([found for source in sources for found in source.ranges if source.name and "out" not in source.name])
    assert read == covered(allowed(layout, names, EVERY))
