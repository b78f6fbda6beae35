"""Which row groups a scan reads: a table of cases."""

from __future__ import annotations

import pyarrow as pa
import pytest

from smalti.mosaic.columns import Projection
from smalti.mosaic.scan import GroupRead, plan_scan


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
