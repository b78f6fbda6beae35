"""Rewriting files: whatever is copied or new, the result is what the same change gives on an Arrow table in memory."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.file.rewriting import GroupSource, RewriteSummary, rewrite_file
from tests.support import reference
from tests.support.any_arrow import any_array, any_table, any_type, meanings
from tests.support.compare import assert_same
from tests.support.files import read, written
from tests.support.long import repeated
from tests.support.tables import TYPES, column, matrix

PAGED: Any = {"num_buckets": 3, "page_size_threshold": 0}


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
