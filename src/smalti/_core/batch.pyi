from typing import final

from smalti._core.nodes import BucketNodes

@final
class Batch:
    num_columns: int
    num_rows: int

    def __new__(cls, num_columns: int, num_rows: int) -> Batch: ...
    def address(self) -> int: ...
    def decode_monolithic(
        self, nodes: BucketNodes, data: bytes | memoryview, columns: list[int], places: list[int]
    ) -> None: ...
    def decode_pages(
        self,
        nodes: BucketNodes,
        pages: dict[int, bytes | None],
        child_rows: list[int],
        columns: list[int],
        places: list[int],
    ) -> None: ...
    def decode_missing(self, nodes: BucketNodes, columns: list[int], places: list[int]) -> None: ...

def describe_monolithic(
    nodes: BucketNodes, data: bytes | memoryview, num_rows: int
) -> list[tuple[int, bool, int, int, int]]: ...
def describe_page(
    nodes: BucketNodes, node: int, page: bytes | None, num_rows: int
) -> tuple[int, bool, int, int, int]: ...
