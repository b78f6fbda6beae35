"""Names of files: those that commits give, and hidden ones."""

from __future__ import annotations

import pytest

from smalti.table.names import Selection, is_ours, new_token, unique_names


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("a.mosaic", "a-{}-00000.mosaic"),
        ("day=3/a-0123456789abcdef-00007.mosaic", "day=3/a-{}-00000.mosaic"),
        ("a-00007.mosaic", "a-00007-{}-00000.mosaic"),
        ("x" * 248 + ".mosaic", "x" * 225 + "-{}-00000.mosaic"),
        ("é" * 124 + ".mosaic", "é" * 112 + "-{}-00000.mosaic"),
    ],
)
def test_names_that_never_come_back(wanted: str, name: str) -> None:
    token = new_token()
    assert unique_names({"s": wanted}, token) == {"s": name.format(token)}
    assert is_ours(name.format(token))
    assert len(name.format(token).rpartition("/")[2].encode()) <= 255
    assert unique_names({"s": wanted}, new_token()) != {"s": name.format(token)}


def test_hidden_files_that_come_and_go_do_not_matter() -> None:
    selection = Selection("t", (), "")
    assert selection.chosen(["t/a", "t/.tmp1"]) == selection.chosen(["t/.tmp2", "t/a", "t/_x/b"]) == {"t/a"}
    assert selection.chosen(["t/a", "t/b"]) == {"t/a", "t/b"}
