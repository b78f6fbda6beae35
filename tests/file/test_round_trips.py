"""What goes in comes out: every Arrow type that fits, and every kind of input that speaks Arrow.

What Parquet returns unchanged, Mosaic does too, and the reference reads every such file; `tests.tools.formats` has the
cases.
"""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smalti
from tests.support import reference
from tests.support.compare import assert_same
from tests.support.files import layout, read, written
from tests.support.older_arrow import HAS, uuids
from tests.support.strategies import examples, options_for, tables
from tests.support.tables import CONTAINERS, SCALARS, TYPES, matrix
from tests.tools import formats
from tests.tools.formats import CASES, RECORD, SAME, Case


@examples(150)
@given(st.data())
def test_generated_tables(data: st.DataObject) -> None:
    table = data.draw(tables())
    options = data.draw(options_for(table))
    rows = data.draw(st.sampled_from([None, 1, 3, 7]))
    assert_same(read(written(table, row_group_max_rows=rows, **options)), table)


@examples(60)
@given(st.data())
def test_slices_and_chunks(data: st.DataObject) -> None:
    """Offsets into buffers, chunk boundaries and empty chunks leave no trace."""
    table = data.draw(tables(min_columns=1))
    cuts = sorted(data.draw(st.lists(st.integers(0, table.num_rows), max_size=4)))
    pieces = [table.slice(start, end - start) for start, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True)]
    chunked = pa.concat_tables(pieces)
    assert written(chunked) == written(table)
    middle = table.slice(table.num_rows // 3, table.num_rows // 2)
    assert_same(read(written(middle)), middle)


def test_columns_chunked_differently() -> None:
    table = pa.table(
        {
            "a": pa.chunked_array([[1, 2], [3, None, 5, 6], []], pa.int16()),
            "b": pa.chunked_array([["x"], ["y", "z", None], ["", "w"]]),
            "c": pa.chunked_array([[[1], None, []], [[2, None], [3], [4]]], pa.list_(pa.int8())),
        }
    )
    assert_same(read(written(table)), table)


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_sliced_arrays_of_every_type(kind: pa.DataType) -> None:
    name = next(name for name, other in TYPES.items() if other is kind)
    whole = matrix(20, 90, {name: kind})
    for start, length in [(1, 8), (7, 9), (8, 1), (13, 64), (89, 1), (90, 0)]:
        part = whole.slice(start, length)
        assert_same(read(written(part)), part)


def test_values_under_null_containers_are_not_converted() -> None:
    """A null list or map may have anything in its buffers, also what could not be stored."""
    midday = pa.array([0, 43_200_000, 86_400_000], pa.int64()).view(pa.date64())
    offsets, mask = pa.array([0, 1, 2, 3], pa.int32()), pa.array([False, True, False])
    lists = pa.ListArray.from_arrays(offsets, midday, mask=mask)
    maps = pa.MapArray.from_arrays(offsets, pa.array(["a", "b", "c"]), midday, mask=mask)
    first, last = datetime.date(1970, 1, 1), datetime.date(1970, 1, 2)
    assert read(written(pa.table({"l": lists, "m": maps}))).to_pydict() == {
        "l": [[first], None, [last]],
        "m": [[("a", first)], None, [("c", last)]],
    }


def test_elements_under_null_containers_are_dropped() -> None:
    """Arrow may keep values below a null list; the file must not."""
    values = pa.array([1, 2, 3, 4, 5], pa.int32())
    mask = pa.array([False, True, False])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4, 5], pa.int32()), values, mask=mask)
    table = pa.table({"l": lists})
    data = written(table)
    assert read(data)["l"].to_pylist() == [[1, 2], None, [5]]
    (element,) = [c for b in layout(data).row_groups[0].buckets for c in b.columns if c.path == "l.element"]
    assert element.num_values == 3


DAY = 86_400_000
#: A struct that some writers use for nanoseconds, which is stored as a timestamp.
LEGACY_TIMESTAMP = [("millis", pa.int64()), ("nanos_of_milli", pa.int32())]

