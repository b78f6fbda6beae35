from typing import final

import pyarrow as pa

from smalti._core.input import InputBatch

@final
class Extents:
    schema: pa.Schema

    def __new__(cls, schema: pa.Schema) -> Extents: ...
    def problem(
        self, batch: InputBatch
    ) -> tuple[int, str | None, str | None, int | None, int | None, int | None] | None: ...

def is_flat(batch: InputBatch) -> bool: ...
