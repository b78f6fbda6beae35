"""Every code block of README and docs runs, and prints what the page says it prints."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Runner, blocks_of, needs, page_needs, pages
from tests.support.s3 import S3Server

#: Pages that need a session of their own and are run elsewhere.
ELSEWHERE = {"docs/spark.md": "tests/spark/test_docs.py", "docs/jobs.md": "tests/jobs/test_docs.py"}
#: Packages for training, which only `make test-loaders` installs.
FRAMEWORKS = ("torch", "datasets", "ray", "jax")
PAGES = [page for page in pages() if page.relative_to(ROOT).as_posix() not in ELSEWHERE]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server(buckets=["tables"]) as server:
        yield server


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    blocks = blocks_of(page)
    missing = set()
    if importlib.util.find_spec("pyspark") is None:
        missing.add("spark")
    if importlib.util.find_spec("smalti.jobs") is None:
        missing.add("jobs")
    missing |= {name for name in ("dask", *FRAMEWORKS) if importlib.util.find_spec(name) is None}
    if importlib.util.find_spec("pypaimon") is None:
        missing.add("paimon")
    if page_needs(page) in missing:
        pytest.skip(f"needs {page_needs(page)}")
    if "s3" in needs(page):
        for name, value in request.getfixturevalue("s3").environment.items():
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    runner = Runner(missing)
    for block in blocks:
        runner.run(block)


def test_marks_are_known() -> None:
    needs = [f"needs: {what}" for what in ("spark", "s3", "paimon", "jobs", "dask", *FRAMEWORKS)]
    known = ("output", "output, numbers may differ", *needs)
    unknown = [
        f"{block.place}: {block.mark}"
        for page in PAGES
        for block in blocks_of(page)
        if block.mark and block.mark not in known and not block.mark.startswith(("skip: ", "raises: ", "generated: "))
    ]
    assert unknown == []


def test_blocks_say_their_language() -> None:
    assert [block.place for page in PAGES for block in blocks_of(page) if not block.language] == []


def test_most_blocks_run() -> None:
    """A skip is an exception, not a habit."""
    code = [block for page in PAGES for block in blocks_of(page) if block.language in ("python", "bash")]
    skipped = [block for block in code if block.mark.startswith("skip: ")]
    assert len(skipped) <= len(code) // 10, [block.place for block in skipped]


def test_pages_that_run_elsewhere_do() -> None:
    for page, test in ELSEWHERE.items():
        if (ROOT / page).exists():
            assert Path(page).name in (ROOT / test).read_text()
