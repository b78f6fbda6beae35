"""The type and the schema that hold the values of two: tables of cases."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from smalti.errors import SchemaError
from smalti.logical.widen import unify_schemas, widen
from tests.support.any_arrow import SCALARS


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


def test_the_type_of_two_holds_each_of_them_again() -> None:
    """A change writes some files of a table in the type of the table, and the others stay."""
    for one, other in itertools.product(SCALARS, repeat=2):
        both = widen(one, other)
        if both is not None:
            assert widen(both, one) == widen(one, both) == widen(both, other) == widen(other, both) == both, (
                one,
                other,
            )
    assert widen(pa.int32(), pa.decimal128(3, 0)) == pa.decimal128(10, 0)
    assert widen(pa.uint64(), pa.decimal128(3, 0)) == pa.decimal128(20, 0)
    assert widen(pa.int32(), pa.decimal128(12, 2)) is None
