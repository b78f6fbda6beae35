"""Partition values as Spark's filters compare them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.types as pt

from smalti.table.partitions import partition_value


def comparable_values(partition: Mapping[str, str | None], schema: pa.Schema) -> dict[str, pa.Scalar]:
    """Partition values that filters can be decided on.

    Whole numbers, text, dates and booleans compare the same way in Arrow and in Spark; other types are left out.
    """
    values = {}
    for name in partition:
        place = schema.get_field_index(name)
        if place < 0:
            continue
        target = schema.field(place)
        type_ = target.type
        if pt.is_integer(type_) or pt.is_string(type_) or pt.is_date(type_) or pt.is_boolean(type_):
            values[name] = partition_value(partition, target)
    return values
