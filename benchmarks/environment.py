"""Where a result comes from: versions, processor, load. A figure without these is hearsay."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.peers import Peer


def describe(peers: list[Peer]) -> dict[str, Any]:
    """The machine and the software, as JSON."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_at_start": os.getloadavg()[0],
        "busy_at_start": busy_share(),
        "pyarrow": version("pyarrow"),
        "numpy": version("numpy"),
        "peers": {
            peer.name: {
                "label": peer.label,
                "package": peer.package,
                "version": version(peer.package),
                "settings": peer.settings,
            }
            for peer in peers
        },
    }


def busy_share(seconds: float = 3.0) -> float | None:
    """The share of all processors that other processes take while this one waits; None where it cannot be told.

    The load average would count what this machine did minutes ago, such as the benchmark that ran before this one.
    """
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    before = _ticks(stat)
    time.sleep(seconds)
    ticks = [after - first for first, after in zip(before, _ticks(stat), strict=True)]
    idle = ticks[3] + ticks[4]  # idle, and waiting for a disk
    return 1 - idle / max(1, sum(ticks))


def _ticks(stat: Path) -> list[int]:
    return [int(number) for number in stat.read_text().split("\n", 1)[0].split()[1:9]]


def commit() -> str | None:
    """The commit of the tree measured, marked when files were changed since."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def processor() -> str:
    """The processor's name, as the kernel tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
