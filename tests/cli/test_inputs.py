"""What commands can be given: files, directories, patterns, several of them, other formats, standard input."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smalti
from smalti import jobs
from smalti.cli.main import build_parser
from smalti.cli.render.text import cutter, width
from smalti.cli.screen import Screen

ROWS = 60
TABLE = pa.table({"id": range(ROWS), "name": [f"n{i % 4}" for i in range(ROWS)], "x": [i / 2 for i in range(ROWS)]})


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The same rows in every place that a command takes."""
    root = tmp_path_factory.mktemp("places")
    one = root / "one.mosaic"
    smalti.write_table(TABLE, one, row_group_max_rows=25, stats_columns="all")
    for number in range(3):
        part = TABLE.slice(number * 20, 20)
        (root / "table").mkdir(exist_ok=True)
        (root / "parquet").mkdir(exist_ok=True)
        smalti.write_table(part, root / "table" / f"{number}.mosaic", stats_columns="all")
        pq.write_table(part, root / "parquet" / f"{number}.parquet")
    for suffix in ("parquet", "orc", "arrow", "arrows", "csv", "jsonl"):
        jobs.convert(one, root / f"one.{suffix}")
    shutil.copy(root / "one.csv", root / "text.dat")
    found = {
        "file": [one],
        "directory": [root / "table"],
        "pattern": [root / "table" / "[0-9].mosaic"],
        "several": sorted((root / "table").iterdir()),
        "parquet directory": [root / "parquet"],
        "parquet pattern": [root / "parquet" / "*.parquet"],
        "mixed": [root / "parquet" / "0.parquet", root / "parquet" / "1.parquet", root / "table" / "2.mosaic"],
        "said": [root / "text.dat", "--from", "csv"],
        **{suffix: [root / f"one.{suffix}"] for suffix in ("parquet", "orc", "arrow", "arrows", "csv", "jsonl")},
    }
    return {name: [str(part) for part in parts] for name, parts in found.items()}


