"""What newer versions of pyarrow offer, for tests that also run on the oldest one that smalti takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

#: Types that a version of pyarrow may lack: `uuid`, `bool8` and `opaque` came with 18, the others with 19.
HAS = {name: hasattr(pa, name) for name in ("decimal32", "decimal64", "uuid", "bool8", "opaque")}
HAS["json"] = hasattr(pa, "json_")
#: Whether Arrow keeps what a frame of pandas has in `attrs`, since 20.
frame = pd.DataFrame({"x": [1]})
frame.attrs = {"kept": 1}
HAS["attrs"] = pa.Table.from_pandas(frame).to_pandas().attrs == frame.attrs


def uuids(values: list[bytes | None]) -> pa.Array:
    """An extension array of 16 bytes each: a uuid, or where there is none a tensor."""
    if HAS["uuid"]:
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
    stored = pa.array([None if value is None else list(value) for value in values], pa.list_(pa.uint8(), 16))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.uint8(), [4, 4]), stored)


def array_of(values: Sequence[Any], type_: pa.DataType | None) -> pa.Array:
    """`pyarrow.array`, which makes dictionaries of few types before 20."""
    if type_ is None or not pa.types.is_dictionary(type_):
        return pa.array(values, type_)
    encoded = pa.array(values, type_.value_type).dictionary_encode()
    indices = encoded.indices.cast(type_.index_type)
    return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=type_.ordered)
