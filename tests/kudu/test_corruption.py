"""Every vector cut short everywhere and with bytes flipped: refused, or read as a valid array; nothing else."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from smalti.errors import CorruptFileError, UnsupportedFeatureError
from smalti.kudu import CFileReader, CFileWriter, decode_array_block, encode_array_block
from tests.kudu.vectors import BLOCKS, FILES, Vector

REFUSED = (CorruptFileError, UnsupportedFeatureError)
DENSE = 90  # positions at each end tried one by one; in between in steps


def positions(size: int) -> list[int]:
    if size <= 2 * DENSE:
        return list(range(size))
    return [*range(DENSE), *range(DENSE, size - DENSE, max(1, size // DENSE)), *range(size - DENSE, size)]


def flips(data: bytes) -> list[bytes]:
    """Each position with one bit, all bits, and its neighbours' values changed."""
    out = []
    for at in positions(len(data)):
        for value in {data[at] ^ 1 << (at % 8), data[at] ^ 0xFF, (data[at] + 1) % 256, (data[at] - 1) % 256}:
            out.append(data[:at] + bytes([value]) + data[at + 1 :])
    return out


each_block = pytest.mark.parametrize("vector", BLOCKS, ids=lambda v: v.name)
each_file = pytest.mark.parametrize("vector", FILES, ids=lambda v: v.name)


@each_block
def test_truncated_block(vector: Vector) -> None:
    data = vector.bytes("block_hex")
    for end in positions(len(data)):
        with pytest.raises(REFUSED):
            decode_array_block(data[:end], vector.element_type, **vector.decode_options)


@each_block
def test_truncated_block_without_checksum(vector: Vector) -> None:
    """No part but the last value's bytes says where it ends, so the sizes alone must notice."""
    options = {**vector.options, "checksum": False}
    data = encode_array_block(vector.array, **options)
    for end in positions(len(data)):
        with pytest.raises(REFUSED):
            decode_array_block(data[:end], vector.element_type, **{**vector.decode_options, "checksum": False})


@each_block
def test_flipped_block_is_caught_by_the_checksum(vector: Vector) -> None:
    options = {**vector.options, "checksum": True}
    data = encode_array_block(vector.array, **options)
    for broken in flips(data):
        with pytest.raises(CorruptFileError, match="checksum"):
            decode_array_block(broken, vector.element_type, **{**vector.decode_options, "checksum": True})


@each_block
def test_flipped_block_without_checksum(vector: Vector) -> None:
    data = encode_array_block(vector.array, **{**vector.options, "checksum": False})
    options = {**vector.decode_options, "checksum": False}
    refused = 0
    for broken in flips(data):
        try:
            array = decode_array_block(broken, vector.element_type, **options)
        except REFUSED:
            refused += 1
        else:
            array.validate(full=True)
            assert array.type == pa.list_(vector.element_type)
    assert refused


@each_file
def test_truncated_file(vector: Vector) -> None:
    data = vector.bytes("cfile_hex")
    for end in positions(len(data)):
        with pytest.raises(REFUSED):
            CFileReader(data[:end]).read()


@each_file
def test_flipped_file(vector: Vector) -> None:
    data = vector.bytes("cfile_hex")
    for broken in flips(data):
        try:
            array = CFileReader(broken).read()
        except REFUSED:
            continue
        # Only a file without checksums may pass, and then as a valid array.
        assert not vector.raw["has_checksum"]
        array.validate(full=True)


@each_file
def test_flipped_file_without_checksums(vector: Vector) -> None:
    file = io.BytesIO()
    with CFileWriter(file, vector.element_type, **{**vector.writer_options, "checksum": False}) as writer:
        writer.write(CFileReader(vector.bytes("cfile_hex")).read())
    for broken in flips(file.getvalue()):
        try:
            array = CFileReader(broken).read()
        except REFUSED:
            continue
        array.validate(full=True)
