"""Writes the parts of the documentation that come from the code: ``python docs/generate.py`` (``--check`` only looks).

A part stands between `<!-- generated: name -->` and `<!-- end -->`; `tests/docs` fails when one is stale.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import pyarrow as pa
from annotate import companion_listing, listing, tiny_file
from benchmarks.doors import door_table
from benchmarks.measure import Measurement

from benchmarks import report
from smalti import sizes as default_sizes
from smalti import spec
from smalti.cli.commands import COMMANDS
from smalti.errors import SchemaError
from smalti.format.types import has_statistics, pack_descriptor
from smalti.logical.tree import plan_column, stored_columns
from smalti.units import show_bytes

DOCS = Path(__file__).parent
PART = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def markdown(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines) + "\n"


def commands() -> str:
    """The table of commands and what they read."""
    return markdown(
        ["command", "what it shows or does", "reads"],
        ([f"`smalti {item.name}`", item.summary, item.reads] for item in COMMANDS.values()),
    )


#: Every family of Arrow types, stored as it is, as something else, or refused.
TYPES = [
    pa.null(),
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(18, 2),
    pa.decimal128(38, 2),
    pa.decimal256(50, 2),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(16),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.timestamp("s"),
    pa.timestamp("ms"),
    pa.timestamp("us"),
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.duration("ms"),
    pa.month_day_nano_interval(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.list_(pa.int32()),
    pa.large_list(pa.int32()),
    pa.list_(pa.int32(), 3),
    pa.map_(pa.string(), pa.int32()),
    pa.struct([("x", pa.int32())]),
    pa.list_(pa.struct([("x", pa.int32())])),
]


def types() -> str:
    """Arrow types, what they are stored as, what others read, statistics."""
    rows = []
    for type_ in TYPES:
        try:
            stored = stored_columns(plan_column(type_, True), "x", True)
        except SchemaError as error:
            rows.append([f"`{type_}`", f"refused: {error.reason}", "—", ""])
            continue
        kinds = [(column, spec.TypeId(pack_descriptor(column.type, True)[0]).name) for column in stored]
        mosaic = kinds[0][1] if len(kinds) == 1 else ", ".join(f"`{column.name}` {kind}" for column, kind in kinds)
        is_same = len(stored) == 1 and stored[0].type == type_
        plain = "the same" if is_same else ", ".join(f"`{column.type}`" for column in stored)
        rows.append([f"`{type_}`", mosaic, plain, "yes" if has_statistics(stored[-1].type) else "no"])
    return markdown(["Arrow type", "stored as", "read by others, or without companion, as", "statistics"], rows)


def round_trips(kind: str) -> str:
    """What comes back from each format, as ``python -m tests.tools.formats`` has recorded it."""
    document = json.loads((DOCS / "round_trips.json").read_text())
    cases = document[kind]
    formats = list(next(iter(cases.values())))
    counts = [f"**{sum(found[name] == 'same' for found in cases.values())} of {len(cases)}**" for name in formats]
    rows = [
        [f"`{name}`" if re.match(r"\w+($|[\[(<])", name) else name, *found.values()] for name, found in cases.items()
    ]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    return f"{markdown(['', *formats], [['the same', *counts], *rows])}\nMade with {versions}.\n"


LIMITS = [
    ("MAX_NAME_SIZE", "bytes of one column name (UTF-8)"),
    ("MAX_NAMES_SIZE", "bytes of all column names of a file together"),
    ("MAX_NESTING", "levels of arrays and maps in one column"),
    ("MAX_DECIMAL_PRECISION", "digits of a decimal"),
    ("MAX_UNBACKED_ROWS", "rows of a row group whose columns need no bytes per row (CONST without nulls, ALL_NULL)"),
    ("MAX_ROWS", "rows of any row group, and elements of any array or map column in it"),
    ("MAX_ROW_GROUP_SIZE", "bytes of a row group that is written, before compression: newer references read no more"),
    ("MAX_BLOCK_SIZE", "bytes of a block that is read, once unpacked: what Arrow's 32-bit offsets reach"),
    ("MAX_PAGED_CHILDREN", "arrays, maps and their parts in a paged bucket; beyond it the bucket is monolithic"),
    ("MAX_ZSTD_RATIO", "times a compressed block may expand"),
    ("MAX_UINT32", "any size or count in the format: columns, rows of a row group, bytes of a bucket"),
]


def mistakes() -> str:
    """What people type, and what smalti says to it."""
    from mistakes import rows

    shown = [
        [subject, f"`{typed}`", "<br>".join(f"`{line}`" for line in answer.splitlines())]
        for subject, typed, answer in rows()
    ]
    return markdown(["about", "typed", "what smalti says"], shown)


def sizes() -> str:
    """The sizes that are used by default, with the reasons that stand before them in their module."""
    found = re.findall(r"((?:^#: .*\n)+)^(\w+) = ", Path(default_sizes.__file__).read_text(), re.MULTILINE)
    reasons = [(name, " ".join(line.removeprefix("#: ") for line in text.splitlines())) for text, name in found]
    return markdown(
        ["size", "of what, and why", "`smalti.sizes`"],
        ([show_bytes(getattr(default_sizes, name)), reason, f"`{name}`"] for name, reason in reasons),
    )


def limits() -> str:
    """The limits, from the module that holds them."""
    return markdown(["limit", "", "`smalti.spec`"], ([f"{getattr(spec, n):,}", t, f"`{n}`"] for n, t in LIMITS))


def bytes_of_a_file() -> str:
    """The annotated file."""
    return f"```text\n{listing(tiny_file())}\n```\n"


def bytes_of_a_companion() -> str:
    """The annotated companion."""
    return f"```text\n{companion_listing()}\n```\n"


def cost_of(read: Measurement | None) -> str:
    """Time and bytes of a read; a peer that does its own IO has no bytes."""
    return "" if read is None else ", ".join(filter(None, [report.seconds(read.best), report.size(read.bytes_read)]))


def layouts(source: Path = DOCS / "benchmarks" / "layouts.json") -> str:
    """What the layouts cost, from the last ``python -m benchmarks --layouts``."""
    if not source.exists():
        return "Not measured yet: `python -m benchmarks --layouts` does it.\n"
    document = json.loads(source.read_text())
    labels = {name: peer["label"] for name, peer in document["environment"]["peers"].items()}
    labels["smalti"] = "smalti, balanced (default)"
    results = [Measurement.from_json(record) for record in document["results"] if not record["error"]]
    known = {(result.dataset, result.work, result.peer): result for result in results}
    reads = ("read-1", "read-10", "read-100", "read-1000")
    parts = []
    for name, shape in document["datasets"].items():
        rows = []
        for peer, label in labels.items():
            if written := known.get((name, "write", peer)):
                costs = [cost_of(known.get((name, work, peer))) for work in reads]
                rows.append([label, report.size(written.file_bytes), report.seconds(written.best), *costs])
        header = ["", "file size", "write", *(work.replace("-", " ") for work in reads)]
        parts.append(f"{shape['columns']:,} columns x {shape['rows']:,} rows ({name}):\n\n{markdown(header, rows)}")
    return "\n".join(parts)


#: Lines of the short table: a data set, a work, and what it is called.
GLANCE = [
    ("wide-500", "read-1", "open and read 1 column"),
    ("wide-500", "read-10", "open and read 10 columns"),
    ("wide-500", "read-all", "read all columns"),
    ("wide-500", "write", "write"),
    ("narrow", "read-1", "open and read 1 column"),
    ("narrow", "read-all", "read all columns"),
    ("narrow", "write", "write"),
]


def glance(source: Path = DOCS / "benchmarks" / "headline.json") -> str:
    """A wide table and a narrow one, ours and two others, from the last ``python -m benchmarks``."""
    if not source.exists():
        return "Not measured yet: `python -m benchmarks` does it.\n"
    document = json.loads(source.read_text())
    results = [Measurement.from_json(record) for record in document["results"] if not record["error"]]
    known = {(result.dataset, result.work, result.peer): result for result in results}
    peers = {"smalti": "smalti", "parquet": "Parquet (pyarrow)", "reference": "Mosaic's reference (Rust)"}
    rows = []
    for dataset, work, title in GLANCE:
        shape = document["datasets"].get(dataset)
        found = [known.get((dataset, work, peer)) for peer in peers]
        if shape is None or not any(found):
            continue
        what = f"{shape['columns']:,} columns x {shape['rows']:,} rows: "
        rows.append([what + title, *(report.seconds(each and each.best) for each in found)])
        if work == "write":
            rows.append([what + "file size", *(report.size(each and each.file_bytes) for each in found)])
    return markdown(["best time", *peers.values()], rows)


def doors(*names: str, source: Path = DOCS / "benchmarks" / "doors.json") -> str:
    """Times of engines whose names begin so, from the last ``python -m benchmarks.doors``."""
    if not source.exists():
        return "Not measured yet: `python -m benchmarks.doors` does it.\n"
    return door_table(json.loads(source.read_text()), names) + "\n"


PARTS: dict[str, Callable[[], str]] = {
    "glance": glance,
    "doors": partial(doors, "Python", "pandas", "Polars", "DuckDB", "Spark, SQL over a view"),
    "spark-roads": partial(doors, "Spark"),
    "commands": commands,
    "types": types,
    "round-trips-arrow": partial(round_trips, "arrow"),
    "round-trips-pandas": partial(round_trips, "pandas"),
    "limits": limits,
    "sizes": sizes,
    "bytes": bytes_of_a_file,
    "companion": bytes_of_a_companion,
    "layouts": layouts,
    "mistakes": mistakes,
}


def refreshed(text: str) -> str:
    """A page with its generated parts as they should be."""
    return PART.sub(lambda found: f"{found[1]}{PARTS[found['name']]()}{found[3]}", text)


def main() -> int:
    stale = []
    for page in [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]:
        text = page.read_text()
        if (new := refreshed(text)) != text:
            stale.append(page.relative_to(DOCS.parent).as_posix())
            if "--check" not in sys.argv:
                page.write_text(new)
    print(f"{'stale' if '--check' in sys.argv else 'rewritten'}: {', '.join(stale) or 'none'}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
