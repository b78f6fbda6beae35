"""Counts the work that smalti does in Python: the lines that it runs. Unlike time, it is the same in every run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import smalti

_SOURCE = str(Path(smalti.__file__).parent)


def lines_run(function: Callable[[], object], *modules: str) -> int:
    """The lines of `modules`, such as ``"logical/intake"``, that a function runs in this thread; by default of all."""
    files = tuple(f"{_SOURCE}/{module}.py" for module in modules) or (_SOURCE,)
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(files):
            return None
        count += event in ("call", "line")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
