"""The seeded tables everything is measured on, and their cache.

Owns what the data looks like, and nothing about files of any format: a data set is a function from a seed to a
``pyarrow.Table``. Streams come from ``numpy.random.RandomState``, whose output numpy promises never to change, and pass
through exact arithmetic only (no ``pow``, no ``log``), so the same name gives the same table on every machine.

Values are made to look like the tables people have (constants, categories, identifiers, decimals as text, clocks,
gaps), not like what any encoder does well.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import words
from benchmarks.words import BRANCHES, CATEGORIES, LEAVES

CACHE = Path(__file__).parent / "data"
SEED = 20260317


@dataclass(frozen=True)
class Dataset:
    """A named table: ``build`` makes it from nothing, ``load`` takes it from the cache when it is there."""

    name: str
    columns: int
    rows: int
    maker: Callable[[np.random.RandomState, int, int], pa.Table]
    about: str

    def build(self) -> pa.Table:
        """Make the table; equal for equal name, columns and rows."""
        return self.maker(np.random.RandomState(SEED), self.columns, self.rows)

    def cached(self) -> Path:
        """The table as an uncompressed Arrow file, made on first use."""
        path = CACHE / f"{self.name}-{self.columns}x{self.rows}-{recipe()}.arrow"
        if not path.exists():
            CACHE.mkdir(exist_ok=True)
            table = self.build()
            partial = path.with_suffix(".partial")
            with pa.ipc.new_file(partial, table.schema) as sink:
                sink.write_table(table)
            partial.rename(path)
        return path

    def load(self) -> pa.Table:
        """The table in memory, one chunk a column, with no page of it mapped from a file."""
        return load(self.cached())


@cache
def recipe() -> str:
    """A digest of the code that makes the data sets, so that a changed recipe never meets an old cache."""
    sources = (Path(__file__), Path(words.__file__))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:8]


def load(path: Path) -> pa.Table:
    """A cached table, read into memory of its own."""
    with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
        return reader.read_all()


def scattered(table_columns: list[str], count: int) -> list[str]:
    """``count`` of the columns, the same ones on every call, spread at random, in the order of the table."""
    picked = np.random.RandomState(SEED + count).choice(len(table_columns), count, replace=False)
    return [table_columns[i] for i in np.sort(picked)]


def column_names(rng: np.random.RandomState, count: int) -> list[str]:
    """Names of about 80 bytes, as a feature pipeline makes them: a few dozen leaves under each of many branches."""
    leaves = ["_".join(parts) for parts in itertools.product(*LEAVES)]
    shape = tuple(len(level) for level in BRANCHES)
    per_branch = 24
    branches = rng.choice(int(np.prod(shape)), -(-count // per_branch), replace=False)
    names = []
    for branch in branches:
        stem = "_".join(level[i] for level, i in zip(BRANCHES, np.unravel_index(branch, shape), strict=True))
        names += [f"{stem}_{leaves[i]}" for i in np.sort(rng.choice(len(leaves), per_branch, replace=False))]
    return names[:count]


def wide(rng: np.random.RandomState, columns: int, rows: int) -> pa.Table:
    """The announcement's table: nine string columns to every int32 one, long names."""
    names = column_names(rng, columns)
    strings = StringColumns(rng)
    return pa.table([integers(rng, rows) if i % 10 == 9 else strings.make(rows) for i in range(columns)], names=names)


