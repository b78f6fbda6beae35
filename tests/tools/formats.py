"""Every Arrow type, and the frames a pandas user has, through Mosaic, Parquet, Feather and Lance: what comes back.

`docs/generate.py` makes the tables of `docs/types.md` of this, and `tests/file/test_round_trips.py` holds Mosaic to it:
what Parquet returns unchanged, Mosaic must. ``python -m tests.tools.formats`` runs all formats and records the outcomes
in `docs/round_trips.json`, so that the page can be checked where Lance is not installed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import re
import uuid
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

import smalti
from tests.support.older_arrow import HAS, array_of, uuids

RECORD = Path(__file__).parents[2] / "docs" / "round_trips.json"
SAME = "same"


@dataclass(frozen=True)
class Case:
    """Something to write: a table of Arrow, or a frame of pandas."""

    name: str
    make: Callable[[], Any]


# --- Arrow --------------------------------------------------------------------------------------------------------


def column(values: Any, type_: Any = None, **of_field: Any) -> pa.Table:
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else array_of(values, type_)
    return pa.Table.from_arrays([array], schema=pa.schema([pa.field("x", array.type, **of_field)]))


def extension(type_: Any, storage: list[Any]) -> pa.Table:
    return column(pa.ExtensionArray.from_storage(type_, pa.array(storage, type_.storage_type)))


class Celsius(pa.ExtensionType):
    """An extension type of a user, registered where it is read."""

    def __init__(self) -> None:
        super().__init__(pa.float32(), "smalti.tests.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"degrees"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Celsius:
        return cls()


def unregistered() -> pa.Table:
    """An extension type that nobody here knows: two entries in the metadata of its field."""
    return column([1, 2, None], metadata={"ARROW:extension:name": "elsewhere.id", "ARROW:extension:metadata": "v1"})


with contextlib.suppress(pa.ArrowKeyError):
    pa.register_extension_type(Celsius())

POINT = pa.struct([pa.field("x", pa.float32()), pa.field("y", pa.float32(), False)])
DAY = dt.datetime(2026, 11, 16, 9, 30, 15, 123456)
WIDE = Decimal("12345678901234567890123456789012345678901234.56")

#: (type, values); a null is added to each.
VALUES: list[tuple[Any, list[Any]]] = [
    (pa.null(), [None]),
    (pa.bool_(), [True, False]),
    (pa.int8(), [-128, 127]),
    (pa.int16(), [-(2**15), 2**15 - 1]),
    (pa.int32(), [-(2**31), 2**31 - 1]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.uint8(), [0, 255]),
    (pa.uint16(), [0, 2**16 - 1]),
    (pa.uint32(), [0, 2**32 - 1]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.float16(), [np.float16(0.1), np.float16("inf")]),
    (pa.float32(), [0.1, float("-inf"), -0.0]),
    (pa.float64(), [0.1, 1e308, -0.0]),
    *([(pa.decimal32(7, 2), [Decimal("12345.67")])] if HAS["decimal32"] else []),
    *([(pa.decimal64(15, 2), [Decimal("-1234567890123.45")])] if HAS["decimal64"] else []),
    (pa.decimal128(18, 2), [Decimal("0.01")]),
    (pa.decimal128(38, 2), [Decimal("123456789012345678901234567890123456.78")]),
    (pa.decimal128(10, -2), [Decimal("1200")]),
    (pa.decimal256(30, 2), [Decimal("0.01"), Decimal("-5.00")]),
    (pa.decimal256(50, 2), [WIDE, -WIDE]),
    (pa.string(), ["", "wörd", "a\0b"]),
    (pa.large_string(), ["", "wörd"]),
    (pa.string_view(), ["", "a text of more than twelve bytes"]),
    (pa.binary(), [b"", b"\x00\xff"]),
    (pa.large_binary(), [b"", b"\x00\xff"]),
    (pa.binary_view(), [b"", b"\x00\xff"]),
    (pa.binary(4), [b"abcd", b"\0\0\0\0"]),
    (pa.binary(0), [b""]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (pa.date64(), [dt.date(2026, 11, 16)]),
    (pa.time32("s"), [dt.time(23, 59, 59)]),
    (pa.time32("ms"), [dt.time(23, 59, 59, 999000)]),
    (pa.time64("us"), [dt.time(23, 59, 59, 999999)]),
    (pa.time64("ns"), [86_399_999_999_999]),
    (pa.timestamp("s"), [DAY.replace(microsecond=0)]),
    (pa.timestamp("ms"), [DAY.replace(microsecond=123000)]),
    (pa.timestamp("us"), [DAY]),
    (pa.timestamp("ns"), [1_794_820_215_123_456_789]),
    (pa.timestamp("us", "UTC"), [DAY]),
    (pa.timestamp("ns", "Europe/Berlin"), [1_794_820_215_123_456_789]),
    (pa.timestamp("ms", "+02:00"), [1_794_820_215_123]),
    (pa.duration("s"), [dt.timedelta(days=-3)]),
    (pa.duration("ms"), [dt.timedelta(milliseconds=1)]),
    (pa.duration("us"), [dt.timedelta(microseconds=1)]),
    (pa.duration("ns"), [2**63 - 1]),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3])]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a"]),
    (pa.dictionary(pa.int8(), pa.int64()), [7, 8, 7]),
    (pa.dictionary(pa.int16(), pa.large_string(), ordered=True), ["a", "b", "a"]),
    (pa.list_(pa.int32()), [[1, None], []]),
    (pa.list_(pa.field("element", pa.uint8(), False)), [[1], []]),
    (pa.large_list(pa.string()), [["a"], []]),
    (pa.list_view(pa.int32()), [[1, None], []]),
    (pa.large_list_view(pa.int32()), [[1, None], []]),
    (pa.list_(pa.float32(), 3), [[1.0, 2.0, 3.0]]),
    (pa.list_(pa.list_(pa.uint16())), [[[1], None, []], []]),
    (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["a", "b"], []]),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], []]),
    (pa.map_(pa.string(), pa.int32(), keys_sorted=True), [[("a", 1), ("b", None)], []]),
    (pa.map_(pa.uint8(), pa.list_(pa.duration("ms"))), [[(1, [1])], []]),
    (POINT, [{"x": 1.0, "y": 2.0}, {"x": None, "y": 2.0}]),
    (pa.struct([]), [{}]),
    (pa.struct([("at", POINT), ("n", pa.uint8())]), [{"at": {"x": 1.0, "y": 2.0}, "n": 3}, {"at": None, "n": 3}]),
    (pa.struct([("a.b", pa.int8()), ("", pa.int8())]), [{"a.b": 1, "": 2}]),
    (pa.list_(POINT), [[{"x": 1.0, "y": 2.0}, None], []]),
    (pa.list_(POINT, 2), [[{"x": 1.0, "y": 2.0}, None]]),
    (pa.map_(pa.string(), POINT), [[("a", {"x": 1.0, "y": 2.0})], []]),
    (pa.map_(POINT, pa.int8()), [[({"x": 1.0, "y": 2.0}, 1)], []]),
    (
        pa.struct([("c", pa.dictionary(pa.int8(), pa.string())), ("d", pa.timestamp("s", "Asia/Tokyo"))]),
        [{"c": "a", "d": DAY.replace(microsecond=0)}],
    ),
]


def nulls_of_a_struct() -> pa.Table:
    type_ = pa.struct([pa.field("inner", pa.struct([pa.field("x", pa.int8())]))])
    return column([None, {"inner": None}, {"inner": {"x": None}}, {"inner": {"x": 1}}], type_)


def two_dictionaries() -> pa.Table:
    chunks = [pa.array(values).dictionary_encode() for values in (["a", "b"], ["c", "a"])]
    return column(pa.chunked_array(chunks))


def unused_entries() -> pa.Table:
    return column(pa.DictionaryArray.from_arrays(pa.array([1, 1], pa.int8()), pa.array(["u", "b", "v"])))


def metadata() -> pa.Table:
    fields = [pa.field("x", pa.int64(), metadata={"comment": "a key", b"\xff": b"\x00"}), pa.field("y", pa.string())]
    return pa.table([[1], ["a"]], schema=pa.schema(fields, {"owner": "me", b"bin": b"\x00\xff"}))


def metadata_of_nested() -> pa.Table:
    type_ = pa.struct([pa.field("a", pa.list_(pa.field("item", pa.int32(), metadata={"k": "v"})), metadata={"f": "g"})])
    return column([{"a": [1]}], type_)


ARROW = [
    *(Case(str(type_), partial(column, [*values, None], type_)) for type_, values in VALUES),
    Case("dictionary<values=decimal128(9, 2), indices=int8>", lambda: column(pa.DictionaryArray.from_arrays(
        pa.array([0, 0, None], pa.int8()), pa.array([Decimal("1.50")], pa.decimal128(9, 2))))),
    Case("run_end_encoded<run_ends: int32, values: string>", lambda: column(
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None])))),
    Case("dense_union", lambda: column(pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["a"])]))),
    *([Case("uuid", lambda: extension(pa.uuid(), [uuid.UUID(int=7).bytes, None]))] if HAS["uuid"] else []),
    *([Case("json", lambda: extension(pa.json_(), ['{"a": 1}', None]))] if HAS["json"] else []),
    *([Case("bool8", lambda: extension(pa.bool8(), [1, 0, None]))] if HAS["bool8"] else []),
    *([Case("opaque", lambda: extension(pa.opaque(pa.binary(), "geometry", "postgres"), [b"x", None]))]
      if HAS["opaque"] else []),
    Case("fixed_shape_tensor", lambda: extension(pa.fixed_shape_tensor(pa.float32(), [2, 2]), [[1.0, 2, 3, 4], None])),
    Case("an extension type of a user", lambda: extension(Celsius(), [20.5, None])),
    Case("an extension type that is not registered", unregistered),
    Case("list of uuid", lambda: column(pa.ListArray.from_arrays(
        pa.array([0, 2, 2], pa.int32()), uuids([bytes(16), None])))),
    Case("struct null at several levels", nulls_of_a_struct),
    Case("dictionaries that differ by chunk", two_dictionaries),
    Case("dictionary with unused entries", unused_entries),
    Case("dictionary with a null entry", lambda: column(
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["a", None])))),
    Case("metadata of schema and field", metadata),
    Case("metadata of nested fields", metadata_of_nested),
    Case("not null", lambda: column([1, 2], pa.uint32(), nullable=False)),
    Case("NaN with a payload", lambda: column(pa.Array.from_buffers(
        pa.float64(), 1, [None, pa.py_buffer(b"\x01\0\0\0\0\0\xf8\x7f")]))),
    Case("no rows", lambda: pa.table({"a": pa.array([], pa.uint8()), "b": pa.array([], POINT)})),
    Case("no columns", lambda: pa.table({})),
    Case("an empty name", lambda: pa.table([[1], [2]], names=["", "b"])),
    Case("NUL in a name", lambda: pa.table([[1], [2]], names=["a\0b", "b"])),
    Case("a name of 70,000 bytes", lambda: pa.table([[1]], names=["a" * 70_000])),
    Case("two columns of one name", lambda: pa.table([[1], [2]], names=["a", "a"])),
    Case("a column named as the path of a field", lambda: pa.table(
        {"a": pa.array([{"b": 1}], pa.struct([("b", pa.int8())])), "a.b": ["x"], "a.b#2": ["y"]})),
]  # fmt: skip


# --- pandas -------------------------------------------------------------------------------------------------------


def with_attrs() -> pd.DataFrame:
    frame = pd.DataFrame({"a": [1]})
    frame.attrs = {"source": "sensor 7", "n": 3}
    return frame


def objects(values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(values, dtype=object)})


def categories(**options: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Categorical(["low", None, "high"], categories=["low", "mid", "high"], **options)})


def arrow_dtype(type_: pa.DataType, values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.array(values, dtype=pd.ArrowDtype(type_))})


HOURS = ["2026-11-16 00:00", "2026-11-16 01:00", "2026-11-16 02:00"]

PANDAS = [
    Case("int64, float64, bool", lambda: pd.DataFrame({"i": [1, 2], "f": [0.5, np.nan], "b": [True, False]})),
    Case("int8, uint16, uint64, float32, float16", lambda: pd.DataFrame(
        {d: np.array([1, 2], d) for d in ("int8", "uint16", "uint64", "float32", "float16")})),
    Case("str", lambda: pd.DataFrame({"a": ["x", None, ""]})),
    Case("string[python]", lambda: pd.DataFrame({"a": pd.array(["x", None], "string[python]")})),
    Case("string[pyarrow]", lambda: pd.DataFrame({"a": pd.array(["x", None], "string[pyarrow]")})),
    Case("Int64", lambda: pd.DataFrame({"a": pd.array([2**53 + 1, None], "Int64")})),
    Case("Int8, UInt16, UInt64", lambda: pd.DataFrame(
        {d: pd.array([1, None], d) for d in ("Int8", "UInt16", "UInt64")})),
    Case("Float32, Float64", lambda: pd.DataFrame({d: pd.array([0.5, None], d) for d in ("Float32", "Float64")})),
    Case("boolean", lambda: pd.DataFrame({"a": pd.array([True, None], "boolean")})),
    Case("int64[pyarrow]", lambda: arrow_dtype(pa.int64(), [1, None])),
    Case("decimal128[pyarrow]", lambda: arrow_dtype(pa.decimal128(10, 2), [Decimal("1.50"), None])),
    Case("list[pyarrow]", lambda: arrow_dtype(pa.list_(pa.int64()), [[1, 2], None])),
    Case("struct[pyarrow]", lambda: arrow_dtype(pa.struct([("a", pa.int64())]), [{"a": 1}, None])),
    Case("dictionary[pyarrow]", lambda: arrow_dtype(pa.dictionary(pa.int32(), pa.string()), ["a", None])),
    Case("time64[pyarrow]", lambda: arrow_dtype(pa.time64("us"), [dt.time(1, 2, 3), None])),
    Case("category", categories),
    Case("category, ordered", lambda: categories(ordered=True)),
    Case("category of integers", lambda: pd.DataFrame({"a": pd.Categorical([30, 10, 30])})),
    Case("category of timestamps", lambda: pd.DataFrame({"a": pd.Categorical(pd.to_datetime(HOURS))})),
    Case("category of intervals", lambda: pd.DataFrame({"a": pd.cut([1, 5, 9], [0, 5, 10])})),
    Case("datetime64[ns]", lambda: pd.DataFrame({"a": pd.to_datetime([*HOURS, None]).astype("datetime64[ns]")})),
    Case("datetime64[s], [ms], [us]", lambda: pd.DataFrame(
        {u: pd.to_datetime(HOURS).astype(f"datetime64[{u}]") for u in ("s", "ms", "us")})),
    Case("datetime64 with time zone", lambda: pd.DataFrame({"a": pd.to_datetime(HOURS).tz_localize("Europe/Berlin")})),
    Case("datetime64 with offset", lambda: pd.DataFrame(
        {"a": pd.to_datetime(HOURS).tz_localize(dt.timezone(dt.timedelta(hours=2)))})),
    Case("timedelta64", lambda: pd.DataFrame({"a": pd.to_timedelta([1, None, 3], unit="D")})),
    Case("timedelta64[s]", lambda: pd.DataFrame({"a": pd.to_timedelta([1, 2], unit="D").astype("timedelta64[s]")})),
    Case("period", lambda: pd.DataFrame({"a": pd.period_range("2026-01", periods=3, freq="M")})),
    Case("interval", lambda: pd.DataFrame({"a": pd.interval_range(0, 3)})),
    Case("sparse", lambda: pd.DataFrame({"a": pd.arrays.SparseArray([0, 0, 1])})),
    Case("objects: text and None", lambda: objects(["x", None])),
    Case("objects: bytes", lambda: objects([b"\x00", None])),
    Case("objects: Decimal", lambda: objects([Decimal("1.50"), None])),
    Case("objects: date", lambda: objects([dt.date(2026, 11, 16), None])),
    Case("objects: time", lambda: objects([dt.time(1, 2, 3, 4), None])),
    Case("objects: dict", lambda: objects([{"a": 1, "b": "x"}, {"a": None, "b": "y"}])),
    Case("objects: NumPy arrays", lambda: objects([np.array([1, 2]), np.array([3])])),
    Case("objects: lists", lambda: objects([[1, 2], []])),
    Case("objects: lists of dicts", lambda: objects([[{"a": 1}], []])),
    Case("objects: uuid", lambda: objects([uuid.UUID(int=7), None])),
    Case("objects: True and None", lambda: objects([True, None])),
    Case("objects: integers and text", lambda: objects([1, "x"])),
    Case("objects: only None", lambda: objects([None, None])),
    Case("float64, only NaN", lambda: pd.DataFrame({"a": [np.nan, np.nan]})),
    Case("RangeIndex with step and name", lambda: pd.DataFrame(
        {"a": [1, 2]}, index=pd.RangeIndex(5, 9, 2, name="row"))),
    Case("index without name", lambda: pd.DataFrame({"a": [1, 2]}, index=["x", "y"])),
    Case("index with name", lambda: pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="key"))),
    Case("index named as a column", lambda: pd.DataFrame({"a": [1, 2]}, index=pd.Index([7, 8], name="a"))),
    Case("MultiIndex", lambda: pd.DataFrame({"a": [1, 2, 3, 4]}, index=pd.MultiIndex.from_product(
        [["x", "y"], [1, 2]], names=["k", None]))),
    Case("DatetimeIndex", lambda: pd.DataFrame({"a": [1, 2, 3]}, index=pd.DatetimeIndex(HOURS, name="at"))),
    Case("DatetimeIndex with freq", lambda: pd.DataFrame(
        {"a": [1, 2, 3]}, index=pd.date_range("2026-11-16", periods=3, freq="h"))),
    Case("DatetimeIndex with time zone", lambda: pd.DataFrame(
        {"a": [1, 2, 3]}, index=pd.DatetimeIndex(HOURS, tz="Europe/Berlin"))),
    Case("PeriodIndex", lambda: pd.DataFrame({"a": [1, 2]}, index=pd.period_range("2026-01", periods=2, freq="M"))),
    Case("CategoricalIndex", lambda: pd.DataFrame({"a": [1, 2]}, index=pd.CategoricalIndex(["x", "y"]))),
    Case("TimedeltaIndex", lambda: pd.DataFrame({"a": [1, 2]}, index=pd.to_timedelta([1, 2], unit="h"))),
    Case("IntervalIndex", lambda: pd.DataFrame({"a": [1, 2]}, index=pd.interval_range(0, 2))),
    Case("columns: a name for their index", lambda: pd.DataFrame({"a": [1]}).rename_axis(columns="feature")),
    Case("columns: MultiIndex", lambda: pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples(
        [("a", "x"), ("a", "y")], names=["one", "two"]))),
    Case("columns: integers", lambda: pd.DataFrame([[1, 2]])),
    Case("columns: integers from 10", lambda: pd.DataFrame([[1, 2]], columns=[10, 11])),
    Case("columns: dates", lambda: pd.DataFrame([[1, 2]], columns=pd.to_datetime(HOURS[:2]))),
    Case("columns: an empty name", lambda: pd.DataFrame({"": [1], "b": [2]})),
    Case("columns: dots in names", lambda: pd.DataFrame({"a.b": [1], "a": [2]})),
    Case("columns: two of one name", lambda: pd.DataFrame([[1, 2]], columns=["a", "a"])),
    Case("columns: none, with rows", lambda: pd.DataFrame(index=pd.RangeIndex(3))),
    Case("columns: none, with an index", lambda: pd.DataFrame(index=pd.Index(["x", "y"], name="key"))),
    Case("no rows", lambda: pd.DataFrame({"a": pd.array([], "Int64"), "b": pd.Categorical([])})),
    Case("nothing", pd.DataFrame),
    *([Case("attrs", with_attrs)] if HAS["attrs"] else []),
]  # fmt: skip


# --- formats ------------------------------------------------------------------------------------------------------


def mosaic_bytes(data: Any) -> bytes:
    stream = io.BytesIO()
    smalti.write_table(data, stream)
    return stream.getvalue()


def mosaic(data: Any) -> Any:
    with smalti.open(mosaic_bytes(data)) as file:
        return file.to_pandas() if isinstance(data, pd.DataFrame) else file.read()


def parquet(data: Any) -> Any:
    stream = io.BytesIO()
    if isinstance(data, pd.DataFrame):
        data.to_parquet(stream)
        return pd.read_parquet(stream)
    pq.write_table(data, stream)
    return pq.read_table(pa.BufferReader(stream.getvalue()))


def feather(data: Any) -> Any:
    """As pyarrow has it: pandas' own `to_feather` refuses every index."""
    stream = pa.BufferOutputStream()
    pyarrow.feather.write_feather(data, stream)
    read = pyarrow.feather.read_feather if isinstance(data, pd.DataFrame) else pyarrow.feather.read_table
    return read(pa.BufferReader(stream.getvalue()))


