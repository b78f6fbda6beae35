"""The walks of docs/architecture.md, followed: functions are called in the order of the page, and no module twice.

A module is entered when one of its functions is called by another module. Calls are traced in a real read and a real
write of one column. Values may be asked for their attributes by anybody: properties and constructors are no entries.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti.file.reader import MosaicFile
from smalti.file.rewriting import GroupSource, rewrite_file
from smalti.io import open_source
from tests.docs.blocks import ROOT, blocks_of

PAGE = ROOT / "docs" / "architecture.md"
#: One batch, in which a column has another form than its stored columns.
TABLE = pa.table({"id": range(1000), "user": [{"age": i % 90, "name": f"n{i % 7}"} for i in range(1000)]})
OPTIONS: Any = {"num_buckets": 1, "page_size_threshold": 0, "threads": 1}


def walk(name: str) -> list[tuple[int, str, str]]:
    """The steps of a walk: how deep they stand on the page, module and function."""
    (found,) = [block.code for block in blocks_of(PAGE) if block.language == "walk" and block.code.startswith(name)]
    steps = []
    for line in found.splitlines()[1:]:
        place = line.split()[0]
        module = next(
            place[:at] for at in range(len(place), 0, -1) if place[:at] in MODULES and place[at : at + 1] in (".", "")
        )
        steps.append((len(line) - len(line.lstrip()), module, place[len(module) + 1 :]))
    return steps


MODULES = {
    ".".join(path.relative_to(ROOT / "src" / "smalti").with_suffix("").parts)
    for suffix in ("py", "pyx")
    for path in (ROOT / "src" / "smalti").rglob(f"*.{suffix}")
}


def is_kernel(module: str) -> bool:
    """Whether Python's profiler does not see the calls of a module, because it is compiled."""
    return module.startswith("_core.")


class Trace:
    """Every call of a function of smalti: the module that called, the module and the function."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []

    @contextmanager
    def record(self) -> Iterator[None]:
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (module := _module(frame)):
            caller = frame.f_back
            while caller is not None and not _module(caller):
                caller = caller.f_back
            function = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
            if not _is_attribute(frame.f_code, frame.f_globals):
                self.calls.append(("" if caller is None else _module(caller), module, function))


def _module(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__", "")
    return name.removeprefix("smalti.") if name.startswith("smalti.") else ""


def _is_attribute(code: CodeType, scope: dict[str, Any]) -> bool:
    """Whether the function is a property, a constructor or another method that Python calls by itself."""
    name = code.co_name
    if name.startswith("__") or "__create_fn__" in getattr(code, "co_qualname", name):
        return True
    owner = scope.get(getattr(code, "co_qualname", name).split(".")[0])
    found = vars(owner).get(name) if isinstance(owner, type) else None
    return found is not None and not callable(found) and not isinstance(found, (staticmethod, classmethod))


def read(path: Path, trace: Trace) -> None:
    smalti.write_table(TABLE, path, **OPTIONS)
    for recorded in (False, True):  # The first read imports modules.
        with MosaicFile(open_source(path)) as file:  # `smalti.open` would know the schema the second time.
            if recorded:
                with trace.record():
                    file.scan(["user"]).to_table()
            else:
                file.scan(["user"]).to_table()


def write(path: Path, trace: Trace) -> None:
    smalti.write_table(TABLE, path, **OPTIONS)
    writer = smalti.MosaicWriter(path, TABLE.schema, **OPTIONS)
    with trace.record():
        writer.write(TABLE)
        writer.close()


def rewrite(path: Path, trace: Trace) -> None:
    """A dictionary of which some rows are left out, beside a column that is new."""
    table = TABLE.append_column("word", pa.array(["a", "b"] * 500).dictionary_encode())
    smalti.write_table(table, path, **OPTIONS, row_group_max_rows=500)
    fresh = pa.table({"new": range(500)})
    for recorded in (False, True):
        with MosaicFile(open_source(path)) as file:
            schema = pa.schema([*file.schema, *fresh.schema])
            source, threads = GroupSource(file, 1, fresh=fresh), smalti.WriterOptions(threads=1)
            with trace.record() if recorded else nullcontext():
                rewrite_file(path.with_name("new.mosaic"), schema, [source], options=threads)


@pytest.mark.parametrize("follow", [read, write, rewrite], ids=["read", "write", "rewrite"])
def test_a_walk_is_as_the_page_tells_it(follow: Callable[[Path, Trace], None], tmp_path: Path) -> None:
    trace = Trace()
    follow(tmp_path / "t.mosaic", trace)
    steps = walk(follow.__name__)
    seen = [(module, function) for _, module, function in steps if not is_kernel(module)]
    first = list(dict.fromkeys((module, function) for _, module, function in trace.calls))
    assert [step for step in first if step in seen] == seen


@pytest.mark.parametrize("follow", [read, write], ids=["read", "write"])
def test_no_module_is_entered_twice(follow: Callable[[Path, Trace], None], tmp_path: Path) -> None:
    """Each module of a walk is called by one other module of it only: by the one that it stands below on the page."""
    trace = Trace()
    follow(tmp_path / "t.mosaic", trace)
    above: list[tuple[int, str]] = []
    expected: dict[str, set[str]] = defaultdict(set)
    for depth, module, _ in walk(follow.__name__):
        above = [(other, name) for other, name in above if other < depth]
        if not is_kernel(module):
            expected[module].add(above[-1][1] if above else "")
        above.append((depth, module))
    callers: dict[str, set[str]] = defaultdict(set)
    running: dict[str, str] = {}
    for caller, module, _ in trace.calls:
        # What a tool (a pool of threads, reading ahead) calls was handed to it by the module that called the tool.
        if module not in expected:
            running[module] = running.get(caller, caller)
        elif (asker := running.get(caller, caller)) != module:
            callers[module].add(asker)
    assert {module: callers[module] for module in expected} == {
        module: {caller for caller in asked_by if caller != module} for module, asked_by in expected.items()
    }
