"""Reading a CFile: the two ends first, then the index and, block by block, Arrow arrays.

Owns the order of reading and the checks between the parts: pointers stay inside the file, and every block holds the
cells that the index says. Only one block is in memory at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from types import MappingProxyType
from typing import BinaryIO

import pyarrow as pa

from smalti.errors import CorruptFileError, SchemaError, UnsupportedFeatureError
from smalti.io import lasting_path, open_source
from smalti.io.locations import AnyFileSystem, AnyStorageOptions, chosen
from smalti.kudu.blocks import decode_array_body, decode_plain_body, unwrap_block
from smalti.kudu.cells import element_type_of
from smalti.kudu.encodings import Dense
from smalti.kudu.encodings.dictionary import decode_dictionary
from smalti.kudu.ends import read_ends
from smalti.kudu.index import Entry, walk_index
from smalti.kudu.messages import BlockPointer
from smalti.kudu.parsing import inside
from smalti.kudu.spec import Compression, DataType, Encoding, known
from smalti.kudu.types import data_type_of, default_arrow, normal_type, noted_type
from smalti.kudu.writer import TYPE_KEY


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

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "pairs": dict(self.pairs)}  # A read-only view of a mapping cannot be pickled.


class CFileReader:
    """Read one column from a Kudu CFile. Several threads may share a reader.

    Parameters
    ----------
    path : str, os.PathLike, bytes or seekable binary file object
        The file.
    element_type : pyarrow.DataType, optional
        The type of the elements where the file does not say it all: it knows no precision, scale or time zone.
    filesystem : pyarrow.fs.FileSystem, fsspec file system, obstore store or URI, optional
    storage_options : mapping, optional
        Credentials and endpoint for URIs; see `smalti.open`.
        Where a path is looked up; by default the local machine, or what the URI names.

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

    def __init__(
        self,
        path: str | os.PathLike[str] | bytes | bytearray | memoryview | pa.Buffer | pa.NativeFile | BinaryIO,
        *,
        element_type: pa.DataType | str | None = None,
        filesystem: AnyFileSystem = None,
        storage_options: AnyStorageOptions = None,
    ) -> None:
        filesystem = chosen(filesystem, storage_options)
        self._source = open_source(path, filesystem)
        self._reopen: Callable[[], CFileReader] | None = None
        if isinstance(path, (str, os.PathLike, bytes)):
            lasting = lasting_path(path, self._source)
            self._reopen = partial(CFileReader, lasting, element_type=element_type, filesystem=filesystem)
        try:
            with inside(path=self._source.name):
                self._ends = read_ends(self._source)
                self._footer = footer = self._ends.footer
                self.metadata = CFileMetadata(
                    data_type=known(DataType, footer.data_type, "data type"),
                    encoding=known(Encoding, footer.encoding, "encoding"),
                    compression=known(Compression, footer.compression, "compression"),
                    num_values=footer.num_values,
                    nullable=footer.nullable,
                    is_array=footer.is_array,
                    checksum=footer.checksum,
                    features=footer.features,
                    pairs=MappingProxyType({**self._ends.header_metadata, **footer.metadata}),
                )
                self.element_type = self._choose_type(element_type)
        except BaseException:
            self._source.close()
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
        with inside(path=self._source.name):
            if root is None:
                raise UnsupportedFeatureError("file has no positional index", section="footer")
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
            with inside(f"data block {number} at byte {entry.pointer.offset}", path=self._source.name):
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

    def __reduce__(self) -> tuple[object, ...]:
        """A file travels as what was opened, and is opened again where it arrives."""
        if self._reopen is None:
            raise TypeError("only files that were opened by path, or from bytes, can be pickled")
        return self._reopen, ()

    def __enter__(self) -> CFileReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()

    def _decode(self, entry: Entry, cells: int) -> pa.Array:
        body = self._read_block(entry.pointer)
        encoding, nullable, words = self.metadata.encoding, self.metadata.nullable, self._words
        array: pa.Array
        if self.metadata.is_array:
            array = decode_array_body(body, self.element_type, encoding, entry.ordinal, words)
        else:
            array = decode_plain_body(
                body, self.element_type, encoding, entry.ordinal, words, cells=cells, nullable=nullable
            )
        if len(array) != cells:
            raise CorruptFileError(
                "block holds another number of cells than the index says", found=len(array), expected=cells
            )
        if array.null_count and not nullable:
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
        self._source.check_open()
        begin, end = self._ends.begin, self._ends.end
        if not begin <= pointer.offset <= pointer.offset + pointer.size <= end:
            raise CorruptFileError(
                "block lies outside the file's blocks",
                found=(pointer.offset, pointer.size),
                expected=f"{begin} to {end}",
            )
        data = self._source.read_at(pointer.offset, pointer.size)
        return unwrap_block(memoryview(data), self.metadata.checksum, self.metadata.compression)

    def _choose_type(self, wanted: pa.DataType | str | None) -> pa.DataType:
        stored = self.metadata.data_type
        default = default_arrow(stored)
        if wanted is not None:
            wanted = normal_type(element_type_of(wanted))
            if data_type_of(wanted) is not data_type_of(default):
                raise SchemaError("file holds another element type", found=stored.name, expected=str(wanted))
            return wanted
        note = self.metadata.pairs.get(TYPE_KEY)
        return default if note is None else noted_type(note, stored)
