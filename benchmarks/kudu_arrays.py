"""Kudu array blocks against Parquet on the same list array: encode and decode, in memory, interleaved, best of several.

Run: python benchmarks/kudu_arrays.py [--arrays 1000000] [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import random
import sys
import time
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from smalti.kudu import CFileReader, CFileWriter


def mixed_lists(arrays: int, seed: int = 5) -> pa.Array:
    """int32 lists of 0 to 9 elements, one in twenty null, one element in ten null."""
    rng = random.Random(seed)
    lengths = rng.choices(range(10), k=arrays)
    null = [rng.random() < 0.05 for _ in range(arrays)]
    offsets, at = [], 0
    for length, is_null in zip(lengths, null, strict=True):
        offsets.append(None if is_null else at)
        at += 0 if is_null else length
    values = rng.choices(range(-50_000, 50_000), k=at)
    elements = pa.array(values, pa.int32(), mask=_mask(rng, at))
    return pa.ListArray.from_arrays(pa.array([*offsets, at], pa.int32()), elements)


def _mask(rng: random.Random, count: int) -> pa.Array:
    return pa.array([draw < 0.1 for draw in (rng.random() for _ in range(count))])


def write_cfile(array: pa.Array, encoding: str, compression: str | None) -> bytes:
    """The array as a CFile in memory."""
    file = io.BytesIO()
    with CFileWriter(file, array.type, encoding=encoding, compression=compression) as writer:
        writer.write(array)
    return file.getvalue()


def write_parquet(array: pa.Array, compression: str) -> pa.Buffer:
    """The array as a Parquet file in memory."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": array}), sink, compression=compression)
    return sink.getvalue()


def best(jobs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of the fastest of several rounds, each round running every job once."""
    fastest = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            fastest[name] = min(fastest[name], time.perf_counter() - start)
    return fastest


def measure(arrays: int, rounds: int) -> dict[str, object]:
    """Seconds and bytes of both formats, and Kudu's time over Parquet's."""
    array = mixed_lists(arrays)
    kudu = {
        "kudu plain": ("plain", None),
        "kudu bit_shuffle": ("bit_shuffle", None),
        "kudu rle": ("rle", None),
        "kudu plain lz4": ("plain", "lz4"),
    }
    parquet = {"parquet none": "none", "parquet lz4": "lz4"}
    cfiles = {name: write_cfile(array, *options) for name, options in kudu.items()}
    tables = {name: write_parquet(array, compression) for name, compression in parquet.items()}
    for name, data in cfiles.items():
        assert CFileReader(data).read().equals(array), name
    encode = best(
        {name: lambda o=options: write_cfile(array, *o) for name, options in kudu.items()}
        | {name: lambda c=compression: write_parquet(array, c) for name, compression in parquet.items()},
        rounds,
    )
    # Threads off: one column is one job on either side.
    decode = best(
        {name: lambda d=data: CFileReader(d).read() for name, data in cfiles.items()}
        | {name: lambda d=data: pq.read_table(pa.BufferReader(d), use_threads=False) for name, data in tables.items()},
        rounds,
    )
    peer = {name: "parquet lz4" if "lz4" in name else "parquet none" for name in kudu}
    return {
        "arrays": arrays,
        "elements": len(array.flatten()),
        "versions": {"pyarrow": pa.__version__, "python": platform.python_version()},
        "results": [
            {
                "name": name,
                "bytes": len(cfiles[name]) if name in cfiles else tables[name].size,
                "encode_s": round(encode[name], 4),
                "decode_s": round(decode[name], 4),
                "encode_ratio": round(encode[name] / encode[peer.get(name, name)], 2),
                "decode_ratio": round(decode[name] / decode[peer.get(name, name)], 2),
            }
            for name in encode
        ],
    }


def main(argv: list[str] | None = None) -> int:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arrays", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    report = measure(options.arrays, options.rounds)
    if options.json:
        print(json.dumps(report, indent=1))
        return 0
    print(f"{report['arrays']:,} int32 arrays, {report['elements']:,} elements; ratio: Kudu's time over Parquet's")
    print(f"{'':18}{'bytes':>12}{'encode':>10}{'ratio':>8}{'decode':>10}{'ratio':>8}")
    for r in report["results"]:  # type: ignore[attr-defined]
        print(
            f"{r['name']:18}{r['bytes']:12,}{r['encode_s'] * 1e3:8.1f}ms{r['encode_ratio']:8.2f}"
            f"{r['decode_s'] * 1e3:8.1f}ms{r['decode_ratio']:8.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
