"""One small class for each format measured, each through the Python API its users call.

A peer writes a table to a path and reads columns back, opening the file anew on every call. Level 9 of zstd wherever
the format offers one; ``settings`` says what was used, and goes into the report. A peer whose library is not
installed is left out of the run, not failed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from benchmarks.counting import CountingFile, CountingPositionedFile, PositionedFile, Traffic

LEVEL = 9


class Peer:
    """A format as the harness sees it."""

    name: str
    label: str
    settings: str
    package = "pyarrow"
    suffix: str

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

    def __init__(self, level: int = LEVEL, num_buckets: int | None = None) -> None:
        self.smalti = importlib.import_module("smalti")
        if not hasattr(self.smalti, "write_table"):
            raise ImportError("smalti has no write_table yet")
        self.settings = f"zstd {level}, {num_buckets or 'default'} buckets"
        self.level = level
        self.options = {} if num_buckets is None else {"num_buckets": num_buckets}

    def write(self, table: pa.Table, path: Path) -> None:
        self.smalti.write_table(table, path, compression="zstd", compression_level=self.level, **self.options)

    def read_source(self, source: str | CountingFile, columns: list[str] | None) -> pa.Table:
        return self.smalti.read_table(source, columns=columns)


class Reference(Peer):
    name = "reference"
    label = "paimon-mosaic (Rust)"
    package = "paimon-mosaic"
    suffix = ".mosaic"

    def __init__(self, level: int = LEVEL, num_buckets: int | None = None) -> None:
        self.mosaic = importlib.import_module("mosaic")
        self.settings = f"zstd {level}, {num_buckets or 'default'} buckets"
        self.options = self.mosaic.WriterOptions(zstd_level=level, num_buckets=num_buckets or 0)

    def write(self, table: pa.Table, path: Path) -> None:
        with path.open("wb") as sink:
            self.mosaic.write_table(table, sink, self.options)

    def read(self, path: Path, columns: list[str] | None) -> pa.Table:
        with PositionedFile(path) as source:
            return self.mosaic.read_table(source.read_at, source.length, columns)

    def traffic(self, path: Path, columns: list[str] | None) -> Traffic:
        with CountingPositionedFile(path) as source:
            self.mosaic.read_table(source.read_at, source.length, columns)
            return source.traffic


class Parquet(FilePeer):
    name = "parquet"
    label = "Parquet (pyarrow)"
    settings = f"zstd {LEVEL}, pq.read_table"
    suffix = ".parquet"

    def __init__(self) -> None:
        self.parquet = importlib.import_module("pyarrow.parquet")

    def write(self, table: pa.Table, path: Path) -> None:
        self.parquet.write_table(table, path, compression="zstd", compression_level=LEVEL)

    def read_source(self, source: str | CountingFile, columns: list[str] | None) -> pa.Table:
        return self.parquet.read_table(source, columns=columns)


class ParquetFile(Parquet):
    name = "parquet-file"
    label = "Parquet (ParquetFile)"
    settings = f"zstd {LEVEL}, ParquetFile.read: the same files, without pq.read_table's data set layer"
    writer = Parquet.name

    def read_source(self, source: str | CountingFile, columns: list[str] | None) -> pa.Table:
        with self.parquet.ParquetFile(source) as file:
            return file.read(columns=columns)


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


PEERS: dict[str, type[Peer]] = {
    peer.name: peer for peer in (Smalti, Reference, Parquet, ParquetFile, Orc, Feather, Vortex, Lance)
}

# The two whose level and number of buckets are swept.
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
