"""Numbers of the format are written down twice, for Python and for the kernels: they are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from smalti import spec
from smalti._core.names import pack_schema_block
from smalti._core.schema import SchemaBlock
from smalti.format.types import pack_descriptor


def test_the_kernels_know_the_same_numbers_as_the_spec() -> None:
    """Limits and ids are written down twice, for Python and for C: shown equal where a user would notice."""
    deep = pa.int32()
    for _ in range(spec.MAX_NESTING):
        deep = pa.list_(deep)
    packed = pack_descriptor(deep, True)
    SchemaBlock(pack_schema_block([b"a"], [packed], [0], 1))
    with pytest.raises(ValueError, match="nested too deep"):
        SchemaBlock(pack_schema_block([b"a"], [pack_descriptor(pa.list_(deep), True)], [0], 1))
    with pytest.raises(ValueError, match="unknown type id"):
        SchemaBlock(pack_schema_block([b"a"], [bytes([max(spec.TypeId) + 1, 1])], [0], 1))
    plain = pack_descriptor(pa.int32(), True)
    SchemaBlock(pack_schema_block([b"a" * spec.MAX_NAME_SIZE], [plain], [0], 1))
    with pytest.raises(ValueError, match="too long"):
        SchemaBlock(pack_schema_block([b"a" * (spec.MAX_NAME_SIZE + 1)], [plain], [0], 1))


def test_constants_of_the_kernels_are_those_of_the_spec() -> None:
    text = (Path(spec.__file__).parent / "_core/physical.pxd").read_text()
    constants = {name: int(value) for name, value in re.findall(r"^    ([A-Z_0-9]+) = (\d+)", text, re.M)}
    types = {name[2:]: value for name, value in constants.items() if name.startswith("T_")}
    assert types == {kind.name: kind.value for kind in spec.TypeId}
    for kind in (spec.Encoding, spec.NameEncoding):
        assert {member.name: constants[member.name] for member in kind} == {m.name: m.value for m in kind}
    limits = {name: value for name, value in constants.items() if name.startswith("MAX_")}
    assert limits == {name: getattr(spec, name) for name in limits}
    assert len(limits) == 10
