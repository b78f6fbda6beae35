"""Run each program that pyarrow ends the process at in a child of its own, and print the signals as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc


class Extension(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.dictionary(pa.int32(), pa.string()), "tests.compat.dictionary")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Extension:
        return cls()


def decimal_scalar() -> None:
    pa.scalar("1e-99999999").cast(pa.decimal128(5, 2))


def extends_dictionaries() -> None:
    pa.register_extension_type(Extension())
    array: Any = pa.ExtensionArray.from_storage(Extension(), pa.array(["a", "b"]).dictionary_encode())
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": array}), stream)
    list(pq.ParquetFile(pa.BufferReader(stream.getvalue())).iter_batches())


def fixed_size_lists() -> None:
    pa.FixedSizeListArray.from_arrays(pa.array([], pa.int8()), type=pa.list_(pa.int8(), 0))


def has_negative_scale() -> None:
    orc.write_table(pa.table({"a": pa.array([Decimal(100)], pa.decimal128(5, -2))}), pa.BufferOutputStream())


def signal_of(program: Callable[[], None]) -> int:
    """The signal that ends a child which runs a program, 0 if none does."""
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            program()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] & 0x7F


if __name__ == "__main__":
    programs = (decimal_scalar, extends_dictionaries, fixed_size_lists, has_negative_scale)
    print(json.dumps({program.__name__: signal_of(program) for program in programs}))
