"""Each fault that `smalti._compat.arrow` avoids, shown by the smallest program. A test fails when the fault is gone.

Then the function can be deleted, once our minimum of pyarrow is above the last version with the fault.
"""

from __future__ import annotations

import inspect
import json
import mmap
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from smalti._compat import arrow as compat
from tests.docs.blocks import ROOT

pytestmark = pytest.mark.skipif(int(pa.__version__.split(".")[0]) < 22, reason="asks a new pyarrow")

RUNS = pa.run_end_encoded(pa.int32(), pa.int8())
#: The last version of pyarrow with a fault that newer ones do not have.
LAST_VERSION = {"cast_complete": 24, "concat_batches": 18, "half_zero": 20, "size_of": 23}
#: Functions whose fault ends the process, with the signal that does it.
CRASHES = {"decimal_scalar": 11, "extends_dictionaries": 6, "fixed_size_lists": 8, "has_negative_scale": 6}


def fails(run: Callable[[], Any], error: type[Exception] = pa.ArrowNotImplementedError) -> bool:
    """Whether a function raises, or returns an array that is not valid."""
    try:
        made = run()
        if hasattr(made, "validate"):
            made.validate(full=True)
    except error:
        return True
    return False


def columnless_batch() -> bool:
    return pa.RecordBatch.from_arrays([], schema=pa.schema([])).num_rows == 0


def empty_batch() -> bool:
    return pa.table({"a": pa.array([], pa.int8())}).to_batches() == []


def empty_table() -> bool:
    halves = pa.list_(pa.dictionary(pa.int8(), pa.float16()))
    types = pa.list_(pa.uuid()), pa.list_(RUNS), pa.run_end_encoded(pa.int32(), pa.string_view()), halves
    return all(fails(pa.schema([("a", type_)]).empty_table) for type_ in types)


def null_array() -> bool:
    return fails(lambda: pa.nulls(3, pa.struct([("runs", RUNS)])), pa.ArrowInvalid)


def pandas_scalar() -> bool:
    return bool(pa.scalar(pd.Timestamp(1)).value == 0)


def flatten_struct() -> bool:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), pa.array([1]))
    struct = pa.StructArray.from_arrays([runs], names=["runs"], mask=pa.array([False, True, False]))
    return fails(lambda: struct.flatten()[0], pa.ArrowInvalid)


def map_entries() -> bool:
    return fails(lambda: pc.list_flatten(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8()))))


def _lists_with_a_null(elements: Any) -> Any:
    """Two lists of one element, and a null list between them."""
    return pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), elements, mask=pa.array([False, True, False]))


def flatten_lists() -> bool:
    halves = pa.array([float("nan"), 1.0]).cast(pa.float16())
    entries = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.int8()), halves)
    return bool(_lists_with_a_null(entries).flatten().dictionary_decode().cast(pa.float64())[1].as_py() != 1.0)


class Extension(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.string_view(), "tests.compat")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Extension:
        return cls()


def relabelled() -> bool:
    views = pa.array(["x" * 30, "y" * 30, "z" * 30], pa.string_view())
    lists = _lists_with_a_null(pa.ExtensionArray.from_storage(Extension(), views))
    return fails(lists.flatten, pa.ArrowException)


def can_select() -> bool:
    """No kernel for views and runs, freed memory for list views of wrapped views, and other values for matrices."""
    views = pa.array([f"{row:05d}" * 8 for row in range(100)], pa.string_view())
    starts = pa.array(range(100), pa.int32())
    extended = pa.ExtensionArray.from_storage(Extension(), views)
    lists: Any = pa.ListViewArray.from_arrays(starts, pa.array([1] * 100, pa.int32()), extended)
    selections = lambda: lists.take(starts), lambda: lists.filter(pa.array([True] * 100))
    is_missing = all(fails(lambda: pa.nulls(1, type_).take(pa.array([0]))) for type_ in (pa.string_view(), RUNS))  # noqa: B023
    matrices: Any = pa.array([[[row, 1], [2, 3]] for row in range(100)], pa.list_(pa.list_(pa.int64(), 2), 2)).slice(50)
    is_wrong = matrices.take(pa.array([0])).to_pylist() != [[[50, 1], [2, 3]]]
    return is_missing and is_wrong and all(fails(select, pa.ArrowException) for select in selections)