KINDS = [
    "file", "directory", "pattern", "several", "parquet directory", "parquet pattern", "mixed", "said",
    "parquet", "orc", "arrow", "arrows", "csv", "jsonl",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_reading_command_takes_it(run: Any, places: dict[str, list[str]], kind: str) -> None:
    source = places[kind]
    rows = TABLE.to_pylist()

    def objects(*arguments: Any) -> list[Any]:
        done = run(*arguments, "--json")
        assert done.code == 0, done
        return [json.loads(line) for line in done.out.splitlines()]

    assert objects("cat", *source) == rows
    assert objects("head", *source, "-n", 3) == rows[:3]
    assert objects("head", *source, "--rows", "10:13") == rows[10:13]
    assert objects("cat", *source, "--rows=-20:", "--where", "id > 57") == rows[58:]
    assert objects("tail", *source, "-n", 23, "-c", "id") == [{"id": i} for i in range(37, 60)]
    assert objects("tail", *source, "-n", 2, "--where", "name like '%1' and id between 30 and 50") == [
        rows[45],
        rows[49],
    ]
    sample = objects("sample", *source, "-n", 7, "--seed", 1)
    assert len(sample) == 7
    assert [row for row in rows if row in sample] == sample
    assert objects("sample", *source, "-n", 7, "--seed", 1) == sample
    assert run("count", *source).out == "60\n"
    assert run("count", *source, "--where", "id >= 10 and name not in ('n0', 'n1')").out == "26\n"
    (schema,) = objects("schema", *source)
    assert [column["name"] for column in schema["columns"]] == TABLE.schema.names
    (meta,) = objects("meta", *source)
    assert meta["rows"] == ROWS
    path, *rest = source
    query = "select name, count(*) as n from t where id < 30 group by name order by name"
    if rest[:1] != ["--from"]:
        rest = [f"t={part}" for part in rest]
    assert objects("sql", query, f"t={path}", *rest)[0] == {"name": "n0", "n": 8}


@pytest.mark.parametrize("kind", ["file", "directory", "pattern", "several"])
def test_commands_about_mosaic_files_take_many(run: Any, places: dict[str, list[str]], kind: str) -> None:
    source = places[kind]
    for command in ("layout", "stats", "size"):
        done = run(command, *source, "--json")
        assert done.code == 0, done
    statistics = json.loads(run("stats", *source, "--json").out)["columns"]
    assert [item for item in statistics if item["name"] == "id"] == [
        {"name": "id", "null_count": 0, "min": 0, "max": 59}
    ]


def test_files_are_read_in_the_order_of_the_line(run: Any, tmp_path: Path) -> None:
    """As `cat` does: arguments in their order, files of a directory or pattern by name."""
    for name in ("a", "b", "c"):
        smalti.write_table(pa.table({"name": [name]}), tmp_path / f"{name}.mosaic")
        (tmp_path / f"{name}.csv").write_text(f"name\n{name}\n")
    for suffix in ("mosaic", "csv"):
        b, every = tmp_path / f"b.{suffix}", tmp_path / f"*.{suffix}"
        a, c = tmp_path / f"a.{suffix}", tmp_path / f"c.{suffix}"
        for source, expected in ([(c, a, b), "cab"], [(b, every), "babc"], [(every,), "abc"]):
            assert run("cat", *source, "--csv").out.split()[1:] == list(expected)
            assert run("head", *source, "-n", 1, "--csv").out.split()[1:] == [expected[0]]
            assert run("tail", *source, "-n", 1, "--csv").out.split()[1:] == [expected[-1]]
    assert smalti.read_table([tmp_path / "c.mosaic", tmp_path / "a.mosaic"])["name"].to_pylist() == ["c", "a"]


@pytest.mark.parametrize("kind", ["file", "directory", "several", "parquet directory", "mixed", "csv"])
def test_jobs_that_read_take_it(run: Any, places: dict[str, list[str]], tmp_path: Path, kind: str) -> None:
    source = places[kind]
    profile = json.loads(run("profile", *source, "--json", "-c", "i*").out)
    assert (profile["num_rows"], profile["columns"][0]["max"]) == (ROWS, "59")
    done = run("convert", *source, f"{tmp_path}/out.mosaic/", "-c", "i*")
    assert done.code == 0, done
    assert smalti.read_table(tmp_path / "out.mosaic").sort_by("id")["id"].to_pylist() == list(range(ROWS))
    for more in ([], ["--values"]):
        assert run("report", *source, "-o", tmp_path / "page.html", "--overwrite", *more).code == 0
    if all(part.endswith((".mosaic", "table")) for part in source):
        assert run("verify", *source).code == 0


def test_diff_of_a_table_and_of_other_formats(run: Any, places: dict[str, list[str]]) -> None:
    (one,) = places["file"]
    for kind in ("directory", "parquet", "orc", "arrow", "parquet directory"):
        assert run("diff", one, places[kind][0]).out == "files are equal\n", kind


def test_a_partition_column_that_files_store_is_read_from_them(run: Any, tmp_path: Path) -> None:
    """Of every format, so that a table and what it was converted to have the same values."""
    (tmp_path / "raw/city=rom").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2], "city": ["Rom", "Rom"]}), tmp_path / "raw/city=rom/a.parquet")
    jobs.convert(tmp_path / "raw", tmp_path / "out")
    for place in ("raw", "out"):
        assert run("cat", tmp_path / place, "--csv").out == "id,city\n1,Rom\n2,Rom\n"
        assert run("count", tmp_path / place, "--where", "city = 'Rom'").out == "2\n"
    assert run("diff", tmp_path / "raw", tmp_path / "out").code == 0


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "jsonl", "mosaic"])
def test_conditions_on_fields_of_structs(run: Any, tmp_path: Path, suffix: str) -> None:
    """Of every format: a field is named by its path, by --where and where DuckDB passes a condition on."""
    table = pa.table({"id": [1, 2, 3], "s": [{"x": 5, "t": {"y": "a"}}, None, {"x": 7, "t": {"y": "b"}}]})
    smalti.write_table(table, tmp_path / "a.mosaic")
    path = tmp_path / f"a.{suffix}"
    if suffix != "mosaic":
        jobs.convert(tmp_path / "a.mosaic", path)
    assert run("cat", path, "-c", "id", "--where", "s.x > 5 and s.t.y = 'b'", "--csv").out == "id\n3\n"
    assert run("count", path, "--where", "s.x is null").out == "1\n"
    assert run("sql", "SELECT id FROM t WHERE s.x < 7", f"t={path}", "--csv").out == "id\n1\n"
    assert "no column" in run("count", path, "--where", "s.z > 5").err


