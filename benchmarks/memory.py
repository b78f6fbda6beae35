"""Peak memory of one write or one read, taken in a process of its own: ``python -m benchmarks.memory``.

The peak is what the process grew by at its highest, over what it held after its imports, a first small write and read
that starts the library's threads, and (for a write) loading the input. It is the kernel's high-water mark of this
address space, reset just before the work: ``ru_maxrss`` would count the load, and survives from the parent process.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.datasets import load
from benchmarks.peers import PEERS, Peer

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


def peak_of_write(peer: str, table: Path, file: Path) -> int | None:
    """Bytes a fresh process grows by while ``peer`` writes the Arrow file ``table``; None where the kernel is mute."""
    return _in_a_child({"peer": peer, "table": str(table), "file": str(file)})


def peak_of_read(peer: str, file: Path, columns: list[str] | None) -> int | None:
    """Bytes a fresh process grows by while ``peer`` reads the columns, the result included."""
    return _in_a_child({"peer": peer, "file": str(file), "columns": columns})


def _in_a_child(order: dict[str, Any]) -> int | None:
    if not CLEAR.exists():
        return None
    command = [sys.executable, "-m", "benchmarks.memory"]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True, check=False, cwd=root)
    if done.returncode:
        raise RuntimeError(f"{order['peer']}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def main() -> None:
    """Carry out the order on standard input and print how much memory it took."""
    order = json.load(sys.stdin)
    peer = PEERS[order["peer"]]()
    file = Path(order["file"])
    warm_up(peer)
    if "table" in order:
        table = peer.prepare(load(Path(order["table"])))
        before = settle()
        peer.write(table, file)
    else:
        before = settle()
        peer.read(file, order["columns"])
    print(json.dumps(status("VmHWM") - before))


def warm_up(peer: Peer) -> None:
    """A first write and read of three rows, so that lazy imports and thread pools are not counted."""
    table = peer.prepare(pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]}))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"small{peer.suffix}"
        peer.write(table, path)
        peer.read(path, ["b"])


def settle() -> int:
    """Give back what can be given back, reset the high-water mark, and say what is held now."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    CLEAR.write_text("5")
    return status("VmRSS")


def status(key: str) -> int:
    """A line of /proc/self/status, in bytes."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{STATUS} has no {key}")


if __name__ == "__main__":
    main()
