"""The data of the page: layout, statistics and values of columns as plain lists, small enough to embed in the page.

A page has the parts that it has data for. The page of one file has its whole layout, down to each column of each row
group. The page of a table has sums over its files, so that 100 files of 10,000 columns stay quick.

A physical column is what the file stores: a list or map is several, one for itself and one for each of its children.
Physical columns come bucket by bucket, in the same order in every row group, so their names are given once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti.file.reader import MosaicFile
from smalti.moments import scalar_text, shortest_floats
from smalti.mosaic.layout import BucketLayout, ColumnBytes, FileLayout, RowGroupLayout
from smalti.report.findings import KINDS, ColumnFacts, facts_of, find_kind, in_words
from smalti.spec import FOOTER_SIZE, Encoding

#: Bounds longer than this many characters are cut.
MAX_BOUND = 60
#: The encodings in the order of their codes, and the codes as text.
_ENCODINGS = {encoding.name: str(encoding.value) for encoding in Encoding}
#: What the page shows of the values of a column, by its name in the table of a profile.
_MEASURED = ("nulls", "distinct", "min", "max", "histogram")


def build_model(file: MosaicFile, name: str, values: pa.Table | None = None) -> dict[str, Any]:
    """Everything the page of one file shows, ready for JSON; `values` is the table of a profile."""
    sums = TableSums()
    layout = sums.add(name, file)
    model = _model(name, sums, values, _stored_facts(layout, sums))
    names = model["columns"]["name"]
    places = {column: place for place, column in enumerate(names)}
    buckets = [bucket for group in layout.row_groups[:1] for bucket in group.buckets]
    physical = [(part, bucket.id) for bucket in buckets for part in bucket.columns]
    return {
        **model,
        "compression": layout.compression,
        "buckets": layout.num_buckets,
        "layout": layout.in_words,
        "schemaBlock": vars(layout.schema_block),
        "index": vars(layout.index),
        "footer": FOOTER_SIZE,
        "nodes": {
            "column": [places[part.name] for part, _ in physical],
            "path": [part.path[len(part.name) :] for part, _ in physical],
            "bucket": [bucket for _, bucket in physical],
        },
        "groups": [_group(group) for group in layout.row_groups],
        "statistics": _statistics(file, names),
    }


def build_table_model(
    name: str, files: Iterable[tuple[str, MosaicFile]], values: pa.Table | None, facts: Mapping[str, int]
) -> dict[str, Any]:
    """Everything the page of a table shows, ready for JSON: sums over its Mosaic files, which are opened in turn.

    `facts` are the numbers of the whole table that its Mosaic files need not know: rows, files, size, skipped files.
    """
    sums = TableSums()
    for path, file in files:
        sums.add(path, file)
    return {**_model(name, sums, values), **facts}


def _model(name: str, sums: TableSums, values: pa.Table | None, stored: Iterable[ColumnFacts] = ()) -> dict[str, Any]:
    """What the pages of files and of tables have in common; columns come in the order of the schema.

    Findings are about `values`, if these were measured, and otherwise what `stored` bytes tell.
    """
    types = dict(sums.types)
    for row in () if values is None else values.select(["column", "type"]).to_pylist():
        types.setdefault(row["column"], row["type"])
    names = list(types)
    return {
        "file": name,
        "size": sum(found["size"] for found in sums.files),
        "rows": sum(found["rows"] for found in sums.files),
        "skipped": 0,
        "compression": None,
        "buckets": sums.num_buckets or None,
        "layout": "",
        "encodings": list(_ENCODINGS),
        "columns": {"name": names, "type": list(types.values()), "bucket": [sums.buckets.get(name) for name in names]},
        "nodes": {"column": [], "path": [], "bucket": []},
        "groups": [],
        "statistics": {},
        "sums": sums.lists(names),
        "files": sums.files,
        "findings": _findings(names, stored if values is None else facts_of(values)),
        "values": None if values is None else _measured(values, names),
    }


def _measured(values: pa.Table, names: list[str]) -> dict[str, list[Any]]:
    """What was measured of the values of columns: a list for each kind, with None where it is not known."""
    found = {row["column"]: row for row in values.to_pylist()}
    return {key: [found.get(name, {}).get(key) for name in names] for key in _MEASURED}


def _findings(names: list[str], columns: Iterable[ColumnFacts]) -> list[dict[str, Any]]:
    """Each kind of finding with its words and the places of its columns, in the order in which they are told."""
    facts = {column.name: column for column in columns}
    kinds: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for place, name in enumerate(names):
        kind = find_kind(facts[name]) if name in facts else None
        if kind is not None:
            kinds[kind].append(place)
    return [
        {"kind": kind, "words": in_words([facts[names[place]] for place in places]), "columns": places}
        for kind, places in kinds.items()
        if places
    ]


def _stored_facts(layout: FileLayout, sums: TableSums) -> Iterator[ColumnFacts]:
    """What the stored bytes of a file tell of its columns without reading their values."""
    firsts: dict[tuple[str, bytes], str] = {}
    rows = layout.num_rows
    for name, found in sums.columns.items():
        only = next(iter(found.encodings)) if len(found.encodings) == 1 else None
        is_constant = only == "CONST" and layout.num_row_groups == 1
        first = firsts.setdefault((sums.types[name], found.digest), name) if found.digest else name
        nulls = rows if only == "ALL_NULL" else None
        yield ColumnFacts(name, rows, nulls, 1 if is_constant else None, None if first == name else first)


class TableSums:
    """Bytes and encodings of columns and buckets, over files that need not have the same columns."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}
        self.columns: dict[str, ColumnBytes] = {}
        self.files: list[dict[str, Any]] = []
        self.buckets: dict[str, int] = {}
        #: By bucket: bytes that are read for any column of it. For one of a paged bucket its slots are read as well.
        self.head: Counter[int] = Counter()
        self._alike = True  # whether every file has the same columns in the same buckets

    def add(self, path: str, file: MosaicFile) -> FileLayout:
        """Read the layout of a file, and add it up."""
        layout = file.layout()
        for found in file.stored_schema:
            self.types.setdefault(found.name, str(found.type) + ("" if found.nullable else " not null"))
        buckets: dict[str, int] = {}
        by_encoding: Counter[str] = Counter()
        for group in layout.row_groups:
            by_encoding.update(group.bytes_by_encoding())
            for bucket in group.buckets:
                self.head[bucket.id] += _head(bucket)
                buckets |= {part.name: bucket.id for part in bucket.columns}
        for column, more in layout.bytes_by_column().items():
            known = self.columns.setdefault(column, more)
            if known is not more:
                known.add(more)
        self._alike = self._alike and self.buckets in ({}, buckets)
        self.buckets = self.buckets or buckets
        self.files.append(
            {
                "name": path,
                "size": layout.size,
                "rows": file.num_rows,
                "columns": file.num_columns,
                "groups": layout.num_row_groups,
                "encodings": [by_encoding[encoding] for encoding in _ENCODINGS],
            }
        )
        return layout

    @property
    def num_buckets(self) -> int:
        """How many buckets each file has, 0 if columns are not in the same buckets everywhere."""
        return max(self.head, default=-1) + 1 if self._alike else 0

    def lists(self, names: list[str]) -> dict[str, Any]:
        """The sums by column, in this order, and by bucket; buckets only if they are the same in every file."""
        unknown = ColumnBytes()
        columns = [self.columns.get(name, unknown) for name in names]
        return {
            "stored": [column.stored for column in columns],
            "unpacked": [column.unpacked for column in columns],
            "slots": [column.slots for column in columns],
            "chunks": [[column.encodings[encoding] for encoding in _ENCODINGS] for column in columns],
            "head": [self.head[bucket] for bucket in range(self.num_buckets)],
        }