def test_what_the_format_has_no_field_for(run: Any, tmp_path: Path) -> None:
    """A file and the same rows as they are stored: `diff` sees what was lost, `schema` and `meta` say what is kept."""
    users = pa.array([{"age": 36, "name": "Ada"}, None])
    table = pa.table({"id": pa.array([1, 2], pa.uint8()), "user": users, "w": pa.array(["a", "b"]).dictionary_encode()})
    a, b = tmp_path / "a.mosaic", tmp_path / "b.mosaic"
    smalti.write_table(table.replace_schema_metadata({"owner": "me"}), a)
    smalti.write_table(smalti.read_table(a, logical=False), b)
    assert run("diff", a, a).out == "files are equal\n"
    done = run("diff", a, b)
    assert done.code == 1
    assert "type of id: uint8 in A, int16 in B" in done.out
    assert "metadata of schema: owner: me in A, absent in B" in done.out
    smalti.write_table(table, b)
    assert run("diff", a, b).out.splitlines()[-1] == "values are equal, schemas differ"
    changed = table.set_column(1, "user", pa.array([{"age": 36, "name": "Bob"}, None])).replace_schema_metadata(
        {"owner": "me"}
    )
    smalti.write_table(changed, b)
    assert json.loads(run("diff", a, b, "--json").out)["cells"] == {"user": 1}
    assert "user: bool, user.age: int64, user.name: string" in run("schema", a, "--stored").out
    stored = json.loads(run("schema", a, "--stored", "--json").out)["columns"][0]["stored_as"]
    assert stored == [{"name": "id", "type": "int16", "nullable": True}]
    assert "types and metadata as they were given" in run("meta", a).out
    assert json.loads(run("meta", a, "--json").out)["companion"]["size"] > 100
    assert [column["name"] for column in json.loads(run("stats", a, "--json").out)["columns"]] == [
        "id",
        "user.age",
        "user.name",
        "w",
    ]
    assert run("report", a, "-o", tmp_path / "r.html").code == 0


def test_diff_tells_kinds_apart(run: Any, tmp_path: Path) -> None:
    """Each of type, order and metadata by itself, with equal values, and values by themselves."""
    table = pa.table({"a": pa.array([1, 2], pa.int32()), "s": ["x", "y"]})
    pq.write_table(table, tmp_path / "a.parquet")
    others = {
        "type": table.cast(pa.schema({"a": pa.int64(), "s": pa.string()})),
        "order": table.select(["s", "a"]),
        "metadata": table.replace_schema_metadata({"k": "v"}),
        "declared": table.cast(pa.schema({"a": pa.int32(), "s": pa.large_string()})),
        "values": table.set_column(1, "s", pa.array(["x", "z"])),
    }
    found = {}
    for name, other in others.items():
        pq.write_table(other, tmp_path / f"{name}.parquet")
        done = run("diff", tmp_path / "a.parquet", tmp_path / f"{name}.parquet")
        found[name] = (done.code, done.out.splitlines())
    assert found["type"] == (1, ["type of a: int32 in A, int64 in B", "values are equal, schemas differ"])
    assert found["order"][1] == [
        "order: columns that both have are in another order",
        "values are equal, schemas differ",
    ]
    assert found["metadata"] == (1, ["metadata of schema: k: absent in A, v in B", "values are equal, schemas differ"])
    assert found["declared"] == (0, ["layout of the type of s: string in A, large_string in B", "files are equal"])
    assert run("diff", tmp_path / "a.parquet", tmp_path / "declared.parquet", "--strict").code == 1
    assert found["values"][0] == 1
    assert found["values"][1][0] == "values: 1 value differs in 1 column"
    text = tmp_path / "text.parquet"
    pq.write_table(table.set_column(0, "a", pa.array(["1", "2"])), text)
    assert "values not compared, because types differ: a" in run("diff", tmp_path / "a.parquet", text).out


def piped(data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "smalti", *arguments]
    return subprocess.run(command, input=data, capture_output=True, check=False, timeout=300)


@pytest.mark.parametrize("kind", ["file", "parquet", "arrows", "csv", "jsonl"])
def test_standard_input(places: dict[str, list[str]], kind: str) -> None:
    done = piped(Path(places[kind][0]).read_bytes(), "tail", "-", "-n", "1", "--csv")
    assert done.stdout == b"id,name,x\n59,n3,29.5\n", done


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_facts_about_another_format_on_standard_input(places: dict[str, list[str]], kind: str) -> None:
    done = piped(Path(places[kind][0]).read_bytes(), "meta", "-", "--json")
    assert done.returncode == 0, done
    [found] = json.loads(done.stdout)["files"]
    assert (found["file"], found["format"], found["rows"], found["columns"]) == ("-", kind, ROWS, 3)


