"""Reads of any configuration: a file or table of any types and options, read in ten random ways, is what was written.

Most faults that reviews found needed a rare combination of settings, not rare data: a cache, read-ahead and a memory
limit that the first attempt exceeds; a row group that is asked for twice.
"""

from __future__ import annotations

import os
import pickle
import random
import re
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.fs
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import smalti
from tests.support.any_arrow import Money, any_table
from tests.support.files import written
from tests.support.s3 import S3Server, s3_by_uri
from tests.support.strategies import examples

#: The column of every table that filters compare. Its values are distinct, in no order, and some are null.
KEY = "row_key"
#: Memory of a process that no limit counts: code, threads, and what allocators keep for a moment after its release.
HEADROOM = 100 << 20


@pytest.fixture(autouse=True, scope="module")
def money() -> Iterator[None]:
    pa.register_extension_type(Money(pa.int8()))
    yield
    pa.unregister_extension_type("smalti.tests.money")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_by_uri("configurations") as server:
        yield server


@dataclass(frozen=True)
class Question:
    """What one read asks for, and how."""

    verb: str
    columns: list[str] | None
    condition: str | None
    row_groups: list[int] | None
    rows: slice | None
    count: int
    batch_size: int | None
    is_exact: bool
    row_index: str | None
    how: str


class Expected:
    """The answers, by plain Python over the table that was written."""

    def __init__(self, table: pa.Table, group_rows: Sequence[int]) -> None:
        self.names, self.num_rows = table.column_names, table.num_rows
        self._values = {name: [repr(value) for value in table[name].to_pylist()] for name in self.names}
        self._keys = table[KEY].to_pylist()
        starts = [sum(group_rows[:index]) for index in range(len(group_rows) + 1)]
        self._groups = [range(start, end) for start, end in pairwise(starts)]

    @property
    def num_row_groups(self) -> int:
        return len(self._groups)

    def rows(self, asked: Question) -> list[int]:
        """The numbers of the rows that a read returns, in order."""
        if asked.verb == "take":
            return random.Random(asked.count).choices(range(self.num_rows), k=asked.count) if self.num_rows else []
        groups = range(len(self._groups)) if asked.row_groups is None else asked.row_groups
        within = set(range(self.num_rows)[asked.rows] if asked.rows is not None else range(self.num_rows))
        found = [row for group in groups for row in self._groups[group] if row in within]
        if asked.condition is not None:
            operator, bound = re.fullmatch(rf"{KEY} (<|>=) (\d+)", asked.condition).groups()  # type: ignore[union-attr]
            holds = {"<": int.__lt__, ">=": int.__ge__}[operator]
            found = [row for row in found if self._keys[row] is not None and holds(self._keys[row], int(bound))]
        if asked.verb == "head":
            return found[: asked.count]
        return found[max(0, len(found) - asked.count) :] if asked.verb == "tail" else found

    def check(self, found: pa.Table, asked: Question) -> None:
        rows = self.rows(asked)
        names = self.names if asked.columns is None else asked.columns
        if asked.verb == "loader":
            names = list(dict.fromkeys(names))  # arrays by name
        first = [] if asked.row_index is None else [asked.row_index]
        assert found.column_names == [*first, *names], asked
        found.validate(full=True)
        assert found.num_rows == len(rows), asked
        for index, name in enumerate(names, len(first)):
            values = self._values[name]
            assert [repr(value) for value in found.column(index).to_pylist()] == [values[row] for row in rows], asked
        if first:
            assert found.column(0).to_pylist() == rows, asked