#: name -> (array as given, array as it is stored)
TAKEN: dict[str, tuple[pa.Array, pa.Array]] = {
    "large_string": (pa.array(["a", None, "é"], pa.large_string()), pa.array(["a", None, "é"])),
    "string_view": (
        pa.array(["short", None, "longer than twelve bytes"], pa.string_view()),
        pa.array(["short", None, "longer than twelve bytes"]),
    ),
    "large_binary": (pa.array([b"a", None, b"\xff"], pa.large_binary()), pa.array([b"a", None, b"\xff"])),
    "binary_view": (pa.array([b"a", None, b"\xff" * 40], pa.binary_view()), pa.array([b"a", None, b"\xff" * 40])),
    "dictionary": (pa.array(["x", "y", None, "x"]).dictionary_encode(), pa.array(["x", "y", None, "x"])),
    "dictionary with null values": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array(["x", None])),
        pa.array(["x", None, None, "x"]),
    ),
    "dictionary of int64": (pa.array([7, 7, 9], pa.int64()).dictionary_encode(), pa.array([7, 7, 9], pa.int64())),
    "large_list": (
        pa.array([[1], None, [], [2, None]], pa.large_list(pa.int32())),
        pa.array([[1], None, [], [2, None]], pa.list_(pa.int32())),
    ),
    "fixed_size_list": (
        pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)),
        pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32())),
    ),
    "list_view": (
        pa.ListViewArray.from_arrays(
            pa.array([2, 0, 0], pa.int32()), pa.array([1, 2, 0], pa.int32()), pa.array([1, 2, 3])
        ),
        pa.array([[3], [1, 2], []], pa.list_(pa.int64())),
    ),
    "large_list_view": (
        pa.array([[1], None, [2, 3]], pa.large_list_view(pa.int16())),
        pa.array([[1], None, [2, 3]], pa.list_(pa.int16())),
    ),
    "timestamp[s]": (
        pa.array([0, -1, None, 1 << 40], pa.timestamp("s")),
        pa.array([0, -1000, None, (1 << 40) * 1000], pa.timestamp("ms")),
    ),
    "timestamp[s, UTC]": (
        pa.array([0, -1, None], pa.timestamp("s", "UTC")),
        pa.array([0, -1000, None], pa.timestamp("ms", "UTC")),
    ),
    "time32[s]": (pa.array([0, 86399, None], pa.time32("s")), pa.array([0, 86_399_000, None], pa.time32("ms"))),
    "date64 on whole days": (pa.array([0, -DAY, None, 5 * DAY], pa.date64()), pa.array([0, -1, None, 5], pa.date32())),
    "decimal32": (
        pa.array([Decimal("1.23"), None, Decimal("-9.99")], getattr(pa, "decimal32", pa.decimal128)(5, 2)),
        pa.array([Decimal("1.23"), None, Decimal("-9.99")], pa.decimal128(5, 2)),
    ),
    "decimal64": (
        pa.array([Decimal("1.23"), None, Decimal("-9.99")], getattr(pa, "decimal64", pa.decimal128)(17, 2)),
        pa.array([Decimal("1.23"), None, Decimal("-9.99")], pa.decimal128(17, 2)),
    ),
    "decimal256 of 38 digits": (
        pa.array([Decimal("1.23"), None], pa.decimal256(38, 2)),
        pa.array([Decimal("1.23"), None], pa.decimal128(38, 2)),
    ),
    "decimal256": (
        pa.array([Decimal(10) ** 40, None, Decimal(-1)], pa.decimal256(50, 0)),
        pa.array([(10**40).to_bytes(32, "big"), None, b"\xff" * 32]),
    ),
    "uint64": (
        pa.array([0, 2**64 - 1, None], pa.uint64()),
        pa.array([Decimal(0), Decimal(2**64 - 1), None], pa.decimal128(20, 0)),
    ),
    "float16": (pa.array([1.5, None, -0.0]).cast(pa.float16()), pa.array([1.5, None, -0.0], pa.float32())),
    "duration": (pa.array([1, None, -5], pa.duration("s")), pa.array([1, None, -5], pa.int64())),
    "time64": (pa.array([1, None, 5], pa.time64("us")), pa.array([1, None, 5], pa.int64())),
    "fixed_size_binary": (pa.array([b"ab", None], pa.binary(2)), pa.array([b"ab", None], pa.binary())),
    "sorted map": (
        pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32(), keys_sorted=True)),
        pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
    ),
    "null": (pa.nulls(3), pa.nulls(3, pa.int32())),
    **({"uuid": (uuids([b"0" * 16, None]), pa.array([b"0" * 16, None], pa.binary()))} if HAS["uuid"] else {}),
    **({"json": (pa.array(["{}", None], pa.json_()), pa.array(["{}", None]))} if HAS["json"] else {}),
    **(
        {
            "bool8": (
                pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8())),
                pa.array([1, None, 0], pa.int8()),
            )
        }
        if HAS["bool8"]
        else {}
    ),
    "tensor": (
        pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.float32(), [1, 2]), pa.array([[1, 2], None], pa.list_(pa.float32(), 2))
        ),
        pa.array([[1, 2], None], pa.list_(pa.float32())),
    ),
    "list of uint64": (
        pa.array([[1], None], pa.list_(pa.uint64())),
        pa.array([[Decimal(1)], None], pa.list_(pa.decimal128(20, 0))),
    ),
    "runs": (
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None])),
        pa.array(["a", "a", None]),
    ),
    "timestamp in two parts": (
        pa.array([{"millis": -1, "nanos_of_milli": 999_999}, None], pa.struct(LEGACY_TIMESTAMP)),
        pa.array([-1, None], pa.timestamp("ns")),
    ),
    "uint8": (pa.array([0, 255, None], pa.uint8()), pa.array([0, 255, None], pa.int16())),
    "uint16": (pa.array([0, 65535, None], pa.uint16()), pa.array([0, 65535, None], pa.int32())),
    "uint32": (pa.array([0, 2**32 - 1, None], pa.uint32()), pa.array([0, 2**32 - 1, None], pa.int64())),
    "list of large_string": (
        pa.array([["a"], None, [None]], pa.list_(pa.large_string())),
        pa.array([["a"], None, [None]], pa.list_(pa.string())),
    ),
    "list of dictionary": (
        pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), pa.array(["x", "y", "x"]).dictionary_encode()),
        pa.array([["x"], ["y", "x"]], pa.list_(pa.string())),
    ),
    "map of uint8 to large_list": (
        pa.array([[(1, [1])], None], pa.map_(pa.uint8(), pa.large_list(pa.uint16()))),
        pa.array([[(1, [1])], None], pa.map_(pa.int16(), pa.list_(pa.int32()))),
    ),
}


