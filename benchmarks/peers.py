"""One small class for each format measured, each through the Python API its users call.

A peer writes a table to a path and reads columns back, opening the file anew on every call. Some can also filter rows,
and some can keep a file open and read from it again and again. Level 9 of zstd wherever the format offers one;
``settings`` says what was used, and goes into the report. A peer whose library is not installed is left out of the run,
not failed.

The same library with other options (another layout, smaller row groups) is a peer of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import and_
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from benchmarks.counting import CountingFile, CountingPositionedFile, PositionedFile, Traffic

LEVEL = 9

# What the filtered reads know of the telemetry table: the columns that order it, and the rows of its smaller groups.
ORDERED = ("id", "run")
GROUP_ROWS = 5_000

Filters = list[tuple[str, str, Any]]
Read = Callable[[list[str]], object]


class Peer:
    """A format as the harness sees it."""

    name: str
    label: str
    settings: str
    package = "pyarrow"
    suffix: str
    #: What is worth knowing of the file last written, or None.
    remark: str | None = None

    @property
    def writer(self) -> str:
        """The peer whose files this one reads: itself, unless they differ in reading only."""
        return self.name

    def prepare(self, table: pa.Table) -> pa.Table:
        """What the format wants said in the schema before writing; not timed."""
        return table

    def write(self, table: pa.Table, path: Path) -> None:
        raise NotImplementedError

    def read(self, path: Path, columns: list[str] | None) -> pa.Table:
        raise NotImplementedError

    def traffic(self, path: Path, columns: list[str] | None) -> Traffic | None:
        """Requests and bytes of one such read, or None where the library hides them."""
        raise NotImplementedError

    def read_filtered(self, path: Path, columns: list[str], filters: Filters | None) -> Any:
        """The columns of the rows that match: a table, or what ``as_table`` makes one of."""
        raise NotImplementedError

    def as_table(self, result: Any) -> pa.Table:
        """The result of a filtered read as Arrow, for the check; not timed."""
        return result

    @contextmanager
    def opened(self, path: Path) -> Iterator[Read]:
        """The file kept open: what is yielded reads columns from it, any number of times."""
        raise NotImplementedError


class FilePeer(Peer):
    """A library that takes a Python file object wherever it takes a path."""

    def read(self, path: Path, columns: list[str] | None) -> pa.Table:
        return self.read_source(str(path), columns)

    def traffic(self, path: Path, columns: list[str] | None) -> Traffic:
        with CountingFile(path) as source:
            self.read_source(source, columns)
            return source.traffic

    def read_source(self, source: str | CountingFile, columns: list[str] | None) -> pa.Table:
        raise NotImplementedError


class Smalti(FilePeer):
    name = "smalti"
    label = "smalti"
    package = "smalti"
    suffix = ".mosaic"
    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, level: int = LEVEL) -> None:
        self.smalti = importlib.import_module("smalti")
        given = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        self.settings = f"zstd {level}, {given or 'defaults (layout=balanced)'}"
        self.level = level

    def write(self, table: pa.Table, path: Path) -> None:
        summary = self.smalti.write_table(table, path, compression="zstd", compression_level=self.level, **self.options)
        self.remark = summary.layout.reason

    def read_source(self, source: str | CountingFile, columns: list[str] | None) -> pa.Table:
        return self.smalti.read_table(source, columns=columns)

    def read_filtered(self, path: Path, columns: list[str], filters: Filters | None) -> pa.Table:
        return self.smalti.read_table(path, columns=columns, filters=filters)

    @contextmanager
    def opened(self, path: Path) -> Iterator[Read]:
        with self.smalti.open(path) as file:
            yield file.read


class SmaltiSmall(Smalti):
    name = "smalti-small"
    label = "smalti, small"
    options = MappingProxyType({"layout": "small"})


class SmaltiFast(Smalti):
    name = "smalti-fast"
    label = "smalti, fast"
    options = MappingProxyType({"layout": "fast"})


class SmaltiOneBlock(Smalti):
    name = "smalti-100"
    label = "smalti, 100 buckets, never paged"
    options = MappingProxyType({"num_buckets": 100, "page_size_threshold": 1 << 30})


class SmaltiManyBuckets(Smalti):
    name = "smalti-1000"
    label = "smalti, 1,000 buckets, never paged"
    options = MappingProxyType({"num_buckets": 1000, "page_size_threshold": 1 << 30})


class SmaltiPaged(Smalti):
    name = "smalti-paged"
    label = "smalti, 100 buckets, always paged"
    options = MappingProxyType({"num_buckets": 100, "page_size_threshold": 0})


class SmaltiStatistics(Smalti):
    name = "smalti-statistics"
    label = "smalti, statistics of id and run"
    options = MappingProxyType({"stats_columns": ORDERED})


class SmaltiGroups(Smalti):
    name = "smalti-groups"
    label = f"smalti, the same, groups of {GROUP_ROWS:,} rows"
    options = MappingProxyType({"stats_columns": ORDERED, "row_group_max_rows": GROUP_ROWS})


class Reference(Peer):
    name = "reference"
    label = "paimon-mosaic (Rust)"
    package = "paimon-mosaic"
    suffix = ".mosaic"

    def __init__(self, level: int = LEVEL) -> None:
        self.mosaic = importlib.import_module("mosaic")
        self.settings = f"zstd {level}, defaults"
        self.options = self.mosaic.WriterOptions(zstd_level=level)

    def write(self, table: pa.Table, path: Path) -> None:
        with path.open("wb") as sink:
            self.mosaic.write_table(table, sink, self.options)

    def read(self, path: Path, columns: list[str] | None) -> pa.Table:
        with PositionedFile(path) as source:
            return self.mosaic.read_table(source.read_at, source.length, columns)

    @contextmanager
    def opened(self, path: Path) -> Iterator[Read]:
        with PositionedFile(path) as source:
            reader = self.mosaic.MosaicReader.from_input_file(source.read_at, source.length)
            with reader:

                def read(columns: list[str]) -> pa.Table:
                    reader.project(columns)
                    return reader.read_all()

                yield read

    def traffic(self, path: Path, columns: list[str] | None) -> Traffic:
        with CountingPositionedFile(path) as source:
            self.mosaic.read_table(source.read_at, source.length, columns)
            return source.traffic


class Parquet(FilePeer):
    name = "parquet"
    label = "Parquet (pyarrow)"
    settings = f"zstd {LEVEL}, pq.read_table"
    suffix = ".parquet"
    row_group_rows: int | None = None

    def __init__(self) -> None:
        self.parquet = importlib.import_module("pyarrow.parquet")

    def write(self, table: pa.Table, path: Path) -> None:
        self.parquet.write_table(
            table, path, compression="zstd", compression_level=LEVEL, row_group_size=self.row_group_rows
        )

    def read_source(self, source: str | CountingFile, columns: list[str] | None) -> pa.Table:
        return self.parquet.read_table(source, columns=columns)

    def read_filtered(self, path: Path, columns: list[str], filters: Filters | None) -> pa.Table:
        return self.parquet.read_table(path, columns=columns, filters=filters)


class ParquetGroups(Parquet):
    name = "parquet-groups"
    label = f"Parquet (pyarrow), groups of {GROUP_ROWS:,} rows"
    settings = f"zstd {LEVEL}, pq.read_table, row_group_size={GROUP_ROWS}"
    row_group_rows = GROUP_ROWS


class ParquetFile(Parquet):
    name = "parquet-file"
    label = "Parquet (ParquetFile)"
    settings = f"zstd {LEVEL}, ParquetFile.read: the same files, without pq.read_table's data set layer"
    writer = Parquet.name

    def read_source(self, source: str | CountingFile, columns: list[str] | None) -> pa.Table:
        with self.parquet.ParquetFile(source) as file:
            return file.read(columns=columns)

    @contextmanager
    def opened(self, path: Path) -> Iterator[Read]:
        with self.parquet.ParquetFile(path) as file:
            yield lambda columns: file.read(columns=columns)


class Polars(Peer):
    """Filtered reads of Parquet's files only: the frame that Polars makes is its result."""

    name = "polars"
    label = "Parquet (Polars)"
    settings = "scan_parquet(...).filter(...).select(...).collect(), of the same files"
    package = "polars"
    suffix = ".parquet"
    writer = Parquet.name

    def __init__(self) -> None:
        self.polars = importlib.import_module("polars")

    def read(self, path: Path, columns: list[str] | None) -> pa.Table:
        return self.polars.read_parquet(path, columns=columns).to_arrow()

    def read_filtered(self, path: Path, columns: list[str], filters: Filters | None) -> Any:
        scan = self.polars.scan_parquet(path)
        if filters:
            scan = scan.filter(reduce(and_, (self.condition(*part) for part in filters)))
        return scan.select(columns).collect()

    def condition(self, name: str, operator: str, value: Any) -> Any:
        column = self.polars.col(name)
        return {"=": column == value, "<": column < value, ">=": column >= value}[operator]

    def as_table(self, result: Any) -> pa.Table:
        return result.to_arrow()


