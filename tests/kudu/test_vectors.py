"""Every block and file of Kudu's own writer: read to the same values, written to the same bytes."""

from __future__ import annotations

import hashlib
import io

import pyarrow as pa
import pytest

from smalti.kudu import CFileReader, CFileWriter, decode_array_block, encode_array_block
from tests.kudu.runs import decode_counts, encode_bitmap, encode_counts
from tests.kudu.vectors import BLOCKS, FILES, VECTORS, Vector

pytestmark = pytest.mark.filterwarnings("error")


def test_the_vectors_are_all_there() -> None:
    assert (len(VECTORS), len(BLOCKS), len(FILES)) == (59, 58, 53)
    assert all(v.raw["valid"] for v in VECTORS)


@pytest.mark.parametrize("vector", BLOCKS, ids=lambda v: v.name)
def test_block_is_written_byte_for_byte(vector: Vector) -> None:
    block = encode_array_block(vector.array, **vector.options)
    assert block.hex() == vector.raw["block_hex"]
    assert hashlib.sha256(block).hexdigest() == vector.raw["block_sha256"]


@pytest.mark.parametrize("vector", BLOCKS, ids=lambda v: v.name)
def test_block_is_read(vector: Vector) -> None:
    array = decode_array_block(vector.bytes("block_hex"), vector.element_type, **vector.decode_options)
    array.validate(full=True)
    assert array.type == pa.list_(vector.element_type)
    assert array.to_pylist() == vector.array.to_pylist()


@pytest.mark.parametrize("vector", BLOCKS, ids=lambda v: v.name)
def test_parts_of_the_block_one_by_one(vector: Vector) -> None:
    cells, elements = vector.array, vector.array.flatten()
    assert len(cells) == vector.raw["array_count"]
    assert len(elements) == vector.raw["flattened_value_count"]
    lengths = [len(x or ()) for x in cells.to_pylist()]
    assert encode_bitmap(cells.is_valid().to_pylist()).hex() == vector.raw["array_non_null_bitmap_hex"]
    assert encode_counts(lengths).hex() == vector.raw["element_numbers_hex"]
    assert encode_bitmap(elements.is_valid().to_pylist()).hex() == vector.raw["flattened_non_null_bitmap_hex"]
    assert decode_counts(vector.bytes("element_numbers_hex"), len(cells)) == lengths


@pytest.mark.parametrize("vector", FILES, ids=lambda v: v.name)
def test_file_is_read(vector: Vector) -> None:
    with CFileReader(vector.bytes("cfile_hex")) as reader:
        footer = vector.raw["cfile_footer"]
        assert reader.element_type == vector.element_type
        assert reader.num_values == footer["num_values"]
        assert reader.metadata.features == footer["incompatible_features"]
        assert reader.metadata.encoding == footer["encoding"]
        assert reader.metadata.compression == footer["compression"]
        assert reader.metadata.data_type == footer["data_type"]
        assert reader.metadata.is_array
        array = reader.read()
    array.validate(full=True)
    expected = [x for v in FILES_OF[vector.name.split("#")[0]] for x in v.array.to_pylist()]
    assert array.to_pylist() == expected


@pytest.mark.parametrize("vector", FILES, ids=lambda v: v.name)
@pytest.mark.parametrize("step", [None, 7])
def test_file_is_written_byte_for_byte(vector: Vector, step: int | None) -> None:
    """However the column is handed over: the blocks end where Kudu ends them."""
    cells = pa.concat_arrays([v.array for v in FILES_OF[vector.name.split("#")[0]]])
    file = io.BytesIO()
    with CFileWriter(file, vector.element_type, **vector.writer_options) as writer:
        for start in range(0, len(cells), step or max(1, len(cells))):
            writer.write(cells.slice(start, step))
    assert file.getvalue().hex() == vector.raw["cfile_hex"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if v.raw.get("uncompressed_block_hex")], ids=lambda v: v.name)
def test_compressed_block_holds_the_plain_one(vector: Vector) -> None:
    options = {**vector.options, "compression": None, "checksum": False}
    assert encode_array_block(vector.array, **options).hex() == vector.raw["uncompressed_block_hex"]


FILES_OF: dict[str, list[Vector]] = {}
for _vector in VECTORS:
    FILES_OF.setdefault(_vector.name.split("#")[0], []).append(_vector)