def any_question(choose: random.Random, expected: Expected, *, is_file: bool, is_on_s3: bool) -> Question:
    verb = choose.choice(["read", "batches", "reader", "table", "head", "tail", "take", "loader"])
    columns = None if choose.random() < 0.3 else choose.choices(expected.names, k=choose.randrange(5))
    if verb == "loader":
        columns = columns or None  # arrays of no column have no rows
    filters = row_groups = rows = row_index = None
    if verb not in ("take", "loader") and choose.random() < 0.4:
        filters = f"{KEY} {choose.choice(['<', '>='])} {choose.randrange(expected.num_rows + 1)}"
    if is_file and verb in ("read", "batches") and choose.random() < 0.4:
        row_groups = choose.choices(range(expected.num_row_groups), k=choose.randrange(5)) if expected.num_rows else []
    elif verb in ("read", "batches", "reader", "table") and choose.random() < 0.3:
        rows = slice(*sorted(choose.choices(range(expected.num_rows + 2), k=2)))
    if verb in ("read", "batches", "reader", "table") and choose.random() < 0.2:
        row_index = "row number"
    count = choose.choice([0, 1, 3, 10_000])
    batch_size = choose.choice([None, 1, 2, 7, 1000])
    is_exact = batch_size is not None and choose.random() < 0.5
    how = choose.choice(["here", "here", "here", "threads", "pickled", "threads" if is_on_s3 else "fork"])
    if verb == "take":
        count = min(count, 20)
    return Question(verb, columns, filters, row_groups, rows, count, batch_size, is_exact, row_index, how)


def ask(origin: Any, asked: Question, expected: Expected) -> pa.Table:
    """The answer of smalti."""
    kept: dict[str, Any] = {"rows": asked.rows, "with_row_index": asked.row_index}
    cut: dict[str, Any] = {"batch_size": asked.batch_size, "exact": asked.is_exact}
    columns, condition, is_file = asked.columns, asked.condition, isinstance(origin, smalti.MosaicFile)
    if asked.verb == "read" and is_file:
        return origin.read(columns, condition, asked.row_groups, **kept)
    if asked.verb == "batches":
        if is_file:
            batches = list(
                origin.iter_batches(
                    asked.batch_size, columns, condition, asked.row_groups, exact=asked.is_exact, **kept
                )
            )
        else:
            batches = list(origin.to_batches(columns, condition, **cut, **kept))
        if asked.batch_size is not None:
            assert all(0 < batch.num_rows <= asked.batch_size for batch in batches), asked
            assert not asked.is_exact or all(batch.num_rows == asked.batch_size for batch in batches[:-1]), asked
        return pa.Table.from_batches(batches, origin.scan(columns, condition, **kept).schema)
    if asked.verb == "reader":
        return origin.scan(columns, condition, **cut, **kept).to_reader().read_all()
    if asked.verb in ("head", "tail"):
        return getattr(origin, asked.verb)(asked.count, columns, condition)
    if asked.verb == "take":
        return origin.take(expected.rows(asked), columns)
    if asked.verb == "loader":
        loader = smalti.loader(origin, columns, asked.batch_size or 3, output="arrow", epochs=1)
        return pa.Table.from_batches([batch for part in loader for batch in part.to_batches()], loader.schema)
    return origin.to_table(columns, condition, **kept)


def in_child(act: Callable[[], None]) -> None:
    """Run in a forked child, which is killed if it hangs."""
    child = os.fork()
    if child == 0:
        _run_and_exit(act)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}: {signal.SIGALRM} is a hang, 256 an error that it has printed"


def _run_and_exit(act: Callable[[], None]) -> NoReturn:
    status = 1
    try:
        signal.alarm(60)
        act()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def answer(origin: Any, asked: Question, expected: Expected) -> None:
    """Ask as `asked.how` says, and check what comes back."""

    def act(from_: Any = origin) -> None:
        try:
            found = ask(from_, asked, expected)
        except Exception as error:
            error.add_note(f"{asked}, of {from_!r}")
            raise
        expected.check(found, asked)

    if asked.how == "threads":
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: act(), range(3)))
    elif asked.how == "fork":
        in_child(act)
    elif asked.how == "pickled" and getattr(origin, "_reopen", origin) is not None:
        with pickle.loads(pickle.dumps(origin)) as other:
            act(other)
    else:
        act()