def test_jobs_read_standard_input(places: dict[str, list[str]], tmp_path: Path) -> None:
    data = Path(places["file"][0]).read_bytes()
    assert b": ok: 60 rows" in piped(data, "verify", "-").stdout
    assert json.loads(piped(data, "profile", "-", "--json").stdout)["num_rows"] == ROWS
    done = piped(data, "report", "-", "--values", "-o", str(tmp_path / "page.html"))
    assert done.returncode == 0, done
    assert "histogram" in (tmp_path / "page.html").read_text()


def test_standard_output(places: dict[str, list[str]]) -> None:
    done = piped(Path(places["csv"][0]).read_bytes(), "convert", "-", "-", "--to", "mosaic")
    with smalti.open(done.stdout) as file:
        assert file.read().equals(TABLE)
    again = piped(done.stdout, "convert", "-", "-", "--to", "arrows", "-c", "i*")
    assert pa.ipc.open_stream(again.stdout).read_all().equals(TABLE.select(["id"]))
    assert piped(b"", "head", "-").stderr == b"smalti: error: standard input is empty\n"
    pattern = places["csv"][0].replace("one.csv", "on[e].csv")
    assert piped(b"", "convert", pattern, "-", "--to", "csv").stdout.startswith(b"id,name,x\n0,")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["convert", "ONE", "o.parqet"], "no format has the suffix '.parqet'; did you mean '.parquet'"),
        (["convert", "ONE", "-"], "--to says the format"),
        (["convert", "TABLE", "-", "--to", "csv"], "standard output takes one file: found 3"),
        (["convert", "ONE", "ONE.PARQUET"], "set overwrite to replace it"),
        (["convert", "TABLE", "x.mosaic"], "x.mosaic/ if a directory shall have this name"),
        (["convert", "ONE", "ONE.PARQUET", "x.mosaic"], "several files become a directory"),
        (["profile", "ONE", "-"], "standard input cannot be read together with other files"),
        (["convert", "DAT", "x.mosaic"], "give source_format"),
        (["head", "ONE", "-"], "standard input cannot be read together with other files"),
        (["layout", "PARQUET"], "this command is about Mosaic files: found Parquet"),
        (["layout", "ONE", "PARQUET"], ".parquet: this command is about Mosaic files: found Parquet"),
        (["head", "ONE", "-c", "nme"], "no column 'nme'; did you mean 'name'?"),
        (["sql", "select nme from t", "t=ONE"], "no column 'nme'; did you mean 'name'?"),
        (["sql", "select", "t=ONE"], "Parser Error"),
        (["sql", "select 1", "1.mosaic"], "expected such as t=1.mosaic"),
        (["stats", "TABLE", "--row-group", "0"], "--row-group is for a single file"),
        (["head", "EMPTY"], "no files of a known format"),
        (["convert", "ONE", "x.mosaic", "--stats-columns", ""], "no column '' to keep statistics of"),
        (["merge", "TABLE", "PARQUET", "--on", ","], "no key column is named: found [], expected at least one"),
    ],
)
def test_errors_read_forwards(
    run: Any,
    places: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"ONE": places["file"], "TABLE": places["directory"], "PARQUET": places["parquet"], "DAT": places["said"]}
    known = {**{name: source[0] for name, source in names.items()}, "ONE.PARQUET": places["parquet"][0], "EMPTY": "."}
    known["t=ONE"] = f"t={known['ONE']}"
    done = run(*[known.get(part, part) for part in arguments])
    assert done.code == 1
    assert message in done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_mistyped_command(run: Any) -> None:
    done = run("hed", "x.mosaic")
    assert done.code == 2
    assert done.err.endswith("no command 'hed'; did you mean 'head'?\n")


def test_a_directory_with_a_dot_is_written_when_said_so(run: Any, places: dict[str, list[str]], tmp_path: Path) -> None:
    assert run("convert", *places["file"], f"{tmp_path}/v1.final/").code == 0
    assert run("count", tmp_path / "v1.final").out == "60\n"
    assert run("convert", *places["file"], tmp_path / "v2.final").code == 1


