"""Values as JSON and as CSV: the one encoder for `convert`, `sql` and every command that prints values.

A number has the fewest digits that are this number in the type of its column: a float32 is 2.15, not
2.1500000953674316. NaN and infinities are `NaN`, `Infinity` and `-Infinity`, in JSON as strings. Dates and times are
strings in ISO 8601, with all digits of their unit, and in UTC with a Z if they have a time zone. Durations are numbers
of their unit. Decimals and UUIDs are strings, bytes are base64, maps are lists of pairs. In CSV a null is an empty
field, and lists, maps and structs are JSON.

Arrow's compute functions are loaded where they are used: they take longer to load than a command takes to show rows.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.types as pt

from smalti.logical.tree import unique_name
from smalti.logical.types import is_binary_like, is_list_like, is_string_like
from smalti.moments import moment_texts, shortest_floats


def plain_values(array: Any) -> list[Any]:
    """Convert an array to values that JSON can hold.

    Examples
    --------
    >>> plain_values(pa.array([b"a", None])), plain_values(pa.array([1.5, float("inf")]))
    (['YQ==', None], [1.5, 'Infinity'])
    """
    return _plain(array, array.type)


def _plain(array: Any, type_: Any) -> list[Any]:
    """`type_` is the given type: `list_elements` drops extension types, and `struct_fields` may decode runs."""
    if not len(array):
        return []
    if isinstance(type_, pa.BaseExtensionType):
        array = getattr(array, "storage", array)
        if type_.extension_name == "arrow.bool8":
            return [None if value is None else bool(value) for value in array.to_pylist()]
        if type_.extension_name == "arrow.uuid":
            return [None if value is None else str(UUID(bytes=value)) for value in array.to_pylist()]
        return _plain(array, type_.storage_type)
    if pt.is_duration(type_):
        return list(array.cast(pa.int64()).to_pylist())
    if pt.is_temporal(type_):
        return list(moment_texts(array))
    if pt.is_decimal(type_):
        return [None if value is None else str(value) for value in array.to_pylist()]
    if pt.is_dictionary(type_):
        return _chosen(_plain(array.dictionary, type_.value_type), array.indices)
    if pt.is_run_end_encoded(type_) and not pt.is_run_end_encoded(array.type):
        return _plain(array, type_.value_type)
    if pt.is_run_end_encoded(type_):
        from smalti.logical.arrays import decode_runs

        values = _plain(array.values, type_.value_type)
        return _chosen(values, decode_runs(array, pa.array(range(len(values)), pa.int64())))
    if is_binary_like(type_):
        return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    if pt.is_floating(type_):
        return [None if value is None else _json_number(value) for value in shortest_floats(array)]
    if pt.is_map(type_) or is_list_like(type_):
        return _plain_lists(array, type_)
    if pt.is_struct(type_):
        from smalti.logical.arrays import struct_fields

        inner = [_plain(child, field.type) for child, field in zip(struct_fields(array), type_, strict=True)]
        names, valid = [field.name for field in type_], array.is_valid().to_pylist()
        return [
            dict(zip(names, values, strict=True)) if there else None
            for there, *values in zip(valid, *inner, strict=True)
        ]
    return list(array.to_pylist())


def _plain_lists(array: Any, type_: Any) -> list[Any]:
    from smalti.logical.arrays import list_elements, struct_fields

    offsets, mask, elements = list_elements(array)
    inner: list[Any]
    if pt.is_map(type_):
        types = type_.key_type, type_.item_type
        columns = [_plain(*child) for child in zip(struct_fields(elements), types, strict=True)]
        inner = [list(pair) for pair in zip(*columns, strict=True)]
    else:
        inner = _plain(elements, type_.value_type)
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


def csv_header(names: Sequence[str]) -> str:
    """The first line of CSV, with the names that columns have in JSON."""
    taken: set[str] = set()
    return ",".join(_quoted(pa.array([unique_name(name, taken) for name in names], pa.large_string())).to_pylist())


def csv_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Yield a line of CSV for each row.

    A string is quoted where it must be, so that it is read as the same string: if it has a comma, a quote or a line
    break, begins or ends with a space, is empty, or is a word that readers take for null, such as NA.
    """
    for batch in batches:
        if batch.num_columns:
            yield from _join(",", *map(_csv_column, batch.columns)).to_pylist()


def _csv_column(array: Any) -> Any:
    """The fields of a column. Arrow formats most of them, since Python would take ten times as long."""
    import pyarrow.compute as pc

    if pt.is_integer(array.type) or pt.is_boolean(array.type):
        texts = array.cast(pa.large_string())
    elif pt.is_float32(array.type) or pt.is_float64(array.type):
        texts = pc.replace_substring_regex(array.cast(pa.large_string()), r"^(-?\d+)$", r"\1.0")
        if not pc.all(pc.is_finite(array)).as_py():
            texts = pc.replace_substring_regex(texts, "^-?nan$", "NaN")
            texts = pc.replace_substring_regex(texts, "^(-?)inf$", r"\1Infinity")
    elif is_string_like(array.type):
        texts = _quoted(array.cast(pa.large_string()))
    else:
        values = [None if value is None else _csv_text(value) for value in plain_values(array)]
        texts = _quoted(pa.array(values, pa.large_string()))
    return pc.fill_null(texts, "")


def _csv_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (bool, list, dict)) else str(value)


def _quoted(texts: Any) -> Any:
    import pyarrow.compute as pc

    unsafe = pc.match_substring_regex(texts, _unsafe_field())
    if not pc.any(unsafe).as_py():
        return texts
    return pc.if_else(unsafe, _join("", '"', pc.replace_substring(texts, '"', '""'), '"'), texts)


def _join(separator: str, *parts: Any) -> Any:
    """Join arrays of strings, row by row; a string among them is the same in every row."""
    import pyarrow.compute as pc

    strings: Any = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*strings, pa.scalar(separator, pa.large_string()))


@cache
def _unsafe_field() -> str:
    """A pattern for strings that have to be quoted in CSV."""
    from pyarrow import csv

    nulls = "|".join(map(re.escape, csv.ConvertOptions().null_values or ()))
    return rf'[,"\r\n]|^\s|\s$|^(?:{nulls})$'
