"""Writes the files of one version for `tests/data/releases`, with whatever version this Python imports.

``python release_files.py smalti|reference OUT.zip``. The program needs pyarrow and the version itself, nothing of this
checkout, so that it runs with versions of long ago; `tests/data/releases/README.md` says how. Beside each file is what
the same version read from it, as Arrow IPC: later versions have to read the same.
"""

from __future__ import annotations

import datetime as dt
import io
import sys
import zipfile
from decimal import Decimal
from typing import Any

import pyarrow as pa

UTC = dt.UTC if hasattr(dt, "UTC") else dt.timezone.utc  # noqa: UP017


def scalars() -> pa.Table:
    """Every scalar type of the format, with nulls and extreme values."""
    moments = [dt.datetime(1970, 1, 1), None, dt.datetime(2026, 11, 18, 7, 8, 9, 123456), dt.datetime(1883, 1, 2)]
    zoned = [moment and moment.replace(tzinfo=UTC) for moment in moments]
    values: list[tuple[str, pa.DataType, list[Any]]] = [
        ("bool", pa.bool_(), [True, None, False, True]),
        ("int8", pa.int8(), [-128, None, 127, 0]),
        ("int16", pa.int16(), [-32768, None, 32767, 0]),
        ("int32", pa.int32(), [-(1 << 31), None, (1 << 31) - 1, 0]),
        ("int64", pa.int64(), [-(1 << 63), None, (1 << 63) - 1, 0]),
        ("float32", pa.float32(), [float("nan"), None, -0.0, float("inf")]),
        ("float64", pa.float64(), [float("nan"), None, -0.0, 1e-308]),
        ("date", pa.date32(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(1970, 1, 1)]),
        ("time", pa.time32("ms"), [dt.time(0), None, dt.time(23, 59, 59, 999000), dt.time(12)]),
        ("ms", pa.timestamp("ms"), [moment and moment.replace(microsecond=0) for moment in moments]),
        ("us", pa.timestamp("us"), moments),
        ("ns", pa.timestamp("ns"), moments),
        ("us_utc", pa.timestamp("us", "UTC"), zoned),
        ("decimal", pa.decimal128(9, 2), [Decimal("-9999999.99"), None, Decimal("0.01"), Decimal("0.00")]),
        ("long_decimal", pa.decimal128(38, 10), [Decimal(10) ** 27, None, Decimal("-0.0000000001"), Decimal(1)]),
        ("string", pa.string(), ["", None, "smalti, süß, 石", "x" * 300]),
        ("binary", pa.binary(), [b"", None, bytes(range(256)), b"\0"]),
    ]
    return pa.table({name: pa.array(column, kind) for name, kind, column in values})


def containers() -> pa.Table:
    """Lists and maps, one inside the other, with nulls at every level."""
    pairs = [[("a", 1), ("b", None)], None, [], [("", -1)]]
    return pa.table(
        {
            "numbers": pa.array([[1, None, 3], None, [], [-5]], pa.list_(pa.int32())),
            "texts": pa.array([["a", None], None, [], ["", "b" * 40]], pa.list_(pa.string())),
            "pairs": pa.array(pairs, pa.map_(pa.string(), pa.int64())),
            "nested": pa.array([[[1], None, []], None, [], [[2, 3]]], pa.list_(pa.list_(pa.int16()))),
        }
    )


def wide() -> pa.Table:
    """More columns than buckets, whose names share prefixes."""
    columns = {f"sensor_{at * 37 % 400:04d}_reading": pa.array([at, None, at * 3], pa.int32()) for at in range(400)}
    return pa.table({"id": pa.array([1, 2, 3]), **columns})


def groups() -> pa.Table:
    """Three row groups, each encoding: dictionary, constant, all nulls, plain; as three batches."""
    tables = [
        pa.table(
            {
                "id": pa.array(range(at, at + 100)),
                "colour": pa.array([("red", "green", None)[row % 3] for row in range(100)]),
                "same": pa.array([7] * 100, pa.int32()),
                "nothing": pa.nulls(100, pa.float64()),
                "value": pa.array([row * row / 7 - at for row in range(100)]),
            }
        )
        for at in (0, 100, 200)
    ]
    return pa.concat_tables(tables)


