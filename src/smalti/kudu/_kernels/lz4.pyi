from typing_extensions import Buffer

def decompress(data: Buffer, size: int) -> bytes: ...

__test__: dict[str, str]
__pyx_capi__: dict[str, object]
