"""The pure decisions, each as a table of cases: encodings, modes, buckets, requests, widening."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from smalti import spec
from smalti._core.encode import choose_encoding, choose_paged
from smalti._core.names import pack_schema_block
from smalti._core.schema import SchemaBlock
from smalti.errors import SchemaError
from smalti.format.index import EMPTY, MONOLITHIC, PAGED, BucketEntry
from smalti.format.types import pack_descriptor
from smalti.io.ranges import Range, Request, plan_requests, split
from smalti.logical.widen import unify_schemas, widen
from smalti.mosaic.columns import Projection, plan_buckets
from smalti.mosaic.scan import GroupRead, plan_scan
from smalti.spec import Encoding


@pytest.mark.parametrize(
    ("non_null", "constant", "tracked", "entries", "entry_bytes", "plain_bytes", "expected"),
    [
        (0, True, True, 0, 0, 0, Encoding.ALL_NULL),
        (1, True, True, 1, 4, 4, Encoding.CONST),
        (9, True, False, 0, 0, 9_000_000, Encoding.CONST),  # a long constant needs no dictionary
        (200, False, True, 200, 800, 800, Encoding.PLAIN),  # the review's example: 1 + 800 + 200 > 800
        (8, False, True, 2, 8, 32, Encoding.DICT),  # 1 + 8 + 1 < 32
        (8, False, False, 2, 8, 32, Encoding.PLAIN),  # tracking was given up
        (16, False, True, 2, 2, 5, Encoding.PLAIN),  # 1 + 2 + 2 == 5: a tie is PLAIN
        (16, False, True, 2, 2, 6, Encoding.DICT),
        (128, False, True, 128, 128, 242, Encoding.PLAIN),  # the count takes two bytes: 2 + 128 + 112 == 242
        (128, False, True, 128, 128, 243, Encoding.DICT),
        (5, False, True, 1, 4, 20, Encoding.PLAIN),  # a dictionary has two entries at least
    ],
)
def test_encoding(
    non_null: int, constant: bool, tracked: bool, entries: int, entry_bytes: int, plain_bytes: int, expected: Encoding
) -> None:
    assert choose_encoding(non_null, constant, tracked, entries, entry_bytes, plain_bytes) == expected


@pytest.mark.parametrize(
    ("counted_bytes", "pages", "threshold", "paged"),
    [
        (0, 0, 0, False),  # nothing but constants and nulls
        (1, 1, 0, True),
        (32_768, 1, 32_768, True),
        (32_767, 1, 32_768, False),
        (65_535, 2, 32_768, False),  # the average is rounded down
        (65_536, 2, 32_768, True),
    ],
)
def test_mode(counted_bytes: int, pages: int, threshold: int, paged: bool) -> None:
    assert choose_paged(counted_bytes, pages, threshold) is paged


def schema_of(num_columns: int, num_buckets: int) -> SchemaBlock:
    names = [f"c{i:03d}".encode() for i in range(num_columns)]
    packed = pack_descriptor(pa.int32(), True)
    return SchemaBlock(pack_schema_block(names, [packed] * num_columns, list(range(num_columns)), num_buckets))


@pytest.mark.parametrize(("num_columns", "num_buckets"), [(1, 1), (8, 3), (10, 10), (150, 100), (101, 100), (7, 2)])
def test_buckets_are_ranges_of_sorted_columns(num_columns: int, num_buckets: int) -> None:
    schema = schema_of(num_columns, num_buckets)
    ranges = [schema.bucket_columns(bucket) for bucket in range(num_buckets)]
    assert [column for first, stop in ranges for column in range(first, stop)] == list(range(num_columns))
    for bucket, (first, stop) in enumerate(ranges):
        for column in range(first, stop):
            assert schema.bucket_of(column) == column * num_buckets // num_columns == bucket


def test_a_read_touches_its_buckets_once_each_in_file_order() -> None:
    reads = plan_buckets(schema_of(8, 3), [7, 0, 4, 2])  # buckets: 0-2, 3-5, 6-7
    assert [(read.bucket, read.columns, read.outputs, read.whole) for read in reads] == [
        (0, [0, 2], [1, 3], False),
        (1, [1], [2], False),
        (2, [1], [0], False),
    ]
    assert [read.whole for read in plan_buckets(schema_of(8, 3), [6, 7])] == [True]


class Outcomes:
    """A filter of which is known what its statistics say: no row of a group matches, some do, all do."""

    def __init__(self, outcomes: str) -> None:
        self._outcomes = outcomes.split()

    def rules_out(self, group: int) -> bool:
        return self._outcomes[group] == "none"

    def takes_all(self, group: int) -> bool:
        return self._outcomes[group] == "all"


OUTPUT = Projection(pa.schema([("a", pa.int32())]), [])


@pytest.mark.parametrize(
    ("row_groups", "outcomes", "expected"),
    [
        ([], None, []),
        ([2, 0, 2], None, [(2, False), (0, False), (2, False)]),
        ([0, 1], "none none", []),
        ([0, 1, 2], "none some all", [(1, True), (2, False)]),
        ([2, 1], "none some all", [(2, False), (1, True)]),
    ],
)
def test_a_scan_reads_what_the_filter_leaves(
    row_groups: list[int], outcomes: str | None, expected: list[tuple[int, bool]]
) -> None:
    plan = plan_scan(OUTPUT, row_groups, None if outcomes is None else Outcomes(outcomes))
    assert plan.output == OUTPUT
    assert plan.groups == tuple(GroupRead(*read) for read in expected)


@pytest.mark.parametrize(
    ("stored", "entry"),
    [
        ((7, 100, 300), BucketEntry(MONOLITHIC, 7, 100, 300)),
        ((7, 100, 0), BucketEntry(PAGED, 7, 100, 0)),
        ((0, 0, 0), BucketEntry(EMPTY, 0, 0, 0)),
    ],
)
def test_the_mode_of_a_bucket_is_in_its_sizes(stored: tuple[int, int, int], entry: BucketEntry) -> None:
    assert BucketEntry.decode(*stored) == entry
    offset, size, uncompressed = stored
    assert entry.pack(3) == bytes([3, *offset.to_bytes(8, "big"), size]) + (b"\xac\x02" if uncompressed else b"\0")


@pytest.mark.parametrize(
    ("ranges", "max_gap", "max_request", "expected"),
    [
        ([], 0, 100, []),
        ([(5, 0)], 0, 100, []),
        ([(10, 5), (15, 5)], 0, 100, [(10, 10, (0, 1))]),
        ([(15, 5), (10, 5)], 0, 100, [(10, 10, (1, 0))]),
        ([(10, 50), (61, 50)], 0, 200, [(10, 50, (0,)), (61, 50, (1,))]),
        ([(10, 50), (61, 50)], 1, 200, [(10, 101, (0, 1))]),
        ([(10, 5), (16, 5)], 1, 100, [(10, 5, (0,)), (16, 5, (1,))]),  # one byte is more than a twentieth of ten
        # Of two gaps of the same size, only one is small enough.
        ([(0, 10), (11, 5), (17, 5)], 9, 100, [(0, 16, (0, 1)), (17, 5, (2,))]),
        # The smallest gap is closed first.
        ([(0, 10), (12, 5), (18, 5)], 9, 100, [(0, 10, (0,)), (12, 11, (1, 2))]),
        # More than four would not be under way at the same time: the smallest gaps are closed until there are four.
        (
            [(0, 1), (9, 1), (15, 1), (26, 1), (40, 1), (50, 1)],
            9,
            100,
            [(0, 16, (0, 1, 2)), *((o, 1, (p,)) for o, p in [(26, 3), (40, 4), (50, 5)])],
        ),
        # But gaps beyond `max_gap` stay.
        ([(0, 1), (9, 1), (18, 1), (27, 1), (36, 1), (45, 1)], 7, 100, [(9 * p, 1, (p,)) for p in range(6)]),
        ([(0, 10), (2, 3)], 0, 100, [(0, 10, (0, 1))]),  # one inside the other
        ([(0, 60), (60, 60)], 0, 100, [(0, 60, (0,)), (60, 60, (1,))]),
        ([(0, 500)], 0, 100, [(0, 500, (0,))]),  # `split` cuts it
    ],
)
def test_requests(
    ranges: list[tuple[int, int]], max_gap: int, max_request: int, expected: list[tuple[int, int, tuple[int, ...]]]
) -> None:
    planned = plan_requests([Range(*r) for r in ranges], max_gap, max_request, max_requests=4)
    assert planned == [Request(*e) for e in expected]


@pytest.mark.parametrize(
    ("size", "longest", "pieces"),
    [(10, 10, [(7, 10)]), (11, 10, [(7, 6), (13, 5)]), (3, 1, [(7, 1), (8, 1), (9, 1)])],
)
def test_long_requests_are_cut(size: int, longest: int, pieces: list[tuple[int, int]]) -> None:
    assert split(Request(7, size, (0,)), longest) == pieces


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(9, 2)),
        (pa.decimal128(5, 2), pa.decimal128(9, 3), None),
        (pa.int32(), pa.float64(), None),
        (pa.int32(), pa.string(), None),
        (pa.timestamp("ms"), pa.timestamp("us"), None),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.int64())),
        (pa.map_(pa.string(), pa.float32()), pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.float64())),
    ],
    ids=str,
)
def test_widening(a: pa.DataType, b: pa.DataType, both: pa.DataType | None) -> None:
    assert widen(a, b) == both


class TestUnion:
    def test_columns_come_in_the_order_first_seen_and_a_gap_is_nullable(self) -> None:
        one = pa.schema([pa.field("b", pa.int32(), False), pa.field("a", pa.int32(), False)])
        two = pa.schema([pa.field("a", pa.int64(), False), pa.field("c", pa.string(), False)])
        assert unify_schemas([("1", one), ("1b", one), ("2", two)]) == pa.schema(
            [pa.field("b", pa.int32(), True), pa.field("a", pa.int64(), False), pa.field("c", pa.string(), True)]
        )

    def test_a_disagreement_names_the_file_and_the_column(self) -> None:
        schemas = [("1", pa.schema([("a", pa.int32())])), ("2", pa.schema([("a", pa.string())]))]
        with pytest.raises(SchemaError, match=r"2, column 'a'.*found string, expected int32"):
            unify_schemas(schemas)


def test_the_kernels_know_the_same_numbers_as_the_spec() -> None:
    """Limits and ids are written down twice, for Python and for C: shown equal where a user would notice."""
    deep = pa.int32()
    for _ in range(spec.MAX_NESTING):
        deep = pa.list_(deep)
    packed = pack_descriptor(deep, True)
    SchemaBlock(pack_schema_block([b"a"], [packed], [0], 1))
    with pytest.raises(ValueError, match="nested too deep"):
        SchemaBlock(pack_schema_block([b"a"], [pack_descriptor(pa.list_(deep), True)], [0], 1))
    with pytest.raises(ValueError, match="unknown type id"):
        SchemaBlock(pack_schema_block([b"a"], [bytes([max(spec.TypeId) + 1, 1])], [0], 1))
    plain = pack_descriptor(pa.int32(), True)
    SchemaBlock(pack_schema_block([b"a" * spec.MAX_NAME_SIZE], [plain], [0], 1))
    with pytest.raises(ValueError, match="too long"):
        SchemaBlock(pack_schema_block([b"a" * (spec.MAX_NAME_SIZE + 1)], [plain], [0], 1))


def test_constants_of_the_kernels_are_those_of_the_spec() -> None:
    text = (Path(spec.__file__).parent / "_core/physical.pxd").read_text()
    constants = {name: int(value) for name, value in re.findall(r"^    ([A-Z_0-9]+) = (\d+)", text, re.M)}
    types = {name[2:]: value for name, value in constants.items() if name.startswith("T_")}
    assert types == {kind.name: kind.value for kind in spec.TypeId}
    for kind in (spec.Encoding, spec.NameEncoding):
        assert {member.name: constants[member.name] for member in kind} == {m.name: m.value for m in kind}
    limits = {name: value for name, value in constants.items() if name.startswith("MAX_")}
    assert limits == {name: getattr(spec, name) for name in limits}
    assert len(limits) == 10


def test_threads_do_not_keep_a_process_from_ending() -> None:
    script = (
        "import io, pyarrow as pa, smalti; out = io.BytesIO();"
        "smalti.write_table(pa.table({f'c{i}': [i] for i in range(300)}), out, threads=4);"
        "print(smalti.read_table(out.getvalue()).num_columns)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "300"