def test_sql_reads_the_columns_of_the_query_only(run: Any, wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []
    import smalti.duckdb

    before = smalti.duckdb.ArrowTable.__init__

    def counted(self: Any, *arguments: Any, **more: Any) -> None:
        before(self, *arguments, **more)
        shown.append(len(self.schema))

    monkeypatch.setattr(smalti.duckdb.ArrowTable, "__init__", counted)
    assert run("sql", "select sum(sensor_00007) as s from wide where id > 1", wide, "--csv").out == "s\n9\n"
    assert shown == [2]


def test_sql_keeps_columns_of_one_name_apart(run: Any) -> None:
    assert json.loads(run("sql", "select 1 a, 2 a, 3 a_1", "--json").out) == {"a": 1, "a#2": 2, "a_1": 3}


def test_sql_takes_paths_with_partitions(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "day=1").mkdir()
    smalti.write_table(TABLE, tmp_path / "day=1/rows.mosaic")
    monkeypatch.chdir(tmp_path)
    assert run("sql", "SELECT count(*) AS n FROM rows", "day=1/rows.mosaic", "--csv").out == "n\n60\n"
    assert run("sql", "SELECT count(*) AS n FROM t", "t=day=1/rows.mosaic", "--csv").out == "n\n60\n"


def test_sizes_add_up_to_the_buckets(run: Any, wide: Path) -> None:
    with smalti.open(wide) as file:
        stored = sum(bucket.size for group in file.layout(()).row_groups for bucket in group.buckets)
    for arguments in ([], ["--prefix"]):
        document = json.loads(run("size", wide, "--json", *arguments).out)
        assert stored * 0.9 < document["stored"] <= stored
        assert sum(item["stored"] for item in document["columns"]) == document["stored"]
    assert [item["name"] for item in document["columns"]] == ["sensor_*", "id"]
    assert [item["columns"] for item in document["columns"]] == [9_999, 1]
    lines = run("size", wide, "--sort", "name", "-n", 2).out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["id", "sensor_00000"]


def test_long_names_stay_apart() -> None:
    for names in (
        [f"customer_features_rolling_{i:04d}_mean_over_days" for i in range(300)],
        [f"{'p' * 60}{i:03d}" for i in range(300)],
        [f"{i:03d}{'s' * 60}" for i in range(300)],
        [f"{'a' * 40}_{i:03d}_{'b' * 40}" for i in range(300)],
    ):
        for room in (16, 20, 40):
            cut = list(map(cutter(names, room), names))
            assert len(set(cut)) == len(names), (names[0], room)
            assert max(map(width, cut)) <= room


@pytest.mark.parametrize(
    ("environment", "terminal", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colours(
    monkeypatch: pytest.MonkeyPatch, mixed: Path, environment: dict[str, str], terminal: bool, expected: bool
) -> None:
    from smalti.cli.rows import run_head

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = io.StringIO()
    out.isatty = lambda: terminal  # type: ignore[method-assign]
    options = build_parser("head").parse_args(["head", str(mixed), "-c", "id,name", "-n", "10"])
    run_head(options, Screen(out, pager=False))
    assert ("\x1b[1mid" in out.getvalue()) is expected
    assert ("\x1b[2mnull" in out.getvalue()) is expected


def test_markdown(run: Any, mixed: Path) -> None:
    lines = run("schema", mixed, "--markdown").out.splitlines()
    assert lines[:3] == ["| # | column | type | null |", "| ---: | --- | --- | --- |", "| 0 | id | int32 |  |"]
    assert len(run("head", mixed, "--markdown", "-n", 1).out.splitlines()[0].split("|")) == 15 + 2
    assert run("head", mixed, "--markdown", "--json").code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_shells_complete_commands_and_options() -> None:
    """docs/cli.md says how: shtab makes the script from our parser, so there is nothing of it in smalti."""
    shtab = pytest.importorskip("shtab")
    scripts = {shell: shtab.complete(build_parser(), shell=shell) for shell in ("bash", "zsh", "fish")}
    for shell, script in scripts.items():
        assert "sample" in script
        assert "vertical" in script
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, text=True, check=True, capture_output=True)

    def completed(*words: str) -> list[str]:
        line = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_smalti; echo ${{COMPREPLY[@]}}"
        command = ["bash", "-c", f"{scripts['bash']}\n{line}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert completed("smalti", "sa") == ["sample"]
    assert completed("smalti", "head", "--ver") == ["--vertical"]
    assert completed("smalti", "convert", "--layout", "f") == ["fast"]


def test_names_of_the_reference(run: Any, mixed: Path) -> None:
    """These commands have the same name in the reference's command line. docs/cli.md says what its others are here."""
    for name in ("schema", "meta", "cat", "head", "count"):
        assert run(name, mixed).code == 0, name
    assert "row group" in run("layout", mixed, "-c", "*").out
    for name in ("footer", "buckets", "pages", "dictionary", "column-size"):
        assert run(name, mixed).code == 2, name


def test_rows_of_types_that_mosaic_does_not_have(run: Any, tmp_path: Path) -> None:
    table = pa.table(
        {
            "d": pa.array(["a", "b", None]).dictionary_encode(),
            "st": pa.array([{"x": 1, "y": [1]}, None, {"x": None, "y": None}]),
            "big": pa.array(["u", "v", "w"], pa.large_string()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    rows = [json.loads(line) for line in run("cat", tmp_path / "t.parquet", "--json").out.splitlines()]
    assert rows[0] == {"d": "a", "st": {"x": 1, "y": [1]}, "big": "u"}
    assert rows[1]["st"] is None
    assert run("count", tmp_path / "t.parquet", "--where", "d = 'a' or big > 'v'").out == "2\n"


def test_files_that_polars_has_written(run: Any, tmp_path: Path) -> None:
    """They have views of texts and bytes, which Arrow has few functions for."""
    table = pa.table(
        {
            "id": range(40),
            "v": pa.array(["x", "y", None, "xy"] * 10, pa.string_view()),
            "b": pa.array([b"\x00", None, b"\xff", b"\x00"] * 10, pa.binary_view()),
            "lists": pa.array([[Decimal("1.50")], None, [], [None]] * 10, pa.list_view(pa.decimal128(5, 2))),
            "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 40], pa.int32()), pa.array([b"q", None])),
        }
    )
    path = tmp_path / "t" / "a.mosaic"
    path.parent.mkdir()
    smalti.write_table(table, path, row_group_max_rows=7)
    for place in (path, path.parent):
        rows = [json.loads(line) for line in run("head", place, "-n", 4, "--json").out.splitlines()]
        assert [row["v"] for row in rows] == ["x", "y", None, "xy"]
        assert [row["b"] for row in rows] == ["AA==", None, "/w==", "AA=="]
        assert [row["lists"] for row in rows] == [["1.50"], None, [], [None]]
        assert [row["runs"] for row in rows] == ["cQ==", "cQ==", None, None]
        assert run("head", place, "-n", 1, "--csv", "-c", "b,lists").out.splitlines()[1] == 'AA==,"[""1.50""]"'
        assert len(run("sample", place, "-n", 9, "--seed", 1, "--json").out.splitlines()) == 9
        assert run("sample", place, "-n", 9, "--seed", 1, "--where", "v = 'x'", "--json").code == 0
        for condition, count in {"like 'x%'": 20, "like 'x_'": 10, "ilike 'X'": 10, "not like '%y'": 10}.items():
            assert run("count", place, "--where", f"v {condition}").out == f"{count}\n"


def test_the_plural_is_used_for_many_only() -> None:
    files = (jobs.WrittenFile("b", 1, 1),)
    one = jobs.JobSummary("convert", "local", "a", "b", num_rows=1, source_files=1, files=files)
    assert str(one) == "convert (local): 1 row, 1 file of 0 B to 1 file of 1 B in 0.0 s"


def test_a_condition_on_partitions_leaves_files_that_agree(run: Any, tmp_path: Path) -> None:
    for part, values in {"1": [1, 2], "2": ["text"]}.items():
        (tmp_path / f"p={part}").mkdir()
        smalti.write_table(pa.table({"v": values}), tmp_path / f"p={part}" / "a.mosaic")
    assert run("cat", tmp_path, "--where", "p = 1", "--csv").out == "v,p\n1,1\n2,1\n"
    assert run("tail", tmp_path, "-n", 1, "--where", "p = 2", "--csv").out == "v,p\ntext,2\n"
    assert run("count", tmp_path, "--where", "p = 1").out == "2\n"
    refused = run("cat", tmp_path, "--where", "v = 1")
    assert (refused.code, "files disagree on the type of a column" in refused.err) == (1, True)
