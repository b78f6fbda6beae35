"""Every format to Mosaic and back, text types that change midway, width, and files that are broken."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import smalti
from smalti import jobs
from smalti.cli.main import main
from smalti.jobs.formats import text as text_module
from smalti.jobs.formats.registry import format_of_path
from tests.jobs.data import mixed, nested, visible
from tests.support.any_arrow import any_array

SUFFIXES = [".mosaic", ".parquet", ".orc", ".arrow", ".arrows", ".csv", ".csv.gz", ".jsonl"]
BINARY = SUFFIXES[:5]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_there_and_back(tmp_path: Path, suffix: str) -> None:
    table = mixed(500)
    if suffix == ".jsonl":  # text that looks like a date is a timestamp to a JSON reader
        table = table.drop_columns(["day", "at"])
    smalti.write_table(table, tmp_path / "a.mosaic")
    there = jobs.convert(tmp_path / "a.mosaic", tmp_path / f"b{suffix}")
    back = jobs.convert(tmp_path / f"b{suffix}", tmp_path / "c.mosaic")
    assert there.num_rows == back.num_rows == 500
    found = smalti.read_table(tmp_path / "c.mosaic")
    assert found.column_names == table.column_names
    assert found.cast(table.schema).equals(table)


@pytest.mark.parametrize("suffix", BINARY)
def test_nested_types(tmp_path: Path, suffix: str) -> None:
    table = nested(100)
    smalti.write_table(table, tmp_path / "a.mosaic")
    jobs.convert(tmp_path / "a.mosaic", tmp_path / f"b{suffix}")
    jobs.convert(tmp_path / f"b{suffix}", tmp_path / "c.mosaic")
    assert smalti.read_table(tmp_path / "c.mosaic").to_pylist() == table.to_pylist()


@pytest.mark.parametrize("suffix", [".csv", ".orc"])
def test_layouts_that_arrow_cannot_cast(tmp_path: Path, suffix: str) -> None:
    """Formats with fewer types than Arrow get the values in plain ones."""
    words = pa.array(["a", "a", None])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))
    table = pa.table({"r": runs, "v": pa.array(words.to_pylist(), pa.string_view()), "d": words.dictionary_encode()})
    smalti.write_table(table, tmp_path / "a.mosaic")
    jobs.convert(tmp_path / "a.mosaic", tmp_path / f"b{suffix}")
    jobs.convert(tmp_path / f"b{suffix}", tmp_path / "c.mosaic")
    assert smalti.read_table(tmp_path / "c.mosaic").to_pylist() == [
        {name: word.as_py() for name in "rvd"} for word in words
    ]


@pytest.mark.parametrize("block", [1, 150, 16 << 20])
def test_numbers_that_json_lacks(
    tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are texts in JSON, for `convert` as for `cat --json`, and numbers again in columns of numbers."""
    nan, inf = float("nan"), float("inf")
    structs = [{"a": nan, "b": "NaN"}, {"a": 1.0, "b": "q"}, None, {"a": None, "b": "Infinity"}, {"a": -inf, "b": ""}]
    table = pa.table(
        {
            "few": [1.5, nan, inf, -inf, 0.1],
            "all": [nan, None, nan, nan, nan],
            "whole": [1, 2, 3, 4, 5],
            "text": ["NaN", "x", None, "Infinity", 'a,"NaN",b'],
            "lists": [[1.0, nan], [], None, [inf], [2.0]],
            "structs": structs,
            "day": pa.array([3_000_000] * 5, pa.date32()),  # in the year 10183, which Python does not have
        }
    )
    smalti.write_table(table, tmp_path / "a.mosaic")
    jobs.convert(tmp_path / "a.mosaic", tmp_path / "b.jsonl")
    assert main(["cat", str(tmp_path / "a.mosaic"), "--json"]) == 0
    written = (tmp_path / "b.jsonl").read_text()
    assert written == capsys.readouterr().out
    assert '"few": "NaN"' in written
    monkeypatch.setattr(text_module, "TEXT_BLOCK_BYTES", block)
    jobs.convert(tmp_path / "b.jsonl", tmp_path / "c.mosaic")
    found = smalti.read_table(tmp_path / "c.mosaic").drop_columns(["day"])
    assert repr(found.to_pylist()) == repr(table.drop_columns(["day"]).to_pylist())
    assert found.schema.types == table.drop_columns(["day"]).schema.types


