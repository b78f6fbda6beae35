"""Longer sweeps than the tests have time for: `python -m tests.tools.fuzz [seconds] [seed]`.

Damages goldens and files of our own at random, puts hostile zstd frames into slots, and reads the files whole. Only an
error of ours or a valid read may come out. New files are made of their columns, which are refused or read as the
same. Arrow data with damaged buffers is written as well.
The damaged file is on disk before it is read, so a crash leaves its cause behind.
"""

from __future__ import annotations

import random
import shutil
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

import smalti
from smalti.format.bucket import inflate_slots, pack_directory, pack_slots, parse_directory
from smalti.format.companion import pack_companion
from smalti.format.index import PAGED, pack_row_group
from smalti.format.varint import pack_varint
from smalti.io import open_source
from smalti.mosaic.tail import read_tail
from tests.support.files import written
from tests.support.golden import GOLDEN_FILES, golden_bytes
from tests.support.hostile_arrow import write_damaged
from tests.support.reading_child import read_everything
from tests.support.tables import matrix
from tests.tools.fuzzing.targets import run

KEPT = Path("target/fuzz")


def corpus(seed: int) -> dict[str, bytes]:
    small = {name: golden_bytes(name) for name, entry in GOLDEN_FILES.items() if entry["mosaic_bytes"] < 25_000}
    table = matrix(seed, 23)
    return small | {
        "ours_none": written(table, compression="none", num_buckets=3, stats_columns="all"),
        "ours_groups": written(table, compression="none", num_buckets=2, row_group_max_rows=7),
        "ours_paged": written(table, num_buckets=3, page_size_threshold=0, checksum=False),
    }


def damage(data: bytes, rng: random.Random) -> bytes:
    """Flip, overwrite, cut or repeat a few bytes; the end of the file, where counts and offsets are, more often."""
    blob = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        at = rng.randrange(len(blob)) if rng.random() < 0.5 else max(0, len(blob) - 1 - int(rng.expovariate(1 / 120)))
        kind = rng.random()
        if kind < 0.5:
            blob[at] ^= 1 << rng.randrange(8)
        elif kind < 0.8:
            blob[at] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF])
        elif kind < 0.9:
            del blob[at : at + rng.randint(1, 4)]
        else:
            blob[at:at] = blob[at : at + rng.randint(1, 8)]
        if not blob:
            return b""
    return bytes(blob)


def _frame(page: bytes, **parameters: bool) -> bytes:
    return zstandard.ZstdCompressor(**parameters).compress(page)


def _raw_frame(page: bytes, head: bytes, block: int) -> bytes:
    """A frame by hand: a descriptor with what follows it, and one block of `block` kind that holds the page."""
    return b"\x28\xb5\x2f\xfd" + head + struct.pack("<I", (len(page) << 3) | block)[:3] + page


def hostile_slot(page: bytes, rng: random.Random) -> bytes:
    """A slot that tells other sizes than its page has, or holds more or less than one frame, or an odd frame."""
    size, frame, half = len(page), _frame(page), len(page) // 2
    skippable = struct.pack("<II", 0x184D2A50 + rng.randrange(16), 3) + b"abc"
    flipped = bytearray(frame)
    flipped[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
    declared = struct.pack("<I", size)
    told, stored = rng.choice(
        [
            *((size, frame + tail) for tail in (b"x", skippable, frame, _frame(b""))),
            *((size, start + frame) for start in (skippable, _frame(b""))),
            *((other, frame) for other in (size + 1, max(0, size - 1), 0, 1 << 31, (1 << 32) - 1, size * 32_768)),
            *((size, part) for part in (frame[:-1], frame[:5], b"", bytes(flipped))),
            *((0, part) for part in (b"", _frame(b""))),
            (2 * size, frame + frame),
            (size, _frame(page[:half]) + _frame(page[half:])),
            (size, _frame(page, write_content_size=False)),
            (size, _frame(page, write_checksum=True)[:-1]),
            # Single segment with sizes of 8 and 4 bytes; reserved block kinds; dictionaries; a window; reserved bits.
            *((size, _raw_frame(page, b"\xe0" + struct.pack("<Q", size), block)) for block in (0, 1, 3, 7)),
            *((size, _raw_frame(page, mark + declared, 1)) for mark in (b"\xa0", b"\xa8", b"\xb0", b"\xa4")),
            *((size, _raw_frame(page, mark + declared, 1)) for mark in (b"\xa1\7", b"\xa3\0\0\0\0", b"\x80\x58")),
            (size, _raw_frame(page, b"\0\x58", 1)),
        ]
    )
    if rng.random() < 0.03:  # a size in more bytes than it needs
        return bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, 128, 0]) + frame
    return pack_varint(told) + stored


