"""Which bytes of local files were read: tests count at the source, so that they hold whatever reads the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

import smalti
from smalti.io.sources import LocalSource


class Read(NamedTuple):
    path: str
    offset: int
    size: int


class Reads(list[Read]):
    """Every read of a local file, in order."""

    def row_groups(self) -> list[tuple[str, int]]:
        """The file and the row group of each read that is not one of the end of a file, without repeats."""
        ends: dict[str, list[int]] = {}
        found: dict[tuple[str, int], None] = {}
        for path, offset, size in list(self):
            if path not in ends:
                with smalti.open(path) as file:
                    groups = file.layout(()).row_groups
                    ends[path] = [max(bucket.offset + bucket.size for bucket in group.buckets) for group in groups]
            if offset + size < Path(path).stat().st_size:
                group = next((index for index, end in enumerate(ends[path]) if offset < end), None)
                if group is not None:
                    found[Path(path).name, group] = None
        return list(found)


def note_reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Note every read of a local file until the test ends."""
    reads, read = Reads(), LocalSource._read

    def noting(self: LocalSource, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        reads.extend(Read(str(self.name), offset, size) for offset, size in ranges)
        return read(self, ranges)

    monkeypatch.setattr(LocalSource, "_read", noting)
    return reads