class StringColumns:
    """Text columns of the kinds found in wide tables, drawn in fixed proportions."""

    def __init__(self, rng: np.random.RandomState) -> None:
        self.rng = rng
        self.categories = pa.array(CATEGORIES)
        self.entities = pa.array([f"{word.lower()}-{number:05d}" for number in range(400) for word in CATEGORIES[:50]])
        self.decimals = pa.array([f"{cents / 100:.2f}" for cents in np.cumsum(rng.randint(1, 900, 20_000))])
        clock = np.datetime64("2026-01-01T00:00:00") + np.cumsum(rng.randint(0, 120, 200_000)).astype("m8[s]")
        self.clock = pa.array(np.datetime_as_string(clock).tolist())
        self.kinds = [
            self.empty,
            self.constant,
            self.category,
            self.entity,
            self.decimal,
            self.timestamp,
            self.identifier,
        ]
        self.shares = np.cumsum([0.08, 0.15, 0.40, 0.20, 0.07, 0.05])

    def make(self, rows: int) -> pa.Array:
        """The next column."""
        return self.kinds[np.searchsorted(self.shares, self.rng.random_sample(), side="right")](rows)

    def empty(self, rows: int) -> pa.Array:
        return pa.nulls(rows, pa.string())

    def constant(self, rows: int) -> pa.Array:
        word = self.rng.randint(len(self.categories))
        return self.categories.take(gaps(self.rng, np.full(rows, word, dtype=np.int32)))

    def category(self, rows: int) -> pa.Array:
        """2 to 40 words, the first ones far more often than the last."""
        size = self.rng.randint(2, 41)
        first = self.rng.randint(len(self.categories) - size)
        return self.categories.take(gaps(self.rng, first + skewed(self.rng, size, rows)))

    def entity(self, rows: int) -> pa.Array:
        """100 to 3,000 keys of customers, shops, devices."""
        size = self.rng.randint(100, 3001)
        first = self.rng.randint(len(self.entities) - size)
        return self.entities.take(gaps(self.rng, first + skewed(self.rng, size, rows)))

    def decimal(self, rows: int) -> pa.Array:
        return self.decimals.take(gaps(self.rng, self.rng.randint(0, len(self.decimals), rows).astype(np.int32)))

    def timestamp(self, rows: int) -> pa.Array:
        """A clock that only goes forward."""
        first = self.rng.randint(len(self.clock) - rows)
        return self.clock.take(gaps(self.rng, np.arange(first, first + rows, dtype=np.int32)))

    def identifier(self, rows: int) -> pa.Array:
        """16 hexadecimal digits, no two alike."""
        digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[self.rng.randint(0, 16, rows * 16)]
        offsets = np.arange(0, rows * 16 + 1, 16, dtype=np.int32)
        return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(digits))


def integers(rng: np.random.RandomState, rows: int) -> pa.Array:
    """An int32 column: a flag, a count, a code, a sequence or noise."""
    kind = rng.randint(5)
    if kind == 0:
        values = rng.randint(0, 2, rows)
    elif kind == 1:
        values = skewed(rng, 12, rows)
    elif kind == 2:
        values = 1000 + skewed(rng, 200, rows)
    elif kind == 3:
        values = rng.randint(1_000_000) + np.arange(rows)
    else:
        values = rng.randint(-(2**31), 2**31, rows, dtype=np.int64)
    return gaps(rng, values.astype(np.int32))


def sparse(rng: np.random.RandomState, columns: int, rows: int) -> pa.Table:
    """Numbers with holes: 79 % int8, 11 % double, 5 % int16, 5 % int32; 18 % of the columns empty, 16 % full."""
    types = rng.permutation(np.repeat([0, 1, 2, 3], shares(columns, [0.79, 0.11, 0.05, 0.05])))
    fills = rng.permutation(np.repeat([0, 1, 2], shares(columns, [0.18, 0.16, 0.66])))
    dtypes = (np.int8, np.float64, np.int16, np.int32)
    arrays = []
    for kind, fill in zip(types, fills, strict=True):
        dtype = dtypes[kind]
        if fill == 0:
            arrays.append(pa.nulls(rows, pa.from_numpy_dtype(dtype)))
            continue
        values = measures(rng, rows) if dtype is np.float64 else counts(rng, rows, dtype)
        arrays.append(pa.array(values, mask=None if fill == 1 else rng.random_sample(rows) < 0.75))
    return pa.table(arrays, names=[f"sensor_{i // 40:04d}_channel_{i % 40:02d}" for i in range(columns)])


def shares(count: int, parts: list[float]) -> list[int]:
    """``count`` divided in these parts, what rounding leaves over going to the first."""
    sizes = [int(count * part) for part in parts]
    return [sizes[0] + count - sum(sizes), *sizes[1:]]


def counts(rng: np.random.RandomState, rows: int, dtype: type) -> np.ndarray:
    """Small integers, skewed towards zero, over a span that differs from column to column."""
    top = int(np.iinfo(dtype).max)
    return skewed(rng, 2 + rng.randint(min(top, 20_000) - 1), rows).astype(dtype)


def measures(rng: np.random.RandomState, rows: int) -> np.ndarray:
    """Doubles: a walk read off a gauge with two decimals, or noise in full precision."""
    if rng.randint(2):
        return np.round(100 + np.cumsum(bell(rng, rows)), 2)
    return bell(rng, rows)


def narrow(rng: np.random.RandomState, columns: int, rows: int) -> pa.Table:
    """A log of trips: few columns, many rows, what row groups and pages of Parquet are made for."""
    makers = {
        "pickup_at": lambda: pa.array(np.int64(1_767_225_600) + np.cumsum(rng.randint(0, 3, rows))),
        "passengers": lambda: pa.array(skewed(rng, 6, rows)),
        "distance_km": lambda: pa.array(np.round(30 * leaning(rng, rows), 2)),
        "fare": lambda: pa.array(np.round(3 + 80 * leaning(rng, rows), 2)),
        "payment": lambda: pa.array(CATEGORIES).take(pa.array(skewed(rng, 5, rows))),
        "zone": lambda: pa.array(CATEGORIES).take(gaps(rng, skewed(rng, 250, rows))),
        "vehicle": lambda: pa.array(rng.randint(0, 2**31, rows).astype(np.int32)),
        "tip": lambda: gaps(rng, np.round(12 * leaning(rng, rows), 2)),
    }
    cycle = itertools.islice(itertools.cycle(makers.items()), columns)
    return pa.table({f"{name}_{i:02d}": make() for i, (name, make) in enumerate(cycle)})