class Extended(pa.ExtensionType):
    """An extension type of any storage."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "smalti.tests.extended")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, _: bytes) -> Extended:
        return cls(storage)


@pytest.fixture
def extended() -> Iterator[None]:
    pa.register_extension_type(Extended(pa.int8()))
    yield
    pa.unregister_extension_type("smalti.tests.extended")


@pytest.mark.usefixtures("extended")
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", [pa.duration, pa.timestamp])
def test_units_in_dictionaries_survive_parquet(tmp_path: Path, kind: Callable[[str], pa.DataType], unit: str) -> None:
    """Arrow's reader takes durations in dictionaries for numbers, and dies of dictionaries in extension types."""
    values = pa.array([5, -7, None], pa.int64()).cast(kind(unit))
    entries = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), values)
    words = pa.array(["a", "b", None]).dictionary_encode()
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3, 3], pa.int32()), entries)
    columns: dict[str, pa.Array] = {
        "plain": entries,
        "list": lists,
        "map": pa.MapArray.from_arrays(pa.array([0, 2, 3, 3], pa.int32()), pa.array(["x", "y", "z"]), entries),
        "struct": pa.StructArray.from_arrays([entries, lists], ["e", "l"]),
        "extension": pa.ExtensionArray.from_storage(Extended(entries.type), entries),
        "list in extension": pa.ExtensionArray.from_storage(Extended(lists.type), lists),
        "words in extension": pa.ExtensionArray.from_storage(Extended(words.type), words),
    }
    table = pa.table(columns)
    smalti.write_table(table, tmp_path / "a.mosaic")
    jobs.convert(tmp_path / "a.mosaic", tmp_path / "b.parquet")
    jobs.convert(tmp_path / "b.parquet", tmp_path / "c.mosaic")
    assert smalti.read_table(tmp_path / "c.mosaic").to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("suffix", "type_"),
    [
        (".orc", pa.decimal128(10, -2)),  # ended the process
        (".orc", pa.time32("ms")),
        (".parquet", pa.decimal128(10, -2)),
        (".parquet", pa.run_end_encoded(pa.int32(), pa.int8())),
        (".parquet", pa.struct([])),
        (".parquet", pa.binary(0)),
    ],
)
@pytest.mark.parametrize("in_lists", [False, True])
def test_types_that_a_format_lacks_are_refused(tmp_path: Path, suffix: str, type_: pa.DataType, in_lists: bool) -> None:
    type_ = pa.list_(pa.struct([("x", type_)])) if in_lists else type_
    smalti.write_table(pa.table({"c": any_array(random.Random(1), type_, 5)}), tmp_path / "a.mosaic")
    with pytest.raises(jobs.JobError, match=r"a\.mosaic.*column 'c'.*(ORC|Parquet) has no place for this type"):
        jobs.convert(tmp_path / "a.mosaic", tmp_path / f"b{suffix}")
    assert visible(tmp_path) == ["a.mosaic"]


