"""Arrow arrays that lie about themselves, as a damaged or hostile producer hands them over.

Arrow's own constructors refuse many of them, so they are made in the two ways in which they arrive: through the C data
interface, from structures filled by hand, and from IPC files whose bytes are changed after they were written.
"""

from __future__ import annotations

import ctypes
import io
import random
import struct
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import smalti
from tests.support.older_arrow import HAS
from tests.support.reading_child import read_everything
from tests.support.tables import matrix


class _Array(ctypes.Structure):
    pass


_RELEASE = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", _RELEASE),
    ("private_data", ctypes.c_void_p),
]
_alive: list[Any] = []  # what the structures point to; tests end soon enough


@_RELEASE
def _release(array: Any) -> None:
    array.contents.release = ctypes.cast(None, _RELEASE)


def c_array(
    length: int,
    buffers: Sequence[bytes | None],
    children: Sequence[_Array] = (),
    *,
    null_count: int = 0,
    offset: int = 0,
    dictionary: _Array | None = None,
) -> _Array:
    """A structure of the C data interface, exactly as told."""
    kept = [None if data is None else ctypes.create_string_buffer(data, max(1, len(data))) for data in buffers]
    addresses = (ctypes.c_void_p * max(1, len(kept)))(*(None if b is None else ctypes.addressof(b) for b in kept))
    pointers = (ctypes.POINTER(_Array) * max(1, len(children)))(*map(ctypes.pointer, children))
    made = _Array(length, null_count, offset, len(kept), len(children), addresses)
    if children:
        made.children = pointers
    if dictionary is not None:
        made.dictionary = ctypes.pointer(dictionary)
    made.release = _release
    _alive.extend((kept, addresses, pointers, children, dictionary, made))
    return made


def imported(type_: pa.DataType, array: _Array) -> pa.Array:
    """What pyarrow makes of it."""
    return pa.Array._import_from_c(ctypes.addressof(array), type_)


def int32s(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def int64s(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def through_ipc(array: pa.Array, before: bytes, after: bytes) -> pa.RecordBatch:
    """A batch read from an IPC file in which the bytes `before`, which occur once, are changed to `after`."""
    file = io.BytesIO()
    with pa.ipc.new_file(file, pa.schema([("id", pa.int64()), ("col", array.type)])) as writer:
        writer.write(pa.record_batch([pa.array(range(len(array)), pa.int64()), array], ["id", "col"]))
    data = file.getvalue()
    assert data.count(before) == 1, data.count(before)
    return pa.ipc.open_file(data.replace(before, after)).get_batch(0)


# --- cases: each makes a batch whose column `col` must be refused ---------------------------------------------------


def _texts(type_: pa.DataType) -> pa.Array:
    return pa.array(["x" * 3, "y" * 16, "z" * 21], type_)


def _batch(array: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(len(array)), pa.int64()), array], ["id", "col"])


def _from_c(type_: pa.DataType, array: _Array) -> pa.RecordBatch:
    """A batch of one column that pyarrow has not looked into."""
    schema = pa.schema([("col", type_)])
    return pa.RecordBatch._import_from_c(ctypes.addressof(c_array(array.length, [None], [array])), schema)


def _lists(elements: pa.Array, *offsets: int, large: bool = False) -> pa.Array:
    type_ = pa.large_list(elements.type) if large else pa.list_(elements.type)
    data = pa.py_buffer((int64s if large else int32s)(*offsets))
    return pa.Array.from_buffers(type_, len(offsets) - 1, [None, data], children=[elements])


def _binary(type_: pa.DataType, offsets: bytes, rows: int) -> pa.Array:
    return pa.Array.from_buffers(type_, rows, [None, pa.py_buffer(offsets), pa.py_buffer(b"abcdef")])


