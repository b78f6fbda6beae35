"""Longer sweeps than the tests have time for: `python -m tests.fuzz [seconds] [seed]`.

Damages goldens and files of our own at random and reads them whole. Only an error of ours or a valid read may come out.
The damaged file is on disk before it is read, so a crash leaves its cause behind.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import smalti
from tests.files import written
from tests.golden import GOLDEN_FILES, golden_bytes
from tests.reading_child import read_everything
from tests.tables import matrix

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
        name = rng.choice(list(files))
        current.write_bytes(damage(files[name], rng))
        try:
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
