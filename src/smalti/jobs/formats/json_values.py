"""Values of Arrow arrays as JSON values, and rows as JSON lines: one rule for commands and for `convert`.

Dates and times are strings in ISO 8601, durations numbers of their unit, decimals and UUIDs strings, bytes base64, maps
lists of pairs. Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import base64
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.types as pt

from smalti.logical.arrays import decode_runs, list_elements, struct_fields
from smalti.logical.tree import unique_name
from smalti.logical.types import is_binary_like, is_list_like
from smalti.moments import moment_texts

#: Formats bytes as a string.
ShowBytes = Callable[[bytes], str]


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def plain_values(array: Any, show_bytes: ShowBytes = in_base64) -> list[Any]:
    """Convert an array to values that JSON can hold.

    Examples
    --------
    >>> plain_values(pa.array([b"a", None])), plain_values(pa.array([1.5, float("inf")]))
    (['YQ==', None], [1.5, 'Infinity'])
    """
    return _plain(array, array.type, show_bytes)


def _plain(array: Any, type_: Any, show: ShowBytes) -> list[Any]:
    """`type_` is the given type: `list_elements` drops extension types, and `struct_fields` may decode runs."""
    if not len(array):
        return []
    if isinstance(type_, pa.BaseExtensionType):
        array = getattr(array, "storage", array)
        if type_.extension_name == "arrow.bool8":
            return [None if value is None else bool(value) for value in array.to_pylist()]
        if type_.extension_name == "arrow.uuid":
            return [None if value is None else str(UUID(bytes=value)) for value in array.to_pylist()]
        return _plain(array, type_.storage_type, show)
    if pt.is_duration(type_):
        return list(array.cast(pa.int64()).to_pylist())
    if pt.is_temporal(type_):
        return list(moment_texts(array))
    if pt.is_decimal(type_):
        return [None if value is None else str(value) for value in array.to_pylist()]
    if pt.is_dictionary(type_):
        return _chosen(_plain(array.dictionary, type_.value_type, show), array.indices)
    if pt.is_run_end_encoded(type_) and not pt.is_run_end_encoded(array.type):
        return _plain(array, type_.value_type, show)
    if pt.is_run_end_encoded(type_):
        values = _plain(array.values, type_.value_type, show)
        return _chosen(values, decode_runs(array, pa.array(range(len(values)), pa.int64())))
    if is_binary_like(type_):
        return [None if value is None else show(value) for value in array.to_pylist()]
    if pt.is_floating(type_):
        return [None if value is None else _json_number(float(value)) for value in array.to_pylist()]
    if pt.is_map(type_) or is_list_like(type_):
        return _plain_lists(array, type_, show)
    if pt.is_struct(type_):
        inner = [_plain(child, field.type, show) for child, field in zip(struct_fields(array), type_, strict=True)]
        names, valid = [field.name for field in type_], array.is_valid().to_pylist()
        return [
            dict(zip(names, values, strict=True)) if there else None
            for there, *values in zip(valid, *inner, strict=True)
        ]
    return list(array.to_pylist())


def _plain_lists(array: Any, type_: Any, show: ShowBytes) -> list[Any]:
    offsets, mask, elements = list_elements(array)
    inner: list[Any]
    if pt.is_map(type_):
        types = type_.key_type, type_.item_type
        columns = [_plain(*child, show) for child in zip(struct_fields(elements), types, strict=True)]
        inner = [list(pair) for pair in zip(*columns, strict=True)]
    else:
        inner = _plain(elements, type_.value_type, show)
    ends = offsets.to_pylist()
    missing = itertools.repeat(False) if mask is None else mask.to_pylist()
    return [
        None if gone else inner[start:end]
        for (start, end), gone in zip(itertools.pairwise(ends), missing, strict=False)
    ]


def _chosen(values: list[Any], indexes: pa.Array) -> list[Any]:
    return [None if index is None else values[index] for index in indexes.to_pylist()]


def _json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Yield a JSON object for each row. A second column named ``a``, which JSON does not allow, is named ``a#2``."""
    for batch in batches:
        taken: set[str] = set()
        names = [unique_name(name, taken) for name in batch.schema.names]
        if not names:
            yield from itertools.repeat("{}", batch.num_rows)
            continue
        columns = [plain_values(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, allow_nan=False)
