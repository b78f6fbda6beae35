"""Readers of CSV and JSON lines, in blocks of whole lines, with types guessed from the first block.

Only one block is in memory at a time. If a line does not fit the guess, `SchemaDrift` is raised.
Then `scan_types` reads the whole file to find types that hold every line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.types as pt
from pyarrow import NativeFile

from smalti._compat.arrow import empty_table
from smalti.errors import MosaicError, SchemaError
from smalti.io.locations import Location
from smalti.jobs.formats.request import (
    ReadRequest,
    SchemaDrift,
    content_errors,
    refuse_row_groups,
    select_fields,
    split_batch,
)
from smalti.logical.types import is_binary_like, is_list_like, is_string_like
from smalti.sizes import TEXT_BLOCK_BYTES
from smalti.table.listing import Listing

if TYPE_CHECKING:
    from smalti.jobs.formats.registry import Format

#: About how many files are sampled, spread evenly over all text files.
MAX_SAMPLED = 50


def line_blocks(stream: NativeFile, size: int, *, quoted: bool) -> Iterator[bytes]:
    """Whole lines, about `size` bytes at a time; a line that is longer than that stays whole.

    With `quoted`, a line feed between quotes does not end a line: the number of quotes before it is odd.
    """
    rest = b""
    while data := stream.read(size):
        data = rest + data
        cut = data.rfind(b"\n") + 1
        odd = quoted and data.count(b'"', 0, cut) % 2
        while odd and cut and len(data) < 8 * size:  # beyond that a closing quote is missing
            previous = data.rfind(b"\n", 0, cut - 1) + 1
            odd ^= data.count(b'"', previous, cut) % 2
            cut = previous
        if cut:
            yield data[:cut]
        rest = data[cut:]
    if rest:
        yield rest


class TextReader:
    """What the readers of CSV and JSON lines have in common."""

    #: Whether line feeds may stand between quotes.
    quoted = False
    #: The type of a column whose values are of different kinds; None refuses them.
    any_type: pa.DataType | None = None

    def __init__(self, location: Location, request: ReadRequest) -> None:
        refuse_row_groups(request)
        self._location = location
        self._request = request
        self.schema = select_fields(self._guess(next(self._blocks(), b"")), request.columns)

    def _blocks(self) -> Iterator[bytes]:
        with self._location.filesystem.open_input_stream(self._location.path, compression="detect") as stream:
            yield from line_blocks(stream, TEXT_BLOCK_BYTES, quoted=self.quoted)

    def _guess(self, block: bytes) -> pa.Schema:
        """The schema of the first block: types that were given, and guesses for the others."""
        raise NotImplementedError

    def _parse(self, block: bytes, schema: pa.Schema | None, *, first: bool) -> pa.Table:
        raise NotImplementedError

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        for number, block in enumerate(self._blocks()):
            try:
                table = self._parse(block, self.schema, first=number == 0)
            except pa.ArrowInvalid as error:
                # The first block was read when its types were guessed, so it is types from elsewhere that do not fit.
                if number == 0 and self._request.agreed is None:
                    raise
                raise SchemaDrift(str(error)) from error
            for batch in table.combine_chunks().to_batches():
                yield from split_batch(batch, self._request.batch_size, len(block))

    def scan_types(self) -> pa.Schema:
        """Types that hold every line of the file, of the columns whose types were not given; reads all of it."""
        blocks = enumerate(self._blocks())
        return self.unify(self._not_given(self._types(block, first=not number)) for number, block in blocks)

    def _types(self, block: bytes, *, first: bool) -> pa.Schema:
        """Guesses about the columns of a block. Arrow guesses doubles for integers without sign, and rounds them."""
        table = self._parse(block, None, first=first)
        guess = table.schema
        for index, column in enumerate(table.columns):
            if pt.is_float64(column.type) and _may_be_unsigned(column):
                wanted = guess.set(index, guess.field(index).with_type(pa.uint64()))
                with suppress(pa.ArrowInvalid):  # which says that some number has a point, or is larger still
                    self._parse(block, wanted, first=first)
                    guess = wanted
        return guess

    def _not_given(self, guess: pa.Schema) -> pa.Schema:
        given = set() if self._request.types is None else set(self._request.types.names)
        return pa.schema([field for field in guess if field.name not in given])

    @classmethod
    def unify(cls, guesses: Iterable[pa.Schema]) -> pa.Schema:
        """Every column of some guesses, in the order they are first seen, with a type that fits all of them."""
        types: dict[str, pa.DataType] = {}
        for field in chain.from_iterable(guesses):
            known = types.get(field.name, field.type)
            both = widen_text(known, field.type)
            if both is None:
                both = cls.any_type
            if both is None:
                raise SchemaError(
                    "values of different kinds in one column",
                    column=field.name,
                    found=str(field.type),
                    expected=str(known),
                )
            types[field.name] = both
        return pa.schema(list(types.items()))

    def close(self) -> None:
        pass


class CsvReader(TextReader):
    """CSV with a header line. An empty field is null; an empty string is written as `""`.

    Words such as NA and null are null where the other values of a column are no texts. Among texts they are texts, and
    NaN is a number among numbers with a point.
    """

    quoted = True
    any_type = pa.string()
    #: Whether words for null were found in columns where they are null.
    _has_null_words = False

    def _guess(self, block: bytes) -> pa.Schema:
        if not block.strip():
            raise MosaicError("CSV file has no header line")
        # An empty table may end without a line feed after its header.
        guess = self._types(block if b"\n" in block else block + b"\n", first=True)
        return with_given_types(guess, self._request.known_types)

    def _parse(self, block: bytes, schema: pa.Schema | None, *, first: bool) -> pa.Table:
        if schema is None or len(set(schema.names)) < len(schema):
            table = self._read(block, schema, first, _null_words())
            if first:
                self._names = table.column_names
            return table
        if not self._has_null_words:
            try:
                return self._read(block, schema, first, [""])
            except pa.ArrowInvalid:
                self._has_null_words = True  # unless the types do not fit, which the columns by themselves will tell
        # Arrow has one list of words for null for all columns that it reads at a time, so kinds are read one by one.
        columns: dict[str, pa.ChunkedArray] = {}
        for words, is_kind in (([""], _is_text), (_null_words(but=_NAN), pt.is_floating), (_null_words(), _is_other)):
            some = pa.schema([field for field in schema if is_kind(field.type)])
            if len(some):
                columns |= zip(some.names, self._read(block, some, first, words).columns, strict=True)
        return pa.table([columns[name] for name in schema.names], schema=schema)

    def _read(self, block: bytes, schema: pa.Schema | None, first: bool, null_words: list[str]) -> pa.Table:
        from pyarrow import csv

        return csv.read_csv(
            pa.BufferReader(block),  # type: ignore[arg-type]
            read_options=csv.ReadOptions(
                use_threads=self._request.threads,
                block_size=len(block) + 1,
                column_names=None if first else self._names,
            ),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=schema,
                include_columns=None if schema is None or schema.names == self._names else schema.names,
                null_values=null_words,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


_NAN = frozenset({"NaN", "nan", "-NaN", "-nan"})


def _null_words(but: Collection[str] = ()) -> list[str]:
    """The words that Arrow takes for null in columns of numbers, such as NA and null, without those in `but`."""
    from pyarrow import csv

    return [word for word in csv.ConvertOptions().null_values or () if word not in but]


def _is_text(type_: Any) -> bool:
    plain = type_.value_type if pt.is_dictionary(type_) else type_
    return is_string_like(plain) or is_binary_like(plain)


def _is_other(type_: pa.DataType) -> bool:
    return not _is_text(type_) and not pt.is_floating(type_)


#: A number that JSON lacks, as `text_values` writes it: a string that is a value, not a name. Inside another, its
#: quotes would have backslashes before them.
_SPECIAL = re.compile(rb'(?<=[:,\[])(\s*)"(NaN|-?Infinity)"(?=\s*[,}\]])')


class JsonReader(TextReader):
    """One JSON object a line. The texts "NaN", "Infinity" and "-Infinity" are numbers where the others are numbers."""

    def _guess(self, block: bytes) -> pa.Schema:
        if not block.strip():
            return pa.schema([])
        known = self._request.known_types
        guess = with_given_types(self._types(block, first=True), known)
        # A key may first occur after the first block; if its type is known, it is a column all the same.
        more = [field for field in known if guess.get_field_index(field.name) < 0]
        return pa.schema([*guess, *more])

    def _parse(self, block: bytes, schema: pa.Schema | None, *, first: bool) -> pa.Table:  # noqa: ARG002
        if not block.strip():
            return empty_table(pa.schema([] if schema is None else list(schema)))
        if _SPECIAL.search(block) is None:
            return self._read(block, schema)
        if schema is not None:
            with suppress(pa.ArrowInvalid):  # This succeeds if "NaN" and infinities are in columns of texts only.
                return self._read(block, schema)
        try:  # Arrow takes them as numbers without quotes,
            return self._read(_SPECIAL.sub(rb"\1\2", block), schema)
        except pa.ArrowInvalid:  # unless there are texts beside them.
            types = self._read(_SPECIAL.sub(rb"\1null", block), None).schema if schema is None else schema
            return self._read(_with_numbers(block, pa.struct(list(types))), schema)

    def _read(self, block: bytes, schema: pa.Schema | None) -> pa.Table:
        from pyarrow import json as arrow_json

        unexpected: Literal["infer", "ignore", "error"] = (
            "infer" if schema is None else "ignore" if self._request.columns is not None else "error"
        )
        return arrow_json.read_json(
            pa.BufferReader(block),  # type: ignore[arg-type]
            read_options=arrow_json.ReadOptions(use_threads=self._request.threads, block_size=len(block) + 1),
            parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )

    def scan_types(self) -> pa.Schema:
        numbers: dict[str, pa.DataType] = {}

        def guesses() -> Iterator[pa.Schema]:
            """Types with "NaN" and infinities taken for null. They are texts if another block has other texts."""
            for block in self._blocks():
                seen = hidden = self._parse(block, None, first=False).schema
                if _SPECIAL.search(block) is not None:
                    hidden = self._read(_SPECIAL.sub(rb"\1null", block), None).schema
                    numbers.update((field.name, field.type) for field in seen if hidden.field(field.name) != field)
                yield self._not_given(hidden)

        found = self.unify(guesses())
        both = [(field, widen_text(field.type, numbers.get(field.name, field.type))) for field in found]
        return pa.schema([field if type_ is None else field.with_type(type_) for field, type_ in both])


def _with_numbers(block: bytes, type_: Any) -> bytes:
    """JSON lines in which "NaN" and infinities are numbers without quotes, except where the type is text."""
    mark = uuid4().hex  # Numbers keep all their digits as texts that begin with this.

    def marked(text: str) -> str:
        return mark + text

    lines = (json.loads(line, parse_float=marked, parse_int=marked) for line in block.splitlines() if line.strip())
    text = "\n".join(json.dumps(_numbers(line, type_, mark), ensure_ascii=False) for line in lines)
    return re.sub(f'"{mark}([^"]*)"', r"\1", text).encode()


def _numbers(value: Any, type_: Any, mark: str) -> Any:
    if isinstance(value, dict) and type_ is not None and pt.is_struct(type_):
        types = {field.name: field.type for field in type_}
        return {name: _numbers(each, types.get(name), mark) for name, each in value.items()}
    if isinstance(value, list) and type_ is not None and is_list_like(type_):
        return [_numbers(each, type_.value_type, mark) for each in value]
    is_number = isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity")
    return mark + value if is_number and type_ is not None and not _is_text(type_) else value


def _may_be_unsigned(column: pa.ChunkedArray) -> bool:
    """Whether doubles are whole numbers from zero on, and one of them is too large for an integer with sign."""
    import pyarrow.compute as pc

    bounds: Any = pc.min_max(column).as_py()
    low, high = bounds["min"], bounds["max"]
    if low is None or low < 0 or not 2.0**63 <= high <= 2.0**64:
        return False
    return bool(pc.all(pc.equal(pc.floor(column), column)).as_py())


#: Types of numbers in text. Decimals hold integers with sign and without, and doubles round all of them.
_NUMBERS = [pa.int64(), pa.uint64(), pa.decimal128(20, 0), pa.float64()]


def widen_text(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type that two guesses about the same column agree on, or None.

    Examples
    --------
    >>> widen_text(pa.int64(), pa.float64()), widen_text(pa.null(), pa.bool_()), widen_text(pa.bool_(), pa.int64())
    (DataType(double), DataType(bool), None)
    """
    if a == b or pt.is_null(b):
        return a
    if pt.is_null(a):
        return b
    if a in _NUMBERS and b in _NUMBERS:
        return pa.decimal128(20, 0) if {a, b} == {pa.int64(), pa.uint64()} else max(a, b, key=_NUMBERS.index)
    times = [type_ for type_ in (a, b) if pt.is_timestamp(type_)]
    if times and all(pt.is_timestamp(type_) or pt.is_date32(type_) for type_ in (a, b)):
        zones = {type_.tz for type_ in times}
        if len(zones) == 1 and not (zones != {None} and len(times) == 1):
            return max(times, key=lambda type_: ["s", "ms", "us", "ns"].index(type_.unit))
        return pa.string()
    if (pt.is_string(a) and pt.is_temporal(b)) or (pt.is_string(b) and pt.is_temporal(a)):
        return pa.string()
    if pt.is_list(a) and pt.is_list(b):
        inner = widen_text(a.value_type, b.value_type)
        return None if inner is None else pa.list_(inner)
    if pt.is_struct(a) and pt.is_struct(b):
        types: dict[str, pa.DataType | None] = {field.name: field.type for field in a}
        for field in b:
            known = types.get(field.name, field.type)
            types[field.name] = None if known is None else widen_text(known, field.type)
        return None if None in types.values() else pa.struct([(n, t) for n, t in types.items() if t is not None])
    return None


