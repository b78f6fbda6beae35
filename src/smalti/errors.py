"""The errors smalti raises: one small tree whose members say where, what was found and what was expected.

Kernels raise with an offset inside the bytes they were given; the layers above add the place with `locate`.
Missing files and failing disks stay what Python calls them (`FileNotFoundError`, `OSError`).
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

Self = TypeVar("Self", bound="MosaicError")

#: The parts of a place, from the outside in; the order in which a message names them.
PLACE = ("path", "section", "row_group", "bucket", "column", "row", "offset")


class MosaicError(ValueError):
    """Base of every error smalti raises about a file, a schema or an option.

    Parameters
    ----------
    reason : str
        What is wrong, in one phrase.
    found, expected : object, optional
        The value met and the value (or rule) it breaks.
    **place
        Any of `path`, `section`, `row_group`, `bucket`, `column`, `row`, `offset`.

    Examples
    --------
    >>> str(CorruptFileError("bad magic", found=b"PAR1", expected=b"MOSA", section="footer", offset=28))
    "footer, offset 28: bad magic: found b'PAR1', expected b'MOSA'"
    """

    def __init__(self, reason: str, *, found: Any = None, expected: Any = None, **place: Any) -> None:
        super().__init__(reason)
        self.reason = reason
        self.found = found
        self.expected = expected
        self.place: dict[str, Any] = {}
        self.locate(**place)

    def locate(self: Self, **place: Any) -> Self:
        """Add parts of the place that are not known yet, and return the error for `raise`."""
        unknown = place.keys() - set(PLACE)
        if unknown:
            raise TypeError(f"no such part of a place: {sorted(unknown)}")
        self.place = {part: value for part, value in place.items() if value is not None} | self.place
        return self

    def __str__(self) -> str:
        where = ", ".join(
            str(self.place[part]) if part in ("path", "section") else f"{part.replace('_', ' ')} {self.place[part]!r}"
            for part in PLACE
            if part in self.place
        )
        values = {"found": self.found, "expected": self.expected}
        what = ", ".join(f"{word} {_show(value)}" for word, value in values.items() if value is not None)
        return ": ".join(filter(None, (where, self.reason, what)))

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark ships errors between processes: keep the parts.
        return partial(type(self), self.reason, found=self.found, expected=self.expected, **self.place), ()


class CorruptFileError(MosaicError):
    """The bytes of a file break the format."""


class UnsupportedFeatureError(MosaicError):
    """The file is well formed as far as can be told, but uses something this version does not read."""


class SchemaError(MosaicError):
    """A schema, column name, type or value that Mosaic cannot hold, or that does not fit the file."""


class MemoryLimitError(MosaicError):
    """A read would take more memory than `memory_limit` allows; nothing was allocated for it."""

    @classmethod
    def of(cls, asked: int, held: int, limit: int) -> MemoryLimitError:
        """The error of a read that asks for so many bytes while it holds others."""
        return cls(
            "reading takes more memory than is allowed",
            found=f"{asked:,} bytes asked for, {held:,} held",
            expected=f"{limit:,} bytes in all; memory_limit raises it (Spark: memoryLimit, shell: --memory-limit)",
        )


class ConflictError(MosaicError):
    """Another job has changed the table in the same moment, so that this one cannot: it has changed nothing."""


class ReplacedError(MosaicError):
    """A file is no longer the one that was listed or opened."""


def _show(value: Any, limit: int = 200) -> str:
    """Strings are phrases of ours and go in plain; everything else by repr, cut to a readable length."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