@pytest.mark.parametrize(("suffix", "flag"), [(".csv", "--csv"), (".jsonl", "--json")])
def test_text_is_what_the_command_line_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str, flag: str
) -> None:
    """`cat --csv` had bytes in hexadecimal and nested values, which `convert` refused."""
    floats = [2.15, float("nan"), float("inf"), 3.0]
    # Arrow cannot show the years -32768 and 32768.
    moments = [0, -1_096_193_779_201, 971_890_963_200, None]
    table = pa.table(
        {
            "float32": pa.array(floats, pa.float32()),
            "float16": pa.array(np.array(floats, np.float16)),
            "bytes": [b"\x00\xff", None, b"", b"a"],
            "lists": [[1, None], None, [], [3]],
            "words": ["NA", "", None, 'a "b", c'],
            "moments": pa.array(moments, pa.timestamp("s")),
            "flag": [True, False, None, True],
        }
    )
    smalti.write_table(table, tmp_path / "a.mosaic")
    jobs.convert(tmp_path / "a.mosaic", tmp_path / f"b{suffix}")
    assert main(["cat", flag, str(tmp_path / "a.mosaic")]) == 0
    text = capsys.readouterr().out
    assert text == (tmp_path / f"b{suffix}").read_text()
    first, _, third, last = text.splitlines()[-4:]
    if suffix == ".csv":
        assert first == '2.15,2.15,AP8=,"[1, null]","NA",1970-01-01T00:00:00,true'
        assert third == 'Infinity,Infinity,"",[],,32768-01-01T00:00:00,'
        assert last.startswith('3.0,3.0,YQ==,[3],"a ""b"", c",')
    else:
        assert first.startswith('{"float32": 2.15, "float16": 2.15, "bytes": "AP8=", "lists": [1, null], "words": "NA"')
        assert third.startswith('{"float32": "Infinity", "float16": "Infinity"')


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_rows(tmp_path: Path, suffix: str) -> None:
    smalti.write_table(mixed(0), tmp_path / "a.mosaic")
    assert jobs.convert(tmp_path / "a.mosaic", tmp_path / f"b{suffix}").num_rows == 0
    assert jobs.convert(tmp_path / f"b{suffix}", tmp_path / "c.mosaic").num_rows == 0
    names = smalti.read_table(tmp_path / "c.mosaic").column_names
    assert names == ([] if suffix == ".jsonl" else mixed(0).column_names)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_columns_in_the_order_asked_for(tmp_path: Path, suffix: str) -> None:
    smalti.write_table(mixed(20), tmp_path / "a.mosaic")
    jobs.convert(tmp_path / "a.mosaic", tmp_path / f"b{suffix}")
    jobs.convert(tmp_path / f"b{suffix}", tmp_path / "c.mosaic", columns=["flag", "id"], batch_size=3)
    assert smalti.read_table(tmp_path / "c.mosaic").equals(mixed(20).select(["flag", "id"]))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_unknown_column_is_named(tmp_path: Path, suffix: str) -> None:
    smalti.write_table(mixed(3), tmp_path / "a.mosaic")
    jobs.convert(tmp_path / "a.mosaic", tmp_path / f"b{suffix}")
    with pytest.raises(jobs.JobError, match=r"no column .nope."):
        jobs.convert(tmp_path / f"b{suffix}", tmp_path / "c.mosaic", columns=["nope"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_garbage_fails_with_path_and_reason(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(
        b'{"a": 1}\n[not json\n' if suffix == ".jsonl" else b"a,b\n1,2\n3\n" if suffix == ".csv" else b"x" * 999
    )
    with pytest.raises(jobs.JobError, match=rf"bad\{suffix}.*: "):
        jobs.convert(path, tmp_path / "c.mosaic")
    assert visible(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", BINARY)
def test_every_cut_fails_cleanly(tmp_path: Path, suffix: str) -> None:
    """A file that ends early is an error or, for a stream cut between messages, fewer rows; never a crash."""
    smalti.write_table(mixed(50), tmp_path / "a.mosaic")
    jobs.convert(tmp_path / "a.mosaic", tmp_path / f"b{suffix}")
    data = (tmp_path / f"b{suffix}").read_bytes()
    for number, size in enumerate(range(0, len(data), max(1, len(data) // 20))):
        cut = tmp_path / f"cut{suffix}"
        cut.write_bytes(data[:size])
        if suffix == ".arrows":
            with contextlib.suppress(jobs.JobError):
                assert jobs.convert(cut, tmp_path / f"{number}.mosaic").num_rows in (0, 50)
        else:
            with pytest.raises(jobs.JobError, match=re.escape(str(cut))):
                jobs.convert(cut, tmp_path / f"{number}.mosaic")


def test_suffixes() -> None:
    cases = {"a.parquet": "parquet", "b.CSV.gz": "csv", "c.ndjson": "json", "d.feather": "arrow", "e.txt": None}
    for path, name in cases.items():
        found = format_of_path(path)
        assert (found and found[0].name) == name


# --- text -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "TEXT_BLOCK_BYTES", 64)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1"] * 99 + ["2.5"], pa.float64()),
        ([""] * 99 + ["7"], pa.int64()),
        (["1"] * 99 + ["x"], pa.string()),
        (["2024-01-01"] * 99 + ["2024-01-01 10:00:00"], pa.timestamp("s")),
        (["true"] * 99 + ["5"], pa.string()),
        (["1"] * 99, pa.int64()),
    ],
)
def test_csv_types_that_change_midway(tmp_path: Path, values: list[str], type_: pa.DataType) -> None:
    (tmp_path / "a.csv").write_text("n,v\n" + "".join(f"{i},{value}\n" for i, value in enumerate(values)))
    jobs.convert(tmp_path / "a.csv", tmp_path / "a.mosaic")
    table = smalti.read_table(tmp_path / "a.mosaic")
    assert table.schema.field("v").type == type_
    assert table["n"].to_pylist() == list(range(len(values)))
    expected = pyarrow.csv.read_csv(
        tmp_path / "a.csv",
        convert_options=pyarrow.csv.ConvertOptions(column_types={"v": type_}, strings_can_be_null=True),
    )
    assert table["v"].equals(expected["v"].cast(type_))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_integers_of_64_bits_there_and_back(tmp_path: Path, suffix: str) -> None:
    """Arrow guesses doubles for integers from 2^63 on, and rounds them."""
    values = {"u": [(1 << 64) - 1, (1 << 53) + 1, None], "v": [1 << 63, 0, 5]}
    table = pa.table({name: pa.array(each, pa.uint64()) for name, each in values.items()})
    table = table.append_column("i", pa.array([-(1 << 63), (1 << 53) + 1, 0]))
    table = table.append_column("f", pa.array([0.5, 2.0**63, None]))
    smalti.write_table(table, tmp_path / "a.mosaic")
    jobs.convert(tmp_path / "a.mosaic", tmp_path / f"b{suffix}")
    jobs.convert(tmp_path / f"b{suffix}", tmp_path / "c.mosaic")
    assert smalti.read_table(tmp_path / "c.mosaic").equals(table)


def test_large_integers_that_come_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "TEXT_BLOCK_BYTES", 64)
    values = [*range(40), (1 << 64) - 1]
    (tmp_path / "a.csv").write_text("x\n" + "".join(f"{value}\n" for value in values))
    jobs.convert(tmp_path / "a.csv", tmp_path / "b.mosaic")
    assert smalti.read_table(tmp_path / "b.mosaic")["x"].to_pylist() == values


@pytest.mark.usefixtures("small_blocks")
def test_line_breaks_between_quotes(tmp_path: Path) -> None:
    table = pa.table({"n": range(200), "text": ['a\nb, "c"\n' * (i % 4) for i in range(200)]})
    pyarrow.csv.write_csv(table, tmp_path / "a.csv")
    jobs.convert(tmp_path / "a.csv", tmp_path / "a.mosaic")
    assert smalti.read_table(tmp_path / "a.mosaic").equals(table)


@pytest.mark.usefixtures("small_blocks")
def test_profile_of_types_that_change_midway(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("v\n" + "1\n" * 99 + "2.5\n")
    assert jobs.profile(tmp_path / "a.csv").table.to_pylist()[0]["max"] == "2.5"


@pytest.mark.usefixtures("small_blocks")
def test_csv_that_breaks_midway(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,v\n" + "1,2\n" * 99 + "1,2,3\n")
    with pytest.raises(jobs.JobError, match=r"a\.csv: cannot be read as CSV.*Expected 2 columns"):
        jobs.convert(tmp_path / "a.csv", tmp_path / "a.mosaic")
    summary = jobs.convert(tmp_path / "a.csv", tmp_path / "a.mosaic", on_error="skip")
    assert [Path(item.path).name for item in summary.skipped] == ["a.csv"]


@pytest.mark.usefixtures("small_blocks")
def test_json_with_columns_that_come_later(tmp_path: Path) -> None:
    rows = [{"a": i} for i in range(50)] + [{"a": 0.5, "b": "x"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    jobs.convert(tmp_path / "a.jsonl", tmp_path / "a.mosaic")
    table = smalti.read_table(tmp_path / "a.mosaic")
    assert table.schema.types == [pa.float64(), pa.string()]
    assert table["b"].to_pylist() == [None] * 50 + ["x"]


def test_text_files_of_a_directory_agree(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv").write_text("v,w\n1,\n")
    (tmp_path / "raw/b.csv").write_text("v,w\n2.5,x\n")
    jobs.convert(tmp_path / "raw", tmp_path / "out")
    assert smalti.dataset(str(tmp_path / "out")).to_table().to_pylist() == [{"v": 1.0, "w": None}, {"v": 2.5, "w": "x"}]


def test_given_types_are_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("zip,n\n01234,1\n")
    jobs.convert(tmp_path / "a.csv", tmp_path / "a.mosaic", types=pa.schema([("zip", pa.string())]))
    assert smalti.read_table(tmp_path / "a.mosaic").to_pylist() == [{"zip": "01234", "n": 1}]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_given_types_stay_when_others_change(tmp_path: Path, suffix: str) -> None:
    rows = [(i, 1) for i in range(99)] + [(99, 2.5)]
    lines = [f"{i},{v}" if suffix == ".csv" else json.dumps({"n": i, "v": v}) for i, v in rows]
    header = ["n,v"] if suffix == ".csv" else []
    (tmp_path / f"a{suffix}").write_text("\n".join([*header, *lines]) + "\n")
    jobs.convert(tmp_path / f"a{suffix}", tmp_path / "a.mosaic", types=pa.schema([("n", pa.int32())]))
    table = smalti.read_table(tmp_path / "a.mosaic")
    assert table.schema.types == [pa.int32(), pa.float64()]
    assert table["n"].to_pylist() == list(range(100))
    with pytest.raises(jobs.JobError, match=r"a\.(csv|jsonl): values fit no type"):
        jobs.convert(tmp_path / f"a{suffix}", tmp_path / "b.mosaic", types=pa.schema([("v", pa.int32())]))


@pytest.mark.parametrize("column", ["", "2", "many", "2024-01-01"])
def test_a_file_that_was_not_looked_at_may_have_other_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """Types are guessed from a sample of many files; one that is not in the sample is read all the same."""
    monkeypatch.setattr(text_module, "MAX_SAMPLED", 1)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv").write_text(f"v,w\n{column},1\n")
    (tmp_path / "raw/b.csv").write_text("v,w\n2.5,7\n")
    (tmp_path / "raw/c.csv").write_text("v,w\nx,8\n")
    assert jobs.convert(tmp_path / "raw", tmp_path / "out").num_rows == 3
    found = [smalti.read_table(path).to_pylist() for path in sorted((tmp_path / "out").glob("[bc]*.mosaic"))]
    assert [[str(row["v"]) for row in rows] for rows in found] == [["2.5"], ["x"]]


def test_csv_words_for_null(tmp_path: Path) -> None:
    """NA and the like are null among numbers, and texts among texts; NaN is a number."""
    lines = ["i,f,s,d,b", "1,nan,NA,2024-01-01,true", "NA,1.5,null,NULL,n/a", ",,,,", 'null,-inf,"",,', "4,N/A,nan,,"]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    jobs.convert(tmp_path / "a.csv", tmp_path / "a.mosaic")
    table = smalti.read_table(tmp_path / "a.mosaic")
    assert table.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.date32(), pa.bool_()]
    assert table["i"].to_pylist() == [1, None, None, None, 4]
    assert str(table["f"].to_pylist()) == "[nan, 1.5, None, -inf, None]"
    assert table["s"].to_pylist() == ["NA", "null", None, "", "nan"]
    assert (table["d"].null_count, table["b"].null_count) == (4, 4)


def test_csv_there_and_back_keeps_nan_and_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"x": [float("nan"), None, 1.5], "s": ["NA", None, "text"]})
    smalti.write_table(table, tmp_path / "a.mosaic")
    jobs.convert(tmp_path / "a.mosaic", tmp_path / "a.csv")
    assert main(["cat", str(tmp_path / "a.mosaic"), "--csv"]) == 0
    (tmp_path / "b.csv").write_text(capsys.readouterr().out)
    for name in "ab":
        jobs.convert(tmp_path / f"{name}.csv", tmp_path / f"{name}-back.mosaic")
        assert str(smalti.read_table(tmp_path / f"{name}-back.mosaic").to_pydict()) == str(table.to_pydict())


def test_wide_csv(tmp_path: Path) -> None:
    """10,000 columns, both ways."""
    names = [f"sensor_{i:05d}" for i in range(10_000)]
    lines = [",".join(names)] + [",".join(str(row * i) for i in range(10_000)) for row in range(30)]
    with gzip.open(tmp_path / "wide.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    assert jobs.convert(tmp_path / "wide.csv.gz", tmp_path / "wide.mosaic").num_rows == 30
    table = smalti.read_table(tmp_path / "wide.mosaic", columns=["sensor_09999", "sensor_00000"])
    assert table.slice(29).to_pylist() == [{"sensor_09999": 29 * 9999, "sensor_00000": 0}]
    jobs.convert(tmp_path / "wide.mosaic", tmp_path / "back.csv")
    assert pyarrow.csv.read_csv(tmp_path / "back.csv").num_columns == 10_000


def test_parquet_types_are_stored_as_mosaic_has_them(tmp_path: Path) -> None:
    table = pa.table(
        {"d": pa.array(["x", "y", "x"]).dictionary_encode(), "u": pa.array([1, 2, 3], pa.uint8()), "n": pa.nulls(3)}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    jobs.convert(tmp_path / "a.parquet", tmp_path / "a.mosaic")
    assert smalti.read_table(tmp_path / "a.mosaic").to_pylist() == table.to_pylist()


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows", ".orc"])
def test_structs_travel(tmp_path: Path, suffix: str) -> None:
    table = pa.table({"s": [{"a": 1, "b": ["x"]}, None], "l": [[{"c": 1.5}], []], "d": pa.array([1, 2], pa.uint64())})
    smalti.write_table(table, tmp_path / "a.mosaic")
    jobs.convert(tmp_path / "a.mosaic", tmp_path / f"b{suffix}")
    jobs.convert(tmp_path / f"b{suffix}", tmp_path / "c.mosaic")
    assert smalti.read_table(tmp_path / "c.mosaic").to_pylist() == table.to_pylist()