class PolarsGroups(Polars):
    name = "polars-groups"
    label = f"Parquet (Polars), groups of {GROUP_ROWS:,} rows"
    writer = ParquetGroups.name


class Orc(FilePeer):
    name = "orc"
    label = "ORC (pyarrow)"
    settings = "zstd: the level cannot be set"
    suffix = ".orc"

    def __init__(self) -> None:
        self.orc = importlib.import_module("pyarrow.orc")

    def write(self, table: pa.Table, path: Path) -> None:
        self.orc.write_table(table, str(path), compression="zstd")

    def read_source(self, source: str | CountingFile, columns: list[str] | None) -> pa.Table:
        return self.orc.ORCFile(source).read(columns=columns)


class Feather(FilePeer):
    name = "feather"
    label = "Arrow IPC (Feather)"
    settings = f"zstd {LEVEL}"
    suffix = ".feather"

    def __init__(self) -> None:
        self.feather = importlib.import_module("pyarrow.feather")

    def write(self, table: pa.Table, path: Path) -> None:
        self.feather.write_feather(table, str(path), compression="zstd", compression_level=LEVEL)

    def read_source(self, source: str | CountingFile, columns: list[str] | None) -> pa.Table:
        return self.feather.read_table(source, columns=columns)

    @contextmanager
    def opened(self, path: Path) -> Iterator[Read]:
        """A memory map, whose footer is read again each time: no reader of pyarrow's takes columns later."""
        with pa.memory_map(str(path)) as source:
            yield lambda columns: self.feather.read_table(source, columns=columns)


