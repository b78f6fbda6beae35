"""Reads of random tables have the rows that the filter lets through, whatever was pruned, opened or read ahead."""

from __future__ import annotations

import operator
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smalti
from smalti.errors import CorruptFileError
from smalti.file.reader import MosaicFile
from smalti.readahead import Budget
from smalti.table.listing import list_files, open_found
from smalti.table.names import partition_directory
from smalti.table.reading import FileRead, read_pieces
from smalti.table.splits import Piece
from tests.support.strategies import examples

Row = dict[str, Any]
NUMBERS, TEXTS, MIXED = ["1", "2", "10", "-3", None], ["a", "b/c", "é x=1", "007", None], ["1", "10", "9", "a", None]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


# --- filters, with what they mean -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    """A filter as pyarrow's expression, and as a function of a row that returns True, False or None for null."""

    expression: pc.Expression
    matches: Callable[[Row], bool | None]
    text: str
    dnf: list[Any] | None = None

    def __repr__(self) -> str:
        return self.text


def field_of(name: str) -> pc.Expression:
    return pc.field(*name.split("."))


def value_of(row: Row, name: str) -> Any:
    outer, _, inner = name.partition(".")
    value = row.get(outer)
    return value.get(inner) if inner and value is not None else value


def compare(name: str, op: str, value: Any) -> Condition:
    def matches(row: Row) -> bool | None:
        found = value_of(row, name)
        return None if found is None else COMPARE[op](found, value)

    return Condition(COMPARE[op](field_of(name), value), matches, f"{name} {op} {value!r}", [[(name, op, value)]])


def compare_columns(left: str, op: str, right: str) -> Condition:
    def matches(row: Row) -> bool | None:
        values = value_of(row, left), value_of(row, right)
        return None if None in values else COMPARE[op](*values)

    return Condition(COMPARE[op](field_of(left), field_of(right)), matches, f"{left} {op} {right}")


def is_null(name: str) -> Condition:
    return Condition(field_of(name).is_null(), lambda row: value_of(row, name) is None, f"{name} is null")


def negate(part: Condition) -> Condition:
    def matches(row: Row) -> bool | None:
        found = part.matches(row)
        return None if found is None else not found

    return Condition(~part.expression, matches, f"not ({part})")


def both(one: Condition, other: Condition) -> Condition:
    def matches(row: Row) -> bool | None:
        found = {one.matches(row), other.matches(row)}
        return False if False in found else None if None in found else True

    dnf = [[*a, *b] for a in one.dnf for b in other.dnf] if one.dnf and other.dnf else None
    return Condition(one.expression & other.expression, matches, f"({one} and {other})", dnf)


def either(one: Condition, other: Condition) -> Condition:
    def matches(row: Row) -> bool | None:
        found = {one.matches(row), other.matches(row)}
        return True if True in found else None if None in found else False

    dnf = [*one.dnf, *other.dnf] if one.dnf and other.dnf else None
    return Condition(one.expression | other.expression, matches, f"({one} or {other})", dnf)


def conditions(kinds: dict[str, str]) -> st.SearchStrategy[Condition]:
    """Filters over columns that hold numbers or texts."""
    values = {
        "number": st.integers(-4, 11),
        "text": st.sampled_from(["", "1", "10", "2", "a", "b/c", "b", "é x=1", "007", "zz"]),
    }
    ops = st.sampled_from(sorted(COMPARE))
    leaves = [
        *(st.builds(compare, st.just(name), ops, values[kind]) for name, kind in kinds.items()),
        *(st.builds(is_null, st.just(name)) for name in kinds),
    ]
    for kind in values:
        names = st.sampled_from([name for name in kinds if kinds[name] == kind and "." not in name] or [""])
        leaves.append(st.builds(compare_columns, names, ops, names).filter(lambda each: not each.text.startswith(" ")))
    return st.recursive(
        st.one_of(leaves),
        lambda inner: st.one_of(
            st.builds(negate, inner), st.builds(both, inner, inner), st.builds(either, inner, inner)
        ),
        max_leaves=4,
    )


