"""Runs `tests.support.reading_child` over many files, a process per chunk, and knows at which file a process died."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HEADROOM = 2 << 30


def read_in_children(
    paths: list[Path], *, seconds_each: float = 20.0, headroom: int = HEADROOM
) -> dict[str, dict[str, Any]]:
    """{stem: outcome}. A process that dies or hangs condemns one file; the rest are read by the next process."""
    outcomes: dict[str, dict[str, Any]] = {}
    waiting = list(paths)
    while waiting:
        lines, failure = _run(waiting, seconds_each, headroom)
        finished = {line["finished"]: line for line in lines if "finished" in line}
        for path, line in finished.items():
            outcomes[Path(path).stem] = line
        waiting = [path for path in waiting if str(path) not in finished]
        if failure:
            culprit = next(path for path in waiting if any(line.get("started") == str(path) for line in lines))
            outcomes[culprit.stem] = {"kind": "died", "text": failure}
            waiting.remove(culprit)
    return outcomes


def _run(paths: list[Path], seconds_each: float, headroom: int) -> tuple[list[dict[str, Any]], str | None]:
    """The lines a child printed, and what killed it (None: nothing did)."""
    command = [sys.executable, "-m", "tests.support.reading_child", str(headroom)]
    listed = "".join(f"{path}\n" for path in paths)
    limit = 60 + seconds_each
    try:
        done = subprocess.run(
            command, input=listed, capture_output=True, text=True, cwd=ROOT, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode()
        return [json.loads(line) for line in output.splitlines()], f"no answer in {limit:.0f} s"
    failure = None if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[-2000:]}"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert failure is None or any("started" in line for line in lines), failure
    return lines, failure
