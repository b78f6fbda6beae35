"""-c/--columns."""

from __future__ import annotations

import pytest

from smalti.cli.arguments import select_columns
from smalti.errors import SchemaError

NAMES = ["id", "sensor_2", "sensor_1", "a,b", "x*", "[y]"]


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (None, None),
        ([], None),
        (["id"], ["id"]),
        (["sensor_1,id"], ["sensor_1", "id"]),
        (["sensor_*"], ["sensor_2", "sensor_1"]),
        (["sensor_1", "sensor_*", "id"], ["sensor_1", "sensor_2", "id"]),
        (["a,b"], ["a,b"]),
        (["x*"], ["x*"]),
        (["[y]"], ["[y]"]),
        (["*"], NAMES),
        (["sensor_[1]"], ["sensor_1"]),
        (["i?"], ["id"]),
    ],
)
def test_selects(patterns: list[str] | None, found: list[str] | None) -> None:
    assert select_columns(NAMES, patterns) == found


def test_a_name_that_is_not_there_suggests_others() -> None:
    with pytest.raises(SchemaError, match=r"no column .sensor_3.; did you mean .sensor_"):
        select_columns(NAMES, ["sensor_3"])
    with pytest.raises(SchemaError, match=r"no column matches .q\*."):
        select_columns(NAMES, ["q*"])