# --- files and sources ----------------------------------------------------------------------------------------------


def plain_table(choose: random.Random) -> pa.Table:
    """Columns that v1 stores without the metadata frame, in enough rows for pages and slices of some size."""
    rows = choose.choice([0, 1, 30, 3000])
    texts = [f"{choose.randrange(1 << 40):x}" * choose.randrange(4) for _ in range(choose.choice([1, 5, 400]))]
    return pa.table(
        {
            "number": pa.array([choose.choice([None, row, 7]) for row in range(rows)], pa.int32()),
            "text": pa.array(choose.choices([*texts, None], k=rows), pa.string()),
            "list": pa.array([[row] * (row % 3) if row % 5 else None for row in range(rows)], pa.list_(pa.int64())),
            "same": pa.array(["x" * 50] * rows),
        }
    )


def any_options(choose: random.Random) -> dict[str, Any]:
    return {
        "num_buckets": choose.choice([1, 2, 3, 50]),
        "page_size_threshold": choose.choice([0, 20, 32768]),
        "row_group_max_rows": choose.choice([3, 10, 1000]),
        "dict_max_entries": choose.choice([1, 255, 100_000]),
        "stats_columns": choose.choice([[], [KEY]]),
    }


def reading_options(choose: random.Random) -> dict[str, Any]:
    return {"readahead": choose.choice([None, 0, 1, 2, 8]), "memory_limit": choose.choice([None, 64 << 20])}


