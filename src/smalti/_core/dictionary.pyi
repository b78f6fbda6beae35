from typing import final

def hash_of(text: bytes) -> int: ...

@final
class DictionaryValues:
    nbytes: int

    def __new__(
        cls,
        index_width: int,
        max_index: int,
        num_values: int = -1,
        width: int = 0,
        data: memoryview | None = None,
        offsets: memoryview | None = None,
        is_float: bool = False,
    ) -> DictionaryValues: ...
