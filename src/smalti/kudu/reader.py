"""Reading a CFile: footer first, then header, index and, block by block, Arrow arrays.

Owns the order of reading and the checks between the parts: pointers stay inside the file, features are known, every
block holds the cells the index says. Blocks are decoded one at a time; nothing else is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType, TracebackType
from typing import Any

import pyarrow as pa

from smalti.errors import CorruptFileError, MosaicError, SchemaError, UnsupportedFeatureError
from smalti.io import open_source
from smalti.kudu.array_block import decode_array_body, open_block
from smalti.kudu.cells import element_type_of
from smalti.kudu.checksum import check
from smalti.kudu.encodings import Dense
from smalti.kudu.encodings.dictionary import decode_dictionary
from smalti.kudu.index import Entry, walk_index
from smalti.kudu.messages import BlockPointer, Footer, parse_header
from smalti.kudu.place import inside
from smalti.kudu.spec import (
    CHECKSUM_SIZE,
    KNOWN_FEATURES,
    MAGIC,
    MAGIC_V1,
    Compression,
    DataType,
    Encoding,
    Feature,
    known,
)
from smalti.kudu.types import data_type_of, default_arrow, normal_type, noted_type
from smalti.kudu.value_block import decode_value_body
from smalti.kudu.writer import TYPE_KEY

_U32 = struct.Struct("<I")
_ENDS = len(MAGIC) + _U32.size  # magic and length, at both ends of a file


@dataclass(frozen=True)
class CFileMetadata:
    """What a CFile says about its column; `pairs` are the key and value pairs of header and footer."""

    data_type: DataType
    encoding: Encoding
    compression: Compression
    num_values: int
    nullable: bool
    is_array: bool
    checksum: bool
    features: int
    pairs: Mapping[str, bytes]


class CFileReader:
    """Read one column from a Kudu CFile.

    Parameters
    ----------
    path : str, os.PathLike, bytes or seekable binary file object
        The file.
    element_type : pyarrow.DataType, optional
        The type of the elements where the file does not say it all: it knows no precision, scale or time zone.

    Attributes
    ----------
    metadata : CFileMetadata
    element_type : pyarrow.DataType
    num_values : int
        Number of cells.

    Raises
    ------
    CorruptFileError
        When the bytes break the format.
    UnsupportedFeatureError
        When the file needs a feature, type or encoding that is not read.

    Examples
    --------
    >>> import io
    >>> from smalti.kudu import CFileWriter
    >>> file = io.BytesIO()
    >>> with CFileWriter(file, pa.string()) as writer:
    ...     writer.write(pa.array([["a", None], None]))
    >>> reader = CFileReader(file)
    >>> reader.num_values, reader.metadata.encoding.name
    (2, 'DICT')
    >>> [array.to_pylist() for array in reader.iter_arrays()]
    [[['a', None], None]]
    """

    def __init__(self, path: Any, *, element_type: pa.DataType | str | None = None) -> None:
        self._source = open_source(path)
        try:
            footer = self._read_footer()
            self._footer = footer
            self._blocks_begin, pairs = self._read_header()
            self.metadata = CFileMetadata(
                data_type=known(DataType, footer.data_type, "data type"),
                encoding=known(Encoding, footer.encoding, "encoding"),
                compression=known(Compression, footer.compression, "compression"),
                num_values=footer.num_values,
                nullable=footer.nullable,
                is_array=footer.is_array,
                checksum=self._checksum,
                features=footer.features,
                pairs=MappingProxyType({**pairs, **footer.metadata}),
            )
            self.element_type = self._choose_type(element_type)
        except BaseException as error:
            self._source.close()
            if isinstance(error, MosaicError):
                error.locate(path=self._source.name)
            raise
        self.num_values = footer.num_values

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the column: a list of the element type, or the element type of a plain column."""
        return pa.list_(self.element_type) if self.metadata.is_array else self.element_type

    @cached_property
    def blocks(self) -> tuple[Entry, ...]:
        """First ordinal and place of every data block, from the positional index."""
        root, end = self._footer.index, self.num_values
        if root is None:
            raise UnsupportedFeatureError("file has no positional index", path=self._source.name, section="footer")
        with self._path():
            entries = walk_index(root, self._read_block)
            first = entries[0].ordinal if entries else 0
            last = entries[-1].ordinal if entries else -1
            if first != 0 or last >= end or bool(entries) != bool(end):
                raise CorruptFileError(
                    "index does not cover the cells", found=(first, last), expected=f"0 to {end - 1}", section="index"
                )
        return tuple(entries)

    def iter_arrays(self) -> Iterator[pa.Array]:
        """The column block by block; a file of any size is read with one block in memory."""
        bounds = pairwise([*(entry.ordinal for entry in self.blocks), self.num_values])
        for number, (entry, (begin, end)) in enumerate(zip(self.blocks, bounds, strict=True)):
            with self._path(), inside(f"data block {number} at byte {entry.pointer.offset}"):
                array = self._decode(entry, end - begin)
            yield array

    def read(self) -> pa.Array:
        """The whole column as one array."""
        arrays = list(self.iter_arrays())
        if not arrays:
            return pa.array([], self.arrow_type)
        try:
            return pa.concat_arrays(arrays)
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            raise SchemaError("column is too large for one array: use iter_arrays()", found=str(error)) from None

    def close(self) -> None:
        """Close the file, unless it is the caller's."""
        self._source.close()

    def __enter__(self) -> CFileReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _decode(self, entry: Entry, cells: int) -> pa.Array:
        body = self._read_block(entry.pointer)
        encoding, words = self.metadata.encoding, self._words
        if self.metadata.is_array:
            array = decode_array_body(body, self.element_type, encoding, entry.ordinal, words)
        else:
            array = decode_value_body(
                body, self.element_type, encoding, entry.ordinal, words, cells=cells, nullable=self.metadata.nullable
            )
        if len(array) != cells:
            raise CorruptFileError(
                "block holds another number of cells than the index says", found=len(array), expected=cells
            )
        if array.null_count and not self.metadata.nullable:
            raise CorruptFileError("null cells in a column that is not nullable", found=array.null_count, expected=0)
        return array

    @cached_property
    def _words(self) -> Dense | None:
        pointer = self._footer.dictionary
        if self.metadata.encoding is not Encoding.DICT or pointer is None:
            return None
        with inside(f"dictionary block at byte {pointer.offset}"):
            return decode_dictionary(self._read_block(pointer))

    def _read_block(self, pointer: BlockPointer) -> memoryview:
        """The inside of a block, which must lie between header and footer."""
        if not self._blocks_begin <= pointer.offset <= pointer.offset + pointer.size <= self._blocks_end:
            raise CorruptFileError(
                "block lies outside the file's blocks",
                found=(pointer.offset, pointer.size),
                expected=f"{self._blocks_begin} to {self._blocks_end}",
            )
        data = self._source.read_at(pointer.offset, pointer.size)
        return open_block(memoryview(data), self._checksum, self.metadata.compression)

    def _read_footer(self) -> Footer:
        size = self._source.size
        if size < 2 * _ENDS:
            raise CorruptFileError("file is too short for a CFile", found=size, expected=f"{2 * _ENDS} at least")
        end = self._source.read_at(size - _ENDS, _ENDS)
        _check_magic(end[:-4], "footer", size - _ENDS)
        (length,) = _U32.unpack(end[-4:])
        start = size - _ENDS - length
        if start < _ENDS:
            raise CorruptFileError(
                "footer is longer than the file",
                found=length,
                expected=size - 2 * _ENDS,
                section="footer",
                offset=size - 4,
            )
        data = self._source.read_at(start, length)
        with inside("footer", start):
            footer = Footer.parse(memoryview(data))
        unknown = footer.features & ~KNOWN_FEATURES
        if unknown:
            raise UnsupportedFeatureError(
                f"file needs incompatible features {unknown}, which are not known",
                found=footer.features,
                expected=f"bits of {KNOWN_FEATURES} only",
                section="footer",
            )
        self._checksum = bool(footer.features & Feature.CHECKSUM)
        self._blocks_end = start
        if self._checksum:
            self._blocks_end = start - CHECKSUM_SIZE
            if self._blocks_end < _ENDS:
                raise CorruptFileError("no room for the checksum", section="footer", offset=start)
            with inside("footer"):
                check(data + end, self._source.read_at(self._blocks_end, CHECKSUM_SIZE), offset=self._blocks_end)
        if footer.num_values >= 1 << 32:
            raise CorruptFileError(
                "number of cells", found=footer.num_values, expected="2**32 - 1 at most", section="footer"
            )
        return footer

    def _read_header(self) -> tuple[int, dict[str, bytes]]:
        """Where the blocks begin, and the header's metadata."""
        start = self._source.read_at(0, _ENDS)
        _check_magic(start[:-4], "header", 0)
        (length,) = _U32.unpack(start[-4:])
        end = _ENDS + length + CHECKSUM_SIZE * self._checksum
        if end > self._blocks_end:
            raise CorruptFileError(
                "header is longer than the file",
                found=length,
                expected=self._blocks_end - _ENDS,
                section="header",
                offset=8,
            )
        rest = self._source.read_at(_ENDS, end - _ENDS)
        with inside("header"):
            if self._checksum:
                check(start + rest[:-CHECKSUM_SIZE], rest[-CHECKSUM_SIZE:], offset=end - CHECKSUM_SIZE)
        with inside("header", _ENDS):
            return end, parse_header(memoryview(rest)[:length])

    def _choose_type(self, wanted: pa.DataType | None) -> pa.DataType:
        stored = self.metadata.data_type
        default = default_arrow(stored)
        if wanted is not None:
            wanted = normal_type(element_type_of(wanted))
            if data_type_of(wanted) is not data_type_of(default):
                raise SchemaError("file holds another element type", found=stored.name, expected=str(wanted))
            return wanted
        note = self.metadata.pairs.get(TYPE_KEY)
        return default if note is None else noted_type(note, stored)

    def _path(self) -> _Locate:
        return _Locate(self._source.name)


class _Locate:
    """Errors raised inside say which file."""

    def __init__(self, path: str | None) -> None:
        self._name = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MosaicError):
            error.locate(path=self._name)


def _check_magic(found: bytes, section: str, offset: int) -> None:
    if found == MAGIC_V1:
        raise UnsupportedFeatureError("CFile of version 1 is not read", found=found, expected=MAGIC, section=section)
    if found != MAGIC:
        raise CorruptFileError("not a CFile", found=found, expected=MAGIC, section=section, offset=offset)