def with_hostile_slots(rng: random.Random) -> bytes:
    """A file of ours, paged, in which a slot or two are not what they seem, or hold damaged pages."""

    def hostile(slots: list[bytes]) -> list[bytes]:
        pages = [bytes(inflate_slots([memoryview(slot)])[0]) if slot else None for slot in slots]
        pages = [damage(page, rng) if page and rng.random() < 0.05 else page for page in pages]
        slots = pack_slots(pages, 1, False)
        stored = [(node, page) for node, page in enumerate(pages) if page]
        for node, page in rng.sample(stored, min(len(stored), rng.choice([0, 1, 1, 2]))):
            slots[node] = hostile_slot(page, rng)
        return slots

    table = matrix(rng.randrange(1 << 30), rng.choice([1, 9, 23, 70]))
    table = table.select(rng.sample(table.column_names, rng.choice([1, 3, 8, 30])))
    settings: Any = {"num_buckets": rng.choice([1, 3]), "dict_max_entries": rng.choice([0, 255])}
    return with_slots(written(table, page_size_threshold=0, checksum=False, **settings), hostile)


def with_slots(data: bytes, change: Callable[[list[bytes]], list[bytes]]) -> bytes:
    """The file with other slots in its paged buckets, and an index and a companion that fit them."""
    tail, _ = read_tail(open_source(data))
    body, groups = b"", []
    for group in range(tail.index.num_row_groups):
        entries = []
        for bucket in tail.buckets:
            entry, physical = tail.entry(group, bucket), tail.schema.physical_columns(bucket)
            stored = data[entry.offset : entry.offset + entry.size]
            if entry.mode == PAGED:
                directory = parse_directory(stored, physical, entry.size, list(range(physical.num_physical)))
                slots = change([stored[offset : offset + size] for offset, size in directory.slots])
                stored = pack_directory(directory.child_rows, list(map(len, slots))) + b"".join(slots)
            entries.append(entry._replace(offset=len(body), size=len(stored)))
            body += stored
        groups.append(pack_row_group(tail.index.rows(group), entries, []))
    section = data[
        tail.footer.schema_offset : tail.footer.index_offset - (tail.companion.size if tail.companion else 0)
    ]
    index_offset = len(body) + len(section) + (tail.companion.size if tail.companion else 0)
    end = b"".join(groups) + tail.footer._replace(schema_offset=len(body), index_offset=index_offset).pack()
    companion = pack_companion(tail.companion.payload, end) if tail.companion else b""
    return body + section + companion + end


def main(seconds: float = 60.0, seed: int | None = None) -> int:
    seed = seed if seed is not None else random.SystemRandom().randrange(1 << 32)
    rng = random.Random(seed)
    files = corpus(seed)
    KEPT.mkdir(parents=True, exist_ok=True)
    current = KEPT / "current.mosaic"
    outcomes: Counter[str] = Counter()
    print(f"seed {seed}: {len(files)} files, {seconds:.0f} s", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name = rng.choice([*files, *["hostile slots"] * len(files)])
        if rng.random() < 0.05:
            outcomes[f"{write_damaged(rng)} (Arrow data)"] += 1  # a crash leaves the seed behind
        current.write_bytes(with_hostile_slots(rng) if name == "hostile slots" else damage(files[name], rng))
        try:
            outcomes["rewritten" if run("rewrite", current.read_bytes()) else "not rewritten"] += 1
            read_everything(current.read_bytes())
            outcomes["read"] += 1
        except smalti.MosaicError:
            outcomes["refused"] += 1
        except Exception:
            outcomes["FAILED"] += 1
            kept = KEPT / f"{name}-{seed}-{outcomes['FAILED']}.mosaic"
            shutil.copy(current, kept)
            print(f"{kept}: neither a valid read nor an error of ours")
            traceback.print_exc()
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()))
    return 1 if outcomes["FAILED"] else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(*(kind(text) for kind, text in zip((float, int), arguments, strict=False))))
