"""Partition values as Spark's filters compare them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti.table.partitions import partition_value


def comparable_values(partition: Mapping[str, str | None], schema: pa.Schema) -> dict[str, Any]:
    """Partition values that filters can be decided on, as Python values.

    Numbers, text, dates and booleans compare the same way in Python and in Spark; other types are left out.
    """
    values: dict[str, Any] = {}
    for name in partition:
        place = schema.get_field_index(name)
        if place < 0:
            continue
        target = schema.field(place)
        type_ = target.type
        if pt.is_integer(type_) or pt.is_string(type_) or pt.is_date(type_) or pt.is_boolean(type_):
            values[name] = partition_value(partition, target).as_py()
    return values
