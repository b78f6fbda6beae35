"""What Parquet returns unchanged, Mosaic does, and the reference reads every such file. The cases: `round_trips`."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import smalti
from tests import reference, round_trips
from tests.files import read, written
from tests.round_trips import CASES, RECORD, SAME, Case

RECORDED = json.loads(RECORD.read_text())


EVERY = [pytest.param(kind, case, id=f"{kind}-{case.name}"[:60]) for kind in CASES for case in CASES[kind]]


@pytest.mark.parametrize(("kind", "case"), EVERY)
def test_what_parquet_returns_unchanged_mosaic_does(kind: str, case: Case) -> None:
    ours = round_trips.outcome(case.make(), round_trips.mosaic)
    if round_trips.outcome(case.make(), round_trips.parquet) == SAME:
        assert ours == SAME
    recorded = RECORDED[kind][case.name]["Mosaic"]
    if ours != recorded:  # Reasons may differ by the versions of the libraries.
        assert ours.split(":")[0] == recorded.split(":")[0], "run python -m tests.round_trips and docs/generate.py"
    if ours.startswith("refused"):
        return
    data = round_trips.mosaic_bytes(case.make())
    with smalti.open(data, logical=False) as file:
        stored = file.read()
    assert round_trips.lost_of_table(stored, reference.read(data)) is None


def test_the_record_has_every_case() -> None:
    """And Mosaic loses no type of Arrow's but the two that Parquet refuses too."""
    for kind, of_kind in CASES.items():
        assert list(RECORDED[kind]) == [case.name for case in of_kind]
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
        for layout in ("balanced", "small"):
            data = written(table, layout=layout, **options)
            assert read(data).equals(table)
            assert reference.read(data)["v"].combine_chunks().flatten().equals(pa.array(values))
            sizes[name, layout] = len(data)
    assert sizes["noise", "balanced"] > 400_000 > sizes["noise", "small"] * 1.05
    assert sizes["even", "balanced"] == sizes["even", "small"] < 20_000
    lists = table.set_column(1, "v", vectors.cast(pa.list_(pa.float32())))
    assert written(table, companion=False, **options) == written(lists, companion=False, **options)
