from typing import final

from smalti._core.input import Feeds

def choose_encoding(
    non_null: int, constant: bool, tracked: bool, entries: int, entry_bytes: int, plain_bytes: int
) -> int: ...
def choose_paged(counted_bytes: int, counted_pages: int, threshold: int) -> bool: ...

@final
class EncodedBucket:
    child_rows: list[int]
    num_physical: int
    statistics: list[tuple[int, int, bytes | None, bytes | None]]

    def __new__(
        cls,
        feeds: Feeds,
        max_entries: int,
        max_bytes: int,
        given_entries: int,
        given_bytes: int,
        statistics: list[int],
    ) -> EncodedBucket: ...
    def counted(self) -> tuple[int, int]: ...
    def monolithic(self) -> memoryview: ...
    def pages(self) -> list[bytes | None]: ...
