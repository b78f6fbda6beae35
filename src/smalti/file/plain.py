"""Values of Arrow arrays as JSON can hold them, and rows as JSON lines: one rule for commands and for `convert`.

Moments are texts in ISO 8601, durations numbers of their unit, decimals and UUIDs texts, bytes base64, maps lists of
pairs. Numbers that JSON lacks are the texts "NaN", "Infinity" and "-Infinity".
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
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.logical.arrays import list_elements, struct_fields
from smalti.logical.tree import unique_names
from smalti.logical.types import is_binary_like, is_list_like
from smalti.moments import moment_texts

#: The stubs of pyarrow have no functions for runs.
_runs: Any = pc
#: Writes bytes as text.
ShowBytes = Callable[[bytes], str]


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def plain_values(array: Any, show_bytes: ShowBytes = in_base64) -> list[Any]:
    """Values that JSON can hold.

    Examples
    --------
    >>> plain_values(pa.array([b"a", None])), plain_values(pa.array([1.5, float("inf")]))
    (['YQ==', None], [1.5, 'Infinity'])
    """
    return _plain(array, array.type, show_bytes)


def _plain(array: Any, type_: Any, show: ShowBytes) -> list[Any]:
    """`type_` is that of the array, which may have lost extension types in lists, and runs in structs that are null."""
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
        places: Any = pa.array(range(len(values)), pa.int64())
        runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, places)
        return _chosen(values, _runs.run_end_decode(runs.slice(array.offset, len(array))))
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


def _chosen(values: list[Any], places: pa.Array) -> list[Any]:
    return [None if place is None else values[place] for place in places.to_pylist()]


def _json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """A JSON object for each row. Of columns of one name, which JSON does not allow, the second is named ``a#2``."""
    for batch in batches:
        names = unique_names(batch.schema.names, set())
        if not names:
            yield from itertools.repeat("{}", batch.num_rows)
            continue
        columns = [plain_values(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, allow_nan=False)
