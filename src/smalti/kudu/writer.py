"""Writing a CFile: a block whenever the arrays taken so far fill one; index, dictionary and footer at the end.

Owns the order of the file and how much waits for a block to fill. A file appears under its path only when it is
complete.
"""

from __future__ import annotations

import os
import weakref
from typing import BinaryIO

import pyarrow as pa

from smalti import threads
from smalti._compat.arrow import size_of
from smalti.errors import MosaicError, SchemaError
from smalti.io import open_sink
from smalti.io.locations import AnyFileSystem, AnyStorageOptions, chosen
from smalti.kudu.blocks import encode_array_body, encode_plain_body, wrap_block
from smalti.kudu.cells import Cells, cells_of_lists, cells_of_values, element_type_of, is_list, lengths_of, sound_cells
from smalti.kudu.encodings import Dictionary, choose_encoding
from smalti.kudu.ends import pack_footer, pack_header
from smalti.kudu.index import IndexBuilder
from smalti.kudu.messages import BlockPointer, Footer
from smalti.kudu.spec import DEFAULT_BLOCK_SIZE, MIN_BLOCK_SIZE, Encoding, Feature, compression_named
from smalti.kudu.splitting import cut_block
from smalti.kudu.types import data_type_of, normal_type, physical_of, type_note

#: Input is taken in pieces of about this many bytes, so that conversions do not double a large array.
_PIECE = 8 << 20
#: Key under which the footer remembers precision, scale and time zone, which Kudu keeps in the table's schema.
TYPE_KEY = "smalti.element_type"


