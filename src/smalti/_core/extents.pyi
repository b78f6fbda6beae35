from typing import Literal, final

import pyarrow as pa

from smalti._core.input import InputBatch

@final
class Extents:
    schema: pa.Schema

    def __new__(cls, schema: pa.Schema) -> Extents: ...
    def problem(
        self, batch: InputBatch
    ) -> tuple[int, Literal["misaligned", "impossible", "miscounted", "unsound"]] | None: ...

def is_flat(batch: InputBatch) -> bool: ...
