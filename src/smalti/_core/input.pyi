from typing import final

import pyarrow as pa

from smalti._core.physical import PhysicalColumns

@final
class InputBatch:
    batch: pa.RecordBatch
    num_rows: int

    def __new__(cls, batch: pa.RecordBatch) -> InputBatch: ...
    def has_dictionaries(self) -> bool: ...

@final
class Feeds:
    def __new__(
        cls, physical: PhysicalColumns, indices: list[int], slices: list[tuple[InputBatch, int, int]]
    ) -> Feeds: ...
    def check(self) -> tuple[int, str, int | None] | None: ...
    def measure(self) -> int: ...
