"""The errors smalti raises: one small tree whose members say where, what was found and what was expected.

Kernels raise with an offset inside the bytes they were given; the layers above add the place with `locate`.
Missing files and failing disks stay what Python calls them (`FileNotFoundError`, `OSError`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any, Self

#: The parts of a place, from the outside in; the order in which a message names them.
PLACE = ("path", "section", "row_group", "bucket", "column", "row", "offset")
#: Options in the query of a URI that are no secrets; all others are hidden.
_OPEN_OPTIONS = (
    *("region", "endpoint_override", "scheme", "anonymous", "project_id", "account_name", "role_arn"),
    *("user", "replication", "blob_storage_authority", "blob_storage_scheme"),
)
_URI = re.compile(r"\b[a-zA-Z][\w+.-]*://[^\s'\"<>]+")
#: A password may have a slash that nobody has escaped; what follows a port is a path.
_PASSWORD = re.compile(r"(?<=://)([^/?#@:]*):(?!\d{0,5}/)([^?#]*)@")
_OPTION = re.compile(r"(\?|%3[Ff]|[&;])([^=&;?#]+)=([^&;#]*)")
#: Where the query begins. Libraries escape the mark where they take the URI for a path.
_QUERY = re.compile(r"\?|%3[Ff]")


def without_secrets(text: str) -> str:
    """A text for people, in which passwords, keys and tokens in URIs are replaced by stars.

    Everything that smalti prints, logs or raises goes through here, because URIs can carry options of a store, and
    signatures.

    Examples
    --------
    >>> without_secrets("s3://bucket/t?region=eu-west-1&secret_key=Ab/12")
    's3://bucket/t?region=eu-west-1&secret_key=***'
    >>> without_secrets("cannot read https://ann:pw@host/t?X-Amz-Signature=12ab")
    'cannot read https://ann:***@host/t?X-Amz-Signature=***'
    """
    return _URI.sub(lambda found: _open_part(found[0]), text) if "://" in text else text


def _open_part(uri: str) -> str:
    def show(found: re.Match[str]) -> str:
        is_open = found[2].lower().replace("_", "") in {name.replace("_", "") for name in _OPEN_OPTIONS}
        return found[0] if is_open else f"{found[1]}{found[2]}=***"

    uri = _PASSWORD.sub(r"\1:***@", uri, count=1)
    mark = _QUERY.search(uri)
    return uri if mark is None else uri[: mark.start()] + _OPTION.sub(show, uri[mark.start() :])


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
        self.found = _open(found)
        self.expected = _open(expected)
        self.place: dict[str, Any] = {}
        self.locate(**place)

    def locate(self, **place: Any) -> Self:
        """Add parts of the place that are not known yet, and return the error for `raise`."""
        unknown = place.keys() - set(PLACE)
        if unknown:
            raise TypeError(f"no such part of a place: {sorted(unknown)}")
        self.place = {part: _open(value) for part, value in place.items() if value is not None} | self.place
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
    """The file looks sound, but uses something that this version cannot read."""


class SchemaError(MosaicError):
    """A schema, column name, type or value that Mosaic cannot store, or that does not fit the file."""


def no_column(name: str, names: Iterable[str] = (), purpose: str = "", **place: Any) -> SchemaError:
    """The error for a name that no column has; columns with similar names are suggested.

    Examples
    --------
    >>> str(no_column("sensr", ["id", "sensor"], "to sort by"))
    "no column 'sensr' to sort by; did you mean 'sensor'?"
    """
    return SchemaError(" ".join(filter(None, (f"no column {name!r}", purpose))) + suggestion(name, names), **place)


def suggestion(name: str, names: Iterable[str]) -> str:
    """What to add to a message about an unknown name: the names that are close to it, if there are any."""
    import difflib  # needed for a message only

    close = difflib.get_close_matches(name, list(names), 3)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


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
    """Another job has changed the table meanwhile, so this job cannot commit. It has changed nothing."""


class PaimonTableError(MosaicError):
    """A Paimon table cannot be read or written as a plain directory of files; see `smalti.paimon`."""


class NoMosaicFilesError(MosaicError):
    """A directory has no Mosaic files, and nothing says that it is a table."""


class ReplacedError(MosaicError):
    """A file is no longer the one that was listed or opened."""


class RemovedError(ReplacedError, FileNotFoundError):
    """A file of a table was removed after the table was listed."""


class LeftoverWarning(UserWarning):
    """A commit has happened, but files that it has replaced or staged could not be removed or moved yet."""


def _open(value: Any) -> Any:
    """A value without its secrets. An error keeps no others, because it is pickled, logged and shown by debuggers."""
    return without_secrets(value) if isinstance(value, str) else value


def _show(value: Any, limit: int = 200) -> str:
    """Strings are phrases of ours and go in plain; everything else by repr, cut to a readable length."""
    text = value if isinstance(value, str) else repr(value)
    text = without_secrets(text)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