def with_given_types(guess: pa.Schema, given: pa.Schema) -> pa.Schema:
    """The columns of a guess, with the types of those that were given."""
    types = dict(zip(given.names, given.types, strict=True))
    return pa.schema([pa.field(field.name, types.get(field.name, field.type)) for field in guess])


# --- types that the beginning of one file does not tell --------------------------------------------------------------


def with_agreed_types(request: ReadRequest, listing: Listing, formats: Sequence[tuple[Format, str]]) -> ReadRequest:
    """The request with types on which the text files of a listing agree.

    A broken file is passed over: the task that reads it will fail and say why.
    """
    text = [(file.path, format_) for file, (format_, _) in zip(listing.files, formats, strict=True) if format_.is_text]
    if len(text) < 2:
        return request
    whole = replace(request, columns=None)
    agreed: pa.Schema | None = None
    for path, format_ in text[:: max(1, len(text) // MAX_SAMPLED)]:
        try:
            with content_errors(path, format_.title):
                reader = _open_text(Location(listing.filesystem, path), format_, whole)
                agreed = reader.unify([reader.schema] if agreed is None else [agreed, reader.schema])
        except MosaicError:
            continue
    return replace(request, agreed=agreed)


def scan_types(location: Location, format_: Format, request: ReadRequest) -> pa.Schema:
    """Types that hold all of a text file which guesses did not fit; reads the file once.

    They hold what other files have in these columns, too, as far as that is known.
    """
    with content_errors(location.path, format_.title):
        reader = _open_text(location, format_, replace(request, agreed=None, columns=None))
        found = reader.scan_types()
        known = set(found.names)
        return reader.unify([found, pa.schema([field for field in request.agreed or () if field.name in known])])


def _open_text(location: Location, format_: Format, request: ReadRequest) -> TextReader:
    reader = format_.reader(location, request)
    assert isinstance(reader, TextReader)
    return reader
