"""Planning a scan, on the driver: which files a table has, its schema, and what each task reads.

A file is opened at most once for all of this, and a small one only for its schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import compress, islice
from typing import TYPE_CHECKING

import pyarrow as pa

from smalti.errors import MosaicError, PaimonTableError, SchemaError
from smalti.file.reader import MosaicFile
from smalti.io import locate
from smalti.spark.driver.choice import choose_files, fit_partitions
from smalti.spark.driver.facts import aggregate, column_statistics, matching_row_groups, sorted_columns, to_json
from smalti.spark.driver.unchanged import check_unchanged
from smalti.spark.files import UNREADABLE, skip_unreadable, stored_columns, union_schema
from smalti.spark.filters import SparkFilter, columns_of, matching_partitions
from smalti.spark.options import ReadOptions, asked
from smalti.spark.types import infer_partition_type
from smalti.table.listing import FoundFile, list_files, read_again
from smalti.table.partitions import partition_schema, partition_value
from smalti.table.snapshot import FileFacts, Snapshot
from smalti.table.splits import Piece, by_row_group, cut_files, first_pieces, pack, rows_of

if TYPE_CHECKING:
    from smalti.spark.paimon import SnapshotTable

#: How many files are opened at the same time.
_PARALLEL = 16
#: Most files that the driver opens to answer an aggregate. Beyond that, tasks read the indexes in parallel.
_MAX_AGGREGATED = 1_000
#: Statistics of more columns and row groups than this stay in the files, where tasks find them. A million takes about
#: 300 MB in the planner's process: ten columns of 100,000 files.
_MAX_STATISTICS = 1_000_000


class Table:
    """A snapshot of the table that read options name, read by Spark's rules.

    Options choose files, names may differ in case, partition columns have the types that Spark infers, and files that
    cannot be read may be passed over. Spark derives the schema in one process and plans the scan in another. The object
    travels between them, so that the second one finds what the first has learnt. A table whose schema is known
    `may_be_empty`; at the start of a stream, and in a catalog, even its directory `may_be_missing`.
    """

    #: Tasks find what they need in the pieces of files; see `TaskScan.source`.
    source: None = None

    def __init__(self, options: ReadOptions, *, may_be_empty: bool = False, may_be_missing: bool = False) -> None:
        locations = [locate(path, storage_options=options.storage) for path in options.paths]
        self.options = options
        self._filesystem = locations[0].filesystem
        self._name = ", ".join(map(str, locations))
        for location, path in zip(locations, options.paths, strict=True):
            if not location.filesystem.equals(self._filesystem):
                raise MosaicError("paths on several file systems", found=path, expected=self._filesystem.type_name)
        if options.storage and locations[0].is_local:
            raise MosaicError("storage options are for remote paths", found=options.paths[0])
        self._locations = locations
        self._may_be_empty = may_be_empty
        self._may_be_missing = may_be_missing
        #: Columns of a table in a catalog that a file lacks, and all that it has: a renamed one may be among them.
        self.lacking: tuple[list[str], list[str]] | None = None
        self._list()

    def _list(self) -> None:
        """Find the files, and forget what is known of the files that were found before."""
        files: list[FoundFile] = []
        #: Tables whose rows were put into other files, as in `Listing`.
        self.rewritten: Mapping[str, int] = {}
        with suppress(FileNotFoundError) if self._may_be_missing else nullcontext():
            base = self.options.base_path
            base = None if base is None else locate(base, storage_options=self.options.storage).path
            listing = list_files(self._locations, plain=self.options.plain)
            self.rewritten = listing.rewritten
            files = choose_files(listing.files, [location.path for location in self._locations], base, self.options)
        if not files and not self._may_be_empty:
            raise MosaicError("no Mosaic files", path=self._name, expected="names that end in .mosaic")
        infer = infer_partition_type if self.options.infer_partition_types else lambda _: pa.string()
        self._snapshot = Snapshot(self._filesystem, files, partition_schema(files, infer))
        self._skipped: set[str] = set()  # files that cannot be read, if options allow that
        #: How many statistics the first file has whose index was read.
        self._statistics_per_file: int | None = None
        self._has_derived_schema = False

    @property
    def files(self) -> Sequence[FoundFile]:
        """All files, sorted by name."""
        return self._snapshot.files

    def schema(self) -> pa.Schema:
        """The union of the schemas of all files, or the schema of the first file; then the partition columns."""
        return read_again(self._find_schema, self._list)

    def _find_schema(self) -> pa.Schema:
        merge = self.options.merge_schema
        with ThreadPoolExecutor(_PARALLEL) as pool:
            found = (pool.map if merge else map)(self._examine, self.files)
            pairs = zip(self.files, found, strict=True)
            readable = ((file.path, schema) for file, schema in pairs if schema is not None)
            schemas = list(readable if merge else islice(readable, 1))
        if not schemas:
            raise MosaicError("no file can be read", path=self._name)
        self._has_derived_schema = True
        schema = union_schema(schemas, self.partitions(), case_sensitive=self.options.case_sensitive)
        if self.options.columns is None:
            return schema
        for name in self.options.columns:
            if schema.get_field_index(name) < 0:
                raise SchemaError("option columns names a column the table does not have", found=name)
        return pa.schema([schema.field(name) for name in dict.fromkeys(self.options.columns)])

    def partitions(self) -> pa.Schema:
        """The partition columns, as Spark infers them from the names of directories."""
        return self._snapshot.partitions

    def partition_values(self, schema: pa.Schema) -> list[list[object]]:
        """The values of each partition that has rows, as JSON has them."""
        files, facts = fit_partitions(self.files, schema, self.options), self._snapshot.facts
        filled = [file for file in files if file.path not in facts or any(facts[file.path].rows)]
        found = [[to_json(partition_value(file.partition, field).as_py()) for field in schema] for file in filled]
        return [json.loads(text) for text in dict.fromkeys(map(json.dumps, found))]

    def splits(
        self,
        schema: pa.Schema,
        filters: Sequence[SparkFilter] = (),
        files: Sequence[FoundFile] | None = None,
        limit: int | None = None,
    ) -> list[tuple[Piece, ...]]:
        """What each task reads. Partitions that cannot match are left out, row groups of large files are spread.

        `files` are those of one batch of a stream, by default all. `limit` says how many rows are enough: files after
        those that have them are left out, if it is known how many they have.
        """
        # A schema that may be the user's is checked against the first file, which stands for all, because scans are
        # planned anew for each query. Tasks check the others.
        unchecked = self.files[:1] if files is None and not self._has_derived_schema else ()
        files = fit_partitions(self.files if files is None else files, schema, self.options)
        facts = self._snapshot.facts
        unstored = self._unstored(files) if filters else files
        groups = matching_row_groups(unstored, facts, schema, filters)
        if any(file.path in facts for file in files if file.path not in groups):
            named = matching_row_groups(unstored, {}, schema, filters)  # by the names of directories alone
            ruled_out = [file for file in files if file.path in named and file.path not in groups]
            check_unchanged(ruled_out, self._locations, self.options)
        kept = [file for file in files if file.path in groups]
        limit_bytes = self._split_bytes(kept)
        large = [file for file in kept if file.size > limit_bytes and file.path not in facts]
        to_open = {file.path: file for file in (*unchecked, *large) if file.path not in self._skipped}
        with ThreadPoolExecutor(_PARALLEL) as pool:
            list(pool.map(partial(self._examine, wanted=schema), to_open.values()))
        if large:  # Their row groups are known now.
            groups = matching_row_groups(unstored, facts, schema, filters)
        readable = [file for file in kept if file.path in groups and file.path not in self._skipped]
        pieces = cut_files(readable, facts, groups, limit_bytes)
        pieces = pieces if limit is None or self._may_skip else first_pieces(pieces, facts, limit)
        # As Spark packs files: opening one more costs nothing where its bytes still fit.
        cost = self.options.open_cost_bytes
        packed = pack([piece.num_bytes + cost for piece in pieces], limit_bytes + cost)
        return [tuple(pieces[index] for index in group) for group in packed]

    def decides(self, schema: pa.Schema, filters: Sequence[SparkFilter]) -> list[bool]:
        """Which filters the names of directories decide for all rows, so that Spark need not apply them again.

        The index of every file must have been read, because one that stores a partition column has values of its own.
        """
        if any(file.path not in self._snapshot.facts for file in self.files):
            return [False] * len(filters)
        stored = self._stored_partitions()
        files = fit_partitions(self.files, schema, self.options)
        partitions = [file.partition for file in files]
        return [
            not columns_of([each]) & stored and matching_partitions(partitions, schema, [each]) is not None
            for each in filters
        ]

    def narrow(self, schema: pa.Schema, filters: Sequence[SparkFilter]) -> None:
        """Keep files whose partition values match. Pass only filters for which `decides` returned True."""
        files = fit_partitions(self.files, schema, self.options)
        matching = matching_partitions([file.partition for file in files], schema, filters)
        assert matching is not None
        self._snapshot = replace(self._snapshot, files=list(compress(self.files, matching)))

    def _split_bytes(self, files: Sequence[FoundFile]) -> int:
        """How many bytes a task reads at most: less than the options say where that would leave cores idle."""
        cost = self.options.open_cost_bytes
        total = sum(file.size + cost for file in files)
        return min(self.options.max_partition_bytes, max(cost, total // self.options.min_partitions))

    @property
    def _may_skip(self) -> bool:
        """Whether tasks may pass over files, whose rows then do not count, although they have an index."""
        return self.options.ignore_corrupt_files or self.options.ignore_missing_files

    def by_row_group(self, pieces: Sequence[Piece]) -> list[Piece]:
        """A piece for each row group of pieces."""
        return by_row_group(pieces, self._snapshot.facts)

    def learn_facts(self, most: int | None = None) -> None:
        """Read the index of files that were not opened for their schema, unless there are more than `most`."""
        facts = self._snapshot.facts
        files = [file for file in self.files if file.path not in facts]
        if most is None or len(files) <= most:
            with ThreadPoolExecutor(_PARALLEL) as pool:
                list(pool.map(self._learn_facts, files))
        if sum(known.num_values for known in facts.values()) > _MAX_STATISTICS:
            facts.update({path: known.without_statistics() for path, known in facts.items()})

    def _learn_facts(self, file: FoundFile) -> None:
        with suppress(*UNREADABLE, OSError), self._snapshot.open(file) as opened:
            self._note_facts(opened, file)

    def _note_facts(self, opened: MosaicFile, file: FoundFile) -> None:
        """Remember what the index of a file tells, without statistics if those of all files would be too many.

        Making statistics takes far longer than opening a file, so all files are taken to have as many as the first one.
        """
        is_little = (self._statistics_per_file or 0) * len(self.files) <= _MAX_STATISTICS
        facts = FileFacts.of(opened, self.partitions().names, has_statistics=is_little)
        if self._statistics_per_file is None:
            self._statistics_per_file = facts.num_values
        self._snapshot.facts[file.path] = facts

    def filterable(self) -> set[str]:
        """The columns by which values that a join has found may rule out files or row groups.

        Spark waits for those values, so a column must promise something: it is a partition column, or the row groups
        are sorted by it.
        """
        return {*self.partitions().names, *sorted_columns(list(self._snapshot.facts.values()))}

    def summarize(self, pieces: Sequence[Piece]) -> dict[str, int]:
        """Files, bytes and, as far as they are known, rows and row groups of what a scan reads."""
        summary = {
            "files": len({piece.file.path for piece in pieces}),
            "bytes": sum(piece.num_bytes for piece in pieces),
        }
        facts = self._snapshot.facts
        rows = [rows_of(piece, facts) for piece in pieces]
        if None not in rows:
            summary["rows"] = sum(row for row in rows if row is not None)
            summary["groups"] = len(by_row_group(pieces, facts))
        return summary

    @property
    def num_row_groups(self) -> int | None:
        """All row groups of the table, if they are known."""
        known = [self._snapshot.facts.get(file.path) for file in self.files]
        return None if None in known else sum(len(facts.rows) for facts in known if facts is not None)

    def aggregate(
        self, schema: pa.Schema, functions: Sequence[Sequence[str]], groups: Sequence[str] = ()
    ) -> list[list[object]] | None:
        """What the index answers of aggregates over all rows, or over groups of partitions; see `facts.aggregate`."""
        if self._may_skip:
            return None
        facts = self._snapshot.facts
        check_unchanged([file for file in self.files if file.path in facts], self._locations, self.options)
        self.learn_facts(_MAX_AGGREGATED)
        names = set(self.partitions().names) if self.files else set(groups)
        if set(groups) - names or set(groups) & self._stored_partitions():
            return None
        files = fit_partitions(self._unstored(self.files), schema, self.options)
        rows = aggregate(files, facts, schema, functions, groups)
        return None if rows is None else [list(map(to_json, row)) for row in rows]

    def statistics(self, schema: pa.Schema, pieces: Sequence[Piece]) -> dict[str, dict[str, object]]:
        """What the index tells about the values of what a scan reads; see `facts.column_statistics`."""
        facts = self._snapshot.facts
        if any(piece.file.path not in facts for piece in pieces):
            return {}
        files = {piece.file.path: piece.file for piece in pieces}
        groups: dict[str, list[int]] = {}
        for piece in by_row_group(pieces, facts):
            groups.setdefault(piece.file.path, []).extend(piece.row_groups or ())
        chosen = {path: facts[path].only(kept) for path, kept in groups.items()}
        return column_statistics(self._unstored([files[path] for path in chosen]), chosen, schema)

    def _stored_partitions(self) -> set[str]:
        """The partition columns that files store too, so that the text of a directory decides nothing about them.

        The first file stands for those whose index was not read.
        """
        known = [file for file in self.files if file.path in self._snapshot.facts] or self.files[:1]
        if len(self.partitions()):
            self._snapshot.learn(file for file in known if file.path not in self._snapshot.facts)
        return self._snapshot.stored_partitions(known)

    def _unstored(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Files with the partition values that they do not store themselves."""
        stored = self._stored_partitions()
        return [replace(file, partition={n: v for n, v in file.partition.items() if n not in stored}) for file in files]

    def _examine(self, file: FoundFile, wanted: pa.Schema | None = None) -> pa.Schema | None:
        """Open a file, remember what its index tells, and return its columns; None if it is skipped.

        `wanted` is the schema that Spark asks for, which the file must fit.
        """
        try:
            with self._snapshot.open(file) as opened:
                sensitive = self.options.case_sensitive
                fitting = None if wanted is None else stored_columns(opened, file, wanted, case_sensitive=sensitive)
                self._note_facts(opened, file)
                if fitting is not None and wanted is not None and self.options.of_catalog:
                    known = {*fitting.wanted, *file.partition}
                    lacking = [name for name in wanted.names if name not in known]
                    if lacking:
                        self.lacking = lacking, opened.column_names
                return opened.schema if fitting is None else fitting.schema
        except (*UNREADABLE, FileNotFoundError) as error:
            skip_unreadable(file, error, self.options)
        self._skipped.add(file.path)
        return None


def find_table(
    options: ReadOptions, *, may_be_empty: bool = False, may_be_missing: bool = False
) -> Table | SnapshotTable:
    """The table that read options name: a plain directory (see `Table`), or a Paimon table as of a snapshot."""
    travel = asked(options, ("snapshot_id", "tag_name", "timestamp"))
    if options.plain and travel:
        reason = "this chooses a snapshot of a Paimon table, and plain reads all of its files"
        raise MosaicError(f"{', '.join(travel)}: {reason}", path=options.paths[0])
    if not travel:
        try:
            return Table(options, may_be_empty=may_be_empty, may_be_missing=may_be_missing)
        except PaimonTableError as error:
            if len(options.paths) > 1 or error.place["path"] != locate(options.paths[0]).path.rstrip("/"):
                raise
    from smalti.spark.paimon import SnapshotTable

    return SnapshotTable(options)