class CFileWriter:
    """Write one column as a Kudu CFile.

    Threads, forks and pickling are as for `smalti.MosaicWriter`: one call at a time, in the process that made it.

    Parameters
    ----------
    path : str, os.PathLike or binary file object
        Where the file goes. It appears under a path only when it is complete.
    element_type : pyarrow.DataType
        The type of the elements (a list type stands for its element type).
    nullable : bool
        Whether cells may be null. Elements of arrays always may.
    encoding : str
        "auto" (Kudu's default of the type), "plain", "bit_shuffle", "rle" or "dict".
    compression : str, optional
        "lz4", "snappy" or "zlib".
    checksum : bool
        Whether blocks, header and footer carry a CRC-32C.
    block_size : int
        Bytes at which a block is closed, counted before compression; at least 512.
    array : bool
        `False` writes a plain column: one value a cell.
    filesystem : pyarrow.fs.FileSystem, fsspec file system, obstore store or URI, optional
    storage_options : mapping, optional
        Credentials and endpoint for URIs; see `smalti.open`.
        Where a path is looked up; by default the local machine, or what the URI names.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> with CFileWriter(file, pa.int32(), encoding="plain") as writer:
    ...     writer.write(pa.array([[1, 2], [], None], pa.list_(pa.int32())))
    >>> from smalti.kudu import CFileReader
    >>> CFileReader(file).read().to_pylist()
    [[1, 2], [], None]
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | pa.NativeFile | BinaryIO,
        element_type: pa.DataType | str,
        *,
        nullable: bool = True,
        encoding: str = "auto",
        compression: str | None = None,
        checksum: bool = True,
        block_size: int = DEFAULT_BLOCK_SIZE,
        array: bool = True,
        filesystem: AnyFileSystem = None,
        storage_options: AnyStorageOptions = None,
    ) -> None:
        self._closed = True  # until there is something to close
        self._failure: BaseException | None = None
        self._lock = threads.OwnLock("a CFileWriter")
        element_type = element_type_of(element_type)
        self._data_type = data_type_of(element_type)
        self._element_type = normal_type(element_type)
        self._encoding = choose_encoding(encoding, physical_of(element_type))
        self._compression = compression_named(compression)
        if block_size < MIN_BLOCK_SIZE:
            raise SchemaError("block size is too small", found=block_size, expected=f"{MIN_BLOCK_SIZE} at least")
        self._block_size = block_size
        self._nullable = nullable
        self._array = array
        self._checksum = checksum
        self._words = Dictionary(block_size) if self._encoding is Encoding.DICT else None
        # The index does not hold the writer, so that an abandoned writer is gone, with its temporary file, at once.
        write_block = weakref.WeakMethod(self._write_block)
        self._index = IndexBuilder(lambda body: write_block()(body))  # type: ignore[misc]  # it is there while it writes
        self._waiting: list[pa.Array] = []
        #: How many of these are in memory that no one else can change.
        self._num_owned = 0
        self._waiting_bytes = 0
        self._threshold = block_size
        self._written = 0  # cells in blocks
        self.num_values = 0
        self._offset = 0
        self._sink = open_sink(path, chosen(filesystem, storage_options))
        self._closed = False
        try:
            self._append(pack_header(checksum))
        except BaseException:
            self.abort()
            raise

    def write(self, array: pa.Array | pa.ChunkedArray) -> None:
        """Append the cells of an array; blocks are written as they fill.

        An array that does not fit the column is refused as a whole, and writing may go on with another. Cells that wait
        for a block to fill are copied, so that the caller may use the buffers again.
        """
        with self._lock:
            self._write(array)

    def _write(self, array: pa.Array | pa.ChunkedArray) -> None:
        self._check_sound()
        if self._closed:
            raise ValueError("write to a closed CFileWriter")
        chunks = [self._fitted(chunk) for chunk in (array.chunks if isinstance(array, pa.ChunkedArray) else [array])]
        if self.num_values + len(array) >= 1 << 32:
            raise SchemaError("too many cells for a CFile", found=self.num_values + len(array), expected="2**32 - 1")
        try:
            for chunk in chunks:
                self._take(chunk)
            self._own()
        except BaseException as error:  # when the disk is full, for example, some blocks may be written, others not
            self._fail(error)
            raise
        self.num_values += len(array)

    def close(self) -> None:
        """Write what is left, the index, the dictionary and the footer."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        self._check_sound()
        if self._closed:
            return
        try:
            rest = self._write_full_blocks()
            if rest is not None and len(rest):
                self._write_cells(rest)
            self._append(pack_footer(self._footer()))
            self._sink.commit()
            self._closed = True
        except BaseException as error:
            self._fail(error)
            raise

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self.abort()

    def _check_sound(self) -> None:
        """A writer that failed stays failed: whoever closes it must not believe that there is a file."""
        if self._failure is not None:
            raise MosaicError("writer failed earlier and wrote nothing", found=str(self._failure))

    def abort(self) -> None:
        """Give up; no file appears under the path. In a forked child this does nothing: the file is the parent's."""
        if self._closed or not self._lock.is_ours:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._waiting.clear()
                self._sink.abort()

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a CFileWriter cannot be pickled: let each process write a file of its own")

    def __del__(self) -> None:
        if not self._closed:
            self.abort()

    def __enter__(self) -> CFileWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _fitted(self, chunk: pa.Array) -> pa.Array:
        """The array with the column's own element type, after a check that all of it fits."""
        chunk = sound_cells(chunk)
        found = chunk.type
        if is_list(found) is not self._array or normal_type(element_type_of(found)) != self._element_type:
            kind = f"lists of {self._element_type}" if self._array else str(self._element_type)
            raise SchemaError("array does not fit the column", found=str(found), expected=kind)
        if chunk.null_count and not self._nullable:
            raise SchemaError("null cells in a column that is not nullable", found=chunk.null_count, expected=0)
        if self._array:
            lengths_of(chunk)  # refuses lists that are too long
        wanted = pa.list_(self._element_type) if self._array else self._element_type
        if found == wanted:
            return chunk
        try:
            return chunk.cast(wanted)
        except pa.ArrowInvalid as error:
            raise SchemaError("array does not fit the column", found=str(error), expected=str(wanted)) from None

    def _take(self, chunk: pa.Array) -> None:
        step = max(1, int(_PIECE * len(chunk) // max(1, size_of(chunk))))
        for start in range(0, len(chunk), step):
            piece = chunk.slice(start, step)
            self._waiting.append(piece)
            self._waiting_bytes += size_of(piece)
            if self._waiting_bytes >= self._threshold:
                self._write_full_blocks()

    def _own(self) -> None:
        """Copy the cells of this call that wait for a block to fill, because the caller may change their buffers."""
        self._waiting[self._num_owned :] = [pa.concat_arrays([piece]) for piece in self._waiting[self._num_owned :]]
        self._num_owned = len(self._waiting)

    def _write_full_blocks(self) -> Cells | None:
        """Write the blocks that the waiting arrays fill. The rest keeps waiting, and is also returned as cells."""
        if not self._waiting:
            return None
        waiting = pa.concat_arrays(self._waiting)
        cells = cells_of_lists(waiting) if self._array else cells_of_values(waiting)
        total = len(cells)
        while len(cells) and (cut := cut_block(cells, self._encoding, self._block_size, self._words)):
            block, cells = cut
            self._write_cells(block)
        self._waiting = [waiting.slice(total - len(cells))] if len(cells) else []
        self._num_owned = len(self._waiting)
        self._waiting_bytes = sum(size_of(piece) for piece in self._waiting)
        # With runs, any amount may fit into one block. Looking again only after twice as much keeps the work linear.
        self._threshold = max(self._block_size, 2 * self._waiting_bytes)
        return cells

    def _write_cells(self, cells: Cells) -> None:
        if self._array:
            body = encode_array_body(cells, self._encoding, self._written, self._words)
        else:
            body = encode_plain_body(cells, self._encoding, self._written, self._words, nullable=self._nullable)
        self._index.add(self._written, self._write_block(body))
        self._written += len(cells)

    def _write_block(self, body: bytes) -> BlockPointer:
        return BlockPointer(self._offset, self._append(wrap_block(body, self._checksum, self._compression)))

    def _append(self, data: bytes) -> int:
        self._sink.write(data)
        self._offset += len(data)
        return len(data)

    def _footer(self) -> Footer:
        """Write the index and the dictionary, and return the footer that points to them."""
        index = self._index.finish()
        note = type_note(self._element_type)
        return Footer(
            data_type=self._data_type,
            encoding=self._encoding,
            num_values=self._written,
            index=index,
            compression=self._compression,
            metadata={} if note is None else {TYPE_KEY: note},
            nullable=self._nullable,
            dictionary=None if self._words is None else self._write_block(self._words.encode()),
            features=Feature.CHECKSUM * self._checksum | Feature.ARRAY_DATA_BLOCK * self._array,
            is_array=self._array,
        )
