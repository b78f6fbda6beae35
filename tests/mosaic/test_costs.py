"""Work grows with what is asked for, and no faster: counted at two sizes, of which the second is four times the first.

What grew with the square would be sixteen times as much. Lines are counted in one thread, see `tests.support.steps`.
"""

from __future__ import annotations

import ctypes
import io
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti._core.index import RowGroupIndex
from smalti.file.rewriting import GroupSource, rewrite_file
from smalti.format.companion import Description
from smalti.io import locate
from smalti.jobs.formats.columnar import ArrowFileReader
from smalti.jobs.formats.request import ReadRequest
from smalti.logical.intake import Intake
from smalti.logical.mapping import ColumnMapping
from smalti.mosaic import writer
from smalti.spec import FOOTER_SIZE
from tests.support.steps import lines_run

SIZES = (100, 400)


def written(table: pa.Table, **options: object) -> bytes:
    file = io.BytesIO()
    smalti.write_table(table, file, threads=1, **options)  # type: ignore[arg-type]
    return file.getvalue()


def dictionaries(count: int) -> pa.Table:
    return pa.table({f"d{n}": pa.array(["x", "y"]).dictionary_encode() for n in range(count)})


def struct_of_dictionaries(count: int) -> pa.Table:
    fields = [pa.array(["x", "y"]).dictionary_encode()] * count
    return pa.table({"s": pa.StructArray.from_arrays(fields, [f"f{n}" for n in range(count)])})


def copy_dictionaries(count: int) -> Callable[[], object]:
    file = smalti.open(written(dictionaries(count)))
    options = smalti.WriterOptions(threads=1)
    return lambda: rewrite_file(io.BytesIO(), file.schema, [GroupSource(file, 0)], options=options)


def write_struct(count: int) -> Callable[[], object]:
    table = struct_of_dictionaries(count)
    return lambda: Intake(table.schema).conform(table.to_batches()[0])


def ask_given_types(count: int) -> Callable[[], object]:
    mapping: ColumnMapping = smalti.open(written(struct_of_dictionaries(count))).columns
    return lambda: [mapping.given_type(name) for name in mapping.stored.names]


def ask_filter_columns(count: int) -> Callable[[], object]:
    mapping: ColumnMapping = smalti.open(written(struct_of_dictionaries(count))).columns
    return lambda: mapping.filter_columns([f"s.f{n}" for n in range(count)])


def copy_slots(count: int) -> Callable[[], object]:
    """Every slot is a run of its own, and several hundred of them are one part."""
    noise = [pa.array(np.random.default_rng(n).integers(0, 1 << 62, 1_250_000 // count)) for n in range(count)]
    names = [f"c{n:03}" for n in range(count)]
    file = smalti.open(written(pa.table(noise, names), num_buckets=1, page_size_threshold=0))
    options = smalti.WriterOptions(threads=1, num_buckets=1, page_size_threshold=0)
    source = GroupSource(file, 0, copied=dict(zip(names, reversed(names), strict=True)))
    return lambda: rewrite_file(io.BytesIO(), file.schema, [source], options=options)


def join_buckets(count: int) -> Callable[[], object]:
    """A monolithic bucket is made from paged ones of a column each."""
    table = pa.table({f"c{n:03}": [n, n + 1] for n in range(count)})
    file = smalti.open(written(table, num_buckets=count, page_size_threshold=0))
    options = smalti.WriterOptions(threads=1, num_buckets=1, compression="none")
    return lambda: rewrite_file(io.BytesIO(), file.schema, [GroupSource(file, 0)], options=options)


COSTS: dict[str, tuple[Callable[[int], Callable[[], object]], str]] = {
    "dictionaries that are copied": (copy_dictionaries, "file/rewriting"),
    "slots that are copied": (copy_slots, "mosaic/rewriter"),
    "buckets that are joined": (join_buckets, "mosaic/rewriter"),
    "dictionaries of a struct": (write_struct, "logical/intake"),
    "types of the fields of a struct": (ask_given_types, "logical/mapping"),
    "fields of a struct in a filter": (ask_filter_columns, "logical/tree logical/mapping"),
}


@pytest.mark.parametrize("cost", COSTS)
def test_work_grows_with_columns_not_with_their_square(cost: str) -> None:
    make, modules = COSTS[cost]
    few, many = (lines_run(make(size), *modules.split()) for size in SIZES)
    assert few < many < 6 * few, (few, many)


class Name(str):
    """The name of a column, which counts how often it is compared with another one."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def reorder(path: Path, names: list[str]) -> None:
    jobs.reorder_columns(path, names)


def read_arrow(path: Path, names: list[str]) -> None:
    schema = smalti.open(path).schema
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema):
        pass
    ArrowFileReader(locate(path), ReadRequest(columns=tuple(names))).close()


@pytest.mark.parametrize("read", [reorder, read_arrow])
def test_names_are_looked_up_not_searched(read: Callable[[Path, list[str]], None], tmp_path: Path) -> None:
    compared = []
    for count in SIZES:
        path = tmp_path / f"{count}.mosaic"
        path.write_bytes(written(pa.table({f"c{n}": [n] for n in range(count)})))
        Name.compared = 0
        read(path, [Name(f"c{n}") for n in reversed(range(count))])
        compared.append(Name.compared)
    assert compared[1] < 6 * max(compared[0], SIZES[0]), compared


@pytest.mark.parametrize("count", SIZES)
def test_statistics_of_other_columns_are_not_parsed(count: int) -> None:
    """Bounds of all columns but some neighbours are changed to invalid ones after the index was checked."""
    data = written(pa.table({f"c{n:03}": [1000 + n, 2000 + n] for n in range(count)}), stats_columns="all")
    tail = smalti.open(data)._tail
    section, end = data[tail.footer.index_offset : -FOOTER_SIZE], tail.footer.schema_offset
    index = RowGroupIndex(section, tail.schema, 1, end, True)
    wanted = count // 2 + 3
    for column in {*range(count)} - {*range(wanted - 15, wanted + 16)}:
        at = section.index(struct.pack(">q", 2000 + column))
        ctypes.memset(id(section) + bytes.__basicsize__ - 1 + at, 0x80, 8)
    assert index.statistics(0, {wanted}) == [
        (wanted, 0, struct.pack(">q", 1000 + wanted), struct.pack(">q", 2000 + wanted))
    ]
    assert index.statistics(0, set()) == []
    with pytest.raises(smalti.CorruptFileError, match="minimum is above"):
        index.statistics(0)


def test_an_estimate_rarely_packs_the_metadata_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[bytes] = []
    pack = writer.pack_description

    def counted(description: Description) -> bytes:
        packed.append(pack(description))
        return packed[-1]

    def write(batches: int) -> int:
        """Each batch has new entries of a dictionary."""
        packed.clear()
        file = io.BytesIO()
        text = pa.dictionary(pa.int32(), pa.string())
        with smalti.MosaicWriter(file, pa.schema([("text", text)])) as made:
            for number in range(batches):
                texts = [f"{random.Random(number * 9 + n).random()}" for n in range(9)]
                made.write(pa.table({"text": pa.array(texts).dictionary_encode()}))
                made.flush()
                estimate = made.estimated_size
        assert abs(estimate - len(file.getvalue())) < 0.25 * len(file.getvalue())
        return len(packed)

    monkeypatch.setattr(writer, "pack_description", counted)
    few, many = map(write, SIZES)
    assert 2 <= few < many <= few + 8, (few, many)
