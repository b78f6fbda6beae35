"""smalti reads the reference's files to the last bit, and says what is inside them."""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import FrozenInstanceError
from decimal import Decimal

import pyarrow as pa
import pytest

import smalti
from tests.support import oracle
from tests.support.compare import assert_same
from tests.support.files import written_as_reference
from tests.support.golden import (
    GOLDEN_FILES,
    WRITTEN,
    assert_layout,
    expected_batches,
    expected_table,
    golden_bytes,
    golden_path,
    manifest_layout,
    writer_options,
)

ONE_ROW_GROUP = [name for name in WRITTEN if len(GOLDEN_FILES[name]["row_group_rows"]) <= 1]


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_reads_to_the_expected_table(name: str) -> None:
    expected = expected_table(name)
    with smalti.open(golden_path(name)) as file:
        assert (file.num_rows, file.num_columns) == (expected.num_rows, expected.num_columns)
        assert file.num_row_groups == len(GOLDEN_FILES[name]["row_group_rows"])
        assert file.schema.equals(expected.schema)
        assert list(file.column_names) == expected.column_names
        assert_same(file.read(), expected)
    assert_same(smalti.read_table(golden_path(name)), expected)


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_reads_each_row_group(name: str) -> None:
    batches = expected_batches(name)
    with smalti.open(golden_path(name)) as file:
        for number, batch in enumerate(batches):
            assert file.row_group(number).num_rows == batch.num_rows
            assert_same(file.read(row_groups=[number]), pa.Table.from_batches([batch]))


@pytest.mark.parametrize("name", [name for name in GOLDEN_FILES if GOLDEN_FILES[name]["layout"]["num_columns"] <= 25])
def test_reads_each_column_alone(name: str) -> None:
    expected = expected_table(name)
    with smalti.open(golden_path(name)) as file:
        for column in expected.column_names:
            assert_same(file.read(columns=[column]), expected.select([column]))


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_layout_is_what_the_manifest_says(name: str) -> None:
    with smalti.open(golden_path(name)) as file:
        layout = file.layout()
    assert_layout(layout, name)
    assert manifest_layout(layout) == manifest_layout(oracle.read(golden_bytes(name)).layout)


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_layout_sizes_add_up(name: str) -> None:
    """Offsets and sizes tile the file: buckets, schema block, index, footer, with nothing between them."""
    model = oracle.read(golden_bytes(name)).layout
    with smalti.open(golden_path(name)) as file:
        layout = file.layout()
    position = 0
    for group, expected in zip(layout.row_groups, model.row_groups, strict=True):
        for bucket, twin in zip(group.buckets, expected.buckets, strict=True):
            assert (bucket.id, bucket.offset, bucket.size) == (twin.id, position, twin.size)
            assert bucket.uncompressed_size == twin.uncompressed_size or bucket.mode == "paged"
            position += bucket.size
            for column, other in zip(bucket.columns, twin.columns, strict=True):
                assert (column.name, column.path) == (other.name, other.path)
                assert (column.num_values, column.size) == (other.num_values, other.size)
                assert column.stored_size == other.stored_size
    assert layout.schema_block.offset == position
    assert layout.index.offset == position + layout.schema_block.size
    assert layout.index.offset + layout.index.size + 32 == layout.size == len(golden_bytes(name))


def test_layout_cannot_be_changed() -> None:
    with smalti.open(golden_path("encodings_mono")) as file:
        layout = file.layout()
    with pytest.raises(FrozenInstanceError):
        layout.size = 0
    with pytest.raises(FrozenInstanceError):
        layout.row_groups[0].buckets[0].columns[0].encoding = "PLAIN"


def test_statistics_are_python_values() -> None:
    utc = datetime.UTC
    with smalti.open(golden_path("stats_types")) as file:
        first, second, third = (file.row_group(number).statistics for number in range(3))
        nanos, micros = file.schema.field("t9").type, file.schema.field("tz").type
    assert set(first) == set(GOLDEN_FILES["stats_types"]["writer_options"]["stats_columns"])
    found = {name: (s.null_count, s.min, s.max) for name, s in first.items() if name not in ("tz", "t9")}
    assert found == {
        "s": (0, "", "zz"),
        "b": (1, False, True),
        "i": (1, -3, 5),
        "f": (1, -2.5, 1.0),
        "d": (0, datetime.date(1970, 1, 2), datetime.date(1970, 1, 4)),
        "c": (1, Decimal("-9.99"), Decimal("1.10")),
    }
    assert (nanos, micros) == (pa.timestamp("ns"), pa.timestamp("us", "UTC"))
    assert (first["t9"].null_count, first["tz"].null_count) == (0, 0)
    # What pyarrow gives for the same value: a pandas Timestamp for nanoseconds, an aware datetime for a zone.
    assert (first["t9"].min, first["t9"].max) == (pa.scalar(-1, nanos).as_py(), pa.scalar(1_000_000_001, nanos).as_py())
    assert first["tz"].min == datetime.datetime(1970, 1, 1, 0, 0, 0, 3, utc)
    assert (second["s"].min, second["s"].max) == ("é", "é")
    assert (second["f"].min, second["f"].max) == (float("inf"), float("inf"))
    for name in ("s", "b", "d", "c", "t9", "tz"):
        assert (third[name].null_count, third[name].min, third[name].max) == (2, None, None)


@pytest.mark.parametrize("name", ONE_ROW_GROUP)
def test_writes_the_reference_bytes(name: str) -> None:
    """A file of one row group, without checksums, comes out byte for byte like the reference's."""
    data = written_as_reference(expected_table(name), **writer_options(name))
    assert hashlib.sha256(data).hexdigest() == GOLDEN_FILES[name]["sha256"]
