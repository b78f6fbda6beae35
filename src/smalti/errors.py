"""The errors smalti raises: one small tree whose members say where, what was found and what was expected.

Kernels raise with an offset inside the bytes they were given; the layers above add the other parts of the error's
location, its `place`, with `locate`. Missing files and failing disks are Python's own errors (`FileNotFoundError`,
`OSError`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any, Self

#: The parts of an error's location, in the order in which a message names them.
PLACE = ("path", "section", "row_group", "bucket", "column", "row", "offset")
#: Options in the query of a URI that are no secrets; all others are hidden.
_OPEN_OPTION = re.compile(
    "(?i)region|endpoint_?override|scheme|anonymous|project_?id|account_?name|role_?arn|user|replication"
    "|blob_?storage_?(authority|scheme)"
)
_URI = re.compile(r"\b[a-zA-Z][\w+.-]*://[^\s'\"<>]+")
#: A password may have a slash that was not escaped; a port is followed by a path.
_PASSWORD = re.compile(r"(?<=://)([^/?#@:]*):(?!\d{0,5}/)([^?#]*)@")
_OPTION = re.compile(r"(\?|%3[Ff]|[&;])([^=&;?#]+)=([^&;#]*)")
#: The beginning of the query. Libraries escape the question mark where they take the URI for a path.
_QUERY = re.compile(r"\?|%3[Ff]")


def without_secrets(text: str) -> str:
    """Replace passwords, keys and tokens in the URIs of a message by stars.

    Everything that smalti prints, logs or raises goes through here once, because URIs can carry credentials.

    Examples
    --------
    >>> without_secrets("s3://bucket/t?region=eu-west-1&secret_key=Ab/12")
    's3://bucket/t?region=eu-west-1&secret_key=***'
    >>> without_secrets("cannot read https://ann:pw@host/t?X-Amz-Signature=12ab")
    'cannot read https://ann:***@host/t?X-Amz-Signature=***'
    """
    return _URI.sub(_hide_secrets, text) if "://" in text else text


def _hide_secrets(found: re.Match[str]) -> str:
    uri = _PASSWORD.sub(r"\1:***@", found[0], count=1)
    mark = _QUERY.search(uri)
    return uri if mark is None else uri[: mark.start()] + _OPTION.sub(_hide_value, uri[mark.start() :])


def _hide_value(option: re.Match[str]) -> str:
    return option[0] if _OPEN_OPTION.fullmatch(option[2]) else f"{option[1]}{option[2]}=***"


class MosaicError(ValueError):
    """Base of every error smalti raises about a file, a schema or an option.

    Parameters
    ----------
    reason : str
        What is wrong, in one phrase.
    found, expected : object, optional
        The value that was found, and the value or rule that was expected.
    **place
        Any of `path`, `section`, `row_group`, `bucket`, `column`, `row`, `offset`.

    Examples
    --------
    >>> str(CorruptFileError("bad magic", found=b"PAR1", expected=b"MOSA", section="footer", offset=28))
    "footer, offset 28: bad magic: found b'PAR1', expected b'MOSA'"
    """

    def __init__(self, reason: str, *, found: Any = None, expected: Any = None, **place: Any) -> None:
        reason = without_secrets(reason)
        super().__init__(reason)
        self.reason = reason
        self.found, self.expected = _without_secrets(found), _without_secrets(expected)
        self.place: dict[str, Any] = {}
        self.locate(**place)

    def locate(self, **place: Any) -> Self:
        """Add parts of the location that are not known yet, and return the error for `raise`."""
        unknown = place.keys() - set(PLACE)
        if unknown:
            raise TypeError(f"no such part of a place: {sorted(unknown)}")
        self.place = {part: _without_secrets(value) for part, value in place.items() if value is not None} | self.place
        return self

    def __str__(self) -> str:
        known = [(part.replace("_", " "), self.place[part]) for part in PLACE if part in self.place]
        where = ", ".join(str(value) if part in ("path", "section") else f"{part} {value!r}" for part, value in known)
        pairs = (("found", self.found), ("expected", self.expected))
        values = ", ".join(f"{word} {_show(value)}" for word, value in pairs if value is not None)
        return ": ".join(filter(None, (where, self.reason, values)))

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark ships errors between processes: keep the parts.
        return partial(type(self), self.reason, found=self.found, expected=self.expected, **self.place), ()


class CorruptFileError(MosaicError):
    """The bytes of a file break the format."""


class ForeignFileError(CorruptFileError):
    """The file has another format. The message names file and format, and says what reads it."""

    def __str__(self) -> str:
        return self.reason


class UnsupportedFeatureError(MosaicError):
    """The file looks sound, but uses something that this version cannot read."""


class SchemaError(MosaicError):
    """A schema, column name, type or value that Mosaic cannot store, or that does not fit the file."""


def no_column(name: str, names: Iterable[str] = (), purpose: str = "", **place: Any) -> SchemaError:
    """Return the error for a name that no column has; it suggests columns with similar names.

    Examples
    --------
    >>> str(no_column("sensr", ["id", "sensor"], "to sort by"))
    "no column 'sensr' to sort by; did you mean 'sensor'?"
    """
    return SchemaError(" ".join(filter(None, (f"no column {name!r}", purpose))) + suggestion(name, names), **place)


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the names that are close to it, if there are any."""
    import difflib  # needed for a message only

    close = difflib.get_close_matches(name, list(names), 3)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