@pytest.mark.parametrize("case", TAKEN)
def test_types_that_are_stored_as_others(case: str) -> None:
    """They come back as they were given; without companion, and for others, as they are stored."""
    given_array, stored = TAKEN[case]
    # A slice too: none of these conversions may forget an offset.
    for array, expected in ((given_array, stored), (given_array.slice(1), stored.slice(1))):
        table = pa.table({"x": array})
        data = written(table)
        if case in ("dictionary with null values", "list of dictionary"):  # The same values by other indices.
            assert (read(data).schema, read(data).to_pylist()) == (table.schema, table.to_pylist())
        else:
            assert_same(read(data), table)
        assert_same(read(written(table, companion=False)), pa.table({"x": expected}))
        with smalti.open(data, logical=False) as file:
            assert_same(file.read(), pa.table({"x": expected}))
        assert_same(reference.read(data), pa.table({"x": expected}))


REFUSED: dict[str, pa.Array] = {
    "month_day_nano": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    "dense union": pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
    "struct with two fields of one name": pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_types_refused_by_name(case: str, tmp_path: Path) -> None:
    table = pa.table({"fine": [1], "culprit": REFUSED[case]})
    with pytest.raises(smalti.MosaicError, match="culprit"):
        smalti.write_table(table, tmp_path / "x.mosaic")
    assert list(tmp_path.iterdir()) == []


LOSSY: dict[str, pa.Array] = {
    "date64 within a day": pa.array([DAY, DAY + 1], pa.int64()).view(pa.date64()),
    "timestamp[s] beyond milliseconds": pa.array([1 << 60], pa.timestamp("s")),
    "time32[s] beyond a day": pa.array([2**31 - 1], pa.int32()).view(pa.time32("s")),
}


@pytest.mark.parametrize("case", LOSSY)
def test_values_that_do_not_fit_are_refused(case: str, tmp_path: Path) -> None:
    with pytest.raises(smalti.MosaicError, match="culprit"):
        smalti.write_table(pa.table({"culprit": LOSSY[case]}), tmp_path / "x.mosaic")
    assert list(tmp_path.iterdir()) == []


def test_decimals_keep_precision_and_scale() -> None:
    kinds = [pa.decimal128(p, s) for p in (1, 9, 18, 19, 38) for s in (-3, 0, 1, p)]
    table = pa.table({str(kind): pa.array([Decimal(1).scaleb(-kind.scale), None], kind) for kind in kinds})
    assert_same(read(written(table)), table)


def test_empty_inputs() -> None:
    no_rows = pa.schema([("a", pa.int32()), ("l", pa.list_(pa.string()))]).empty_table()
    assert_same(read(written(no_rows)), no_rows)
    assert layout(written(no_rows)).num_row_groups == 0
    no_columns = pa.table({"x": [1, 2, 3]}).select([])
    found = read(written(no_columns))
    assert (found.num_rows, found.num_columns) == (3, 0)


def test_field_nullability_and_nested_names_survive() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("l", pa.list_(pa.field("", pa.int8(), nullable=False)), nullable=False),
            pa.field(
                "m", pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int8(), nullable=False))
            ),
        ]
    )
    table = pa.table({"id": [1], "l": [[1, 2]], "m": [[("a", 1)]]}, schema=schema)
    assert_same(read(written(table)), table)