def lance(data: Any) -> Any:
    from lance.file import LanceFileReader, LanceFileWriter

    table = pa.Table.from_pandas(data) if isinstance(data, pd.DataFrame) else data
    with TemporaryDirectory() as directory:
        path = f"{directory}/x.lance"
        with LanceFileWriter(path, table.schema) as writer:
            for batch in table.to_batches():
                writer.write_batch(batch)
        found = LanceFileReader(path).read_all().to_table()
    return found.to_pandas() if isinstance(data, pd.DataFrame) else found


FORMATS: dict[str, Callable[[Any], Any]] = {"Mosaic": mosaic, "Parquet": parquet, "Feather": feather, "Lance": lance}


# --- outcomes -----------------------------------------------------------------------------------------------------


def outcome(data: Any, through: Callable[[Any], Any]) -> str:
    """What a format does to a table or a frame: "same", "lossy: ..." or "refused: ..."."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = through(data)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # Lance panics, which is no Exception.
        reason = getattr(error, "reason", None) or (str(error).splitlines() or [type(error).__name__])[0]
        return f"refused: {_short(reason)}"
    lost = lost_of_frame(data, found) if isinstance(data, pd.DataFrame) else lost_of_table(data, found)
    return f"lossy: {_short(lost)}" if lost else SAME


def lost_of_table(given: pa.Table, found: pa.Table) -> str | None:
    """What of a table is not the same, None if all is."""
    found.validate(full=True)
    if found.schema.names != given.schema.names:
        return "names of columns"
    for one, other in zip(given.schema, found.schema, strict=True):
        if one.type != other.type:
            return f"comes back as {other.type}"
        if one.nullable != other.nullable:
            return "nullability"
        if not one.equals(other, check_metadata=True):
            return "metadata of a field" if str(one.type) == str(other.type) else f"comes back as {other.type}"
    if not given.schema.equals(found.schema, check_metadata=True):
        return "metadata"
    if given.num_rows != found.num_rows:
        return f"{found.num_rows} rows of {given.num_rows}"
    return next(filter(None, map(_lost_of_column, given.columns, found.columns)), None)


def _lost_of_column(given: pa.ChunkedArray, found: pa.ChunkedArray) -> str | None:
    """Compares bit for bit; of dictionaries the entries too, unless chunks have different ones."""
    one, other = given.combine_chunks(), found.combine_chunks()
    keeps_entries = pa.types.is_dictionary(given.type) and given.num_chunks == 1
    if keeps_entries and one.dictionary.to_pylist() != other.dictionary.to_pylist():
        return "entries of the dictionary"
    if pa.types.is_floating(given.type) and not one.null_count:
        bits = [each.buffers()[1].to_pybytes()[: each.nbytes] for each in (one, other)]
        return None if bits[0] == bits[1] else "bits of values"
    return None if one.equals(other) or one.to_pylist() == other.to_pylist() else "values"


def lost_of_frame(given: pd.DataFrame, found: pd.DataFrame) -> str | None:
    """What of a frame is not the same, None if all is."""
    if list(given.dtypes) != list(found.dtypes):
        pairs = zip(given.dtypes, found.dtypes, strict=False)
        return next((f"{one} comes back as {other}" for one, other in pairs if one != other), "columns")
    if given.attrs != found.attrs:
        return "attrs"
    try:
        pd.testing.assert_frame_equal(given, found, check_index_type="equiv", check_column_type=True, check_freq=False)
    except (AssertionError, ValueError, TypeError) as error:
        what, *rest = str(error).strip().splitlines()
        detail = next((line for line in rest if line.startswith("[right]")), "")
        return f"{what} {detail}"
    if type(given.index) is not type(found.index):
        return f"{type(given.index).__name__} comes back as {type(found.index).__name__}"
    if getattr(given.index, "freq", None) != getattr(found.index, "freq", None):
        return "freq of the index"
    for one, other in zip(given.items(), found.items(), strict=True):
        if one[1].dtype == object and list(map(type, one[1])) != list(map(type, other[1])):
            return f"{type(one[1].iloc[0]).__name__} comes back as {type(other[1].iloc[0]).__name__}"
    return None


def _short(text: str) -> str:
    text = re.sub(r"LanceError\(\w+\): |, /home/\S+", "", " ".join(text.split()))
    return text if len(text) <= 90 else f"{text[:89]}…"


CASES = {"arrow": ARROW, "pandas": PANDAS}


def outcomes(formats: dict[str, Callable[[Any], Any]]) -> dict[str, dict[str, dict[str, str]]]:
    """The outcome of every case in every format."""
    return {
        kind: {case.name: {name: outcome(case.make(), through) for name, through in formats.items()} for case in cases}
        for kind, cases in CASES.items()
    }


def versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("pyarrow", "pandas", "pylance")}


if __name__ == "__main__":
    RECORD.write_text(json.dumps({"versions": versions(), **outcomes(FORMATS)}, indent=1, ensure_ascii=False) + "\n")
