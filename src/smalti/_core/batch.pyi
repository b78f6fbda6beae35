from typing import final

from zstandard import BufferSegment

from smalti._core.allowance import Allowance
from smalti._core.dictionary import DictionaryValues
from smalti._core.physical import PhysicalColumns

@final
class BucketViews:
    def describe(self) -> list[tuple[int, bool, int, int, int]]: ...

def view_block(nodes: PhysicalColumns, data: bytes | memoryview, num_rows: int) -> BucketViews: ...
def view_beginning(nodes: PhysicalColumns, data: bytes | memoryview, num_rows: int, first: int) -> BucketViews: ...
def view_pages(
    nodes: PhysicalColumns, pages: dict[int, bytes | BufferSegment | None], num_rows: list[int]
) -> BucketViews: ...

@final
class Batch:
    num_columns: int
    num_rows: int

    def __new__(cls, num_columns: int, num_rows: int, allowance: Allowance | None = None) -> Batch: ...
    def address(self) -> int: ...
    def decode(
        self,
        bucket: BucketViews,
        columns: list[int],
        targets: list[int],
        rows: memoryview | None = None,
        first: int = -1,
        dictionaries: list[tuple[int, DictionaryValues]] | None = None,
    ) -> None: ...
