"""Sizes of slots beside the companion: they save a round trip, and cannot change a value whatever they say."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest

import smalti
from smalti.format.companion import pack_companion, split_section
from smalti.format.slot_sizes import pack_slot_sizes, parse_slot_sizes, split_slot_sizes
from smalti.io.sources import REMOTE_TAIL
from tests.support import reference
from tests.support.files import read, written
from tests.support.rounds import Store

COLUMNS = [f"c{i:03d}" for i in range(300)]
WANTED = ["c007", "c123", "c124", "c290", "lists"]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = random.Random(7)
    columns: dict[str, pa.Array] = {name: pa.array([rng.randbytes(1000), rng.randbytes(9)]) for name in COLUMNS}
    columns["c008"] = pa.nulls(2, pa.binary())  # a column without a slot
    columns["lists"] = pa.array([[1, 2], None], pa.list_(pa.int32()))
    return pa.table(columns)


@pytest.fixture(scope="module")
def data(table: pa.Table) -> bytes:
    return written(table, num_buckets=10, page_size_threshold=0)


def parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Everything before the frame, the frame, and index with footer."""
    index_at, schema_at = struct.unpack(">QQ", data[-32:-16])
    section, _ = split_section(data[schema_at:index_at])
    section, frame = split_slot_sizes(section)
    return data[:schema_at] + section, frame, data[index_at:]


def with_frame(data: bytes, frame: bytes) -> bytes:
    """The file with another frame, all checksums and offsets of which are right."""
    before, _, end = parts(data)
    companion = len(pack_companion(b"", end))
    end = end[:-32] + struct.pack(">Q", len(before) + len(frame) + companion) + end[-24:]
    return before + frame + pack_companion(b"", end) + end


def read_remotely(data: bytes) -> tuple[pa.Table, int]:
    """The wanted columns, and the number of rounds."""
    store = Store(data)
    with store.opened() as file:
        return file.read(WANTED), len(store.rounds)


def test_any_columns_take_two_rounds_from_cold(data: bytes, table: pa.Table) -> None:
    assert parts(data)[1]
    assert read_remotely(data) == (table.select(WANTED), 2)
    assert read_remotely(with_frame(data, b"")) == (table.select(WANTED), 2)  # Its small buckets are read whole.


def test_others_read_the_file(data: bytes, table: pa.Table) -> None:
    assert reference.read(data).equals(table)
    assert read(data).equals(table)
    with smalti.open(data) as file:
        assert file.stored_schema.names == table.column_names


def test_the_helper_makes_the_file_that_the_writer_makes(data: bytes) -> None:
    assert with_frame(data, parts(data)[1]) == data


def wrong_sizes(data: bytes) -> dict[str, bytes]:
    with smalti.open(data) as file:
        buckets = file.layout().row_groups[0].buckets
    counts = [[column.stored_size or 0 for column in bucket.columns] for bucket in buckets]
    rng = random.Random(3)
    return {
        "shifted": pack_slot_sizes([sizes[1:] + sizes[:1] for sizes in counts]),
        "shuffled": pack_slot_sizes([rng.sample(sizes, len(sizes)) for sizes in counts]),
        "joined": pack_slot_sizes([[sizes[0] + sizes[1], *sizes[2:], 0] for sizes in counts]),
        "huge": pack_slot_sizes([[0xFFFFFFFF] * len(sizes) for sizes in counts]),
        "fewer slots": pack_slot_sizes([sizes[:-1] for sizes in counts]),
        "fewer buckets": pack_slot_sizes(counts[:-1]),
        "more buckets": pack_slot_sizes([*counts, [1]]),
        "of another file": pack_slot_sizes([[5], []]),
    }


def test_wrong_sizes_change_nothing(data: bytes, table: pa.Table) -> None:
    for name, frame in wrong_sizes(data).items():
        changed = with_frame(data, frame)
        found, rounds = read_remotely(changed)
        assert found.equals(table.select(WANTED)), name
        assert rounds <= 3, name
        assert read(changed).equals(table), name


def test_damage_is_harmless_or_an_error(data: bytes, table: pa.Table) -> None:
    """Every byte of the frame, with the checksum of the companion left right, since it does not cover the frame."""
    before, frame, _ = parts(data)
    rng = random.Random(5)
    positions = [*range(40), *range(len(frame) - 40, len(frame)), *rng.sample(range(len(frame)), 40)]
    for position in positions:
        damaged = bytearray(data)
        damaged[len(before) + position] ^= rng.randrange(1, 256)
        try:
            found, _ = read_remotely(bytes(damaged))
        except smalti.CorruptFileError:
            continue
        assert found.equals(table.select(WANTED)), position


def test_small_files_and_files_of_many_row_groups_have_none(table: pa.Table) -> None:
    assert parts(written(table.select(COLUMNS[:100]), num_buckets=10, page_size_threshold=0))[1] == b""
    rng = random.Random(1)
    one = pa.table({f"c{i:04d}": pa.array([rng.randbytes(rng.randrange(600))]) for i in range(2_000)})
    many = written(pa.concat_tables([one] * 60), num_buckets=100, page_size_threshold=0, row_group_max_rows=1)
    assert len(many) > REMOTE_TAIL
    assert parts(many)[1] == b""
    assert read(many).num_rows == 60


def test_numbers_that_a_frame_cannot_have() -> None:
    frame = pack_slot_sizes([[1, 2], [], [3]])
    assert parse_slot_sizes(frame, 1, 3) is not None
    assert parse_slot_sizes(frame, 3, 1) is not None  # the numbers of slots decide
    for groups, buckets in ((1, 4), (1, 2), (1 << 31, 1 << 31), (0, 0)):
        assert parse_slot_sizes(frame, groups, buckets) is None
    assert parse_slot_sizes(b"", 1, 3) is None
    assert pack_slot_sizes([[], []]) == b""
    assert pack_slot_sizes([[1] * (1 << 18)]) == b""
