"""Damaged files: every truncation and many byte flips of the small goldens give an error of ours or a valid read.

Without checksums a flip may change values unseen; with them (the default) it may not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import zstandard

import smalti
from smalti._core.pages import open_slots
from smalti.errors import CorruptFileError
from smalti.format.compression import deflate, inflate, inflate_bucket
from smalti.memory import LARGE
from tests.support import oracle, reference
from tests.support.compare import assert_same
from tests.support.files import layout, read, written
from tests.support.golden import SMALL, golden_bytes
from tests.support.reading_child import read_everything
from tests.support.tables import CONTAINERS, matrix
from tests.tools.flips import KINDS, sweep
from tests.tools.fuzz import with_hostile_slots, with_slots

FLIPS_PER_FILE = 500


def survives(data: bytes) -> bool:
    """Reads everything; True for a valid read, False for an error of ours. Anything else goes through."""
    complaint = None
    try:
        read_everything(data)
    except smalti.MosaicError as error:
        complaint = error
    assert complaint is None or complaint.place, f"no place in: {complaint}"
    return complaint is None


@pytest.mark.parametrize("name", SMALL)
def test_every_truncation_is_an_error(name: str) -> None:
    data = golden_bytes(name)
    read_through = [length for length in range(len(data)) if survives(data[:length])]
    assert read_through == []


@pytest.mark.parametrize("name", SMALL)
def test_every_cut_at_the_front_is_an_error(name: str) -> None:
    """The footer is whole, the offsets in it are not."""
    data = golden_bytes(name)
    read_through = [start for start in range(1, len(data)) if survives(data[start:])]
    assert read_through == []


@pytest.mark.parametrize("name", SMALL)
def test_flipped_bytes_give_an_error_or_a_valid_read(name: str) -> None:
    data = golden_bytes(name)
    outcomes = {survives(damaged) for damaged in flips(data, FLIPS_PER_FILE, seed=name)}
    assert False in outcomes


def flips(data: bytes, count: int, *, seed: str) -> Iterator[bytes]:
    """Copies of the data with one to four bytes changed."""
    rng = random.Random(seed)
    for _ in range(count):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            damaged[rng.randrange(len(data))] ^= rng.choice([1 << rng.randrange(8), rng.randint(1, 255)])
        if damaged != data:
            yield bytes(damaged)


@pytest.mark.parametrize("name", SMALL)
def test_footer_bytes(name: str) -> None:
    """Every value of every footer byte; the reserved two aside, none of them is let through with other values."""
    data = golden_bytes(name)
    expected = read(data)
    for position in range(len(data) - 32, len(data)):
        for value in {0, 1, 2, 0x7F, 0x80, 0xFF, data[position] ^ 1, data[position] + 1 & 0xFF} - {data[position]}:
            damaged = data[:position] + bytes([value]) + data[position + 1 :]
            if survives(damaged):
                assert_same(read(damaged), expected)


CHECKED = {
    "monolithic": {"num_buckets": 2, "page_size_threshold": 1 << 30},
    "paged": {"num_buckets": 2, "page_size_threshold": 0},
}


def checked_file(mode: str) -> bytes:
    types = {name: CONTAINERS[name] for name in ("l_i32", "m_str_f64")}
    return written(matrix(11, 25, types), **CHECKED[mode])


def frames(data: bytes) -> Iterator[range]:
    """Where the zstd frames lie: one per monolithic bucket, one per slot of a paged one, one for the schema."""
    model = oracle.read(data).layout
    for group in model.row_groups:
        for bucket in group.buckets:
            if bucket.mode == "monolithic":
                yield range(bucket.offset, bucket.offset + bucket.size)
                continue
            end = bucket.offset + bucket.size
            for column in reversed(bucket.columns):
                if column.stored_size:
                    start = end - column.stored_size
                    yield range(data.index(zstandard.FRAME_HEADER, start, end), end)
                    end = start
    index_offset, schema_offset = (int.from_bytes(data[at : at + 8], "big") for at in (len(data) - 32, len(data) - 24))
    companion = int.from_bytes(data[index_offset - 8 : index_offset - 4], "big")
    yield range(schema_offset + 4, index_offset - companion)


@pytest.mark.parametrize("mode", CHECKED)
def test_our_frames_carry_checksums(mode: str) -> None:
    data = checked_file(mode)
    found = [zstandard.get_frame_parameters(data[frame.start : frame.stop]) for frame in frames(data)]
    assert len(found) > 2
    assert all(frame.has_checksum for frame in found)
    assert {bucket.mode for bucket in layout(data).row_groups[0].buckets} == {mode}


@pytest.mark.parametrize("mode", CHECKED)
def test_any_flipped_byte_in_a_checked_frame_is_reported(mode: str) -> None:
    """By smalti and by the reference, at every position."""
    data, rng = checked_file(mode), random.Random(mode)
    unseen: dict[str, list[Any]] = {"smalti": [], "reference": []}
    positions = [position for frame in frames(data) for position in frame]
    assert len(positions) > 500
    for position in positions:
        damaged = flipped(data, position, rng.choice([0xFF, rng.randint(1, 255) | 0x08]))
        if survives(damaged):
            unseen["smalti"].append(position)
        if position % 3 == 0 and reference_reads(damaged):
            unseen["reference"].append(position)
    assert unseen == {"smalti": [], "reference": []}


@pytest.mark.parametrize("kind", KINDS)
def test_every_byte_is_covered(kind: str) -> None:
    """Whatever byte is changed, of frames, lengths, statistics, index, footer or companion: noticed, or the same.

    A few bits of a zstd frame say nothing about its content (one is reserved, others choose between equal encodings):
    with one of them flipped the content still agrees with its checksum. ``make flips`` tries nine changes of each byte.
    """
    data, rng = KINDS[kind](), random.Random(kind)
    found = sweep(data, lambda _: iter([1 << rng.randrange(8)]))
    assert [outcome for outcome in found if outcome.startswith("wrong")] == []
    assert found["noticed"] > 30 * found["harmless"]


def flipped(data: bytes, position: int, mask: int) -> bytes:
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


def reference_reads(data: bytes) -> bool:
    try:
        reference.read(data)
    except RuntimeError:
        return False
    return True


def test_without_checksum_the_frames_have_none() -> None:
    data = written(matrix(3, 10, {"i32": CONTAINERS["l_i32"]}), checksum=False)
    assert not any(
        zstandard.get_frame_parameters(data[frame.start : frame.stop]).has_checksum for frame in frames(data)
    )


def test_a_page_without_bytes_is_refused() -> None:
    """zstandard's call for many frames corrupts the heap if one of them has no content, so it never gets such a one."""
    empty = b"\0" + zstandard.ZstdCompressor().compress(b"")
    assert open_slots([memoryview(empty)])[2] is None
    data = with_slots(written(matrix(1, 5), num_buckets=3, page_size_threshold=0), lambda slots: [empty] * len(slots))
    with pytest.raises(smalti.CorruptFileError, match="data ends early"):
        read(data)


