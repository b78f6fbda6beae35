"""Small files that ask for huge memory, and a process that opens them: `python -m tests.support.bombs DIRECTORY`.

Prints a JSON line for each bomb and each way of reading it: what came of it, and by how much the peak of the process's
memory rose.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import zstandard

import smalti
from smalti.cli.main import main as command_line
from tests.support.oracle.wire import uv
from tests.support.oracle.writer import Bucket, Options, RowGroup, assemble, pack_bucket, schema_payload

MANY = 134_217_728  # rows: the most that a column may have that stores nothing per row
BIG = 700_000_000  # bytes: what a compressed block expands to
PLAIN_OPTIONS = Options(compression="none")
_SCHEMA = pa.schema([(f"c{i}", pa.int64()) for i in range(100)])


def zeros(size: int) -> bytes:
    """A zstd frame of so many zeros, made without having them all in memory."""
    compressor = zstandard.ZstdCompressor(19).compressobj(size=size)
    piece = bytes(1 << 20)
    pieces = [compressor.compress(piece) for _ in range(size >> 20)]
    return b"".join([*pieces, compressor.compress(bytes(size & (1 << 20) - 1)), compressor.flush()])


def repeated(array: pa.Array, num_columns: int, num_rows: int, groups: int = 1) -> bytes:
    """Columns that all have the encoded form of `array`, whose encoding needs no bytes per row."""
    schema = pa.schema([(f"c{i}", array.type) for i in range(num_columns)])
    bucket = pack_bucket(0, list(schema), [array] * num_columns, PLAIN_OPTIONS)
    return assemble(schema_payload(schema, 1), [RowGroup(num_rows, (bucket,))] * groups, 1, PLAIN_OPTIONS)


def _block(stored: bytes, size: int, num_rows: int) -> bytes:
    schema = pa.schema([("c", pa.int64())])
    group = RowGroup(num_rows, (Bucket(0, stored, size),))
    return assemble(schema_payload(schema, 1), [group], 1, Options())


def _page() -> bytes:
    """A slot whose page would be large: its size, then the frame."""
    slot = uv(BIG) + zeros(BIG)
    return _block(len(slot).to_bytes(4, "little") + slot, 0, BIG // 8 - 1)


def _schema() -> bytes:
    """A schema block that would be large."""
    good = repeated(pa.array([7, 7]), 1, 2)
    at = int.from_bytes(good[-24:-16], "big")
    section = BIG.to_bytes(4, "big") + zeros(BIG)
    index = good[int.from_bytes(good[-32:-24], "big") : -32]
    footer = (at + len(section)).to_bytes(8, "big") + good[-24:-8] + b"\1" + good[-7:]
    return good[:at] + section + index + footer


BOMBS: dict[str, Callable[[], bytes]] = {
    "100 constant columns": lambda: repeated(pa.array([7, 7]), 100, MANY),
    "a constant column": lambda: repeated(pa.array([7, 7]), 1, MANY),
    "100 columns of nulls": lambda: repeated(pa.array([None, None], pa.int64()), 100, MANY),
    "constant flags": lambda: repeated(pa.array([True, True]), 100, MANY),
    "a constant text": lambda: repeated(pa.array(["x" * 1000] * 2), 10, 2_000_000),
    "empty lists": lambda: repeated(pa.array([[], []], pa.list_(pa.int32())), 20, MANY),
    "1,000 row groups": lambda: repeated(pa.array([7, 7]), 1, 10_000_000, groups=1000),
    "nothing stored": lambda: assemble(schema_payload(_SCHEMA, 1), [RowGroup(MANY, ())], 1, PLAIN_OPTIONS),
    "a compressed block": lambda: _block(zeros(BIG), BIG, BIG // 8 - 1),
    "a compressed page": _page,
    "a compressed schema block": _schema,
}


def peak() -> int:
    """The most memory that the process has had since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _first_batch(path: str) -> str:
    with smalti.open(path) as file:
        return f"{next(file.iter_batches(batch_size=10)).num_rows} rows"


def _first_match(path: str) -> str:
    with smalti.open(path) as file:
        condition = pc.field(file.column_names[0]).is_valid()
        batch = next(file.iter_batches(10, file.column_names[:1], condition), None)
        return "no rows" if batch is None else f"{batch.num_rows} rows"


def _head(path: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        status = command_line(["head", "-n", "1", "--json", path])
    if status:
        raise smalti.MemoryLimitError(out.getvalue())
    return f"{len(out.getvalue().splitlines())} rows"


WAYS: dict[str, Callable[[str], str]] = {
    "read": lambda path: f"{smalti.read_table(path).num_rows} rows",
    "dataset": lambda path: f"{smalti.dataset(path).to_table().num_rows} rows",
    "layout": lambda path: f"{smalti.open(path).layout().num_columns} columns",
    "first batch": _first_batch,
    "first match": _first_match,
    "head": _head,
}


def main(directory: str) -> None:
    for name, make in BOMBS.items():
        path = Path(directory) / f"{name.replace(' ', '_')}.mosaic"
        path.write_bytes(make())
        for way, read in WAYS.items():
            pa.default_memory_pool().release_unused()
            before = peak() if forget_peak() is None else 0
            outcome: dict[str, Any] = {"bomb": name, "size": path.stat().st_size, "way": way}
            try:
                outcome["result"] = read(str(path))
            except smalti.MemoryLimitError as error:
                outcome["refused"] = str(error)
            except smalti.MosaicError as error:
                outcome["other"] = str(error)
            print(json.dumps(outcome | {"peak": peak() - before}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
