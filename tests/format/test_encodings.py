"""Which encoding is chosen, seen through `layout()`: a quiet fall back to PLAIN fails here."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.support import oracle, reference
from tests.support.compare import assert_same
from tests.support.files import encodings, layout, read, written, written_as_reference

LONG = "v" * 1000


def ints(values: list[int | None]) -> pa.Array:
    return pa.array(values, pa.int32())


def cycle(distinct: int, rows: int) -> list[int]:
    return [at % distinct for at in range(rows)]


def texts(distinct: int, length: int, times: int) -> list[str]:
    """`distinct` strings of `length` characters, each `times` times."""
    return [str(at).zfill(length) for at in range(distinct)] * times


#: what -> (column, options, encoding)
CASES: dict[str, tuple[pa.Array, dict[str, Any], str]] = {
    "nothing but nulls": (ints([None] * 10), {}, "ALL_NULL"),
    "one row": (ints([7]), {}, "CONST"),
    "one value among nulls": (ints([None, 7, None]), {}, "CONST"),
    "the same value": (ints([7] * 10), {}, "CONST"),
    "a constant string of 1 KB": (pa.array([LONG] * 5), {}, "CONST"),
    "a constant string of 100 KB": (pa.array(["c" * 100_000] * 3), {}, "CONST"),
    "a constant string of 100 KB, with nulls": (pa.array(["c" * 100_000, None] * 3), {}, "CONST"),
    "a constant, dictionaries off": (pa.array([LONG] * 5), {"dict_max_entries": 1, "dict_max_bytes": 1}, "CONST"),
    "constant NaN": (pa.array([float("nan")] * 4), {}, "CONST"),
    "empty strings": (pa.array([""] * 4), {}, "CONST"),
    "three repeated strings of 1 KB": (pa.array([LONG + end for end in "abc"] * 10), {}, "DICT"),
    "0.0 and -0.0": (pa.array([0.0, -0.0] * 10), {}, "DICT"),
    "200 distinct ints, once each": (ints(list(range(200))), {}, "PLAIN"),
    "200 distinct ints, twice each": (ints(list(range(200)) * 2), {}, "DICT"),
    "200 distinct int8, twice each": (pa.array([at - 100 for at in range(200)] * 2, pa.int8()), {}, "PLAIN"),
    "two distinct int8, twice each": (pa.array([1, 2, 1, 2], pa.int8()), {}, "PLAIN"),
    "two distinct int8, 6 times": (pa.array([1, 2] * 3, pa.int8()), {}, "DICT"),
    "255 distinct ints": (ints(cycle(255, 2000)), {}, "DICT"),
    "256 distinct ints": (ints(cycle(256, 2000)), {}, "PLAIN"),
    "256 distinct ints, limit 256": (ints(cycle(256, 2000)), {"dict_max_entries": 256}, "DICT"),
    "257 distinct ints, limit 257": (ints(cycle(257, 2000)), {"dict_max_entries": 257}, "DICT"),
    "700 distinct ints, limit 1000": (ints(cycle(700, 4000)), {"dict_max_entries": 1000}, "DICT"),
    "255 distinct strings": (pa.array(texts(255, 20, 5)), {}, "DICT"),
    "256 distinct strings": (pa.array(texts(256, 20, 5)), {}, "PLAIN"),
    "3 distinct, limit 3": (ints(cycle(3, 50)), {"dict_max_entries": 3}, "DICT"),
    "4 distinct, limit 3": (ints(cycle(4, 50)), {"dict_max_entries": 3}, "PLAIN"),
    "2 distinct, limit 1": (ints(cycle(2, 50)), {"dict_max_entries": 1}, "PLAIN"),
    # Each string has a length prefix of two bytes: 2 x (16,382 + 2) is exactly the budget.
    "strings of exactly 32 KiB": (pa.array(["a" * 16_382, "b" * 16_382] * 3), {"page_size_threshold": 1 << 30}, "DICT"),
    "strings one byte past 32 KiB": (pa.array(["a" * 16_382, "b" * 16_383] * 3), {}, "PLAIN"),
    "strings past 32 KiB, larger budget": (
        pa.array(["a" * 16_382, "b" * 16_383] * 3),
        {"dict_max_bytes": 32_769},
        "DICT",
    ),
    "strings of exactly the budget": (pa.array(texts(4, 9, 9)), {"dict_max_bytes": 40}, "DICT"),
    "strings past the budget": (pa.array(texts(4, 9, 9)), {"dict_max_bytes": 39}, "PLAIN"),
    "binary past the budget": (pa.array([text.encode() for text in texts(4, 9, 9)]), {"dict_max_bytes": 39}, "PLAIN"),
    "ints have no byte budget": (ints(cycle(4, 50)), {"dict_max_bytes": 1}, "DICT"),
    "microseconds have no byte budget": (pa.array(cycle(4, 50), pa.timestamp("us")), {"dict_max_bytes": 1}, "DICT"),
    "nanoseconds have": (pa.array(cycle(4, 50), pa.timestamp("ns")), {"dict_max_bytes": 47}, "PLAIN"),
    "nanoseconds within": (pa.array(cycle(4, 50), pa.timestamp("ns")), {"dict_max_bytes": 48}, "DICT"),
    "large decimals have": (pa.array(cycle(4, 50), pa.decimal128(38, 0)), {"dict_max_bytes": 7}, "PLAIN"),
    "large decimals within": (pa.array(cycle(4, 90), pa.decimal128(38, 0)), {"dict_max_bytes": 8}, "DICT"),
    "long value after the budget is gone": (
        pa.array(["a" * 20_000, "b" * 20_000, *["a" * 20_000] * 20]),
        {},
        "PLAIN",
    ),
}


@pytest.mark.parametrize("paged", [False, True], ids=["monolithic", "paged"])
@pytest.mark.parametrize("case", CASES)
def test_choice(case: str, paged: bool) -> None:
    values, options, expected = CASES[case]
    options = options | {"page_size_threshold": 0 if paged else 1 << 30}
    data = written_as_reference(pa.table({"x": values}), **options)
    assert encodings(data) == [{"x": expected}]
    assert_same(read(data), pa.table({"x": values}))
    assert data == reference.write(pa.table({"x": values}), **options)


@pytest.mark.parametrize("case", CASES)
def test_oracle_agrees(case: str) -> None:
    values, options, expected = CASES[case]
    table = pa.table({"x": values})
    model = oracle.read(oracle.write(table.schema, table.to_batches(), oracle.Options(**options))).layout
    assert model.row_groups[0].buckets[0].columns[0].encoding == expected


@pytest.mark.parametrize(("distinct", "bits"), [(2, 1), (3, 2), (4, 2), (5, 3), (9, 4), (17, 5), (129, 8), (255, 8)])
def test_dictionary_indices_use_the_fewest_bits(distinct: int, bits: int) -> None:
    (column,) = layout(written(pa.table({"x": ints(cycle(distinct, 4000))}))).row_groups[0].buckets[0].columns
    prefix = 1 if distinct < 128 else 2
    assert (column.encoding, column.dict_entries) == ("DICT", distinct)
    assert column.size == prefix + 4 * distinct + 4000 * bits // 8


def test_long_repeated_strings_are_stored_once() -> None:
    table = pa.table({"c": [LONG] * 500, "d": [LONG + "a", LONG + "b"] * 250})
    data = written(table, compression="none")
    assert len(data) < 3 * 1000 + 500


def test_choice_starts_anew_in_each_row_group() -> None:
    values = [None] * 10 + [5] * 10 + [1, 2] * 5 + list(range(10)) + [5] * 10
    data = written(pa.table({"x": pa.array(values, pa.int64())}), row_group_max_rows=10)
    assert [group["x"] for group in encodings(data)] == ["ALL_NULL", "CONST", "DICT", "PLAIN", "CONST"]
    assert read(data)["x"].to_pylist() == values


def test_choice_spans_batches_of_a_row_group() -> None:
    """Each chunk is constant, the row group is not; each chunk could be a dictionary of its own, the whole cannot."""
    chunks = [pa.array([number] * 100, pa.int32()) for number in range(300)]
    table = pa.table({"few": pa.chunked_array(chunks[:3] * 100), "many": pa.chunked_array(chunks)})
    data = written(table, dict_max_entries=255)
    assert encodings(data) == [{"few": "DICT", "many": "PLAIN"}]
    assert_same(read(data), table)


def test_children_choose_for_themselves() -> None:
    table = pa.table(
        {
            "same_length": pa.array([[at, at + 100] for at in range(30)], pa.list_(pa.int32())),
            "same_element": pa.array([["k"] * (at % 20) for at in range(30)], pa.list_(pa.string())),
            "no_element": pa.array([[], None, []] * 10, pa.list_(pa.int32())),
            "null_elements": pa.array([[None, None], [None]] * 15, pa.list_(pa.int32())),
            "map": pa.array(
                [[("unit", at), ("scale", 1000 - at)] for at in range(30)], pa.map_(pa.string(), pa.int64())
            ),
            "deep": pa.array([[["x"] * 3] * 2] * 30, pa.list_(pa.list_(pa.string()))),
        }
    )
    data = written(table, num_buckets=1)
    assert encodings(data) == [
        {
            "same_length": "CONST",
            "same_length.element": "PLAIN",
            "same_element": "DICT",
            "same_element.element": "CONST",
            "no_element": "CONST",
            "no_element.element": "ALL_NULL",
            "null_elements": "DICT",
            "null_elements.element": "ALL_NULL",
            "map": "CONST",
            "map.key": "DICT",
            "map.value": "PLAIN",
            "deep": "CONST",
            "deep.element": "CONST",
            "deep.element.element": "CONST",
        }
    ]
    assert_same(read(data), table)


NULLED = pa.array([None, *[3] * 9], pa.int32())
PLAIN_40K = pa.array([at * 7919 for at in range(10_000)], pa.int32())

#: what -> (columns, options, mode of the one bucket)
MODES: dict[str, tuple[dict[str, pa.Array], dict[str, Any], str]] = {
    "40 KB of values": ({"a": PLAIN_40K}, {}, "paged"),
    "8,191 ints are below 32 KiB": ({"a": PLAIN_40K[:8191]}, {}, "monolithic"),
    "8,192 ints are 32 KiB": ({"a": PLAIN_40K[:8192]}, {}, "paged"),
    "constants do not count": (
        {"a": PLAIN_40K} | {f"c{at}": pa.array([at] * 10_000, pa.int32()) for at in range(30)},
        {},
        "paged",
    ),
    "all-null columns do not count": (
        {"a": PLAIN_40K} | {f"n{at}": pa.nulls(10_000, pa.int32()) for at in range(30)},
        {},
        "paged",
    ),
    "short dictionaries do": (
        {"a": PLAIN_40K} | {f"d{at}": pa.array([0, 1] * 5000, pa.int32()) for at in range(30)},
        {},
        "monolithic",
    ),
    "one 200 KB constant": ({"a": pa.array(["c" * 200_000] * 3)}, {}, "monolithic"),
    "uncompressed is never paged": ({"a": PLAIN_40K}, {"compression": "none", "page_size_threshold": 0}, "monolithic"),
    "threshold 0": ({"a": ints([1, 2, 3])}, {"page_size_threshold": 0}, "paged"),
    "threshold 0, but no page": ({"a": ints([1, 1, 1])}, {"page_size_threshold": 0}, "monolithic"),
    "a constant with nulls has a page": ({"a": NULLED}, {"page_size_threshold": 2}, "paged"),
    "of two bytes": ({"a": NULLED}, {"page_size_threshold": 3}, "monolithic"),
}


@pytest.mark.parametrize("case", MODES)
def test_bucket_mode(case: str) -> None:
    columns, options, mode = MODES[case]
    table = pa.table(columns)
    data = written_as_reference(table, num_buckets=1, **options)
    (bucket,) = layout(data).row_groups[0].buckets
    assert bucket.mode == mode
    assert data == reference.write(table, num_buckets=1, **options)
    assert_same(read(data), table)


def test_mode_is_chosen_per_row_group_and_bucket() -> None:
    first = pa.table({"a": PLAIN_40K, "b": pa.array([1] * 10_000, pa.int32())})
    second = pa.table({"a": pa.array([1] * 10_000, pa.int32()), "b": PLAIN_40K})
    data = written(pa.concat_tables([first, second]), row_group_max_rows=10_000, num_buckets=2)
    modes = [[bucket.mode for bucket in group.buckets] for group in layout(data).row_groups]
    assert modes == [["paged", "monolithic"], ["monolithic", "paged"]]


@pytest.mark.parametrize(
    ("columns", "asked", "buckets"),
    [
        (1, None, 1),
        (99, None, 99),
        (100, None, 100),
        (250, None, 25),  # so little is in a row that larger buckets are smaller and as fast
        (250, 7, 7),
        (5, 1000, 5),
        (0, None, 1),
        (10, 1, 1),
    ],
)
def test_number_of_buckets(columns: int, asked: int | None, buckets: int) -> None:
    table = pa.table({f"c{at:03d}": [at] for at in range(columns)})
    found = layout(written(table, num_buckets=asked))
    assert found.num_buckets == buckets
    held = [len(bucket.columns) for group in found.row_groups for bucket in group.buckets]
    if columns:
        assert sum(held) == columns
        assert max(held) - min(held) <= 1
