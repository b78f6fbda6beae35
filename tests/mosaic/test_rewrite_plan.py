"""The plan of a rewrite: tables of cases."""

from __future__ import annotations

import pyarrow as pa
import pytest

import smalti
from smalti._core.schema import SchemaBlock
from smalti.format.index import EMPTY, MONOLITHIC, PAGED
from smalti.mosaic.rewrite_plan import FRESH, ColumnPlan, Form, Run, choose_form, plan_columns
from tests.support.files import written


def block_of(types: dict[str, pa.DataType], num_buckets: int) -> SchemaBlock:
    table = pa.schema(list(types.items())).empty_table()
    with smalti.open(written(table, num_buckets=num_buckets)) as file:
        return file._tail.schema


def plan(new: SchemaBlock, old: SchemaBlock, origins: list[int]) -> ColumnPlan:
    return plan_columns(new, [new.physical_columns(bucket) for bucket in range(new.num_buckets)], old, origins)


def flat(count: int, num_buckets: int) -> SchemaBlock:
    return block_of({f"c{i:02d}": pa.int64() for i in range(count)}, num_buckets)


def test_neighbours_are_one_run() -> None:
    old, new = flat(6, 2), flat(7, 2)
    made = plan(new, old, [0, 1, FRESH, 2, 3, 4, 5])
    assert [each.runs for each in made.buckets] == [
        (Run(0, 0, 2), Run(FRESH, 0, 1), Run(0, 2, 1)),
        (Run(1, 0, 3),),
    ]
    assert [each.is_whole for each in made.buckets] == [False, True]
    assert made.buckets[0].fresh == (2,)
    assert made.targets == {0: [0], 1: [1], 2: [3], 3: [4], 4: [5], 5: [6]}


def test_a_column_may_be_copied_twice_and_out_of_order() -> None:
    made = plan(flat(3, 1), flat(2, 1), [1, 0, 1])
    assert made.buckets[0].runs == (Run(0, 1, 1), Run(0, 0, 2))
    assert not made.buckets[0].is_whole
    assert made.targets == {1: [0, 2], 0: [1]}


def test_children_of_arrays_and_maps_follow_their_columns() -> None:
    array, map_ = pa.list_(pa.int8()), pa.map_(pa.string(), pa.list_(pa.int8()))
    old = block_of(
        {"a": array, "b": pa.int64(), "m": map_}, 1
    )  # physical: a b m | a.element | m.key m.value m.value.element
    new = block_of({"a": array, "m": map_, "n": array}, 1)
    made = plan(new, old, [0, 2, FRESH])
    assert made.buckets[0].runs == (
        Run(0, 0, 1),
        Run(0, 2, 1),
        Run(FRESH, 0, 1),
        Run(0, 3, 4),
        Run(FRESH, 1, 1),
    )
    assert plan(old, old, [0, 1, 2]).buckets[0].is_whole


P, M, E = PAGED, MONOLITHIC, EMPTY


@pytest.mark.parametrize(
    ("origins", "modes", "same_compression", "is_compressed", "expected"),
    [
        ([0, 1, 2], {0: P}, True, True, Form.SLOTS),
        ([0, 1, 2], {0: M}, True, True, Form.COPIED_BLOCK),
        ([0, 1, 2], {0: M}, False, True, Form.BLOCK),
        ([0, 1, 2], {0: P}, False, False, Form.BLOCK),
        ([0, 1, 2], {0: E}, True, True, Form.BLOCK),
        ([0, 2, 1], {0: M}, True, True, Form.BLOCK),
        ([0, FRESH, 1], {0: M}, True, True, Form.BLOCK),
        ([0, FRESH, 1], {0: P}, True, True, Form.SLOTS),
        ([0, 3, 4], {0: P, 1: M}, True, True, Form.BLOCK),
        ([0, 1, 3], {0: P, 1: M}, True, True, Form.SLOTS),
        ([0, FRESH, 3], {0: P, 1: E}, True, True, Form.SLOTS),
        ([FRESH, FRESH, FRESH], {}, True, True, Form.ENCODED),
        ([FRESH, FRESH, FRESH], {}, False, False, Form.ENCODED),
    ],
)
def test_a_bucket_stays_what_most_of_its_columns_were(
    origins: list[int], modes: dict[int, str], same_compression: bool, is_compressed: bool, expected: Form
) -> None:
    (bucket,) = plan(flat(3, 1), flat(6, 2), origins).buckets
    assert choose_form(bucket, modes, same_compression=same_compression, is_compressed=is_compressed) is expected