@contextmanager
def opened(
    choose: random.Random, table: pa.Table, s3: S3Server, kind: str, compression: str
) -> Iterator[tuple[Any, list[int]]]:
    """The table in a file or several, somewhere, open; and the rows of each row group."""
    options, how = {**any_options(choose), "compression": compression}, reading_options(choose)
    is_one = choose.random() < 0.6
    cuts = [0, table.num_rows] if is_one else [0, table.num_rows // 3, table.num_rows // 2, table.num_rows]
    parts = [written(table.slice(start, end - start), **options) for start, end in pairwise(cuts)]
    groups: list[int] = []
    for part in parts:
        with smalti.open(part) as file:
            groups += [file.row_group(index).num_rows for index in range(file.num_row_groups)]
    cache = {"cache_bytes": choose.choice([0, 1 << 20, 64 << 20])}
    with tempfile.TemporaryDirectory() as directory:
        if kind == "s3":
            directory = f"s3://configurations/{choose.randrange(1 << 60)}"
        filesystem, where = pa.fs.FileSystem.from_uri(directory + s3.query if kind == "s3" else directory)
        for number, part in enumerate(parts):
            with filesystem.open_output_stream(f"{where}/{number}.mosaic") as stream:
                stream.write(part)
        if kind in ("bytes", "remote") and is_one:
            source: Any = parts[0]
            if kind == "remote":
                source = smalti.ReadAt(
                    lambda start, size: parts[0][start : start + size], len(parts[0]), is_remote=True
                )
            origin: Any = smalti.open(source, **how, **cache)
        elif is_one and choose.random() < 0.7:
            origin = smalti.open(f"{directory}/0.mosaic", **how, **cache)
        else:
            origin = smalti.dataset(directory, **how)
        if kind == "s3":
            fails = choose.choice([{}, {"fail": "GET", "after": choose.randrange(5), "how": "503"}])
            s3.reset(latency=choose.choice([0, 0.002]), **fails)
        with origin:
            yield origin, groups


@given(seed=st.integers(0, 1 << 32))
@settings(examples(40), phases=[Phase.explicit, Phase.reuse, Phase.generate])  # a smaller seed is not a smaller case
def test_any_read_of_any_configuration(s3: S3Server, seed: int) -> None:
    read_in_ten_ways(random.Random(seed), s3)


def read_in_ten_ways(choose: random.Random, s3: S3Server) -> None:
    is_plain = choose.random() < 0.3
    table = plain_table(choose) if is_plain else any_table(choose, choose.choice([1, 2, 3, 5]))
    keys: list[int | None] = [None if choose.random() < 0.1 else key for key in range(table.num_rows)]
    choose.shuffle(keys)
    table = table.append_column(KEY, pa.array(keys, pa.int64()))
    kind = choose.choice(["disk", "disk", "bytes", "remote", "s3"])
    compression = choose.choice(["zstd", "none"] if is_plain else ["zstd"])  # other types need the metadata frame
    with opened(choose, table, s3, kind, compression) as (origin, groups):
        expected = Expected(table, groups)
        for _ in range(10):
            is_file = isinstance(origin, smalti.MosaicFile)
            answer(origin, any_question(choose, expected, is_file=is_file, is_on_s3=kind == "s3"), expected)


# --- limits ---------------------------------------------------------------------------------------------------------

LIMIT, ROWS, WIDTH = 60 << 20, 150_000, 2000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 MB of strings in a few kB, as a table of two files with row groups of 20 MB."""
    path = tmp_path_factory.mktemp("large")
    text = pa.array(["x" * WIDTH] * (ROWS // 2))
    for number in range(2):
        numbers = pa.array(range(number * ROWS // 2, (number + 1) * ROWS // 2))
        table = pa.table({"number": numbers, "text": text})
        smalti.write_table(table, path / f"{number}.mosaic", row_group_max_rows=10_000, num_buckets=2)
    return path


def consume(choose: random.Random, origin: Any, verb: str) -> list[list[int]]:
    """The numbers that a read of both columns returns, batch by batch; and no batch is kept."""
    size, exact = choose.choice([1000, 30_000, 100_000]), choose.random() < 0.5
    if verb == "batches":
        filters = choose.choice([None, "number >= 20000"])
        return [batch["number"].to_pylist() for batch in origin.to_batches(None, filters, size, exact=exact)]
    if verb == "loader":
        loader = smalti.loader(origin, None, size, output="arrow", epochs=1, shuffle=choose.random() < 0.5)
        return [table["number"].to_pylist() for table in loader]
    rows = choose.choice([10, 8_000, 100_000])
    if verb == "take":
        indices = choose.choices(range(origin.num_rows), k=rows)
        return [origin.take(indices)["number"].to_pylist()]
    return [getattr(origin, verb)(rows)["number"].to_pylist()]


@given(seed=st.integers(0, 1 << 32))
@settings(examples(25), phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_no_read_exceeds_its_limit(large: Path, seed: int) -> None:
    """The rows, or `MemoryLimitError`; and at no time more memory than the limit and what a process takes beside it."""
    choose = random.Random(seed)
    how: dict[str, Any] = {"memory_limit": LIMIT, "readahead": choose.choice([None, 0, 2, 8])}
    is_file = choose.random() < 0.5
    cache = {"cache_bytes": choose.choice([0, LIMIT])}
    with smalti.open(large / "1.mosaic", **how, **cache) if is_file else smalti.dataset(large, **how) as origin:
        first, end = ROWS // 2 if is_file else 0, ROWS
        verb = choose.choice(["batches", "loader", "take", "head", "tail"])
        pa.default_memory_pool().release_unused()
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
        before = _status("VmRSS")
        try:
            found = consume(choose, origin, verb)
        except smalti.MemoryLimitError:
            found = None
        peak = _status("VmHWM") - before
    assert peak <= LIMIT + HEADROOM, (verb, peak >> 20, how, is_file, seed)
    if found is None:
        return
    numbers = [number for batch in found for number in batch]
    if verb == "head":
        assert numbers == list(range(first, end))[: len(numbers)]
    elif verb == "tail":
        assert numbers == list(range(first, end))[end - first - len(numbers) :]
    elif verb == "loader":
        assert sorted(numbers) == list(range(first, end))
    elif verb == "batches":
        assert numbers in (list(range(first, end)), list(range(max(first, 20_000), end)))


def _status(key: str) -> int:
    return int(re.search(rf"{key}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10  # type: ignore[index]