def _group(group: RowGroupLayout) -> dict[str, Any]:
    physical = [column for bucket in group.buckets for column in bucket.columns]
    return {
        "rows": group.num_rows,
        "mode": "".join(bucket.mode[0] for bucket in group.buckets),
        "offset": [bucket.offset for bucket in group.buckets],
        "size": [bucket.size for bucket in group.buckets],
        "raw": [bucket.uncompressed_size for bucket in group.buckets],
        "head": [_head(bucket) for bucket in group.buckets],
        "encoding": "".join(_ENCODINGS[column.encoding] for column in physical),
        "nulls": "".join("1" if column.has_nulls else "0" for column in physical),
        "bytes": [column.size for column in physical],
        "stored": [-1 if column.stored_size is None else column.stored_size for column in physical],
        "entries": [column.dict_entries for column in physical],
    }


def _head(bucket: BucketLayout) -> int:
    """Bytes that are read for any column of a bucket: all of it, or those before the slots of a paged one."""
    return bucket.size - sum(column.stored_size or 0 for column in bucket.columns)


def _statistics(file: MosaicFile, names: list[str]) -> dict[int, list[Any]]:
    """By place of the column: [nulls, minimum, maximum] of each row group, or None where a row group has none."""
    groups = [file.row_group(index).statistics for index in range(file.num_row_groups)]
    # The types that columns were written with; of fields of structs, those that they are stored as.
    types = {field.name: field.type for schema in (file.stored_schema, file.schema) for field in schema}
    return {
        place: [
            record and [record.null_count, *(_bound(end, types[name]) for end in (record.min, record.max))]
            for record in records
        ]
        for place, name in enumerate(names)
        if any(records := [group.get(name) for group in groups])
    }


def _bound(value: Any, type_: pa.DataType) -> Any:
    """Numbers that JavaScript can hold stay numbers, so that the page can compare them; the rest becomes text.

    A floating-point number is the one with the fewest digits that is the same number in the type of its column.
    """
    if isinstance(value, float) and pt.is_floating(type_):
        value = shortest_floats(pa.array([value], pa.float32()).cast(type_))[0] if type_.bit_width < 64 else value
    is_exact = math.isfinite(value) if isinstance(value, float) else isinstance(value, int) and abs(value) < 1 << 53
    return value if value is None or is_exact else scalar_text(value, MAX_BOUND)