# --- tables ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tree:
    """A table to be written: its files by path, with their rows as they are to be read."""

    files: dict[str, tuple[pa.Table, list[Row]]]
    kinds: dict[str, str]

    def __repr__(self) -> str:
        return repr({path: (str(table.schema), rows) for path, (table, rows) in self.files.items()})

    def write(self, directory: Path) -> list[Row]:
        options = smalti.WriterOptions(row_group_max_rows=2, stats_columns=["id"])
        for path, (table, _) in self.files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            smalti.write_table(table, directory / path, options=options)
        return [row for path in sorted(self.files) for row in self.files[path][1]]


@st.composite
def tables(draw: st.DrawFn) -> tuple[Tree, Condition | None]:
    keys = draw(st.sampled_from([[], ["p"], ["p", "q"]]))
    pools = {key: draw(st.sampled_from([NUMBERS, TEXTS, MIXED])) for key in keys}
    is_stored = bool(keys) and draw(st.integers(0, 4)) == 0
    files: dict[str, tuple[pa.Table, list[Row]]] = {}
    number = 0
    texts: dict[str, set[str]] = {key: set() for key in keys}
    for each in range(draw(st.integers(1, 6))):
        spelled = [(key, draw(st.sampled_from(pools[key]))) for key in keys]
        for key, text in spelled:
            texts[key] |= {text} - {None}
        count = draw(st.integers(0, 4))
        rows: list[Row] = [{"id": number + row} for row in range(count)]
        number += count
        columns = {"id": pa.array([row["id"] for row in rows], pa.int64())}
        if (type_ := draw(st.sampled_from([None, pa.int32(), pa.int64()]))) is not None:
            for row in rows:
                row["x"] = draw(st.none() | st.integers(-4, 11))
            columns["x"] = pa.array([row["x"] for row in rows], type_)
        if fields := draw(st.sampled_from([(), ("a",), ("a", "b"), ("b",)])):
            kinds = {"a": pa.int64(), "b": pa.string()}
            for row in rows:
                value = {"a": draw(st.none() | st.integers(-4, 11)), "b": draw(st.sampled_from([None, "a", "zz"]))}
                row["s"] = draw(st.sampled_from([None, {name: value[name] for name in fields}]))
            columns["s"] = pa.array([row["s"] for row in rows], pa.struct([(name, kinds[name]) for name in fields]))
        for row in rows:
            row.update(dict(spelled))
            if is_stored:
                row["p"] = draw(st.none() | st.integers(-4, 11))
        if is_stored:
            columns["p"] = pa.array([row["p"] for row in rows], pa.int64())
        files["/".join(filter(None, [partition_directory(spelled), f"{each}.mosaic"]))] = (pa.table(columns), rows)
    kinds = {"id": "number"}
    written = {name for table, _ in files.values() for name in table.schema.names}
    kinds |= {"x": "number"} if "x" in written else {}
    for table, _ in files.values():
        if "s" in table.schema.names:
            kinds |= {
                f"s.{each.name}": "number" if each.name == "a" else "text" for each in table.schema.field("s").type
            }
    for key in keys:
        is_number = texts[key] and all(text.lstrip("-").isdigit() and text != "007" for text in texts[key])
        kinds[key] = "number" if is_number or (key == "p" and is_stored) else "text"
        for _, rows in files.values():
            for row in rows if is_number and not (key == "p" and is_stored) else ():
                row[key] = None if row[key] is None else int(row[key])
    return Tree(files, kinds), draw(st.none() | conditions(kinds))


def plain(rows: list[Row], names: list[str]) -> list[Row]:
    """Rows with all columns, and structs with both fields."""
    found = []
    for row in rows:
        full = {name: row.get(name) for name in names}
        if full.get("s") is not None:
            full["s"] = {name: full["s"].get(name) for name in ("a", "b")}
        found.append(full)
    return found


