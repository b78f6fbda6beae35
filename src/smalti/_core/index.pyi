from collections.abc import Set
from typing import final

from smalti._core.allowance import Allowance
from smalti._core.schema import SchemaBlock

@final
class RowGroupIndex:
    num_row_groups: int
    num_rows: int

    def __new__(
        cls,
        data: bytes,
        schema: SchemaBlock,
        num_row_groups: int,
        data_end: int,
        compressed: bool,
        allowance: Allowance | None = None,
    ) -> RowGroupIndex: ...
    def rows(self, group: int) -> int: ...
    def num_statistics(self, group: int) -> int: ...
    def bucket(self, group: int, bucket: int) -> tuple[int, int, int]: ...
    def statistics(
        self, group: int, wanted: Set[int] | None = None
    ) -> list[tuple[int, int, bytes | None, bytes | None]]: ...