def logical() -> pa.Table:
    """Types that the format does not have; a version may refuse some of them, or store them as others."""
    points = [{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}, {"x": 4, "y": None}]
    struct = pa.struct([("x", pa.int32()), ("y", pa.string())])
    columns = {
        "point": pa.array(points, struct),
        "points": pa.array([points, None, [], [None]], pa.list_(struct)),
        "category": pa.array(["b", None, "a", "b"]).dictionary_encode(),
        "uint8": pa.array([255, None, 0, 1], pa.uint8()),
        "uint64": pa.array([(1 << 64) - 1, None, 0, 1], pa.uint64()),
        "duration": pa.array([1, None, -1, 0], pa.duration("ns")),
        "large": pa.array(["a", None, "", "b"], pa.large_string()),
        "vector": pa.array([[1.0, 2.0], None, [3.0, 4.0], [0.0, -0.0]], pa.list_(pa.float32(), 2)),
        "time64": pa.array([1, None, 0, 86_399_999_999_999], pa.time64("ns")),
    }
    return pa.table(columns)


#: The name of a file, its table, and options as both writers can have them.
FILES: list[tuple[str, Any, dict[str, Any]]] = [
    ("scalars", scalars, {}),
    ("scalars-paged", scalars, {"num_buckets": 3, "page_size_threshold": 0}),
    ("scalars-plain", scalars, {"compression": "none"}),
    ("containers", containers, {}),
    ("containers-paged", containers, {"num_buckets": 1, "page_size_threshold": 0}),
    ("wide", wide, {}),
    ("groups", groups, {"stats_columns": ["id", "colour", "value"]}),
    ("empty", lambda: scalars().slice(0, 0), {}),
]


def write_reference(table: pa.Table, options: dict[str, Any]) -> bytes:
    import mosaic

    translated = dict(options)
    if "compression" in translated:
        translated["compression"] = {"none": 0, "zstd": 1}[translated["compression"]]
    stream = io.BytesIO()
    # A limit of one byte makes a row group of each batch.
    with mosaic.MosaicWriter(stream, table.schema, mosaic.WriterOptions(row_group_max_size=1, **translated)) as writer:
        for batch in table.to_batches():
            writer.write(batch)
    return stream.getvalue()


def read_reference(data: bytes) -> pa.Table:
    import mosaic

    return mosaic.read_table(lambda offset, length: data[offset : offset + length], len(data), None)


def write_smalti(table: pa.Table, options: dict[str, Any]) -> bytes:
    import smalti

    stream = io.BytesIO()
    smalti.write_table(table, stream, row_group_max_rows=100, **options)
    return stream.getvalue()


def read_smalti(data: bytes) -> pa.Table:
    import smalti

    with smalti.open(data) as file:
        return file.read()


def accepted(table: pa.Table) -> pa.Table:
    """The columns that this version of smalti writes and reads."""
    kept = []
    for name in table.column_names:
        try:
            read_smalti(write_smalti(table.select([name]), {}))
        except Exception as error:  # whatever a version of long ago says
            print(f"{name} is left out: {error}")
        else:
            kept.append(name)
    return table.select(kept)


def main(writer: str, out: str) -> None:
    write, read = (write_smalti, read_smalti) if writer == "smalti" else (write_reference, read_reference)
    files = list(FILES)
    if writer == "smalti":
        table = accepted(logical())
        files += [("logical", lambda: table, {}), ("logical-paged", lambda: table, {"page_size_threshold": 0})]
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, make, options in files:
            try:
                data = write(make(), options)
                found = read(data)
            except Exception as error:  # whatever a version of long ago says
                print(f"{name} is left out: {error}")
                continue
            stream = io.BytesIO()
            with pa.ipc.new_stream(stream, found.schema) as sink:
                sink.write_table(found)
            for suffix, content in (("mosaic", data), ("arrow", stream.getvalue())):
                # A date of its own would make another archive of the same files.
                archive.writestr(zipfile.ZipInfo(f"{name}.{suffix}"), content, zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main(*sys.argv[1:])
