"""The golden and malformed files, their manifests, and the layout in the manifest's words."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

DATA = Path(__file__).parents[1] / "data"
GOLDEN = DATA / "golden"
MALFORMED = DATA / "malformed"

GOLDEN_FILES: dict[str, dict[str, Any]] = {
    entry["name"]: entry for entry in json.loads((GOLDEN / "manifest.json").read_text())["files"]
}
MALFORMED_CASES: dict[str, dict[str, Any]] = {
    case["name"]: case for case in json.loads((MALFORMED / "manifest.json").read_text())["cases"]
}
#: Goldens written by the reference, whose bytes a writer can be asked to repeat.
WRITTEN = [name for name, entry in GOLDEN_FILES.items() if not entry.get("hand_assembled")]
SMALL = [name for name, entry in GOLDEN_FILES.items() if entry["mosaic_bytes"] <= 800]

PART_LETTER = {"element": "E", "key": "K", "value": "V"}
COMPRESSION = {0: "none", 1: "zstd"}


def golden_path(name: str) -> Path:
    return GOLDEN / f"{name}.mosaic"


def golden_bytes(name: str) -> bytes:
    return golden_path(name).read_bytes()


def expected_table(name: str) -> pa.Table:
    """The table a golden holds: one chunk per row group."""
    with pa.ipc.open_file(GOLDEN / f"{name}.arrow") as source:
        return source.read_all()


def expected_batches(name: str) -> list[pa.RecordBatch]:
    with pa.ipc.open_file(GOLDEN / f"{name}.arrow") as source:
        return [source.get_batch(at) for at in range(source.num_record_batches)]


def writer_options(name: str) -> dict[str, Any]:
    """The options of a golden under smalti's names; the row group limit is left out, it means something else there."""
    options = dict(GOLDEN_FILES[name]["writer_options"])
    options.pop("row_group_max_size", None)
    if "compression" in options:
        options["compression"] = COMPRESSION[options["compression"]]
    return options


def manifest_layout(layout: Any) -> dict[str, Any]:
    """smalti's (or the oracle's) layout tree in the words of the manifest."""
    return {
        "file_size": layout.size,
        "compression": layout.compression,
        "num_columns": layout.num_columns,
        "num_buckets": layout.num_buckets,
        "num_row_groups": layout.num_row_groups,
        "name_encoding": layout.name_encoding,
        "bpe_rules": layout.bpe_rules,
        "row_groups": [_row_group(group) for group in layout.row_groups],
    }


def _row_group(group: Any) -> dict[str, Any]:
    columns = [column for bucket in group.buckets for column in bucket.columns]
    encodings: dict[str, str] = {}
    for bucket in group.buckets:
        encodings |= _encodings(bucket)
    return {
        "rows": group.num_rows,
        "bucket_modes": {str(bucket.id): bucket.mode for bucket in group.buckets},
        "encoding_counts": dict(Counter(column.encoding for column in columns)),
        "num_stats": group.num_statistics,
        "encodings": encodings,
    }


def _encodings(bucket: Any) -> dict[str, str]:
    """{column: "DICT+nulls(5)"}; a child is `parent#childN(E|K|V)`, N counting the children of the bucket."""
    described, children = {}, 0
    for column in bucket.columns:
        key = column.name
        if column.path != column.name:
            key = f"{column.name}#child{children}({PART_LETTER[column.path.rsplit('.', 1)[1]]})"
            children += 1
        nulls = "+nulls" if column.has_nulls else ""
        entries = f"({column.dict_entries})" if column.encoding == "DICT" else ""
        described[key] = column.encoding + nulls + entries
    return described


def expected_layout(name: str) -> dict[str, Any]:
    return GOLDEN_FILES[name]["layout"]


def assert_layout(layout: Any, name: str) -> None:
    """The layout of a golden is what its manifest says; wide files are summed up there."""
    found, expected = manifest_layout(layout), expected_layout(name)
    for mine, theirs in zip(found["row_groups"], expected["row_groups"], strict=True):
        if "monolithic" in theirs["bucket_modes"]:
            mine["bucket_modes"] = dict(Counter(mine["bucket_modes"].values()))
        if "encodings" not in theirs:
            del mine["encodings"]
    assert found == expected