def _views(*words: int) -> pa.Array:
    # The last buffer has the sizes of those between; `from_buffers` takes no more than two before pyarrow 19.
    return imported(pa.string_view(), c_array(len(words) // 4, [None, int32s(*words), b"x" * 100, int64s(100)]))


def _runs(ends: list[int], values: pa.Array) -> pa.Array:
    """Runs as they are said to be; pyarrow's constructor would look at them."""
    type_ = pa.run_end_encoded(pa.int32(), values.type)
    return pa.Array.from_buffers(type_, ends[-1], [None], children=[pa.array(ends, pa.int32()), values])


def _coded(indices: pa.Array, entries: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(indices, entries, safe=False)


_NUMBERS = pa.array([1, 2, 3], pa.int32())
_ENTRIES = pa.StructArray.from_arrays(
    [pa.array(["a", "b"]), pa.array([1, 2], pa.int32())],
    fields=[pa.field("key", pa.string(), False), pa.field("value", pa.int32())],
)
_MAP = pa.map_(pa.string(), pa.int32())
_PAIR = pa.struct([("millis", pa.int64()), ("nanos_of_milli", pa.int32())])

#: {what is wrong: (how such a batch is made, the row that the error names, if any)}
HOSTILE: dict[str, tuple[Any, int | None]] = {
    "IPC: a text's offset decreases": (
        lambda: through_ipc(_texts(pa.string()), int32s(0, 3, 19, 40), int32s(0, 19, 3, 40)),
        1,
    ),
    "IPC: a text's offset is far outside": (
        lambda: through_ipc(_texts(pa.string()), int32s(0, 3, 19, 40), int32s(0, 3, 1 << 30, 40)),
        2,
    ),
    "IPC: the last offset takes in the memory behind": (
        lambda: through_ipc(_texts(pa.string()), int32s(0, 3, 19, 40), int32s(0, 3, 19, 3 << 20)),
        None,
    ),
    "IPC: the first offset is negative": (
        lambda: through_ipc(_texts(pa.string()), int32s(0, 3, 19, 40), int32s(-1000, 3, 19, 40)),
        None,
    ),
    "IPC: an offset of large texts": (
        lambda: through_ipc(_texts(pa.large_string()), int64s(0, 3, 19, 40), int64s(0, 1 << 40, 19, 40)),
        1,
    ),
    "IPC: an offset of a list": (
        lambda: through_ipc(pa.array([[7] * 3, [8] * 16, [9] * 21]), int32s(0, 3, 19, 40), int32s(0, 3, 1 << 30, 40)),
        1,
    ),
    "IPC: lists that end behind the elements": (
        lambda: through_ipc(pa.array([[7] * 3, [8] * 16, [9] * 21]), int32s(0, 3, 19, 40), int32s(0, 3, 19, 90)),
        None,
    ),
    "IPC: an index of a dictionary": (
        lambda: through_ipc(
            _coded(pa.array([3, 1, 2, 3], pa.int32()), pa.array(list("abcd"))),
            int32s(3, 1, 2, 3),
            int32s(3, 1, 1 << 30, 3),
        ),
        2,
    ),
    "IPC: a negative index": (
        lambda: through_ipc(
            _coded(pa.array([3, 1, 2, 3], pa.int32()), pa.array(list("abcd"))), int32s(3, 1, 2, 3), int32s(3, 1, -2, 3)
        ),
        2,
    ),
    "IPC: an offset of a dictionary's entries": (
        lambda: through_ipc(
            _coded(pa.array([0, 1, 2], pa.int8()), _texts(pa.string())),
            int32s(0, 3, 19, 40),
            int32s(0, 1 << 30, 19, 40),
        ),
        None,
    ),
    "texts": (lambda: _batch(_binary(pa.string(), int32s(0, 5_000_000, 3), 2)), 1),
    "bytes": (lambda: _batch(_binary(pa.binary(), int32s(0, 5, 3), 2)), 1),
    "large bytes": (lambda: _batch(_binary(pa.large_binary(), int64s(0, 5_000_000, 3), 2)), 1),
    "lists": (lambda: _batch(_lists(_NUMBERS, 0, 900, 3)), 0),
    "large lists": (lambda: _batch(_lists(_NUMBERS, 0, 900, 3, large=True)), 0),
    "texts in lists": (lambda: _batch(_lists(_binary(pa.string(), int32s(0, 2, 1, 3), 3), 0, 1, 1, 3)), 2),
    "lists in lists": (lambda: _batch(_lists(_lists(_NUMBERS, 0, 3, 1, 2), 0, 1, 3)), 1),
    "maps": (
        lambda: _batch(pa.Array.from_buffers(_MAP, 2, [None, pa.py_buffer(int32s(0, 5, 1))], children=[_ENTRIES])),
        0,
    ),
    "list views": (
        lambda: _batch(
            pa.Array.from_buffers(
                pa.list_view(pa.int32()),
                1,
                [None, pa.py_buffer(int32s(2)), pa.py_buffer(int32s(900))],
                children=[_NUMBERS],
            )
        ),
        0,
    ),
    "a view's buffer is not there": (lambda: _batch(_views(3, 0, 0, 0, 20, 0, 7, 0)), 1),
    "a view ends behind its buffer": (lambda: _batch(_views(20, 0, 0, 90_000_000)), 0),
    "a view of negative size": (lambda: _batch(_views(-20, 0, 0, 0)), 0),
    "a view that wraps around": (lambda: _batch(_views(2**31 - 1, 0, 0, 2**31 - 1)), 0),
    "C: texts": (lambda: _from_c(pa.string(), c_array(2, [None, int32s(0, 5_000_000, 3), b"abc"])), 1),
    "C: negative offset": (lambda: _from_c(pa.string(), c_array(2, [None, int32s(-9_000_000, 1, 3), b"abc"])), None),
    "C: lists end behind the elements": (
        lambda: _from_c(
            pa.list_(pa.int32()), c_array(2, [None, int32s(0, 2, 3_000_000)], [c_array(3, [None, int32s(1, 2, 3)])])
        ),
        None,
    ),
    "C: a struct's children are too short": (
        lambda: _from_c(
            _PAIR, c_array(500_000, [None], [c_array(1, [None, int64s(1)]), c_array(1, [None, int32s(1)])])
        ),
        None,
    ),
    "C: lists of fixed size with too few elements": (
        lambda: _from_c(pa.list_(pa.int32(), 3), c_array(400_000, [None], [c_array(3, [None, int32s(1, 2, 3)])])),
        None,
    ),
    "C: the number of nulls is not that of the bitmap": (
        lambda: _from_c(pa.int32(), c_array(2, [b"\1", int32s(1, 2)], null_count=2)),
        None,
    ),
    "C: more nulls than rows": (
        lambda: _from_c(pa.int32(), c_array(2, [b"\1", int32s(1, 2)], null_count=200)),
        None,
    ),
    "C: an index of a dictionary": (
        lambda: _from_c(
            pa.dictionary(pa.int8(), pa.string()),
            c_array(2, [None, b"\0\x7f"], dictionary=c_array(1, [None, int32s(0, 1), b"a"])),
        ),
        1,
    ),
    "C: values begin before their buffer": (
        lambda: _from_c(pa.int64(), c_array(2, [None, int64s(1, 2)], offset=-1)),
        None,
    ),
    "C: values begin behind all memory": (
        lambda: _from_c(pa.int64(), c_array(2, [None, int64s(1, 2)], offset=1 << 60)),
        None,
    ),
    "C: an entry of a map is null": (  # Making an object of such a column ends the process.
        lambda: _from_c(
            _MAP,
            c_array(
                1,
                [None, int32s(0, 1)],
                [
                    c_array(
                        1,
                        [b"\0"],
                        [c_array(1, [None, int32s(0, 1), b"a"]), c_array(1, [None, int32s(1)])],
                        null_count=1,
                    )
                ],
            ),
        ),
        None,
    ),
    "a decimal of more digits than its type": (
        lambda: _batch(pa.Array.from_buffers(pa.decimal256(50, 2), 1, [None, pa.py_buffer(b"\x7f" * 32)])),
        None,
    ),
    "an entry of a dictionary that no row has": (
        lambda: _batch(
            _coded(
                pa.array([0, 0], pa.int8()),
                pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(int32s(0, 1, 2)), pa.py_buffer(b"a\xff")]),
            )
        ),
        None,
    ),
    "views in runs": (lambda: _batch(_runs([1, 2], _views(3, 0, 0, 0, 20, 0, 7, 0))), None),
    "large texts in runs": (lambda: _batch(_runs([1, 2], _binary(pa.large_binary(), int64s(0, 1 << 40, 3), 2))), None),
    "runs that go back, in a struct": (
        lambda: _batch(pa.StructArray.from_arrays([_runs([900_000, 2], pa.array(["a", "b"]))], ["x"])),
        None,
    ),
    "a dictionary of no rows": (
        lambda: _batch(_coded(pa.array([], pa.int8()), _binary(pa.string(), int32s(0, 900_000_000, 2), 2))),
        None,
    ),
}
#: Cases that pyarrow itself dies of where they are more than a part of a batch, and before 20 in validating a batch.
_ONLY_IN_BATCHES = {"C: an entry of a map is null"}


def _valid() -> dict[str, pa.Array]:
    """Arrays that look odd and are valid: they must be written, and read back the same."""
    nothing = pa.py_buffer(b"")
    empty = pa.Array.from_buffers(pa.int32(), 0, [None, None])
    misaligned = pa.py_buffer(b"x" + int32s(0, 2, 3)).slice(1)
    garbage = pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(b"\1"), pa.py_buffer(int32s(0, 99))])
    return {
        "an empty child without buffers": _lists(empty, 0, 0, 0),
        "no rows and no buffers": pa.Array.from_buffers(pa.list_(pa.int32()), 0, [None, None], children=[empty]),
        "an empty child without offsets": _lists(pa.Array.from_buffers(pa.string(), 0, [None, nothing, nothing]), 0, 0),
        "misaligned offsets": pa.Array.from_buffers(pa.string(), 2, [None, misaligned, pa.py_buffer(b"abcdef")]),
        "anything under a null index": _coded(garbage, pa.array(["a"])),
        "a map with more values than keys": imported(
            pa.map_(pa.string(), pa.uint8()),
            c_array(
                1,
                [None, int32s(0, 1)],
                [c_array(1, [None], [c_array(1, [None, int32s(0, 1), b"a"]), c_array(2, [None, b"\1\2"])])],
            ),
        ),
        "a slice of lists": pa.array([[1, 2], None, [3], []], pa.list_(pa.int32())).slice(1, 3),
    }


