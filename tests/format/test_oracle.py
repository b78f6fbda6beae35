"""The oracle alone, before smalti is measured with it: it reads every golden and repeats the reference's bytes."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import reference
from tests.support.compare import assert_same
from tests.support.golden import (
    GOLDEN_FILES,
    WRITTEN,
    assert_layout,
    expected_batches,
    expected_table,
    golden_bytes,
    writer_options,
)
from tests.support.oracle import Options, read, write
from tests.support.oracle.types import payload
from tests.support.strategies import examples, options_for, tables


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_reads_every_golden(name: str) -> None:
    oracle = read(golden_bytes(name))
    assert_same(oracle.table, expected_table(name))
    assert [batch.num_rows for batch in oracle.batches] == GOLDEN_FILES[name]["row_group_rows"]
    assert_layout(oracle.layout, name)


@pytest.mark.parametrize("name", WRITTEN)
def test_repeats_every_written_golden(name: str) -> None:
    options = writer_options(name)
    options["stats_columns"] = tuple(options.pop("stats_columns", ()))
    batches = expected_batches(name)
    data = write(expected_table(name).schema, batches, Options(**options))
    assert data == golden_bytes(name)
    assert hashlib.sha256(data).hexdigest() == GOLDEN_FILES[name]["sha256"]


def test_reads_statistics() -> None:
    oracle = read(golden_bytes("stats_types"))
    found = [
        {
            name: {
                "null_count": nulls,
                "min": None if low is None else payload(low, oracle.schema.field(name).type).hex(),
                "max": None if high is None else payload(high, oracle.schema.field(name).type).hex(),
            }
            for name, (nulls, low, high) in group.items()
        }
        for group in oracle.statistics
    ]
    assert found == GOLDEN_FILES["stats_types"]["stats"]


@examples(60)
@given(st.data())
def test_agrees_with_the_reference(data: st.DataObject) -> None:
    table = data.draw(tables(min_columns=1))
    options = data.draw(options_for(table))
    written = reference.write(table, **options)
    options["stats_columns"] = tuple(options.pop("stats_columns", ()))
    assert write(table.schema, table.combine_chunks().to_batches(), Options(**options)) == written
    assert_same(read(written).table, table)
