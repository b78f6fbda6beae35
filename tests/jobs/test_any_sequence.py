"""Any sequence of changes of a table equals the same changes of rows in memory, whatever the types of its columns.

The model is a list of rows, each a dict of what Arrow's scalars mean. A change may refuse values, and then the table is
as before. After every step the table is compared with the rows, `verify` finds nothing, and the released reference
reads every file as smalti does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import smalti
from smalti import jobs
from smalti.errors import SchemaError
from smalti.jobs import change_data
from smalti.logical.types import storage_kind, with_capacity
from smalti.logical.widen import widen
from tests.jobs.data import hidden, visible
from tests.support import reference
from tests.support.any_arrow import any_array, any_type, meanings, two_types
from tests.support.strategies import examples

Row = dict[str, Any]
WIDEST = (1 << 31) - 1


class Model:
    """A table of random columns on disk, and the same rows in memory. `id` names a row, `k` is a key with repeats."""

    def __init__(self, root: Path, seed: int) -> None:
        self.choose = random.Random(seed)
        self.is_file = self.chance(0.3)
        self.is_partitioned = not self.is_file and self.chance(0.4)
        self.path = root / ("t.mosaic" if self.is_file else "t")
        self.rows: list[Row] = []
        self.next_id = self.next_name = 0
        self.types: dict[str, pa.DataType] = {"id": pa.int64(), "k": pa.int32(), "s": pa.string()}
        #: Other types for the values of columns.
        self.twins: dict[str, pa.DataType] = {}
        #: Columns that have other types in some files.
        self.mixed: set[str] = set()
        #: The entries of ordered dictionaries of columns whose values were given at once.
        self.orders: dict[str, dict[str, list[Any]]] = {}
        is_by_reference = seed % 4 == 1
        for _ in range(0 if is_by_reference else self.choose.randrange(5)):
            self.new_column()
        self.partitions = ["p"] if self.is_partitioned else []
        for number in range(1 if self.is_file else self.choose.randrange(1, 4)):
            names = [name for name in self.types if number == 0 or name in ("id", "k", "s") or self.chance(0.8)]
            table = self.table(self.choose.randrange(40), names, evolve=number > 0)
            if self.is_file:
                path = self.path
            else:
                path = self.path / (f"p={number}" if self.is_partitioned else "") / f"f{number}.mosaic"
            path.parent.mkdir(parents=True, exist_ok=True)
            options: dict[str, Any] = {"stats_columns": ["id", "k"], "num_buckets": 2}
            if is_by_reference and table.num_rows:
                batches = pa.Table.from_batches(table.to_batches(max_chunksize=8))
                path.write_bytes(reference.write(batches, one_per_batch=True, **options))
            else:
                smalti.write_table(table, path, row_group_max_rows=8, **options)
            more = {"p": number} if self.is_partitioned else {}
            self.rows += [dict.fromkeys(self.types) | row | more for row in as_rows(table)]

    def chance(self, share: float) -> bool:
        return self.choose.random() < share

    # --- columns ------------------------------------------------------------------------------------------------

    def new_column(self, old: str | None = None) -> str:
        """A column of any type, or of the type of another one, but none that a process has to be told of."""
        if old is None:
            self.next_name += 1
        name = old or f"c{self.next_name}"
        self.twins.pop(name, None)
        self.orders.pop(name, None)
        self.mixed.discard(name)
        if self.others() and self.chance(0.3):
            self.types[name] = self.types[self.choose.choice(self.others())]
            return name
        while True:
            if self.chance(0.4):
                self.types[name], self.twins[name] = two_types(self.choose)
            else:
                self.types[name] = self.twins[name] = any_type(self.choose)
            if "smalti.tests" not in f"{self.types[name]} {self.twins[name]}":
                return name

    def table(self, rows: int, names: list[str], evolve: bool = False) -> pa.Table:
        """New rows with columns of random values; in files of a table that evolves, some have another type."""
        columns = {}
        for name in names:
            type_ = self.types[name]
            if evolve and name in self.twins and self.chance(0.8):
                both = widen(type_, self.twins[name])
                if both is not None and both != type_:
                    self.types[name], type_ = both, self.twins[name]
                    self.mixed.add(name)
            columns[name] = self.array(name, type_, rows)
        return pa.table(columns)

    def array(self, name: str, type_: pa.DataType, rows: int) -> Any:
        if name == "id":
            self.next_id += rows
            return pa.array(range(self.next_id - rows, self.next_id), pa.int64())
        if name == "k":
            return pa.array([None if self.chance(0.15) else self.choose.randrange(12) for _ in range(rows)], pa.int32())
        if name == "s":
            return pa.array([self.choose.choice([None, "a", "b", "long text"]) for _ in range(rows)], pa.string())
        return any_array(self.choose, type_, rows)

    def others(self) -> list[str]:
        """Columns that steps may drop, rename or replace."""
        return [name for name in self.types if name not in ("id", "k", "s")]

    def set_all(self, name: str, column: Any) -> None:
        """Note a column that was given at once."""
        self.orders[name] = dict(ordered_entries(column.chunk(0))) if column.num_chunks == 1 else {}

    def touch(self, names: list[str]) -> None:
        for name in names:
            self.orders.pop(name, None)

    # --- steps for columns ------------------------------------------------------------------------------------------

    def add_aligned(self) -> None:
        name = self.new_column()
        order = smalti.dataset(self.path).to_table(["id"])["id"].to_pylist()
        data = self.table(len(order), [name])
        given: Any = data
        if self.chance(0.5):
            given = pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=7))
        jobs.add_columns(self.path, given)
        self.set_all(name, data[name])
        by_id = dict(zip(order, meanings(data[name]), strict=True))
        for row in self.rows:
            row[name] = by_id[row["id"]]

    def add_joined(self) -> None:
        """By a column of any type that can be a key; its values come in chunks of one row."""
        on = self.choose.choice([name for name, type_ in self.types.items() if is_key(type_)])
        old = self.choose.choice([None, *(name for name in self.others() if name != on)])
        keys = self.array(on, self.types[on], self.choose.randrange(1, 20))
        first = {key: at for at, key in reversed(list(enumerate(map(as_key, meanings(keys)))))}
        name = self.new_column(old)
        values = self.array(name, self.types[name], len(keys))
        parts = [(keys.slice(at, 1), values.slice(at, 1)) for at in first.values()]
        data = pa.table(
            {on: pa.chunked_array(part[0] for part in parts), name: pa.chunked_array(part[1] for part in parts)}
        )
        report = jobs.add_columns(self.path, data, on=on, replace=old is not None)
        self.orders[name] = dict(ordered_entries(values))
        all_values = meanings(values)
        by_key = {key: all_values[at] for key, at in first.items() if key is not None}
        for row in self.rows:
            row[name] = by_key.get(as_key(row[on]))
        assert report.rows_unmatched == sum(as_key(row[on]) not in by_key for row in self.rows)

    def add_computed(self) -> None:
        self.next_name += 1
        name, of = f"c{self.next_name}", self.choose.choice(list(self.types))
        self.types[name] = self.types[of]
        jobs.add_columns(self.path, lambda batch: {name: batch[of]}, columns=[of])
        for row in self.rows:
            row[name] = row[of]

    def drop(self) -> None:
        if not self.others():
            return
        names = self.choose.sample(self.others(), self.choose.randrange(1, len(self.others()) + 1))
        jobs.drop_columns(self.path, names)
        for name in names:
            self.forget(name)

    def forget(self, name: str) -> None:
        for known in (self.types, self.twins, self.orders, *self.rows):
            known.pop(name, None)

    def rename(self) -> None:
        if len(self.others()) < 2:
            return
        one, other = self.choose.sample(self.others(), 2)
        self.next_name += 1
        new = {one: other, other: f"c{self.next_name}"}
        jobs.rename_columns(self.path, new)
        self.mixed = {new.get(name, name) for name in self.mixed}
        self.types, self.twins, self.orders, *self.rows = (  # type: ignore[assignment]
            {new.get(name, name): value for name, value in known.items()}
            for known in (self.types, self.twins, self.orders, *self.rows)
        )

    def reorder(self) -> None:
        names = self.choose.sample(list(self.types), self.choose.randrange(1, len(self.types) + 1))
        jobs.reorder_columns(self.path, names)
        self.types = {name: self.types[name] for name in dict.fromkeys([*names, *self.types])}

    # --- steps for rows ---------------------------------------------------------------------------------------------

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
        for name in self.others():
            both.append((pc.field(name).is_null(), lambda row, name=name: row[name] is None))
        if self.is_partitioned:
            both.append(("p = 1", lambda row: row["p"] == 1))
        return self.choose.choice(both)

    def delete(self) -> None:
        where, matches = self.condition()
        report = jobs.delete(self.path, where)
        answers = [matches(row) for row in self.rows]
        assert (report.rows, report.rows_unknown) == (answers.count(True), answers.count(None)), where
        self.rows = [row for row, answer in zip(self.rows, answers, strict=True) if answer is not True]
        left = smalti.dataset(self.path).schema.names
        for name in [name for name in self.others() if name not in left]:  # No file with rows had it.
            assert all(row[name] is None for row in self.rows)
            self.forget(name)

    def update(self) -> None:
        where, matches = self.condition() if self.chance(0.8) else (None, lambda _: True)
        new: dict[str, Any] = {"s": "new", "k": pc.field("k") + 1}
        made: dict[str, Callable[[Row], Any]] = {
            "s": lambda _: "new",
            "k": lambda row: None if row["k"] is None else row["k"] + 1,
        }
        can_refuse = False
        for name in self.others():
            if self.chance(0.5):
                new[name], made[name], may = self.value(name)
                can_refuse |= may
        try:
            report = jobs.update(self.path, new, where)
        except SchemaError:
            assert can_refuse
            return
        self.touch(list(new))
        answers = [matches(row) for row in self.rows]
        assert (report.rows, report.rows_unknown) == (answers.count(True), answers.count(None)), where
        for row, answer in zip(self.rows, answers, strict=True):
            if answer is True:
                row |= {name: make(row) for name, make in made.items()}

    def value(self, name: str) -> tuple[Any, Callable[[Row], Any], bool]:
        """A value or an expression for a column, what it makes of a row, and whether it may be refused."""
        alike = [other for other, type_ in self.types.items() if type_ == self.types[name]]
        if self.chance(0.4):
            other = self.choose.choice(alike)
            return pc.field(other), lambda row: row[other], False
        type_ = self.twins.get(name, self.types[name]) if self.chance(0.5) else self.types[name]
        array = any_array(self.choose, type_, 1)
        (meaning,) = meanings(array)
        value: Any = array[0]
        if self.chance(0.5):
            with suppress(Exception):  # Python or Arrow may have no such value, or a coarser one.
                python = value.as_py()
                if meanings(pa.array([python], type_)) == [meaning]:
                    value = python
        # Arrow makes no valid array of some scalars that have runs in them.
        may_refuse = not isinstance(value, pa.Scalar) or type_ != self.types[name] or "run_end" in str(type_)
        return value, lambda _: meaning, may_refuse

    def merge(self) -> None:
        matched = self.choose.choice(["update", "ignore"])
        not_matched = self.choose.choice(["insert", "ignore"])
        names = self.choose.sample(["s", *self.others()], self.choose.randrange(1, len(self.others()) + 2))
        known = {row["id"]: row for row in self.rows}
        ids = self.choose.sample(list(known), self.choose.randrange(min(4, len(known)) + 1))
        fresh = self.array("id", pa.int64(), self.choose.randrange(4)).to_pylist()
        count, can_refuse = len(ids) + len(fresh), False
        columns: dict[str, Any] = {"id": pa.array(ids + fresh, pa.int64())}
        for name in names:
            type_ = self.twins.get(name, self.types[name]) if self.chance(0.4) else self.types[name]
            can_refuse |= type_ != self.types[name]
            columns[name] = self.array(name, type_, count)
        if self.is_partitioned:
            stay = self.chance(0.5)
            where = [known[number]["p"] if stay else self.choose.randrange(4) for number in ids]
            columns["p"] = pa.array(where + [self.choose.randrange(4) for _ in fresh], pa.int64())
        data = pa.table(columns)
        try:
            report = jobs.merge(self.path, data, "id", matched, not_matched)
        except SchemaError:
            assert can_refuse
            return
        self.touch(names)
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
            now = found.schema.field(name).type
            pair = [with_capacity(each, WIDEST, WIDEST) for each in (now, type_)]
            if name in self.mixed:  # Files with the wider type may have gone.
                pair[0], self.types[name] = with_capacity(widen(*pair), WIDEST, WIDEST), now
            assert pair[0] == pair[1], name
            for chunk in found[name].chunks:
                for path, entries in ordered_entries(chunk):
                    known = self.orders.get(name, {}).get(path)
                    assert known is None or entries == [entry for entry in known if entry in entries], name
        expected = sorted(self.rows, key=lambda row: row["id"])
        names = list(found.column_names)
        actual = sorted(as_rows(found), key=lambda row: row["id"])
        assert actual == [{name: row.get(name) for name in names} for row in expected]
        assert jobs.verify(self.path).ok
        assert not hidden(self.path.parent)
        for path in [self.path] if self.is_file else [self.path / name for name in visible(self.path)]:
            with smalti.open(path, logical=False) as file:
                assert values_of_table(reference.read(path.read_bytes())) == values_of_table(file.read())


def is_key(type_: pa.DataType) -> bool:
    kind = storage_kind(type_)
    return not (pt.is_nested(kind) or pt.is_null(kind))


def as_key(meaning: Any) -> Any:
    """What a value is as a key: both zeros are one."""
    return "0.0" if meaning == "-0.0" else meaning


def ordered_entries(array: Any, path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """The entries of ordered dictionaries in an array, by where they are. A file does not keep those in maps."""
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        yield from ordered_entries(array.storage, path)
    elif pt.is_dictionary(type_):
        if type_.ordered:
            yield path, meanings(array.dictionary)
    elif pt.is_struct(type_):
        for at in range(type_.num_fields):
            yield from ordered_entries(array.field(at), f"{path}.{at}")
    elif pt.is_run_end_encoded(type_) or (type_.num_fields == 1 and not pt.is_map(type_)):
        yield from ordered_entries(array.values, path)


def kleene(value: int | None, limit: int) -> bool | None:
    return None if value is None else value > limit


def and_(one: bool | None, other: bool | None) -> bool | None:
    return False if one is False or other is False else None if one is None or other is None else True


def values_of_table(table: pa.Table) -> dict[str, list[Any]]:
    return {name: meanings(table.column(name)) for name in table.column_names}


def as_rows(table: pa.Table) -> list[Row]:
    columns = values_of_table(table)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


STEPS = [
    "add_aligned",
    "add_joined",
    "add_computed",
    "drop",
    "rename",
    "reorder",
    "delete",
    "update",
    "update",
    "merge",
    "merge",
]


@settings(examples(30), phases=[Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 32))
def test_any_sequence(seed: int) -> None:
    with TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        if seed % 3 == 0:  # Data that does not fit in memory is staged in chunks.
            patch.setattr(change_data, "CHUNK_BYTES", 64)
        model = Model(Path(root), seed)
        model.check()
        for _ in range(6):
            getattr(model, model.choose.choice(STEPS))()
            model.check()
