"""Which inputs are worth keeping, and how much code they reach.

``python -m tests.tools.fuzzing.measure TARGET FROM TO``.

Of the inputs in a directory, the shortest are tried first, and those that reach a place in the kernels or a line of
Python that none before has reached are copied. Prints a JSON object.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

bridge = ctypes.CDLL(os.environ["SMALTI_BRIDGE"], os.RTLD_GLOBAL)
bridge.bridge_counters.restype = ctypes.POINTER(ctypes.c_uint8)
bridge.bridge_slots.restype = ctypes.c_size_t

import smalti  # noqa: E402
from tests.tools.fuzzing.targets import run  # noqa: E402

HOME = str(Path(smalti.__file__).parent)
lines: set[tuple[str, int]] = set()


def trace(frame: FrameType, event: str, _: Any) -> Any:
    if not frame.f_code.co_filename.startswith(HOME):
        return None
    if event == "line":
        lines.add((frame.f_code.co_filename.removeprefix(HOME), frame.f_lineno))
    return trace


def reached(name: str, data: bytes) -> tuple[set[int], set[tuple[str, int]]]:
    """The places in the kernels, and the lines of Python, that an input leads to."""
    bridge.bridge_reset()
    lines.clear()
    sys.settrace(trace)
    try:
        run(name, data)
    finally:
        sys.settrace(None)
    counters = ctypes.string_at(bridge.bridge_counters(), bridge.bridge_slots())
    return {slot for slot, count in enumerate(counters) if count}, set(lines)


def main(name: str, source: str, target: str) -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    places: set[int] = set()
    python: set[tuple[str, int]] = set()
    kept = size = 0
    inputs = sorted(Path(source).iterdir(), key=lambda path: (path.stat().st_size, path.name))
    reached(name, inputs[0].read_bytes())  # What is only done once, at the first call, belongs to no input.
    for path in inputs:
        data = path.read_bytes()
        found, code = reached(name, data)
        if found <= places and code <= python:
            continue
        places |= found
        python |= code
        kept, size = kept + 1, size + len(data)
        (Path(target) / path.name).write_bytes(data)
    files = sorted({file for file, _ in python})
    told = {"inputs": len(inputs), "kept": kept, "bytes": size, "places": len(places), "lines": len(python)}
    print(json.dumps(told | {"files": files}))


if __name__ == "__main__":
    main(*sys.argv[1:])
