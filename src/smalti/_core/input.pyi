from typing import final

import pyarrow as pa

from smalti._core.nodes import BucketNodes

@final
class InputBatch:
    batch: pa.RecordBatch
    num_rows: int

    def __init__(self, batch: pa.RecordBatch) -> None: ...

@final
class Feeds:
    def __init__(
        self, nodes: BucketNodes, positions: list[int], slices: list[tuple[InputBatch, int, int]]
    ) -> None: ...
    def check(self) -> tuple[int, str, int | None] | None: ...
    def measure(self) -> int: ...
