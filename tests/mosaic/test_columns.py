"""Which buckets a read of some columns touches: a table of cases."""

from __future__ import annotations

from smalti.mosaic.columns import plan_buckets
from tests._core.test_schema import schema_of


def test_a_read_touches_its_buckets_once_each_in_file_order() -> None:
    reads = plan_buckets(schema_of(8, 3), [7, 0, 4, 2])  # buckets: 0-2, 3-5, 6-7
    assert [(read.bucket, read.columns, read.outputs, read.whole) for read in reads] == [
        (0, [0, 2], [1, 3], False),
        (1, [1], [2], False),
        (2, [1], [0], False),
    ]
    assert [read.whole for read in plan_buckets(schema_of(8, 3), [6, 7])] == [True]
