"""Reads files in a process of its own, under a memory limit.

``python -m tests.support.reading_child LIMIT < paths > outcomes``.

For every path on standard input, one JSON line before the read (so that a death has a culprit) and one after it. Reads
everything a user could ask for: layout, statistics, values, whole and in batches.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import pyarrow as pa

import smalti


def read_everything(data: bytes) -> pa.Table:
    """Every part of the file; the values come back valid or not at all."""
    with smalti.open(data) as file:
        assert len(file.column_names) == file.num_columns == len(file.schema)
        for number in range(file.num_row_groups):
            assert file.row_group(number).num_rows >= 0
            _ = file.row_group(number).statistics
        table = file.read()
        table.validate(full=True)
        assert table.num_rows == file.num_rows
        assert sum(batch.num_rows for batch in file.iter_batches()) == file.num_rows
        assert file.layout().num_columns == file.num_columns
    return table


def outcome(path: str) -> dict[str, Any]:
    with open(path, "rb") as stream:  # noqa: PTH123
        data = stream.read()
    started = time.perf_counter()
    try:
        table = read_everything(data)
    except smalti.MosaicError as error:
        # The place must be more than the path: bytes have none.
        result: dict[str, Any] = {"kind": "error", "text": str(error), "place": list(error.place)}
    except BaseException as error:
        result = {"kind": "foreign", "text": f"{type(error).__name__}: {error}"}
    else:
        result = {"kind": "read", "rows": table.num_rows, "schema": table.schema.to_string(), "values": _shown(table)}
    return result | {"seconds": time.perf_counter() - started}


def _shown(table: pa.Table) -> str:
    if table.num_rows > 1000:
        return "many rows"
    try:
        return repr(table.to_pydict())
    except Exception as error:
        return f"no Python values: {error}"


def main() -> None:
    headroom = int(sys.argv[1])
    for line in sys.stdin:
        path = line.strip()
        print(json.dumps({"started": path}), flush=True)
        with open("/proc/self/statm") as stream:  # noqa: PTH123
            baseline = int(stream.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (baseline + headroom, resource.RLIM_INFINITY))
        print(json.dumps({"finished": path} | outcome(path)), flush=True)


if __name__ == "__main__":
    main()
