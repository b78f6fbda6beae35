"""`smalti.loader`: batches of rows in a new order every epoch, in bounded memory, and resumed where they stopped."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any, Literal

import pyarrow as pa

from smalti._core.allowance import Allowance
from smalti.errors import MosaicError
from smalti.extras import optional_module
from smalti.file.blocks import RowBlocks
from smalti.file.scans import exact_batches
from smalti.file.streams import Scannable
from smalti.io.locations import AnyFileSystem, AnyStorageOptions, chosen
from smalti.loading.arrays import to_numpy
from smalti.loading.order import Order, Window, check_shard, num_batches, share_of, share_rows
from smalti.loading.window import BlockRead, Rows, gather, join_rows
from smalti.logical.patterns import check_columns
from smalti.memory import allocation_errors, asked_limit
from smalti.sizes import LOADER_BYTES
from smalti.table.opening import open_any
from smalti.tasks import Task, Workers

#: Windows that are in memory at a time: one is delivered, the next is read and then mixed, which takes a copy.
_WINDOWS = 3
_VERSION = 1


class Loader:
    """Batches of rows for training. Made by `smalti.loader`, which says what its parameters mean.

    Iterating over it gives the batches of `epochs` epochs; iterating again, those of the epochs after them. An
    iteration that was given up is continued by the next one; `set_epoch` begins anew.

    It is also a dataset of single rows, as PyTorch and others know them: `len` is the number of rows of the table,
    ``loader[7]`` is a row, ``loader[[7, 9]]`` a batch of them.
    """

    def __init__(
        self,
        blocks: RowBlocks,
        *,
        batch_size: int,
        shuffle: bool,
        seed: int,
        shard: tuple[int, int],
        epochs: int | None,
        drop_last: bool,
        buffer_bytes: int,
        output: Literal["numpy", "arrow"],
        fill_null: Any,
    ) -> None:
        _check_number("batch_size", batch_size, 1)
        _check_number("seed", seed, 0)
        _check_number("buffer_bytes", buffer_bytes, 1)
        if epochs is not None:
            _check_number("epochs", epochs, 0)
        if output not in ("numpy", "arrow"):
            raise MosaicError("output is numpy or arrow", found=output)
        self._blocks = blocks
        self._batch_size, self._drop_last, self._epochs = batch_size, drop_last, epochs
        self._shard = check_shard(shard)
        limit = asked_limit() if blocks.memory_limit is None else blocks.memory_limit
        if limit is not None:
            buffer_bytes = max(1, min(buffer_bytes, limit // 2))
        self._order = Order(seed, shuffle, max(1, buffer_bytes // _WINDOWS))
        self._buffer_bytes = buffer_bytes
        self._output, self._fill_null = output, fill_null
        self._epoch = self._batch = 0
        #: The epoch before which the iteration ends that is under way or was the last; None if there was none.
        self._until: int | None = None
        self._is_resumed = False
        if output == "numpy":
            optional_module("numpy")

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """The columns of a batch, as Arrow has them."""
        return self._blocks.schema

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next batch is from."""
        return self._epoch

    @property
    def num_batches(self) -> int:
        """How many batches this shard has in an epoch, if one process reads it."""
        return self._num_batches(self._shard)

    def _num_batches(self, share: tuple[int, int]) -> int:
        total = sum(self._blocks.counts)
        rows = total // share[1] if self._drop_last else share_rows(total, share)
        return num_batches(rows, self._batch_size, drop_last=self._drop_last)

    def __repr__(self) -> str:
        shard, count = self._shard
        return (
            f"<smalti.Loader: {len(self):,} rows, shard {shard} of {count}, epoch {self._epoch}, batch {self._batch}>"
        )

    # --- batches ----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        share = share_of(self._shard, _torch_worker())
        count = self._num_batches(share)
        is_done = self._until is not None and self._epoch >= self._until
        if self._until is None or (is_done and not self._is_resumed):
            self._until = None if self._epochs is None else self._epoch + self._epochs
        self._is_resumed = False
        while count and (self._until is None or self._epoch < self._until):
            with closing(self._slices(share, self._epoch, self._batch * self._batch_size)) as slices:
                for rows in islice(slices, count - self._batch):
                    found = rows.table if self._output == "arrow" else rows.batch(self.schema.names, self._fill_of)
                    self._batch += 1
                    if self._batch == count:
                        self._epoch, self._batch = self._epoch + 1, 0
                    yield found
        if not count:
            self._epoch, self._batch = max(self._epoch, self._until or 0), 0

    def _fill_of(self, name: str) -> Any:
        """What nulls of a column become."""
        return self._fill_null.get(name) if isinstance(self._fill_null, Mapping) else self._fill_null

    def _slices(self, share: tuple[int, int], epoch: int, skip: int) -> Generator[Rows, None, None]:
        """The batches of a share of an epoch, without the first `skip` rows. The last one may have fewer rows."""
        held = self._blocks.allowance()
        with allocation_errors(), closing(self._windows(share, epoch, skip, held)) as windows:
            yield from exact_batches(windows, self._batch_size, held, partial(join_rows, held=held), _counted_already)

    def _windows(self, share: tuple[int, int], epoch: int, skip: int, held: Allowance) -> Generator[Rows, None, None]:
        """The windows of a share, each read and mixed while the one before is used; rows before `skip` are left out."""
        wanted: list[tuple[Window, int]] = []
        for window in self._order.windows(epoch, self._blocks.counts, self._blocks.sizes, share):
            if skip < window.num_rows:
                wanted.append((window, skip))
            skip = max(0, skip - window.num_rows)
        with Workers(1) as pool:
            upcoming: Task[Rows] | None = None
            for place, (window, first) in enumerate(wanted):
                rows = (upcoming or pool.submit(self._mixed, window, epoch, share, held)).result()
                upcoming = None
                if place + 1 < len(wanted):
                    upcoming = pool.submit(self._mixed, wanted[place + 1][0], epoch, share, held)
                yield rows.slice(first)
                del rows
                pool.check_process()

    def _mixed(self, window: Window, epoch: int, share: tuple[int, int], held: Allowance) -> Rows:
        """Read the rows of a window, in their order of the epoch."""
        blocks = self._blocks
        reads = []
        for segment in window.segments:
            count, whole = segment.stop - segment.start, blocks.counts[segment.block]
            rows = None if count == whole else range(segment.start, segment.stop)
            size = blocks.sizes[segment.block] * count // whole
            reads.append(BlockRead(partial(blocks.read, segment.block, rows), count, size))
        order = self._order.rows(epoch, window, share)
        fill_of = None if self._output == "arrow" else self._fill_of
        return gather(reads, self.schema, order, fill_of, blocks.budget, held)

    # --- single rows ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(self._blocks.counts)

    def __getitem__(self, indices: Any) -> Any:
        """A row by its number in the table, as a dictionary of values; or rows by several numbers, as a batch."""
        if isinstance(indices, int) and not isinstance(indices, bool):
            return self.__getitems__([indices])[0]
        if isinstance(indices, slice):
            indices = range(*indices.indices(len(self)))
        table = self._blocks.take(indices)
        return table if self._output == "arrow" else self._arrays(table)

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Rows by their numbers in the table, as PyTorch asks for those of a batch; each a dictionary of values."""
        arrays = self._arrays(self._blocks.take(indices))
        return [dict(zip(arrays, row, strict=True)) for row in zip(*arrays.values(), strict=True)]

    def _arrays(self, table: pa.Table) -> dict[str, Any]:
        names = self.schema.names
        return {name: to_numpy(table.column(i), name, self._fill_of(name)) for i, name in enumerate(names)}

    # --- resuming ---------------------------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch: the next batch is its first."""
        _check_number("epoch", epoch, 0)
        self._epoch, self._batch, self._until = epoch, 0, None

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: everything that `load_state_dict` needs to deliver the batches after the last one."""
        position = {"epoch": self._epoch, "batch": self._batch, "until": self._until}
        return {"version": _VERSION, **position, **self._settings()}

    def _settings(self) -> dict[str, Any]:
        """What has to be the same for the same rows to come in the same order."""
        return {
            "table": self._blocks.identity,
            "rows": len(self),
            "columns": self.schema.names,
            "batch_size": self._batch_size,
            "shuffle": self._order.shuffle,
            "seed": self._order.seed,
            "shard": list(self._shard),
            "drop_last": self._drop_last,
            "buffer_bytes": self._buffer_bytes,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another loader of the same table, with the same settings, has stopped.

        Raises
        ------
        MosaicError
            If the state is from another table, or from a loader with other settings.
        """
        expected = {"version": _VERSION, **self._settings()}
        missing = [key for key in (*expected, "epoch", "batch", "until") if key not in state]
        if missing:
            raise MosaicError("this is no state of a loader", found=f"no {missing[0]!r}")
        for key, value in expected.items():
            found = list(state[key]) if isinstance(state[key], tuple) else state[key]
            if found != value:
                what = "another table" if key in ("table", "rows") else f"a loader with another {key}"
                raise MosaicError(f"the state is of {what}", found=found, expected=value)
        _check_number("epoch", state["epoch"], 0)
        _check_number("batch", state["batch"], 0)
        if state["until"] is not None:
            _check_number("until", state["until"], 0)
        self._epoch, self._batch, self._until = state["epoch"], state["batch"], state["until"]
        self._is_resumed = self._until is not None

    def close(self) -> None:
        """Close the files that were opened for reading."""
        self._blocks.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def loader(
    table: Any,
    columns: Sequence[str] | None = None,
    batch_size: int = 1024,
    *,
    shuffle: bool = False,
    seed: int = 0,
    shard: tuple[int, int] = (0, 1),
    epochs: int | None = 1,
    drop_last: bool = False,
    buffer_bytes: int = LOADER_BYTES,
    output: Literal["numpy", "arrow"] = "numpy",
    fill_null: Any = None,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
) -> Loader:
    """Batches of rows for training, in a new order every epoch.

    Parameters
    ----------
    table : path, URI, list of paths, MosaicFile, MosaicDataset or PaimonDataset
        The loader stays with the files that a table has now. If one of them is replaced or removed before it is read,
        the loader stops with an error.
    columns : sequence of str, optional
        As in `MosaicFile.read`, each once; by default all.
    batch_size : int
        Rows of a batch. Only the last batch of an epoch may have fewer.
    shuffle : bool
        Whether rows come in random order: row groups in random order, and the rows of as many row groups mixed as
        `buffer_bytes` has room for. By default rows come in the order of the table.
    seed : int
        The order is a function of `seed` and the number of the epoch.
    shard : tuple of int
        ``(i, n)``: only the rows of shard `i`, counted from 0, of `n`. Shards have no row in common, and together all
        rows. They differ by one row at most, so that one of them may have one batch more than another; with
        `drop_last`, all have the same number of batches. Processes of PyTorch's DataLoader share a shard out in the
        same way.
    epochs : int, optional
        Epochs of one iteration; None for no end.
    drop_last : bool
        Whether to leave out rows at the end of an epoch that do not fill a batch, or that other shards do not have.
    buffer_bytes : int
        Memory for rows: those that are delivered, and those that are read and mixed meanwhile; at most half of a
        `memory_limit` that the table was opened with. One row group is read at least, however large.
    output : {"numpy", "arrow"}
        Whether batches are dictionaries of NumPy arrays, or Arrow tables.
    fill_null : optional
        What nulls become in arrays of NumPy that have no value for them, or a mapping of columns to such values. By
        default nulls of floating-point columns are NaN, of dates and times NaT, of Python objects such as strings None,
        and nulls of integers and booleans are an error.
    filesystem, storage_options
        As in `smalti.open`.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> _ = smalti.write_table(pa.table({"x": range(10), "y": [n / 2 for n in range(10)]}), "ten.mosaic")
    >>> batches = smalti.loader("ten.mosaic", ["x"], batch_size=4, shuffle=True, seed=3)
    >>> [batch["x"].tolist() for batch in batches]
    [[9, 7, 8, 0], [4, 5, 6, 3], [1, 2]]
    """
    names = check_columns(columns)
    origin = table if isinstance(table, Scannable) else open_any(table, chosen(filesystem, storage_options))
    return Loader(
        origin.row_blocks(None if names is None else tuple(dict.fromkeys(names))),
        batch_size=batch_size,
        shuffle=shuffle,
        seed=seed,
        shard=shard,
        epochs=epochs,
        drop_last=drop_last,
        buffer_bytes=buffer_bytes,
        output=output,
        fill_null=fill_null,
    )


def _counted_already(_: Rows) -> int:
    """The bytes of rows that `exact_batches` has to count: none, because rows count their own."""
    return 0


def _torch_worker() -> tuple[int, int]:
    """Which of how many worker processes of PyTorch's DataLoader this is. PyTorch is asked only if it is loaded."""
    data = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


def _check_number(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise MosaicError(f"{name} is a whole number", found=value, expected=f"{least} or more")
