"""Which columns are in which bucket."""

from __future__ import annotations

import pyarrow as pa
import pytest

from smalti._core.names import pack_schema_block
from smalti._core.schema import SchemaBlock
from smalti.format.types import pack_descriptor


def schema_of(num_columns: int, num_buckets: int) -> SchemaBlock:
    names = [f"c{i:03d}".encode() for i in range(num_columns)]
    packed = pack_descriptor(pa.int32(), True)
    return SchemaBlock(pack_schema_block(names, [packed] * num_columns, list(range(num_columns)), num_buckets))


@pytest.mark.parametrize(("num_columns", "num_buckets"), [(1, 1), (8, 3), (10, 10), (150, 100), (101, 100), (7, 2)])
def test_buckets_are_ranges_of_sorted_columns(num_columns: int, num_buckets: int) -> None:
    schema = schema_of(num_columns, num_buckets)
    ranges = [schema.bucket_columns(bucket) for bucket in range(num_buckets)]
    assert [column for first, stop in ranges for column in range(first, stop)] == list(range(num_columns))
    for bucket, (first, stop) in enumerate(ranges):
        for column in range(first, stop):
            assert schema.bucket_of(column) == column * num_buckets // num_columns == bucket
