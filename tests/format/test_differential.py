"""smalti, the reference and the oracle on the same tables: each reads what the others wrote, and the bytes agree."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import oracle, reference
from tests.support.compare import assert_same
from tests.support.files import encodings, layout, read, written, written_as_reference
from tests.support.golden import manifest_layout
from tests.support.strategies import examples, options_for, tables
from tests.support.tables import CONTAINERS, ORDERABLE, PATTERNS, SCALARS, TYPES, matrix

STATS = [f"{name}_{pattern}" for name in ORDERABLE for pattern in PATTERNS]

OPTIONS: dict[str, dict[str, Any]] = {
    "none": {"compression": "none"},
    "none, 1 bucket": {"compression": "none", "num_buckets": 1},
    "zstd": {},
    "zstd level 9, 3 buckets": {"compression_level": 9, "num_buckets": 3},
    "all paged": {"page_size_threshold": 0, "num_buckets": 4},
    "some paged": {"page_size_threshold": 200, "num_buckets": 40},
    "statistics": {"stats_columns": STATS, "num_buckets": 7},
    "statistics, none": {"stats_columns": STATS, "compression": "none"},
    "2 dictionary entries": {"dict_max_entries": 2, "num_buckets": 5},
    "small dictionaries": {"dict_max_bytes": 40, "num_buckets": 5},
    "more buckets than columns": {"num_buckets": 5000},
}


def oracle_bytes(table: pa.Table, options: dict[str, Any]) -> bytes:
    named = options | {"stats_columns": tuple(options.get("stats_columns", ()))}
    return oracle.write(table.schema, table.combine_chunks().to_batches(), oracle.Options(**named))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_type_pattern_and_option(options: dict[str, Any], seed: int) -> None:
    table = matrix(seed, 37 + seed, nan="stats_columns" not in options)
    theirs = reference.write(table, **options)
    ours = written_as_reference(table, **options)
    assert_same(read(theirs), table)
    assert_same(reference.read(ours), table)
    assert ours == theirs == oracle_bytes(table, options)


def test_the_matrix_has_every_encoding_in_both_modes() -> None:
    """The comparison above would prove little if everything were PLAIN in one mode."""
    for threshold, mode in [(0, "paged"), (1 << 30, "monolithic")]:
        data = written(matrix(1, 38), page_size_threshold=threshold, num_buckets=4)
        group = layout(data).row_groups[0]
        assert {bucket.mode for bucket in group.buckets} == {mode}
        for name in TYPES:
            columns = [column for bucket in group.buckets for column in bucket.columns]
            found = {column.encoding for column in columns if column.name.startswith(f"{name}_")}
            assert {"CONST", "DICT", "ALL_NULL"} <= found


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 63, 64, 65, 257])
def test_row_counts_around_byte_and_word_boundaries(rows: int) -> None:
    table = matrix(rows, rows, SCALARS | {"l": CONTAINERS["l_i32"]})
    ours = written_as_reference(table, num_buckets=3)
    assert ours == reference.write(table, num_buckets=3)
    assert_same(read(ours), table)


def test_default_files_with_checksums_are_read_by_the_reference() -> None:
    table = matrix(5, 300)
    for options in ({}, {"page_size_threshold": 0}, {"stats_columns": STATS}):
        assert_same(reference.read(written(table, **options)), table)


def test_several_row_groups_are_read_by_the_reference() -> None:
    table = matrix(6, 100)
    data = written(table, row_group_max_rows=33, num_buckets=3)
    assert [group.num_rows for group in layout(data).row_groups] == [33, 33, 33, 1]
    assert_same(reference.read(data), table)


def test_several_row_groups_equal_the_oracle() -> None:
    table = matrix(7, 100)
    ours = written_as_reference(table, row_group_max_rows=30, num_buckets=3)
    batches = table.combine_chunks().to_batches(max_chunksize=30)
    assert ours == oracle.write(table.schema, batches, oracle.Options(num_buckets=3))


def test_checksummed_files_equal_the_oracle() -> None:
    table = matrix(8, 50)
    for threshold in (0, 32768):
        ours = written(table, num_buckets=3, page_size_threshold=threshold, companion=False, stats_columns=())
        options = oracle.Options(num_buckets=3, page_size_threshold=threshold, checksum=True)
        assert ours == oracle.write(table.schema, table.combine_chunks().to_batches(), options)


def test_reference_row_groups_are_read() -> None:
    table = matrix(9, 100)
    chunked = pa.Table.from_batches([batch for part in (1, 50, 49) for batch in _rows(table, part)])
    data = reference.write(chunked, one_per_batch=True, num_buckets=3)
    assert_same(read(data), chunked)
    assert manifest_layout(layout(data)) == manifest_layout(oracle.read(data).layout)


def _rows(table: pa.Table, count: int) -> list[pa.RecordBatch]:
    return table.slice(0, count).combine_chunks().to_batches()


@examples(120)
@given(st.data())
def test_generated_tables(data: st.DataObject) -> None:
    table = data.draw(tables())
    options = data.draw(options_for(table))
    theirs = reference.write(table, **options)
    ours = written_as_reference(table, **options)
    assert_same(read(theirs), table)
    assert_same(reference.read(ours), table)
    assert ours == theirs
    assert manifest_layout(layout(ours)) == manifest_layout(oracle.read(ours).layout)


WORDS = ["battery", "cabin", "engine", "temperature", "pressure", "mean", "max", "status", "7", "42"]

NAMES = {
    "bpe wins": [f"{a}_{b}_{c}" for a in WORDS for b in WORDS for c in WORDS],
    "front coding wins": [f"c{number:05d}" for number in range(1000)],
    "one byte each": [chr(code) for code in range(1, 128)],
    "repeated letter": ["a" * length for length in range(1, 300)],
    "no shared pairs": ["ab", "cd", "ef"],
    "exactly 128 rules": [f"{chr(65 + n % 26)}{chr(97 + n // 26)}" * 9 + str(n) for n in range(200)],
    "unicode": [f"température_{n}_中文😀" for n in range(60)] + ["é", "€", "～", "😀", "A", "Z_", "a"],
    "one character of two bytes": ["é"] + [f"ascii_name_that_repeats_{n}" for n in range(50)],
    "byte order, not UTF-16 order": ["\uff5e", "\U0001f600", "\ue000", "z"],
    "control characters": ["a\tb", "\x01", "\x7f", " ", "\n"],
    "long": ["x" * 20_000 + str(n) for n in range(20)],
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_column_names(names: list[str]) -> None:
    """The order given is kept, however the names are stored."""
    shuffled = sorted(names, key=lambda name: name[::-1])
    table = pa.table({name: pa.array([at, None], pa.int32()) for at, name in enumerate(shuffled)})
    ours = written_as_reference(table)
    assert ours == reference.write(table) == oracle_bytes(table, {})
    assert_same(read(ours), table)
    assert_same(read(ours, columns=shuffled[-3:]), table.select(shuffled[-3:]))


def test_both_name_encodings_come_up() -> None:
    found = {
        case: layout(written(pa.table({name: [1] for name in NAMES[case]}))).name_encoding
        for case in ("bpe wins", "front coding wins", "unicode")
    }
    assert found == {"bpe wins": "bpe", "front coding wins": "front", "unicode": "front"}


def test_nan_first_statistics_differ_from_the_reference_on_purpose() -> None:
    """The reference's minimum and maximum stay NaN when the first value is; ours do not (and readers can prune)."""
    table = pa.table({"f": [float("nan"), 1.0, -2.0]})
    ours = written(table, checksum=False, stats_columns=["f"], compression="none")
    assert ours != reference.write(table, stats_columns=["f"], compression="none")
    assert ours == oracle_bytes(table, {"stats_columns": ["f"], "compression": "none"})
    assert_same(reference.read(ours), table)


@pytest.mark.parametrize("options", [{}, {"page_size_threshold": 0}, {"compression": "none"}], ids=str)
def test_projection_agrees_with_the_reference(options: dict[str, Any]) -> None:
    table = matrix(10, 20)
    data = written(table, num_buckets=5, **options)
    for columns in (["ll_i8_Dn", "str_P", "i8_N"], table.column_names[::-7], []):
        expected = reference.read(data, columns)
        assert_same(read(data, columns=columns), expected)
        assert expected.num_rows == 20


def test_encodings_agree_on_a_file_by_the_reference() -> None:
    table = matrix(12, 64)
    data = reference.write(table, num_buckets=6)
    model = oracle.read(data).layout.row_groups[0]
    expected = {column.path: column.encoding for bucket in model.buckets for column in bucket.columns}
    assert encodings(data) == [expected]
