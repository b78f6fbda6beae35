"""Every byte of a file changed, one at a time: what was noticed, what made no difference, what was wrong.

``python -m tests.tools.flips`` prints the table of docs/safety; the tests run the same with fewer changes of each byte.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import smalti
from tests.support.files import written
from tests.support.tables import CONTAINERS, matrix

USER = pa.struct([("age", pa.uint8()), ("name", pa.string()), ("at", pa.struct([("x", pa.float16())]))])


def _plain() -> pa.Table:
    return matrix(11, 25, {name: CONTAINERS[name] for name in ("l_i32", "m_str_f64")})


def _logical() -> pa.Table:
    users = [None if i % 5 == 0 else {"age": i, "name": f"n{i}", "at": {"x": np.float16(i / 2)}} for i in range(25)]
    table = pa.table(
        {
            "id": pa.array(range(25), pa.uint64()),
            "user": pa.array(users, USER),
            "list": pa.array([[user, None] for user in users], pa.list_(USER)),
            "kind": pa.array(["b", "a", None, "b", "c"] * 5).dictionary_encode(),
            "vector": pa.array([[i, i + 1] for i in range(25)], pa.list_(pa.float32(), 2)),
        }
    )
    return table.replace_schema_metadata({"made": "here"})


#: Kinds of files that smalti writes by default or when asked, all with companion and checksums.
KINDS: dict[str, Callable[[], bytes]] = {
    "one block for each bucket": lambda: written(_plain(), num_buckets=2, page_size_threshold=1 << 30),
    "pages": lambda: written(_plain(), num_buckets=2, page_size_threshold=0),
    "statistics, three row groups": lambda: written(
        _plain(), num_buckets=2, page_size_threshold=0, stats_columns="all", row_group_max_rows=10
    ),
    "structs, dictionaries, metadata": lambda: written(_logical()),
    "no rows": lambda: written(_logical().slice(0, 0)),
}


def observe(data: bytes) -> Any:
    """Everything a user can see of a file: schema with metadata, rows, statistics, what filters find."""
    with warnings.catch_warnings(), smalti.open(data) as file:
        warnings.simplefilter("error")
        table = file.read()
        table.validate(full=True)
        statistics = [file.row_group(i).statistics for i in range(file.num_row_groups)]
        name = table.schema.names[0]
        found = [file.read([name], filters=pc.field(name).is_valid()), file.count_rows(pc.field(name).is_null())]
    return table.schema.serialize().to_pybytes(), repr(table.to_pylist()), repr(statistics), repr(found)


def sweep(data: bytes, masks: Callable[[int], Iterator[int]]) -> Counter[str]:
    """How many changes of a byte were noticed (an error of ours, or a warning), harmless, or wrong."""
    expected = observe(data)
    outcomes: Counter[str] = Counter()
    for position in range(len(data)):
        for mask in masks(position):
            damaged = data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]
            try:
                outcome = "harmless" if observe(damaged) == expected else "wrong"
            except (smalti.MosaicError, UserWarning):
                outcome = "noticed"
            if outcome == "wrong":
                outcomes[f"wrong at {position} of {len(data)}, mask {mask:#x}"] += 1
            outcomes[outcome] += 1
    return outcomes


def main() -> int:
    print("| file | bytes | changes | noticed | harmless | wrong |\n|---|---:|---:|---:|---:|---:|")
    wrong = 0
    for kind, make in KINDS.items():
        data = make()
        found = sweep(data, lambda _: iter([1 << bit for bit in range(8)] + [0xFF]))
        counts = [found[name] for name in ("noticed", "harmless", "wrong")]
        print(f"| {kind} | {len(data):,} | {sum(counts):,} | {' | '.join(f'{n:,}' for n in counts)} |", flush=True)
        wrong += found["wrong"]
        print(*(line for line in found if " at " in line), sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