def vectors(rng: np.random.RandomState, columns: int, rows: int) -> pa.Table:
    """Embeddings: 256 numbers a row, as close to noise as those that models make."""
    numbers = (bell(rng, columns * rows * 256) * 0.1).astype(np.float32).reshape(columns, -1)
    return pa.table({f"embedding_{i:02d}": pa.FixedSizeListArray.from_arrays(numbers[i], 256) for i in range(columns)})


def telemetry(rng: np.random.RandomState, columns: int, rows: int) -> pa.Table:
    """Sensors over time: numbers of five kinds, an ``id`` that ascends, ten equal runs, and a number from 0 to 999."""
    labels = pa.array(CATEGORIES[:12])
    kinds: list[Callable[[], pa.Array]] = [
        lambda: pa.array(np.round(20 + 80 * leaning(rng, rows), 2)),
        lambda: pa.array(skewed(rng, 500, rows)),
        lambda: pa.array(np.cumsum(rng.randint(0, 9, rows), dtype=np.int64)),
        lambda: pa.array(rng.random_sample(rows).astype(np.float32)),
        lambda: labels.take(pa.array(skewed(rng, len(labels), rows))),
    ]
    keys = {
        "id": pa.array(np.arange(rows, dtype=np.int64)),
        "run": pa.array((np.arange(rows) * 10 // rows).astype(np.int32)),
        "random": pa.array(rng.randint(0, 1000, rows).astype(np.int32)),
    }
    return pa.table(keys | {f"sensor_{i:04d}": kinds[i % len(kinds)]() for i in range(columns - len(keys))})


def telemetry_filters(rows: int) -> dict[str, list[tuple[str, str, int]] | None]:
    """The conditions on the telemetry table: statistics find the hundredth and the run, nothing helps the scattered."""
    first = rows * 2 // 5
    return {
        "none": None,
        "hundredth": [("id", ">=", first), ("id", "<", first + max(1, rows // 100))],
        "scattered": [("random", "=", 7)],
        "run": [("run", "=", 3)],
    }


def skewed(rng: np.random.RandomState, size: int, rows: int) -> np.ndarray:
    """Indices below ``size``, small ones more often."""
    return (leaning(rng, rows) * size).astype(np.int32)


def leaning(rng: np.random.RandomState, rows: int) -> np.ndarray:
    """Numbers below 1 that lean towards 0."""
    uniform = rng.random_sample(rows)
    return uniform * uniform * uniform


def bell(rng: np.random.RandomState, rows: int) -> np.ndarray:
    """Numbers around 0, shaped nearly like a normal distribution."""
    return rng.random_sample((4, rows)).sum(axis=0) - 2.0


def gaps(rng: np.random.RandomState, values: np.ndarray) -> pa.Array:
    """The values, with nulls in half of the columns: 1, 10, 30 or 60 % of the rows."""
    if rng.randint(2):
        return pa.array(values)
    return pa.array(values, mask=rng.random_sample(len(values)) < (0.01, 0.1, 0.3, 0.6)[rng.randint(4)])


DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset("wide-10", 10_000, 10, wide, "the announcement's table, 10 rows: names dominate"),
        Dataset("wide-500", 10_000, 500, wide, "the announcement's table, 500 rows"),
        Dataset("wide-4500", 10_000, 4_500, wide, "the announcement's table, 4,500 rows"),
        Dataset("sparse", 10_000, 1_500, sparse, "numbers with holes"),
        Dataset("narrow", 24, 500_000, narrow, "few columns, many rows: not what Mosaic is for"),
        Dataset("vectors", 4, 20_000, vectors, "embeddings of 256 numbers: lists that hardly compress"),
        Dataset("telemetry", 2_000, 50_000, telemetry, "sensors over time, for reads with a filter"),
        Dataset("growth-1000", 1_000, 50, wide, "growth with the number of columns"),
        Dataset("growth-10000", 10_000, 50, wide, "growth with the number of columns"),
        Dataset("growth-30000", 30_000, 50, wide, "growth with the number of columns"),
        Dataset("growth-100000", 100_000, 50, wide, "growth with the number of columns"),
    )
}
