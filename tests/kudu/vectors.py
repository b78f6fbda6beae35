"""Kudu's own bytes, with the arrays they stand for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

TYPES = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
}
GENERATED = {
    "arrays[i]=[3i,3i+1,3i+2], i in 0..999": [[3 * i, 3 * i + 1, 3 * i + 2] for i in range(1000)],
    "arrays[i]=[i%4,7,7], i in 0..999": [[i % 4, 7, 7] for i in range(1000)],
    "8192 null arrays": [None] * 8192,
}


@dataclass(frozen=True)
class Vector:
    """One entry of vectors.json."""

    raw: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.raw["name"])

    @property
    def element_type(self) -> pa.DataType:
        return TYPES[self.raw["element_type"]]

    @property
    def array(self) -> pa.Array:
        arrays = self.raw["arrays"] if self.raw["arrays"] is not None else GENERATED[self.raw["generator"]]
        if self.element_type == pa.binary():
            arrays = [a and [e if e is None else bytes.fromhex(e) for e in a] for a in arrays]
        return pa.array(arrays, pa.list_(self.element_type))

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of encode_array_block."""
        return {
            "encoding": self.raw["encoding"],
            "checksum": self.raw["has_checksum"],
            "compression": self.raw["compression"],
            "first_ordinal": self.raw["first_ordinal"],
        }

    @property
    def decode_options(self) -> dict[str, Any]:
        """The same for decode_array_block: a dictionary block lies elsewhere in the file, in order of appearance."""
        if self.raw["encoding"] != "DICT_ENCODING":
            return self.options
        return {**self.options, "dictionary": self.array.flatten().drop_null().unique()}

    @property
    def writer_options(self) -> dict[str, Any]:
        """Arguments of CFileWriter."""
        options = {key: value for key, value in self.options.items() if key != "first_ordinal"}
        return {**options, "nullable": self.raw["column_nullable"], "block_size": self.raw["cfile_block_size"]}

    def bytes(self, key: str) -> bytes:
        return bytes.fromhex(self.raw[key])


VECTORS = [Vector(raw) for raw in json.loads((Path(__file__).parent / "vectors.json").read_text())]
BLOCKS = [v for v in VECTORS if v.raw["block_hex"]]
FILES = [v for v in VECTORS if v.raw.get("cfile_hex")]
BY_NAME = {v.name: v for v in VECTORS}