def _outcome(target: str, array: Any, kept: io.BytesIO) -> None:
    from smalti.kudu import CFileWriter, encode_array_block

    if target == "mosaic":
        smalti.write_table(array, kept)
        return
    column = array if isinstance(array, pa.Array) else array.column("col")
    if target == "block":
        encode_array_block(column)
        return
    nested = pa.types.is_nested(column.type)
    with CFileWriter(kept, column.type, array=nested) as writer:
        writer.write(column)


def main(target: str) -> None:
    """Try every case and print what came of it; a crash is seen from outside, by the line that is missing."""
    for name, (make, row) in HOSTILE.items():
        if name in _ONLY_IN_BATCHES and (target != "mosaic" or not HAS["attrs"]):
            continue
        print(name, end=": ", flush=True)
        kept = io.BytesIO()
        try:
            _outcome(target, make(), kept)
            print("WRITTEN")
        except smalti.SchemaError as error:
            # Kudu refuses many types as such; where it does not, and in Mosaic files, the error names the place.
            named = error.place.get("column") in ("col", "cells") and error.place.get("row") == row
            print("refused" if target != "mosaic" or named else f"refused, but {error}")
    for name, array in _valid().items():
        if target != "mosaic" and not pa.types.is_list(array.type):
            continue
        if target == "block" and not len(array):
            continue
        print(name, end=": ", flush=True)
        kept = io.BytesIO()
        _outcome(target, pa.record_batch([array], ["col"]) if target == "mosaic" else array, kept)
        same = target != "mosaic" or smalti.read_table(kept.getvalue())["col"].to_pylist() == array.to_pylist()
        print("written" if same else "CHANGED")