def test_hostile_slots() -> None:
    """Frames that tell other sizes, skippable and cut frames, odd descriptors: an error of ours, or valid values."""
    rng = random.Random(11)
    valid = sum(survives(with_hostile_slots(rng)) for _ in range(80))
    assert 5 < valid < 60


def test_large_blocks_are_inflated_as_small_ones_are() -> None:
    """They go into other memory, by another call of the decoder, which does not tell when a frame is cut."""
    content = random.Random(5).randbytes(LARGE // 2) + bytes(LARGE)
    frame, half = deflate(content, 1, True), len(content) // 2
    skippable = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    cases = {
        "whole": frame,
        "stored": deflate(content, -(1 << 17), True),
        "two frames": deflate(content[:half], 1, True) + deflate(content[half:], 1, True),
        "a skippable frame behind": frame + skippable,
        "a skippable frame before": skippable + frame,
        "an empty frame behind": frame + deflate(b"", 1, True),
        "more behind": frame + b"x",
        "cut": frame[:-1],
        "without its checksum": frame[:-4],
        "cut in a block": frame[: LARGE // 4],
        "another checksum": frame[:-1] + bytes([frame[-1] ^ 1]),
        "another byte": frame[:5_000] + bytes([frame[5_000] ^ 1]) + frame[5_001:],
        "of another size": deflate(content + b"x", 1, True),
        "no frame": content[:5_000],
    }
    for name, data in cases.items():
        found = []
        for how in (inflate, inflate_bucket):
            try:
                found.append(bytes(how(data, len(content))))
            except CorruptFileError as error:
                found.append(str(error))
        assert found[0] == found[1], name
        assert (found[0] == content) == (name in list(cases)[:6]), name