#: Two dictionaries of half floats that differ.
HALVES: Any = pa.chunked_array(
    pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array([value]).cast(pa.float16())) for value in (1, 7)
)


def _are_mistaken(found: Any) -> bool:
    chunks = found.chunks if isinstance(found, pa.ChunkedArray) else [found]
    return [each.as_py() for chunk in chunks for each in chunk.dictionary_decode().cast(pa.float64())] != [1, 7]


def concat_arrays() -> bool:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([b"x" * 16], pa.uuid()))
    table = pa.table([HALVES], names=["a"])
    joined = [
        pa.concat_arrays(HALVES.chunks),
        pa.concat_batches(table.to_batches()).column(0),
        table.combine_chunks().column(0),
        table.take(pa.array([0, 1])).column(0),
    ]
    return fails(lambda: pa.concat_arrays([runs, runs])) and all(map(_are_mistaken, joined))


def unify_dictionaries() -> bool:
    return _are_mistaken(HALVES.unify_dictionaries())


def cast_offsets() -> bool:
    data = pa.py_buffer(mmap.mmap(-1, 3 << 30))  # Its pages are never touched.
    offsets = pa.array([(2 << 30) + 5, (2 << 30) + 8], pa.int64()).buffers()[1]
    return fails(
        lambda: pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, data]).cast(pa.string()), pa.ArrowInvalid
    )


def cast_exactly() -> bool:
    casts = [
        (pa.array([1e300]), pa.float32()),
        (pa.array([2049]), pa.float16()),
        (pa.array([1], pa.timestamp("s")), pa.date32()),
        (pa.array([2]), pa.bool_()),
        (pa.array([0.123456]), pa.decimal128(10, 2)),
    ]
    return not any(fails(lambda: array.cast(type_), pa.ArrowInvalid) for array, type_ in casts)  # noqa: B023


def fill_nulls() -> bool:
    views: Any = pa.nulls(1, pa.string_view())
    decimals: Any = pa.nulls(1, pa.decimal32(5, 2))
    widened = pc.coalesce(decimals, pa.scalar(0, decimals.type)).type != decimals.type
    return fails(lambda: pc.coalesce(views, pa.scalar("", views.type))) and widened


def as_comparable() -> bool:
    types = pa.float16(), pa.decimal128(5, -2)
    return all(fails(lambda: pc.less(pa.nulls(1, type_), pa.nulls(1, type_))) for type_ in types)  # noqa: B023


def min_max() -> bool:
    types = pa.duration("s"), pa.float16()
    return all(fails(lambda: pc.min_max(pa.nulls(1, type_))) for type_ in types)  # noqa: B023


def loses_unit() -> bool:
    durations = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([1], pa.duration("s")))
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": durations}), stream)
    return bool(pa.types.is_integer(pq.read_table(pa.BufferReader(stream.getvalue())).schema.field("a").type))


FAULTS: list[Callable[[], bool]] = [
    columnless_batch,
    empty_batch,
    empty_table,
    null_array,
    pandas_scalar,
    flatten_struct,
    map_entries,
    flatten_lists,
    relabelled,
    can_select,
    concat_arrays,
    unify_dictionaries,
    cast_offsets,
    cast_exactly,
    fill_nulls,
    as_comparable,
    min_max,
    loses_unit,
]


@pytest.mark.parametrize("is_there", FAULTS, ids=lambda fault: fault.__name__)
def test_the_fault_is_still_there(is_there: Callable[[], bool]) -> None:
    assert is_there()


def test_the_process_still_ends() -> None:
    child = subprocess.run([sys.executable, "-m", "tests.compat.crashes"], capture_output=True, cwd=ROOT, check=True)
    assert json.loads(child.stdout) == CRASHES


@pytest.mark.parametrize("name", LAST_VERSION)
def test_the_oldest_pyarrow_has_the_fault(name: str) -> None:
    (oldest,) = re.findall(r'^    "pyarrow>=(\d+)', (ROOT / "pyproject.toml").read_text(), re.M)
    assert int(oldest) <= LAST_VERSION[name]


def test_every_workaround_is_shown() -> None:
    functions = inspect.getmembers(compat, inspect.isfunction)
    ours = {name for name, function in functions if function.__module__ == compat.__name__ and name[0] != "_"}
    assert ours == {fault.__name__ for fault in FAULTS} | CRASHES.keys() | LAST_VERSION.keys()
