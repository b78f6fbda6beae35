"""What a read of some columns has to touch: buckets, and positions within them. Pure; the reader acts on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smalti._core.schema import SchemaBlock


@dataclass(frozen=True)
class BucketRead:
    """Columns wanted from one bucket: `columns` are positions in the bucket, `places` positions in the result."""

    bucket: int
    columns: list[int]
    places: list[int]
    whole: bool


def plan_buckets(schema: SchemaBlock, columns: Sequence[int]) -> list[BucketRead]:
    """Group sorted indices by bucket, ascending; the order of `columns` is the order of the result."""
    wanted: dict[int, tuple[list[int], list[int]]] = {}
    for place, column in enumerate(columns):
        inner, places = wanted.setdefault(schema.bucket_of(column), ([], []))
        inner.append(column)
        places.append(place)
    reads = []
    for bucket in sorted(wanted):
        inner, places = wanted[bucket]
        first, stop = schema.bucket_columns(bucket)
        reads.append(BucketRead(bucket, [c - first for c in inner], places, whole=len(inner) == stop - first))
    return reads
