"""Writing a DataFrame, beside the peer that does the same work, in turn and in one warmed-up session.

- ``narrow``: 20 columns, Parquet to Mosaic, beside the same rows to Parquet;
- ``half``: half of a wide Mosaic table's columns and the rows that match a filter, Mosaic to Mosaic, beside the job
  with the same columns and the same filter. ``copied`` is the job without the filter, which copies columns as bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.spark.converting import fresh, timed
from benchmarks.spark.shared import Shape, say, spark_session, write_parquet

NARROW = [
    "id",
    *(f"rand({seed}) AS d{seed}" for seed in range(7)),
    *(f"id * {factor} % 1000 AS l{factor}" for factor in range(3, 9)),
    *(f"CAST(id % {count} AS string) AS s{count}" for count in range(50, 54)),
    "id % 2 = 0 AS b",
    "CAST(id % 1000 AS int) AS i",
]


def write(root: Path, shape: Shape, narrow_rows: int, rounds: int) -> dict[str, Any]:
    """Seconds of each work and of its peer; `ratio` is that of the fastest rounds."""
    from smalti import jobs

    root.mkdir()
    spark = spark_session()
    spark.range(0, narrow_rows, numPartitions=4).selectExpr(*NARROW).write.parquet(str(root / "rows"))
    rows = spark.read.parquet(str(root / "rows"))
    found = {
        "narrow": _in_turn(
            lambda: rows.write.format("mosaic").save(str(fresh(root / "mosaic"))),
            lambda: rows.write.parquet(str(fresh(root / "parquet"))),
            rounds,
        )
    }
    jobs.convert(write_parquet(root / "raw", shape), root / "wide", engine="spark", spark=spark)
    wide = spark.read.format("mosaic").load(str(root / "wide"))
    half = wide.columns[::2]
    where = f"`{half[0]}` IS NOT NULL"
    kept = wide.select(half).where(where)

    def job(where: str | None) -> Any:
        return jobs.convert(root / "wide", fresh(root / "job"), engine="spark", spark=spark, columns=half, where=where)

    found["half"] = _in_turn(
        lambda: kept.write.format("mosaic").save(str(fresh(root / "frame"))), lambda: job(where), rounds
    )
    found["half"]["copied"] = min(timed(lambda: job(None))[0] for _ in range(rounds))
    spark.stop()
    return {"narrow_rows": narrow_rows, **found}


def _in_turn(road: Callable[[], Any], peer: Callable[[], Any], rounds: int) -> dict[str, Any]:
    seconds: list[float] = []
    peers: list[float] = []
    for _ in range(rounds):
        for work, taken in ((road, seconds), (peer, peers)):
            taken.append(timed(work)[0])
    say(
        f"write: {', '.join(f'{each:.1f}' for each in seconds)} s; peer: {', '.join(f'{each:.1f}' for each in peers)} s"
    )
    return {"seconds": min(seconds), "peer": min(peers), "ratio": min(seconds) / min(peers), "rounds": rounds}
