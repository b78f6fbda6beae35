"""Changes of tables in place: any sequence of them equals the same changes on rows in memory, and bad input is refused.

The model is a list of rows, each a dict. After every step the table is compared with it, `verify` finds nothing, and
the released reference reads every file as smalti does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import smalti
from smalti import jobs
from smalti.jobs import change_data
from tests.jobs.data import hidden, visible
from tests.support import reference
from tests.support.any_arrow import any_array, any_type, meanings
from tests.support.long import repeated

Row = dict[str, Any]


class Model:
    """A table of random columns on disk, and the same rows in memory. `id` names a row, `k` is a key with repeats."""

    def __init__(self, root: Path, seed: int) -> None:
        self.choose = random.Random(seed)
        self.is_file = self.choose.random() < 0.3
        self.is_partitioned = not self.is_file and self.choose.random() < 0.4
        self.path = root / ("t.mosaic" if self.is_file else "t")
        self.rows: list[Row] = []
        self.next_id = self.next_name = 0
        self.types: dict[str, pa.DataType] = {"id": pa.int64(), "k": pa.int32(), "s": pa.string()}
        for _ in range(self.choose.randrange(5)):
            self.types[self.name()] = self.type()
        self.partitions = ["p"] if self.is_partitioned else []
        for number in range(1 if self.is_file else self.choose.randrange(1, 4)):
            table = self.table(self.choose.randrange(40))
            if self.is_file:
                path = self.path
            else:
                path = self.path / (f"p={number}" if self.is_partitioned else "") / f"f{number}.mosaic"
            path.parent.mkdir(parents=True, exist_ok=True)
            options: dict[str, Any] = {"row_group_max_rows": 8, "stats_columns": ["id", "k"]}
            smalti.write_table(table, path, **options)
            more = {"p": number} if self.is_partitioned else {}
            self.rows += [row | more for row in as_rows(table)]

    def name(self) -> str:
        self.next_name += 1
        return f"c{self.next_name}"

    def type(self) -> pa.DataType:
        """Any type but those that a process has to be told of before it reads them."""
        while "smalti.tests" in str(found := any_type(self.choose)):
            pass
        return found

    def table(self, rows: int, names: list[str] | None = None) -> pa.Table:
        """New rows with columns of random values."""
        columns = {}
        for name in names or self.types:
            if name == "id":
                columns[name] = pa.array(range(self.next_id, self.next_id + rows), pa.int64())
                self.next_id += rows
            elif name == "k":
                columns[name] = pa.array([self.key() for _ in range(rows)], pa.int32())
            elif name == "s":
                columns[name] = pa.array([self.choose.choice([None, "a", "b", "long text"]) for _ in range(rows)])
                columns[name] = columns[name].cast(pa.string())
            else:
                columns[name] = any_array(self.choose, self.types[name], rows)
        return pa.table(columns)

    def key(self) -> int | None:
        return None if self.choose.random() < 0.15 else self.choose.randrange(12)

    def others(self) -> list[str]:
        """Columns that steps may drop, rename or replace."""
        return [name for name in self.types if name not in ("id", "k", "s")]

    # --- steps --------------------------------------------------------------------------------------------------

    def ordered(self) -> list[int]:
        return smalti.dataset(self.path).to_table(["id"])["id"].to_pylist()

    def add_aligned(self) -> None:
        name = self.name()
        self.types[name] = self.type()
        order = self.ordered()
        data = self.table(len(order), [name])
        given: Any = data
        if self.choose.random() < 0.5:
            given = pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=7))
        jobs.add_columns(self.path, given)
        by_id = dict(zip(order, values_of(data[name]), strict=True))
        for row in self.rows:
            row[name] = by_id[row["id"]]

    def add_joined(self) -> None:
        name, old = self.name(), None
        if self.others() and self.choose.random() < 0.4:
            name = old = self.choose.choice(self.others())
        self.types[name] = self.type()
        keys = self.choose.sample(range(14), self.choose.randrange(10))
        values = self.table(len(keys) + 1, [name])
        data = values.append_column("k", pa.array([*keys, None], pa.int64()))
        report = jobs.add_columns(self.path, data, on="k", replace=old is not None)
        by_key = dict(zip(keys, values_of(values[name]), strict=False))
        for row in self.rows:
            row[name] = by_key.get(row["k"])
        assert report.rows_unmatched == sum(row["k"] not in by_key for row in self.rows)

    def add_computed(self) -> None:
        name = self.name()
        self.types[name] = pa.int64()
        jobs.add_columns(self.path, lambda batch: {name: pc.multiply(batch["id"], 3)}, columns=["id"])
        for row in self.rows:
            row[name] = 3 * row["id"]

    def drop(self) -> None:
        if not self.others():
            return
        names = self.choose.sample(self.others(), self.choose.randrange(1, len(self.others()) + 1))
        jobs.drop_columns(self.path, names)
        for name in names:
            del self.types[name]
            for row in self.rows:
                row.pop(name, None)

    def rename(self) -> None:
        if len(self.others()) < 2:
            return
        one, other = self.choose.sample(self.others(), 2)
        new = {one: other, other: self.name()}
        jobs.rename_columns(self.path, new)
        self.types = {new.get(name, name): type_ for name, type_ in self.types.items()}
        self.rows = [{new.get(name, name): value for name, value in row.items()} for row in self.rows]

    def reorder(self) -> None:
        names = self.choose.sample(list(self.types), self.choose.randrange(1, len(self.types) + 1))
        jobs.reorder_columns(self.path, names)
        self.types = {name: self.types[name] for name in dict.fromkeys([*names, *self.types])}

    def condition(self) -> tuple[Any, Callable[[Row], bool | None]]:
        key = self.choose.randrange(12)
        low, high = sorted(self.choose.randrange(self.next_id + 1) for _ in range(2))
        both: list[tuple[Any, Callable[[Row], bool | None]]] = [
            (f"k = {key}", lambda row: None if row["k"] is None else row["k"] == key),
            (f"id between {low} and {high}", lambda row: low <= row["id"] <= high),
            ([("s", "=", "a")], lambda row: None if row["s"] is None else row["s"] == "a"),
            (pc.field("id") < low, lambda row: row["id"] < low),
            (f"k > {key} and s is not null", lambda row: and_(kleene(row["k"], key), row["s"] is not None)),
        ]
        if self.is_partitioned:
            both.append(("p = 1", lambda row: row["p"] == 1))
        return self.choose.choice(both)

    def delete(self) -> None:
        where, matches = self.condition()
        report = jobs.delete(self.path, where)
        answers = [matches(row) for row in self.rows]
        assert (report.rows, report.rows_unknown) == (answers.count(True), answers.count(None)), where
        self.rows = [row for row, answer in zip(self.rows, answers, strict=True) if answer is not True]

    def update(self) -> None:
        where, matches = self.condition() if self.choose.random() < 0.8 else (None, lambda _: True)
        report = jobs.update(self.path, {"s": "new", "k": pc.field("k") + 1}, where)
        answers = [matches(row) for row in self.rows]
        assert (report.rows, report.rows_unknown) == (answers.count(True), answers.count(None)), where
        for row, answer in zip(self.rows, answers, strict=True):
            if answer is True:
                row |= {"s": "new", "k": None if row["k"] is None else row["k"] + 1}

    def merge(self) -> None:
        matched = self.choose.choice(["update", "ignore"])
        not_matched = self.choose.choice(["insert", "ignore"])
        names = ["id", *self.choose.sample(["s", *self.others()], self.choose.randrange(1, len(self.others()) + 2))]
        known = [row["id"] for row in self.rows]
        ids = self.choose.sample(known, self.choose.randrange(min(4, len(known)) + 1))
        fresh = self.table(self.choose.randrange(4), ["id"])["id"].to_pylist()
        data = self.table(len(ids) + len(fresh), names[1:]).append_column("id", pa.array(ids + fresh, pa.int64()))
        if self.is_partitioned:
            if matched == "update":
                not_matched = "ignore"
            else:
                data = data.append_column("p", pa.array([0] * data.num_rows, pa.int64()))
        report = jobs.merge(self.path, data, "id", matched, not_matched)
        new = {row["id"]: row for row in as_rows(data)}
        if matched == "update":
            for row in self.rows:
                row |= new.get(row["id"], {})
            assert report.rows_updated == len(ids)
        if not_matched == "insert":
            self.rows += [dict.fromkeys(self.types) | new[number] for number in fresh]
            assert report.rows_inserted == len(fresh)

    # --- comparing ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        found = smalti.dataset(self.path).to_table()
        assert set(found.column_names) == {*self.types, *self.partitions}
        for name, type_ in self.types.items():
            assert found.schema.field(name).type == type_, name
        expected = sorted(self.rows, key=lambda row: row["id"])
        names = list(found.column_names)
        actual = sorted(as_rows(found), key=lambda row: row["id"])
        assert actual == [{name: row.get(name) for name in names} for row in expected]
        assert jobs.verify(self.path).ok
        assert not hidden(self.path.parent)
        for path in [self.path] if self.is_file else [self.path / name for name in visible(self.path)]:
            with smalti.open(path, logical=False) as file:
                assert values_of_table(reference.read(path.read_bytes())) == values_of_table(file.read())


def kleene(value: int | None, limit: int) -> bool | None:
    return None if value is None else value > limit


def and_(one: bool | None, other: bool | None) -> bool | None:
    return False if one is False or other is False else None if one is None or other is None else True


def values_of(column: Any) -> list[Any]:
    return [value for chunk in column.chunks for value in meanings(chunk)]


def values_of_table(table: pa.Table) -> dict[str, list[Any]]:
    return {name: values_of(table.column(name)) for name in table.column_names}


def as_rows(table: pa.Table) -> list[Row]:
    columns = values_of_table(table)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


STEPS = ["add_aligned", "add_joined", "add_computed", "drop", "rename", "reorder", "delete", "update", "merge"]


@pytest.mark.parametrize("seed", range(repeated(40)))
def test_any_sequence(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 3 == 0:  # Data that does not fit in memory is staged in chunks.
        monkeypatch.setattr(change_data, "CHUNK_BYTES", 64)
        monkeypatch.setattr(change_data.Spool.add, "__defaults__", (64,))
    model = Model(tmp_path, seed)
    model.check()
    for _ in range(6):
        step = model.choose.choice(STEPS)
        getattr(model, step)()
        model.check()
