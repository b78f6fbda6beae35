"""Files that are wrong in a known way: an error of ours that says where, or a good read; never anything else.

Each is read in a child process with 2 GiB of memory to spare, since the mistakes of a reader of untrusted bytes
(running off a buffer, trusting a count) end processes.
"""

from __future__ import annotations

from typing import Any

import pytest

import smalti
from tests.support import reference
from tests.support.children import read_in_children
from tests.support.compare import assert_same
from tests.support.files import read
from tests.support.golden import MALFORMED, MALFORMED_CASES

CHUNK = 27
CHUNKS = [list(MALFORMED_CASES)[start : start + CHUNK] for start in range(0, len(MALFORMED_CASES), CHUNK)]
ACCEPTED = [name for name, case in MALFORMED_CASES.items() if case["suggested_verdict"] == "accept"]
#: Seconds one small file may take, generous for a busy machine.
SLOW = 5.0

#: The reference's recorded result is not what a reader should give: it drops the columns of a missing bucket.
NULLS_INSTEAD = {
    "i07_cs0_us0_listed": "{'a': [None, None, None], 'b': [None, None, None]}",
    "i09_all_buckets_absent": "{'a': [None, None, None], 'b': [None, None, None]}",
}


def problem(name: str, found: dict[str, Any]) -> str | None:
    """What is wrong with an outcome, or None."""
    verdict, recorded = MALFORMED_CASES[name]["suggested_verdict"], MALFORMED_CASES[name]["reference_0_2_0"]
    if found["kind"] in ("foreign", "died"):
        return f"{found['kind']}: {found['text']}"
    if found["seconds"] > SLOW:
        return f"took {found['seconds']:.1f} s"
    if found["kind"] == "error":
        if verdict == "accept":
            return f"refused: {found['text']}"
        return None if found["text"] and found["place"] else f"no place or no message: {found}"
    if verdict == "reject":
        return f"read as {found['values']}"
    return _value_problem(name, found, recorded)


def _value_problem(name: str, found: dict[str, Any], recorded: dict[str, Any]) -> str | None:
    values = NULLS_INSTEAD.get(name, recorded.get("values"))
    if recorded["outcome"] != "accepted" or values.startswith("to_pydict failed"):
        return None
    if found["values"] != values:
        return f"read as {found['values']}, expected {values}"
    if found["schema"] != recorded["schema"]:
        return f"schema {found['schema']}, expected {recorded['schema']}"
    return None


@pytest.mark.parametrize("names", CHUNKS, ids=[f"{chunk[0]}..{chunk[-1]}" for chunk in CHUNKS])
def test_verdict(names: list[str]) -> None:
    outcomes = read_in_children([MALFORMED / f"{name}.mosaic" for name in names])
    assert sorted(outcomes) == sorted(names)
    problems = {name: problem(name, outcomes[name]) for name in names}
    assert {name: text for name, text in problems.items() if text} == {}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_files_read_like_the_reference(name: str) -> None:
    data = (MALFORMED / f"{name}.mosaic").read_bytes()
    assert_same(read(data), reference.read(data))


@pytest.mark.parametrize(
    ("name", "kind", "section"),
    [
        ("t03_footer_only", smalti.CorruptFileError, "footer"),
        ("f04_compression_2", smalti.UnsupportedFeatureError, "footer"),
        ("f16_one_row_group_too_few", smalti.CorruptFileError, "index"),
        ("s49_empty_schema_block", smalti.CorruptFileError, "schema"),
    ],
)
def test_error_says_which_part_of_the_file(name: str, kind: type[smalti.MosaicError], section: str) -> None:
    path = MALFORMED / f"{name}.mosaic"
    with pytest.raises(kind) as caught:
        smalti.read_table(path)
    assert section in caught.value.place["section"]
    assert str(path) in str(caught.value)


def test_error_in_a_bucket_names_row_group_bucket_and_column() -> None:
    with pytest.raises(smalti.CorruptFileError) as caught:
        smalti.read_table(MALFORMED / "b03_dict_index_out_of_range.mosaic")
    place = caught.value.place
    assert (place["row_group"], place["bucket"], place["column"]) == (0, 0, "a")