class MemoryLimitError(MosaicError):
    """A read would take more memory than `memory_limit` allows, or than there is; nothing was allocated for it."""

    @classmethod
    def of(cls, asked: int, held: int, limit: int) -> MemoryLimitError:
        """Return the error of a read that asks for bytes while it holds others."""
        return cls(
            "reading takes more memory than is allowed",
            found=f"{asked:,} bytes asked for, {held:,} held",
            expected=f"{limit:,} bytes in all; memory_limit raises it (Spark: memoryLimit, shell: --memory-limit)",
        )

    @classmethod
    def failed(cls, error: MemoryError) -> MemoryLimitError:
        """Return the error of a failed allocation that the limit allowed."""
        expected = "fewer columns or rows at a time, or a lower memory_limit, which makes batches smaller"
        return cls("the system has no memory left for this read", found=str(error) or None, expected=expected)


class NoSuchRowError(MosaicError, IndexError):
    """A row was asked for by a number that no row has."""


class ConflictError(MosaicError):
    """Another job has changed the table meanwhile, so this job cannot commit. It has changed nothing."""


class PaimonTableError(MosaicError):
    """A Paimon table cannot be read or written as a plain directory of files; see `smalti.paimon`."""


class NoMosaicFilesError(MosaicError, FileNotFoundError):
    """A directory has no Mosaic files, and nothing says that it is a table."""


class ReplacedError(MosaicError):
    """A file is no longer the one that was listed or opened."""


class RemovedError(ReplacedError, FileNotFoundError):
    """A file of a table was removed after the table was listed."""


class LostTypesWarning(UserWarning):
    """A file is written that cannot keep types or metadata of its table, because it is not compressed."""


class LeftoverWarning(UserWarning):
    """A commit has happened, but files that it has replaced or staged could not be removed or moved yet."""


def _without_secrets(value: Any) -> Any:
    """Strip the secrets of a string. The attributes of an error hold none: it is pickled, logged and debugged."""
    return without_secrets(value) if isinstance(value, str) else value


def _show(value: Any, limit: int = 200) -> str:
    """Format a value for a message: strings, which are phrases of ours, plain, all else by repr; both shortened."""
    shown = value if isinstance(value, str) else without_secrets(repr(value))
    return shown if len(shown) <= limit else f"{shown[:limit]}… ({len(shown)} characters)"