class TestSources:
    """Anything that speaks Arrow is taken."""

    table = pa.table({"i": [1, 2, None], "s": ["a", None, "c"], "d": [datetime.date(2020, 1, 2), None, None]})

    def sources(self) -> dict[str, Any]:
        batches = self.table.to_batches()
        return {
            "Table": self.table,
            "RecordBatch": batches[0],
            "RecordBatchReader": pa.RecordBatchReader.from_batches(self.table.schema, batches),
            "__arrow_c_stream__": OnlyStream(self.table),
            "__arrow_c_array__": OnlyArray(batches[0]),
        }

    @pytest.mark.parametrize(
        "name", ["Table", "RecordBatch", "RecordBatchReader", "__arrow_c_stream__", "__arrow_c_array__"]
    )
    def test_arrow(self, name: str, tmp_path: Path) -> None:
        smalti.write_table(self.sources()[name], tmp_path / "t.mosaic")
        assert_same(smalti.read_table(tmp_path / "t.mosaic"), self.table)
        with smalti.MosaicWriter(tmp_path / "w.mosaic", self.table.schema) as writer:
            writer.write(self.sources()[name])
        assert_same(smalti.read_table(tmp_path / "w.mosaic"), self.table)

    def test_pandas(self) -> None:
        frame = pd.DataFrame({"x": [1.5, 2.5], "s": ["a", "b"], "when": pd.to_datetime(["2020-01-01", "2021-01-01"])})
        found = read(written(frame)).to_pandas()
        assert found["x"].tolist() == [1.5, 2.5]
        assert found["s"].tolist() == ["a", "b"]
        assert found["when"].tolist() == frame["when"].tolist()

    def test_polars(self) -> None:
        frame = pl.DataFrame({"x": [1, None], "s": ["a", None], "l": [[1, 2], None], "c": ["u", "v"]}).with_columns(
            pl.col("c").cast(pl.Categorical)
        )
        found = read(written(frame))
        assert found.to_pydict() == {"x": [1, None], "s": ["a", None], "l": [[1, 2], None], "c": ["u", "v"]}
        assert pl.DataFrame(found)["x"].to_list() == [1, None]

    def test_duckdb(self) -> None:
        result = duckdb.sql("select i::int as i, 'n' || i as s, [i, i + 1] as l from range(5000) t(i)")
        found = read(written(result))
        assert found.num_rows == 5000
        assert found.slice(4999).to_pylist() == [{"i": 4999, "s": "n4999", "l": [4999, 5000]}]

    @pytest.mark.parametrize("bad", [{"a": [1]}, [1, 2], "text", 7, None], ids=repr)
    def test_anything_else_is_a_type_error(self, bad: Any, tmp_path: Path) -> None:
        with pytest.raises(TypeError):
            smalti.write_table(bad, tmp_path / "x.mosaic")
        assert list(tmp_path.iterdir()) == []