@given(
    tables(),
    st.sampled_from([None, [], ["id"], ["x", "id"], ["s"], ["p", "id"], ["q"], ["id", "id"]]),
    st.sampled_from([None, 0, 1, 5]),
    st.integers(0, 9),
    st.booleans(),
)
@examples(60)
def test_rows_are_those_that_match(
    found: tuple[Tree, Condition | None], columns: list[str] | None, readahead: int | None, count: int, as_dnf: bool
) -> None:
    tree, condition = found
    with tempfile.TemporaryDirectory() as directory:
        rows = tree.write(Path(directory))
        known = {name.partition(".")[0] for name in tree.kinds}
        columns = None if columns is None else [name for name in columns if name in known]
        names = sorted(known) if columns is None else list(dict.fromkeys(columns))
        filters: Any = None
        if condition is not None:
            rows = [row for row in rows if condition.matches(row)]
            filters = condition.dnf if as_dnf and condition.dnf else condition.expression
        expected = plain(rows, names)

        def check(result: pa.Table, wanted: list[Row]) -> None:
            assert columns is None or result.schema.names == columns
            once = result if columns is None else result.select([columns.index(name) for name in names])
            assert result.num_rows == len(wanted)
            assert plain(once.to_pylist(), names) == wanted

        ds = smalti.dataset(directory, readahead=readahead)
        check(smalti.read_table(directory, columns, filters), expected)
        check(smalti.read_table(f"{directory}/**", columns, filters), expected)
        check(ds.to_table(columns, filters), expected)
        check(smalti.scan(directory, columns, filters, readahead=readahead, memory_limit=1 << 20).to_table(), expected)
        reader = smalti.scan(directory, columns, filters, readahead=readahead).to_reader()
        check(reader.read_all(), expected)
        check(ds.head(count, columns, filters), expected[:count])
        check(ds.tail(count, columns, filters), expected[len(expected) - min(count, len(expected)) :])
        assert ds.count_rows(filters) == len(expected)
        check(ds.with_schema().to_table(columns, filters), expected)


# --- cases that a random table hardly ever is -----------------------------------------------------------------------