class Vortex(Peer):
    name = "vortex"
    label = "Vortex"
    settings = "its default cascading encodings: no zstd to set"
    package = "vortex-data"
    suffix = ".vortex"

    def __init__(self) -> None:
        self.vortex = importlib.import_module("vortex")

    def write(self, table: pa.Table, path: Path) -> None:
        self.vortex.io.write(table, str(path))

    def read(self, path: Path, columns: list[str] | None) -> pa.Table:
        return self.vortex.open(str(path)).to_arrow(columns).read_all()

    def traffic(self, path: Path, columns: list[str] | None) -> Traffic:
        with CountingPositionedFile(path) as source:
            self.vortex.open_readable(source).to_arrow(columns).read_all()
            return source.traffic


class Lance(Peer):
    name = "lance"
    label = "Lance file"
    settings = f"zstd {LEVEL}, asked for in the fields' metadata"
    package = "pylance"
    suffix = ".lance"

    def __init__(self) -> None:
        self.file = importlib.import_module("lance.file")

    def prepare(self, table: pa.Table) -> pa.Table:
        wish = {"lance-encoding:compression": "zstd", "lance-encoding:compression-level": str(LEVEL)}
        return pa.table(table.columns, schema=pa.schema([field.with_metadata(wish) for field in table.schema]))

    def write(self, table: pa.Table, path: Path) -> None:
        writer = self.file.LanceFileWriter(str(path), table.schema)
        writer.write_batch(table)
        writer.close()

    def read(self, path: Path, columns: list[str] | None) -> pa.Table:
        return self.file.LanceFileReader(str(path), columns=columns).read_all().to_table()

    def traffic(self, path: Path, columns: list[str] | None) -> None:  # noqa: ARG002
        return None

    @contextmanager
    def opened(self, path: Path) -> Iterator[Read]:
        """A session on the directory: a Lance reader is given its columns when it is made, and the session is kept."""
        session = self.file.LanceFileSession(str(path.parent))
        yield lambda columns: session.open_reader(path.name, columns=columns).read_all().to_table()


# The formats with their defaults: who takes part unless a plan says otherwise.
FORMATS = ("smalti", "reference", "parquet", "parquet-file", "orc", "feather", "vortex", "lance")

PEERS: dict[str, type[Peer]] = {
    peer.name: peer
    for peer in (
        Smalti,
        SmaltiSmall,
        SmaltiFast,
        SmaltiOneBlock,
        SmaltiManyBuckets,
        SmaltiPaged,
        SmaltiStatistics,
        SmaltiGroups,
        Reference,
        Parquet,
        ParquetFile,
        ParquetGroups,
        Polars,
        PolarsGroups,
        Orc,
        Feather,
        Vortex,
        Lance,
    )
}

# The two that are also compared at other levels.
MOSAIC: dict[str, type[Smalti] | type[Reference]] = {Smalti.name: Smalti, Reference.name: Reference}


def installed(names: Iterable[str]) -> tuple[list[Peer], dict[str, str]]:
    """The peers of these names that can be used here, and why the others cannot."""
    found: list[Peer] = []
    missing: dict[str, str] = {}
    for name in names:
        try:
            found.append(PEERS[name]())
        except ImportError as error:
            missing[name] = str(error)
    return found, missing
