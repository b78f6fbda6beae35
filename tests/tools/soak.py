"""Hours of ordinary work in one process: `python -m tests.tools.soak MINUTES [SEED]`.

Appends, overwrites, compacts, cleans, reads, filters and verifies a table at random, beside single files that are
written, given up and read by threads, Kudu's columns, and a table on S3. After every step the table has exactly the
rows that it should. At the end, memory, descriptors and threads must be about what they were after the first quarter
of the time, and nothing may be left behind.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

import smalti
from smalti import jobs, kudu
from smalti.io.locations import TEMPORARY_SUFFIX, locate
from tests.support.s3 import S3Server

#: What memory may grow by between the first quarter and the end: allocators keep some of what they have had.
ALLOWED_GROWTH = 1.3
ALLOWED_BYTES = 64 << 20


@dataclass(frozen=True)
class Reading:
    """How much the process holds at some moment."""

    resident: int
    descriptors: int
    threads: int
    arrow: int

    @classmethod
    def now(cls) -> Reading:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        held = pa.total_allocated_bytes()
        descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        return cls(pages * os.sysconf("SC_PAGE_SIZE"), descriptors, threading.active_count(), held)

    def __str__(self) -> str:
        return (
            f"{self.resident / 1e6:,.0f} MB resident, {self.arrow / 1e6:,.1f} MB of Arrow, "
            f"{self.descriptors} descriptors, {self.threads} threads"
        )


class Soak:
    """The work, and what the table should hold."""

    def __init__(self, home: Path, rng: random.Random, store: str) -> None:
        self.home, self.rng, self.store = home, rng, store
        self.table = home / "table"
        self.expected: Counter[int] = Counter()
        self.next_id = 0
        self.overwrite()

    def batch(self, rows: int) -> pa.Table:
        ids = list(range(self.next_id, self.next_id + rows))
        self.next_id += rows
        columns = {"id": pa.array(ids, pa.int64()), "text": [f"{i % 97}" * (i % 5) for i in ids]}
        columns |= {
            f"c{n:03}": pa.array([i * n % 1000 for i in ids], pa.int32()) for n in range(self.rng.randint(1, 60))
        }
        return pa.table(columns)

    def source(self) -> tuple[Path, pa.Table]:
        data = self.batch(self.rng.randint(1, 3000))
        path = self.home / "source.mosaic"
        smalti.write_table(data, path, row_group_max_rows=self.rng.choice([None, 500]))
        return path, data

    # --- steps ------------------------------------------------------------------------------------------------------

    def append(self) -> None:
        data = self.batch(self.rng.randint(1, 2000))
        smalti.write_table(data, self.table / f"part-{self.next_id}.mosaic")
        self.expected.update(data["id"].to_pylist())

    def overwrite(self) -> None:
        path, data = self.source()
        jobs.convert([path], self.table, overwrite=True, workers=self.rng.choice([1, 2]))
        self.expected = Counter(data["id"].to_pylist())

    def compact(self) -> None:
        jobs.compact(self.table, sort_by=self.rng.choice([None, "id"]))

    def clean(self) -> None:
        jobs.clean(self.table, timedelta(0))

    def verify(self) -> None:
        assert jobs.verify(self.table).ok

    def read(self) -> None:
        found = smalti.dataset(self.table)
        limit = self.rng.randrange(max(1, self.next_id))
        kept = found.to_table(["id"], filters=[("id", ">=", limit)])["id"].to_pylist()
        assert Counter(kept) == Counter({i: n for i, n in self.expected.items() if i >= limit})
        assert sum(batch.num_rows for batch in found.to_batches(batch_size=100)) == self.expected.total()

    def share(self) -> None:
        """Threads write one file and read it together; another writer is given up."""
        path, rows = self.home / "shared.mosaic", [self.batch(50).select(["id", "text"]) for _ in range(8)]
        abandoned = smalti.MosaicWriter(self.home / "abandoned.mosaic", rows[0].schema, row_group_max_rows=20)
        abandoned.write(rows[0])
        with smalti.MosaicWriter(path, rows[0].schema, row_group_max_rows=70) as writer, ThreadPoolExecutor(4) as pool:
            list(pool.map(writer.write, rows))
        with smalti.open(path) as file, ThreadPoolExecutor(4) as pool:
            assert {table.num_rows for table in pool.map(lambda _: file.read(), range(4))} == {400}

    def damage(self) -> None:
        """A file with a wrong byte is refused, or read."""
        path, _ = self.source()
        data = bytearray(path.read_bytes())
        data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
        with contextlib.suppress(smalti.MosaicError):
            smalti.read_table(bytes(data))

    def column(self) -> None:
        path, cells = (
            self.home / "column",
            [[self.rng.random() for _ in range(self.rng.randrange(5))] for _ in range(500)],
        )
        with kudu.CFileWriter(path, pa.float64(), compression=self.rng.choice([None, "lz4"])) as writer:
            writer.write(pa.array(cells, pa.list_(pa.float64())))
        with kudu.CFileReader(path) as reader:
            assert reader.read().to_pylist() == cells

    def remote(self) -> None:
        path, data = self.source()
        jobs.convert([path], self.store, overwrite=True)
        assert smalti.dataset(self.store).to_table(["id"])["id"].to_pylist() == data["id"].to_pylist()

    def check(self) -> None:
        """The table has exactly its rows, and no step has left a file of its own."""
        found = smalti.dataset(self.table).to_table(["id"])["id"].to_pylist()
        assert Counter(found) == self.expected, "rows were lost, doubled or came back"
        left = [path for path in self.home.rglob("*") if path.name.endswith(TEMPORARY_SUFFIX)]
        assert left == [], f"left behind: {left}"


#: Steps and how often they are done.
STEPS = {
    Soak.append: 10,
    Soak.read: 8,
    Soak.compact: 3,
    Soak.overwrite: 2,
    Soak.share: 3,
    Soak.damage: 3,
    Soak.column: 2,
    Soak.verify: 1,
    Soak.clean: 1,
    Soak.remote: 1,
}


def main(minutes: str = "10", seed: str | None = None) -> int:
    chosen = int(seed) if seed else random.SystemRandom().randrange(1 << 32)
    print(f"seed {chosen}, {minutes} minutes", flush=True)
    rng, end, steps = random.Random(chosen), 60 * float(minutes), Counter[str]()
    with tempfile.TemporaryDirectory() as home, S3Server(["bucket"]) as server:
        os.environ.update(server.environment)
        soak = Soak(Path(home), rng, "s3://bucket/table")
        began, told, first = time.monotonic(), 0.0, None
        while (now := time.monotonic() - began) < end:
            step = rng.choices(list(STEPS), list(STEPS.values()))[0]
            step(soak)
            soak.check()
            steps[step.__name__] += 1
            if first is None and now > end / 4:
                first = Reading.now()
            if now - told > max(10.0, end / 20):
                told = now
                print(f"{now:6.0f} s, {steps.total():,} steps: {Reading.now()}", flush=True)
        soak.clean()
        soak.check()
        last, uploads = Reading.now(), server.open_uploads("bucket")
        staged = [path for path in (soak.table / "_mosaic_jobs").iterdir() if path.is_dir()]
        staged += [info.path for info in locate(f"{soak.store}/_mosaic_jobs").entries() if not info.is_file]  # type: ignore[list-item]
    first = first or last
    print(f"steps: {', '.join(f'{count} {name}' for name, count in steps.most_common())}")
    print(f"after a quarter: {first}\nat the end:      {last}\nleft behind: {len(staged)} staged, {uploads} uploads")
    failures = []
    if last.resident > first.resident * ALLOWED_GROWTH + ALLOWED_BYTES:
        failures.append("memory grows")
    if last.descriptors > first.descriptors + 5:  # connections to the store come and go
        failures.append("descriptors stay open")
    if last.threads > first.threads + 130:  # the pool of requests grows to its size
        failures.append("threads grow")
    if staged or uploads:
        failures.append("jobs leave something behind")
    print("; ".join(failures) or "nothing grows, nothing is left behind")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
