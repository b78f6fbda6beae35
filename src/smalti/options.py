"""The options of a writer: their defaults live here and nowhere else, and every value is checked."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict

from smalti.errors import MosaicError, suggestion
from smalti.spec import MAX_UINT32, Compression

#: Aims that a layout can be chosen for.
LAYOUTS = ("balanced", "small", "fast")


class WriterOptionValues(TypedDict, total=False):
    """The options of a writer by name, as functions take them, so that a type checker finds a mistyped one."""

    compression: Literal["zstd", "none"]
    compression_level: int
    num_buckets: int | None
    row_group_max_bytes: int | None
    row_group_max_rows: int | None
    dict_max_bytes: int
    dict_max_entries: int | None
    page_size_threshold: int | None
    stats_columns: list[str] | tuple[str, ...] | Literal["all", "auto"]
    checksum: bool
    threads: int | None
    layout: Literal["balanced", "small", "fast"]
    companion: bool


@dataclass(frozen=True)
class WriterOptions:
    """How a file is written.

    Parameters
    ----------
    compression : {"zstd", "none"}
        How blocks are compressed.
    compression_level : int
        Level of zstd, -7 to 22.
    layout : {"balanced", "small", "fast"}
        What to aim at when the layout of the file is chosen from samples of its first row group. "small" is the
        smallest file. "fast" has the fastest reads; the file may be half as large again. "balanced" weighs the two: one
        per cent of size is worth ten per cent of reading time, and the file is at most 15 % larger than with the
        reference's 100 buckets and 32 KiB, as far as the samples tell. If `num_buckets` or `page_size_threshold` is
        given, nothing is chosen.
    num_buckets : int, optional
        How many buckets the columns are put into, at most one per column; by default chosen from samples. With more
        buckets, reading a few columns is cheaper and the file is larger. 100 if only `page_size_threshold` is given.
    row_group_max_bytes : int, optional
        Size before compression at which a new row group begins; by default 256 MiB, or more for very wide tables. It
        counts values and null bitmaps. "Very wide" is more than 4,096 columns. More than 511 MiB are never used.
    row_group_max_rows : int, optional
        Rows after which a new row group begins; by default 262,144, or no limit if the layout is given. Narrow tables
        reach it, wide ones reach `row_group_max_bytes` before.
    dict_max_bytes : int
        Largest dictionary in bytes, of strings, binary, long decimals and nanosecond timestamps; by default 32 KiB, and
        8 MiB for columns that are given as dictionaries.
    dict_max_entries : int, optional
        Largest dictionary in entries; 0 or 1 turn dictionaries off. By default the reference's 255, and up to 4,096 in
        row groups of many rows, one entry for eight rows, or 262,144 for columns that are given as dictionaries; 255 if
        the layout is given.
    page_size_threshold : int, optional
        Bytes that the columns of a bucket need on average for it to be paged; by default chosen from samples. Single
        columns can be read from a paged bucket. 32 KiB if only `num_buckets` is given.
    stats_columns : sequence of str, "all" or "auto"
        Columns whose minimum, maximum and number of nulls are stored for each row group, "all", or "auto". "all" means
        all columns that have an order. "auto" means the same for tables of up to 100 columns, except for long strings,
        and no columns for wider tables: every open reads all statistics, which in a table of 10,000 columns takes
        longer than the reading itself.
    checksum : bool
        Whether zstd frames have a checksum of their content, which every zstd decoder verifies.
    companion : bool
        Whether the file has a companion, which keeps Arrow types and a checksum, and which other readers ignore. It
        has what the format has no field for (Arrow types that the format lacks, structs, metadata) and a checksum of
        index and footer. Without it, and in files that are not compressed, columns come back as they are stored.
    threads : int, optional
        Threads that encode and compress buckets; by default one per core.
    """

    compression: str = "zstd"
    compression_level: int = 1
    num_buckets: int | None = None
    row_group_max_bytes: int | None = None
    row_group_max_rows: int | None = None
    dict_max_bytes: int = 32 << 10
    dict_max_entries: int | None = None
    page_size_threshold: int | None = None
    stats_columns: tuple[str, ...] | str = "auto"
    checksum: bool = True
    threads: int | None = None
    layout: str = "balanced"
    companion: bool = True

    def __post_init__(self) -> None:
        names = self.stats_columns
        if not isinstance(names, Iterable) or (isinstance(names, str) and names not in ("all", "auto")):
            raise MosaicError('stats_columns takes a list of names, "all" or "auto"', found=names)
        if not isinstance(names, str):
            names = tuple(names)
            for name in names:
                if not isinstance(name, str):
                    raise MosaicError("stats_columns takes names", found=name)
            object.__setattr__(self, "stats_columns", tuple(dict.fromkeys(names)))
        if not isinstance(self.compression, str) or self.compression.upper() not in Compression.__members__:
            raise MosaicError("unknown compression", found=self.compression, expected='"zstd" or "none"')
        object.__setattr__(self, "compression", self.compression.lower())
        if self.layout not in LAYOUTS:
            raise MosaicError("unknown layout", found=self.layout, expected=" or ".join(map(repr, LAYOUTS)))
        self._check("compression_level", -7, 22)
        self._check("num_buckets", 1, MAX_UINT32, optional=True)
        self._check("row_group_max_bytes", 1, None, optional=True)
        self._check("row_group_max_rows", 1, None, optional=True)
        self._check("dict_max_bytes", 0, MAX_UINT32)
        self._check("dict_max_entries", 0, MAX_UINT32, optional=True)
        self._check("page_size_threshold", 0, None, optional=True)
        self._check("threads", 1, None, optional=True)
        for name in ("checksum", "companion"):
            if not isinstance(getattr(self, name), bool):
                raise MosaicError(f"{name} must be True or False", found=getattr(self, name))

    def _check(self, name: str, low: int, high: int | None, *, optional: bool = False) -> None:
        value: Any = getattr(self, name)
        if value is None and optional:
            return
        allowed = f"{low} to {high}" if high is not None else f"{low} at least"
        if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
            raise MosaicError(f"{name} out of range", found=value, expected=allowed)

    @property
    def codec(self) -> Compression:
        return Compression[self.compression.upper()]

    @property
    def has_companion(self) -> bool:
        """Whether a file gets a companion. Decoders skip one only between zstd frames, so compression is needed."""
        return self.companion and self.codec is Compression.ZSTD

    @property
    def is_layout_given(self) -> bool:
        """Whether the layout was asked for, so that nothing is chosen."""
        return self.num_buckets is not None or self.page_size_threshold is not None

    @classmethod
    def of(
        cls, options: WriterOptions | None, values: Mapping[str, Any], parameters: Collection[str] = ()
    ) -> WriterOptions:
        """Return options that are given as an object or by name. Raise TypeError for unknown names, or for both.

        `parameters` are names of the function that was called: perhaps one of them was misspelled.
        """
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                instead = suggestion(name, [*parameters, *known]) or f"; there are {', '.join(known)}"
                raise TypeError(f"unknown writer option {name!r}{instead}")
        if options is None:
            return cls(**values)
        if values:
            raise TypeError("give options whole or by name, not both")
        return options


def option_help() -> dict[str, str]:
    """The first sentence that the documentation of `WriterOptions` has for each option, for help on the command line.

    Examples
    --------
    >>> option_help()["compression_level"]
    'Level of zstd, -7 to 22'
    """
    parameters = re.findall(r"^(\w+) : .*\n((?: {4}.*\n?)+)", inspect.getdoc(WriterOptions) or "", re.MULTILINE)
    sentences = {name: re.split(r"\.(?:\s|$)", " ".join(text.split()))[0] for name, text in parameters}
    return {field.name: sentences.get(field.name, "") for field in fields(WriterOptions)}