class OnlyStream:
    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


class OnlyArray:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.batch.__arrow_c_array__(requested_schema)


def test_every_scalar_inside_a_list_and_a_map() -> None:
    """Children take the same path as columns, for every type."""
    types = {f"l_{name}": pa.list_(kind) for name, kind in SCALARS.items()}
    types |= {f"m_{name}": pa.map_(kind, kind) for name, kind in SCALARS.items()}
    table = matrix(21, 30, types)
    for threshold in (0, 1 << 30):
        assert_same(read(written(table, num_buckets=3, page_size_threshold=threshold)), table)


def test_deep_nesting() -> None:
    kind, value = pa.int8(), 1
    for _ in range(20):
        kind, value = pa.list_(kind), [value, value] if not isinstance(value, list) else [value]
    table = pa.table({"deep": pa.array([value, None, []], kind)})
    assert_same(read(written(table)), table)


def test_containers_of_containers_in_both_modes() -> None:
    table = matrix(22, 200, CONTAINERS)
    for threshold in (0, 1 << 30):
        assert_same(read(written(table, num_buckets=2, page_size_threshold=threshold, row_group_max_rows=70)), table)


RECORDED = json.loads(RECORD.read_text())
#: Whether the record is of the libraries at hand. Older ones lose other things, in all formats.
IS_RECORDED = all(
    library.__version__.partition(".")[0] == RECORDED["versions"][library.__name__].partition(".")[0]
    for library in (pa, pd)
)


EVERY = [pytest.param(kind, case, id=f"{kind}-{case.name}"[:60]) for kind in CASES for case in CASES[kind]]


@pytest.mark.parametrize(("kind", "case"), EVERY)
def test_what_parquet_returns_unchanged_mosaic_does(kind: str, case: Case) -> None:
    ours, parquets = (formats.outcome(case.make(), through) for through in (formats.mosaic, formats.parquet))
    if parquets == SAME:
        assert ours == SAME
    recorded = RECORDED[kind][case.name]
    if IS_RECORDED:  # Reasons may differ by smaller versions of the libraries.
        expected = recorded["Mosaic"].split(":")[0]
        assert ours.split(":")[0] == expected, "run python -m tests.tools.formats and docs/generate.py"
    if ours.startswith("refused"):
        return
    data = formats.mosaic_bytes(case.make())
    with smalti.open(data, logical=False) as file:
        stored = file.read()
    assert formats.lost_of_table(stored, reference.read(data)) is None


def test_the_record_has_every_case() -> None:
    """And Mosaic loses no type of Arrow's but the two that Parquet refuses too."""
    for kind, of_kind in CASES.items():
        there = [name for name in RECORDED[kind] if HAS.get(name.partition("(")[0], True)]
        assert there == [case.name for case in of_kind]
    refused = [name for name, found in RECORDED["arrow"].items() if found["Mosaic"].startswith("refused")]
    assert refused == ["month_day_nano_interval", "dense_union", "two columns of one name"]


@pytest.mark.parametrize("paged", [False, True])
def test_vectors_of_noise_are_stored_as_they_are(paged: bool) -> None:
    """A frame that decoders copy, unless files are to be small; what zstd can save, it saves as ever."""
    options = {"num_buckets": 1, "page_size_threshold": 0} if paged else {}
    generator = np.random.default_rng(7)
    noise, even = generator.standard_normal(100_000, np.float32), np.zeros(100_000, np.float32)
    sizes = {}
    for name, values in (("noise", noise), ("even", even)):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), 100)
        table = pa.table({"id": range(1_000), "v": vectors})
        for choice in ("balanced", "small"):
            data = written(table, layout=choice, **options)
            assert read(data).equals(table)
            assert reference.read(data)["v"].combine_chunks().flatten().equals(pa.array(values))
            sizes[name, choice] = len(data)
    assert sizes["noise", "balanced"] > 400_000 > sizes["noise", "small"] * 1.05
    assert sizes["even", "balanced"] == sizes["even", "small"] < 20_000
    lists = table.set_column(1, "v", vectors.cast(pa.list_(pa.float32())))
    assert written(table, companion=False, **options) == written(lists, companion=False, **options)