def write(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    smalti.write_table(pa.table(columns), path, options=smalti.WriterOptions(row_group_max_rows=3))


@pytest.mark.parametrize("pattern", ["*", "**", "**/*.mosaic", "*/day=*"])
def test_a_pattern_and_a_filter_that_nothing_matches(tmp_path: Path, pattern: str) -> None:
    for place in ("north/day=1", "north/day=2", "south/day=1"):
        write(tmp_path / place / "a.mosaic", x=[1])
    found = smalti.read_table(f"{tmp_path}/{pattern}", filters=[("day", "=", 9)])
    assert (found.num_rows, found.schema.names) == (0, ["x", "day"])
    assert smalti.read_table(f"{tmp_path}/{pattern}", filters=[("day", "=", 1)]).num_rows == 2


def test_directories_without_files_are_refused_at_once_whatever_the_filter(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    with pytest.raises(FileNotFoundError, match="Nothing matches"):
        smalti.read_table(f"{tmp_path}/**/*.mosaic", filters=[("day", "=", 9)])
    with pytest.raises(smalti.MosaicError, match=r"no \*\.mosaic files"):
        smalti.read_table(tmp_path, filters=[("day", "=", 9)])


def test_partition_columns_are_compared_in_the_types_of_all_directories(tmp_path: Path) -> None:
    """Of the first directory alone the values are whole numbers, and 10 is not below 9."""
    write(tmp_path / "a=10" / "b=9" / "f.mosaic", x=[1])
    write(tmp_path / "a=x" / "b=y" / "f.mosaic", x=[2])
    condition = pc.field("a") < pc.field("b")
    assert smalti.read_table(tmp_path, filters=condition)["x"].to_pylist() == [1, 2]
    assert smalti.dataset(tmp_path).to_table(filters=condition)["x"].to_pylist() == [1, 2]


def test_first_and_last_rows_of_columns_that_some_files_lack(tmp_path: Path) -> None:
    write(tmp_path / "day=1" / "a.mosaic", x=pa.array([1, 2], pa.int32()))
    write(tmp_path / "day=2" / "a.mosaic", x=[3, 4], y=["p", "q"])
    table = smalti.dataset(tmp_path)
    assert table.head(1, ["y"]).to_pylist() == [{"y": None}]
    assert table.head(1, ["y*", "x"]).to_pylist() == [{"y": None, "x": 1}]
    assert table.head(3, ["x"], [("y", "=", "p")]).to_pylist() == [{"x": 3}]
    assert table.tail(3, ["x"], [("y", "=", "q")]).to_pylist() == [{"x": 4}]
    assert table.head(1, ["x", "x"]).columns == table.head(1, ["x"]).columns * 2
    assert (table.head(3, []).num_rows, table.tail(3, []).num_rows, table.tail(-1).num_rows) == (3, 3, 3)
    for rows in (table.head(3), table.tail(3)):
        assert rows.schema == table.schema
    with pytest.raises(smalti.SchemaError, match="no column 'z'"):
        table.head(1, ["z"])


def test_engines_find_rows_whose_files_store_another_partition_value(tmp_path: Path) -> None:
    """They have asked for the schema, so all files were opened, and it is known that one stores the column."""
    write(tmp_path / "day=1" / "a.mosaic", x=[1])
    write(tmp_path / "day=2" / "a.mosaic", x=[2], day=[1])
    table = smalti.dataset(tmp_path).with_schema()
    assert table.to_table(filters=[("day", "=", 1)])["x"].to_pylist() == [1, 2]
    assert table.head(5, filters=[("day", "=", 1)])["x"].to_pylist() == [1, 2]
    assert table.to_table(filters=[("day", "=", 2)]).num_rows == 0


@pytest.mark.parametrize("readahead", [0, 1, 5])
def test_pieces_that_cannot_be_read_are_reported_once_in_their_turn(tmp_path: Path, readahead: int) -> None:
    for number in range(6):
        write(tmp_path / f"{number}.mosaic", x=list(range(10 * number, 10 * number + 10)))
    damage(tmp_path / "2.mosaic", -20)  # cannot be opened
    damage(tmp_path / "4.mosaic", *range(4, 200, 5))  # several row groups cannot be read
    listing = list_files(tmp_path)
    opened: list[MosaicFile] = []
    failed: list[tuple[str, list[int]]] = []
    values: list[int] = []

    def open_piece(piece: Piece) -> MosaicFile:
        opened.append(MosaicFile(open_found(piece.file, listing.filesystem)))
        return opened[-1]

    def plan_piece(piece: Piece, _: MosaicFile) -> FileRead:
        if piece.file.path.endswith("5.mosaic"):
            raise CorruptFileError("not as it was planned")
        return FileRead(None)

    def note(piece: Piece, error: Exception) -> None:
        assert isinstance(error, CorruptFileError)
        failed.append((Path(piece.file.path).name, list(values)))

    pieces = [Piece.whole(file) for file in listing.files]
    for _, batch in read_pieces(pieces, open_piece, plan_piece, Budget(readahead), on_error=note):
        values += batch["x"].to_pylist()
    before = list(range(20))
    assert values == [*before, *range(30, 40)]
    assert failed == [("2.mosaic", before), ("4.mosaic", values), ("5.mosaic", values)]
    with pytest.raises(CorruptFileError):
        list(read_pieces(pieces, open_piece, lambda *_: FileRead(None), Budget(readahead)))
    for file in opened:
        with pytest.raises(ValueError, match="closed"):
            file.read()


def damage(path: Path, *places: int) -> None:
    data = bytearray(path.read_bytes())
    for place in places:
        data[place] ^= 0xFF
    path.write_bytes(data)
