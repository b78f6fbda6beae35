"""Planning: tables of cases."""

from __future__ import annotations

import pytest

from smalti.jobs.planning import Output, SourceFile, Split, plan_compact, plan_convert, stems
from smalti.table.listing import FoundFile
from smalti.table.splits import Piece

MB = 1 << 20


def facts(relative: str, size: int, groups: tuple[int, ...] = (), format_: str = "mosaic") -> SourceFile:
    return SourceFile(FoundFile(f"/data/{relative}", size), relative, format_, groups)


@pytest.mark.parametrize(
    ("names", "suffixes", "expected"),
    [
        (["a.csv", "b/c.csv"], [".csv", ".csv"], ["a", "b/c"]),
        (["a.csv", "a.parquet"], [".csv", ".parquet"], ["a.csv", "a.parquet"]),
        (["x/a.csv", "y/a.csv"], [".csv", ".csv"], ["x/a", "y/a"]),
        (["a.CSV.GZ"], [".csv.gz"], ["a"]),
        (["data"], [""], ["data"]),
        (["p=1.5/a.b.orc"], [".orc"], ["p=1.5/a.b"]),
    ],
)
def test_stems(names: list[str], suffixes: list[str], expected: list[str]) -> None:
    assert stems([facts(name, 1) for name in names], suffixes) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        # Small files share a task and stay files of their own.
        ([("a", 3, ()), ("b", 3, ()), ("c", 5, ())], [["a", "b"], ["c"]]),
        # A large file is cut where it can be.
        ([("a", 30, (10, 10, 10))], [["a-00000"], ["a-00001"], ["a-00002"]]),
        ([("a", 30, (4, 4, 22))], [["a-00000"], ["a-00001"]]),
        # It cannot: one row group, or a format without any.
        ([("a", 30, (30,))], [["a"]]),
        ([("a", 30, ())], [["a"]]),
        # A small one is not cut, however many row groups it has.
        ([("a", 6, (2, 2, 2))], [["a"]]),
        ([], []),
    ],
)
def test_plan_convert(files: list[tuple[str, int, tuple[int, ...]]], expected: list[list[str]]) -> None:
    found = [facts(name, size, groups) for name, size, groups in files]
    splits = plan_convert(found, [file.relative for file in found], split_bytes=8)
    assert [[output.stem for output in split.outputs] for split in splits] == expected
    assert [split.index for split in splits] == list(range(len(splits)))
    assert sum(split.num_bytes for split in splits) == sum(size for _, size, _ in files)


def test_single_target_is_never_cut() -> None:
    splits = plan_convert([facts("a", 30)], ["out"], split_bytes=8)
    assert splits == [Split(0, (Output((Piece(FoundFile("/data/a", 30), 30),), "out", "out"),))]


def test_outputs_of_a_split_keep_their_order() -> None:
    found = [facts(str(i), size, format_="csv") for i, size in enumerate([4, 4, 4, 20, 1])]
    splits = plan_convert(found, [file.relative for file in found], split_bytes=8)
    assert [[output.stem for output in split.outputs] for split in splits] == [["0", "1"], ["2"], ["3"], ["4"]]


@pytest.mark.parametrize(
    ("files", "rewrite_all", "outputs", "read"),
    [
        # Neighbours are gathered, directory by directory.
        (
            [("p=1/a", 4, 1), ("p=1/b", 4, 1), ("p=2/a", 4, 1), ("p=2/b", 4, 1)],
            False,
            [("p=1/part-00000", 2), ("p=2/part-00000", 2)],
            4,
        ),
        # A file alone with sound row groups stays; asked to, it is written again.
        ([("a", 90 * MB, 1)], False, [], 0),
        ([("a", 90 * MB, 1)], True, [("part-00000", 1)], 1),
        ([("a", 1, 1)], False, [], 0),
        # Many small row groups are worth gathering even in one file.
        ([("a", 90 * MB, 90)], False, [("part-00000", 1)], 1),
        # Up to the size, then the next.
        ([("a", 60 * MB, 1), ("b", 60 * MB, 1), ("c", 30 * MB, 1)], False, [("part-00000", 2)], 2),
        ([], True, [], 0),
    ],
)
def test_plan_compact(
    files: list[tuple[str, int, int]], rewrite_all: bool, outputs: list[tuple[str, int]], read: int
) -> None:
    found = [facts(name, size, (size // groups,) * groups) for name, size, groups in files]
    splits, used = plan_compact(found, target_bytes=100 * MB, rewrite_all=rewrite_all)
    assert [(split.outputs[0].stem, len(split.outputs[0].pieces)) for split in splits] == outputs
    assert len(used) == read
