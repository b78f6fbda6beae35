"""Making a file from columns of other files that stay as they are, and from new ones.

Columns that stay are copied as the bytes they are stored as (see `smalti.mosaic.rewriter`); only new ones are encoded.
This is the place where given columns, with their Arrow types, meet the stored columns that are copied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from smalti import threads
from smalti._core.input import Feeds, InputBatch
from smalti.errors import SchemaError, no_column
from smalti.file.reader import MosaicFile
from smalti.file.rewrite_options import options_like
from smalti.file.writer import MosaicWriter
from smalti.io.locations import AnyFileSystem
from smalti.logical.entries import Entries
from smalti.logical.intake import arrow_batches
from smalti.logical.tree import Leaf, LogicalColumn, StoredColumn
from smalti.logical.types import MAX_INT32, with_capacity
from smalti.mosaic.open_row_group import Slice
from smalti.mosaic.rewrite_plan import FRESH, ColumnPlan, plan_columns
from smalti.mosaic.rewriter import Fresh, Rewriter
from smalti.mosaic.scan import plan_scan
from smalti.options import WriterOptions
from smalti.spec import MAX_UNBACKED_ROWS, Compression


@dataclass(frozen=True)
class GroupSource:
    """Where the columns of one row group of the new file come from.

    Attributes
    ----------
    file : MosaicFile, optional
        The file that columns are copied from. None if every column is in `fresh`.
    group : int
        The row group of `file`.
    copied : mapping of str to str, optional
        The name of each copied column in the new file, and its name in `file`. By default all columns of the new schema
        that are not in `fresh`, by the same names.
    fresh : pyarrow.RecordBatch or pyarrow.Table, optional
        Columns that are encoded anew, by their names in the new file. It has as many rows as the row group. If `file`
        is None, it may have any number of rows, and becomes several row groups if it is too large for one.
    """

    file: MosaicFile | None
    group: int = 0
    copied: Mapping[str, str] | None = None
    fresh: pa.RecordBatch | pa.Table | None = None


@dataclass(frozen=True)
class RewriteSummary:
    """What `rewrite_file` has written.

    Attributes
    ----------
    rows, row_groups : int
    bytes : int
        Of the file.
    bytes_copied : int
        Bytes of columns that were copied as they were stored, or only compressed again. No value was decoded.
    bytes_encoded : int
        Bytes of columns that were encoded anew. The rest of the file are schema, index and footer.
    row_groups_copied : int
        Row groups without a column that was encoded anew.
    """

    rows: int
    row_groups: int
    bytes: int
    bytes_copied: int
    bytes_encoded: int
    row_groups_copied: int


def rewrite_file(
    where: Any,
    schema: pa.Schema,
    groups: Iterable[GroupSource],
    *,
    options: WriterOptions | None = None,
    verify: bool = False,
    filesystem: AnyFileSystem = None,
    like: MosaicFile | None = None,
    unused_entries: Collection[str] | None = None,
) -> RewriteSummary:
    """Write a file whose row groups are copied from other files, column by column, or encoded anew.

    Row groups keep their number of rows; empty ones are left out. Statistics are copied with the columns. The file
    appears when it is complete, as with `write_table`, and may replace a file that is copied from.

    Parameters
    ----------
    where : str, os.PathLike or binary file object
    schema : pyarrow.Schema
        The columns of the new file, in their order, with the metadata. Columns that are copied have the same type in
        the file that they are copied from.
    groups : iterable of GroupSource
        The row groups of the new file, in order. They are consumed one by one, so that fresh columns need not be in
        memory together.
    options : WriterOptions, optional
        By default the compression of `like`, and otherwise the defaults. Layout and statistics that they do not ask for
        are those of `like`.
    verify : bool
        Whether columns that are copied are also decompressed and decoded, which compares the checksums of their frames.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
    like : MosaicFile, optional
        The file whose layout and choice of statistics is kept; by default the file of the first row group.
    unused_entries : collection of str, optional
        Columns whose dictionaries keep entries that no row uses; by default those that `like` lacks. Other columns may
        be what is left after rows were deleted, and the entries that these used are values, too. So such a column keeps
        all entries only if all row groups of its file are copied. Otherwise it is read, and keeps those that are used.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> _ = smalti.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), "old.mosaic")
    >>> schema = pa.schema([("b", pa.string()), ("c", pa.int8())])
    >>> with smalti.open("old.mosaic") as old:
    ...     fresh = pa.table({"c": pa.array([7, 8], pa.int8())})
    ...     rewrite_file("new.mosaic", schema, [GroupSource(old, 0, fresh=fresh)]).row_groups
    1
    >>> smalti.read_table("new.mosaic").to_pydict()
    {'b': ['x', None], 'c': [7, 8]}
    """
    sources = iter(groups)
    first = next(sources, None)
    if first is not None and (like is None or not like.num_row_groups):
        like = first.file or like
    is_auto = options is None or options.stats_columns == "auto"
    options = options_like(schema, options, like, None if first is None else first.fresh)
    with MosaicWriter(where, schema, options, filesystem=filesystem) as writer:
        writer._stored_writer.limits_bounds = is_auto
        if unused_entries is None:
            known = set() if like is None else set(like.columns.names)
            unused_entries = [name for name in schema.names if name not in known]
        rewrite = _Rewrite(writer, like, verify, unused_entries)
        for source in chain([] if first is None else [first], sources):
            rewrite.add(source)
            del source
        rewrite.settle_entries()
    assert writer.summary is not None
    written = writer.summary
    return RewriteSummary(
        written.num_rows,
        written.num_row_groups,
        written.num_bytes,
        rewrite.rewriter.bytes_copied,
        rewrite.rewriter.bytes_encoded,
        rewrite.row_groups_copied,
    )


# --- columns of the new file and of the old ones --------------------------------------------------------------------


class _Rewrite:
    """A file in the making."""

    def __init__(
        self, writer: MosaicWriter, like: MosaicFile | None, verify: bool, unused_entries: Collection[str]
    ) -> None:
        self._writer, self._intake, self._stored = writer, writer._intake, writer._stored_writer
        options = writer.options
        self.rewriter = Rewriter(
            self._stored,
            is_compressed=options.codec is Compression.ZSTD,
            num_threads=options.threads or threads.cpu_count(),
            verify=verify,
        )
        self.row_groups_copied = 0
        #: The source that was planned last, without its data, the names of its fresh columns, and the plan.
        self._last: tuple[GroupSource, tuple[str, ...], _FilePlan] | None = None
        intake, names = self._intake, writer.schema.names
        self._starts = dict(zip(names, intake.starts, strict=True))
        self._kinds = dict(zip(names, intake.kinds, strict=True))
        self._positions = {index: position for position, index in enumerate(self._stored.indices)}
        self._entries = {name: Entries() for name in self._intake.with_dictionaries}
        absent = next((name for name in unused_entries if name not in self._starts), None)
        if absent is not None:
            raise no_column(absent, names, "with a dictionary")
        self._all_entries = {
            self._intake.schema.field(index).name
            for name in unused_entries
            for index in self._intake.stored_indices(writer.schema.get_field_index(name))
        }
        #: By new stored column, file and old stored column, if it has a dictionary: this column and its row groups.
        self._copied_groups: dict[tuple[str, MosaicFile, str], tuple[StoredColumn, set[int]]] = {}
        if like is not None and self._entries:
            self._order_entries(like)

    def add(self, source: GroupSource) -> None:
        """Write the row groups of a source."""
        if source.file is None:
            self._add_fresh(source)
            return
        file = source.file
        group = file.row_group(source.group)
        plan = self._plan(file, source)
        fresh = None if source.fresh is None else self._fresh(source.fresh, group.num_rows)
        if group.num_rows == 0:
            return
        self.rewriter.add(file._scanner.buckets, file._scanner.memory_limit, group.index, plan.columns, fresh)
        for new, old in plan.dictionaries:
            self._copied_groups.setdefault((new, file, old.name), (old, set()))[1].add(group.index)
        self.row_groups_copied += fresh is None

    def _add_fresh(self, source: GroupSource) -> None:
        if source.fresh is None or source.copied:
            raise SchemaError("columns are copied, but there is no file to copy them from")
        before = self._stored.num_bytes
        for batch in arrow_batches(source.fresh):
            for stored in self._writer._to_stored(batch):
                self._use_entries(stored.batch, range(len(self._intake.schema)))
                self._stored.add(stored)
        self._stored.flush()
        self.rewriter.count(0, self._stored.num_bytes - before)

    def _fresh(self, data: pa.RecordBatch | pa.Table, num_rows: int) -> Fresh | None:
        """The new columns of a row group, as they are stored; None if there are none."""
        if not data.num_columns:
            return None
        if num_rows > MAX_UNBACKED_ROWS:  # A column that has one value would be refused by readers.
            reason = "a row group has too many rows for new columns; write the file again"
            raise SchemaError(reason, found=num_rows, expected=f"at most {MAX_UNBACKED_ROWS}")
        if data.num_rows != num_rows:
            raise SchemaError("fresh columns have another number of rows", found=data.num_rows, expected=num_rows)
        slices: list[Slice] = []
        indices: list[int] = []
        for batch in arrow_batches(data):
            indices, pieces = self._intake.conform_some(self._writer._inspector.inspect(batch).batch)
            for piece in pieces:
                self._use_entries(piece, indices)
                slices.append((InputBatch(piece), 0, piece.num_rows))
        columns = {self._positions[index]: at for at, index in enumerate(indices)}
        columns = dict(sorted(columns.items()))
        positions = list(columns)
        physical = self._stored.block.physical_at(positions)
        problem = Feeds(physical, list(columns.values()), slices).check()
        if problem is not None:
            node, reason, found = problem
            names = [self._intake.schema.field(self._stored.indices[position]).name for position in positions]
            raise SchemaError(reason, column=physical.paths(names)[node][1], found=found)
        return Fresh(slices, columns)

    # --- columns that are copied ----------------------------------------------------------------------------------

    def _plan(self, file: MosaicFile, source: GroupSource) -> _FilePlan:
        """Where the columns of a row group come from: mostly the same as for the row group before."""
        fresh = () if source.fresh is None else tuple(source.fresh.schema.names)
        if self._last is not None:
            before, names, plan = self._last
            if before.file is file and names == fresh and before.copied == source.copied:
                return plan
        plan = self._plan_file(file, source, set(fresh))
        self._last = replace(source, fresh=None), fresh, plan
        return plan

    def _plan_file(self, file: MosaicFile, source: GroupSource, fresh: set[str]) -> _FilePlan:
        schema, intake = self._writer.schema, self._intake
        wanted = source.copied
        known = self._starts.keys()
        if wanted is None:
            wanted = {name: name for name in known if name not in fresh}
        for name in sorted(wanted.keys() - known):
            raise no_column(name, schema.names, "in the new file")
        for name in sorted(wanted.keys() & fresh):
            raise SchemaError("a column is both copied and fresh", column=name)
        for name in sorted(known - wanted.keys() - fresh):
            raise SchemaError("a column of the new file is neither copied nor fresh", column=name)
        old_kinds = dict(zip(file.columns.names, file.columns.kinds, strict=True))
        for name in sorted(set(wanted.values()) - old_kinds.keys()):
            raise no_column(name, old_kinds, "to copy", path=file._source.name)
        positions = {name: position for position, name in enumerate(file._tail.schema.names())}
        new, old = list(wanted), list(wanted.values())
        described = file.columns.described(old)
        origins = [FRESH] * len(intake.schema)
        for start, position in zip(map(self._starts.__getitem__, new), map(positions.get, old), strict=True):
            origins[start] = FRESH if position is None else position
        odd = {schema.get_field_index(name): wanted[name] for name in self._odd(new, old, old_kinds, described)}
        dictionaries = []
        fields = file.schema_of(list(dict.fromkeys(odd.values()))) if odd else pa.schema([])
        stored_as = dict(zip(old, described, strict=True))
        for index, name in odd.items():
            theirs = stored_as[name] or _as_stored(fields.field(name))
            ours = intake.columns.get(index) or _as_stored(schema.field(index))
            self._check_same(index, ours, theirs, file)
            for at, one, other in zip(intake.stored_indices(index), ours.stored, theirs.stored, strict=True):
                origins[at] = positions[other.name]
                if one.name in self._entries:
                    dictionaries.append((one.name, other))
        by_position = [origins[index] for index in self._stored.indices]
        block, physical = self._stored.block, self._stored.bucket_physical
        return _FilePlan(plan_columns(block, physical, file._tail.schema, by_position), dictionaries)

    def _odd(
        self,
        new: list[str],
        old: list[str],
        old_kinds: Mapping[str, Any],
        described: list[LogicalColumn | None],
    ) -> Iterable[str]:
        """The new columns that are not simply stored as one column of the same type; there are few, mostly."""
        kinds, wanted = list(map(self._kinds.__getitem__, new)), list(map(old_kinds.__getitem__, old))
        if kinds == wanted and None not in kinds and not self._intake.columns and described.count(None) == len(old):
            return ()
        made = {self._writer.schema.field(index).name for index in self._intake.columns}
        return [
            name
            for name, kind, other, column in zip(new, kinds, wanted, described, strict=True)
            if kind is None or kind != other or column is not None or name in made
        ]

    def _check_same(self, index: int, ours: LogicalColumn, theirs: LogicalColumn, file: MosaicFile) -> None:
        """Refuse to copy a column that has another type, or may be null where the new one cannot."""
        found, expected = theirs.field, ours.field
        if found.type != expected.type:
            widest = [with_capacity(field.type, MAX_INT32, MAX_INT32) for field in (found, expected)]
            if widest[0] != widest[1]:
                raise _other_type(file, expected.name, found.type, expected.type)
            self._intake.widen(index)
        pairs = list(zip(theirs.stored, ours.stored, strict=False))
        if len(ours.stored) != len(theirs.stored) or any(one.type != other.type for one, other in pairs):
            raise _other_type(file, expected.name, found, expected)
        if any(one.nullable and not other.nullable for one, other in pairs):
            raise _other_type(file, expected.name, f"{found.type}, may be null", f"{expected.type} not null")

    # --- dictionaries ---------------------------------------------------------------------------------------------

    def _order_entries(self, like: MosaicFile) -> None:
        """Entries that stay come in the order they have in `like`."""
        names = [column.field.name for column in self._intake.columns.values()]
        present = like.columns.whole(names)
        for column in like.columns.described(present):
            for each in column.stored if column is not None else ():
                if each.name in self._entries and each.leaf == self._intake.with_dictionaries[each.name].leaf:
                    self._entries[each.name].order_by(like.columns.entries(each))

    def _use_entries(self, stored: pa.RecordBatch, indices: Iterable[int]) -> None:
        """Note the entries of dictionaries that new rows use."""
        if self._entries:
            for index, array in zip(indices, stored.columns, strict=True):
                name = self._intake.schema.field(index).name
                if name in self._entries:
                    self._entries[name].use(array)

    def settle_entries(self) -> None:
        """Decide which entries of dictionaries the new file keeps; reads columns of which some row groups are gone."""
        partial: dict[tuple[MosaicFile, frozenset[int]], list[tuple[str, str]]] = defaultdict(list)
        for (new, file, _), (old, groups) in self._copied_groups.items():
            entries, known = self._entries[new], file.columns.entries(old)
            rows = file._tail.index.rows
            every = (group for group in range(file.num_row_groups) if rows(group))
            if known is None or new in self._all_entries or groups.issuperset(every):
                entries.keep(known)
            else:
                entries.order_by(known)
                partial[file, frozenset(groups)].append((new, old.name))
        for (file, some), columns in partial.items():
            stored = file.columns.stored.project(list(dict.fromkeys(old for _, old in columns)))
            for batch in file._scanner.batches(plan_scan(stored, sorted(some))):
                for new, old_name in columns:
                    self._entries[new].use(batch.column(old_name))
        copied = {new for new, _, _ in self._copied_groups}
        for name, entries in self._entries.items():
            if self._intake.has_entries(name):
                fresh = self._intake.entries(name)
                if fresh is None or name in self._all_entries:
                    entries.keep(fresh)
                else:
                    entries.order_by(fresh)
            if self._intake.has_entries(name) or name in copied:
                self._intake.set_entries(name, entries.result())


@dataclass(frozen=True)
class _FilePlan:
    """The columns that are copied from a file; of those with dictionaries, the new name and the old stored column."""

    columns: ColumnPlan
    dictionaries: list[tuple[str, StoredColumn]]


def _as_stored(field: pa.Field) -> LogicalColumn:
    """A column that is stored as it is."""
    leaf = Leaf(field.type, field.type)
    return LogicalColumn(field, leaf, (StoredColumn(field.name, field.type, field.nullable, leaf),))


def _other_type(file: MosaicFile, name: str, found: object, expected: object) -> SchemaError:
    reason = "a column cannot be copied, because it has another type in its file"
    return SchemaError(reason, path=file._source.name, column=name, found=str(found), expected=str(expected))
