"""Ten of 5,000 columns of four files of a Paimon table: pypaimon with paimon-mosaic, with smalti inside, smalti itself.

``make bench-paimon`` runs it in the environment that has pypaimon. The three take turns. Times are on the wall and of
the processor; the latter say more where other programs are running.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import pyarrow as pa

COLUMNS, ROWS, FILES, WANTED = 5000, 500, 4, 10


def main(rounds: int = 11) -> None:
    from pypaimon.table.file_store_table import FileStoreTable

    import mosaic  # noqa: F401 (the reference is imported once, before anything is timed)
    import smalti.paimon

    numbers = random.Random(1)
    data = pa.table({f"c{i:04d}": [numbers.random() for _ in range(ROWS)] for i in range(COLUMNS)})
    names = data.column_names[:: COLUMNS // WANTED]
    with tempfile.TemporaryDirectory() as directory:
        path = smalti.paimon.create(f"{directory}/t", data.schema)
        for _ in range(FILES):
            smalti.paimon.write(data, path)

        def through_pypaimon() -> pa.Table:
            builder = FileStoreTable.from_path(path).new_read_builder().with_projection(names)
            return builder.new_read().to_arrow(builder.new_scan().plan().splits())

        def with_smalti_inside() -> pa.Table:
            smalti.paimon.install()
            try:
                return through_pypaimon()
            finally:
                smalti.paimon.uninstall()

        ways: dict[str, Callable[[], pa.Table]] = {
            "pypaimon with paimon-mosaic": through_pypaimon,
            "pypaimon with smalti inside": with_smalti_inside,
            "smalti.paimon.dataset": lambda: smalti.paimon.dataset(path).to_table(names),
        }
        expected = through_pypaimon()
        assert all(read().equals(expected) for read in ways.values())
        seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, read in ways.items():
                began = time.perf_counter(), time.process_time()
                read()
                seconds[way].append((time.perf_counter() - began[0], time.process_time() - began[1]))
    first = next(iter(seconds.values()))
    for way, taken in seconds.items():
        line = f"{way:30}"
        for clock, name in enumerate(("wall", "processor")):
            ratio = statistics.median(theirs[clock] / ours[clock] for theirs, ours in zip(first, taken, strict=True))
            line += f"  {name} {statistics.median(each[clock] for each in taken) * 1000:5.0f} ms ({ratio:.1f} x)"
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