# --- any case: IPC streams with damaged bodies ---------------------------------------------------------------------


def _odd_layouts(table: pa.Table, rng: random.Random) -> pa.Table:
    """The table with some columns in layouts that are converted before they are stored."""
    columns = []
    for column in table.columns:
        choices = [column.type]
        if pa.types.is_string(column.type):
            choices += [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
        elif pa.types.is_list(column.type) and not pa.types.is_nested(column.type.value_type):
            choices += [pa.large_list(column.type.value_field), pa.list_view(column.type.value_field)]
        chosen = rng.choice(choices)
        columns.append(column if chosen == column.type else pa.array(column.to_pylist(), chosen))
    return pa.table(columns, names=table.column_names)


def write_damaged(rng: random.Random) -> str:
    """Damage the values, offsets or bitmaps of an IPC stream, and write what Arrow reads of it: what came of that."""
    table = matrix(rng.randrange(1 << 30), rng.choice([1, 9, 23]))
    table = _odd_layouts(table.select(rng.sample(table.column_names, 6)), rng)
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    head = table.schema.serialize().size  # damage in the schema is Arrow's own business
    data = bytearray(stream.getvalue())
    for _ in range(rng.choice([1, 2, 8])):
        at = rng.randrange(head // 4, len(data) // 4) * 4
        data[at : at + 4] = struct.pack("<i", rng.choice([-1, 0, 1, 1 << 30, -(1 << 31), rng.randrange(256), 1 << 20]))
    try:
        with pa.ipc.open_stream(bytes(data)) as reader:
            batches = list(reader)
    except (pa.ArrowException, OSError, ValueError):
        return "refused by Arrow"
    try:
        file = io.BytesIO()
        smalti.write_table(pa.Table.from_batches(batches, table.schema), file)
    except smalti.SchemaError:
        return "refused"
    read_everything(file.getvalue())
    return "written"


if __name__ == "__main__":
    if sys.argv[1] != "fuzz":
        main(sys.argv[1])
    else:
        seed, count = int(sys.argv[2]), int(sys.argv[3])
        outcomes: Counter[str] = Counter()
        for number in range(count):
            try:
                outcomes[write_damaged(random.Random(f"{seed} {number}"))] += 1
            except BaseException:
                print(f"seed {seed}, number {number}", flush=True)
                raise
        print(dict(outcomes))
