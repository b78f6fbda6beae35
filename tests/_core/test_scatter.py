"""Values at given places, of every width; what does not fit is refused before anything is written."""

from __future__ import annotations

import numpy as np
import pytest

from smalti._core.scatter import scatter


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "M8[ms]", "V16"])
def test_values_come_to_their_places(dtype: str) -> None:
    values = np.frombuffer(np.random.RandomState(1).bytes(16 * 50), np.uint8)[: 50 * np.dtype(dtype).itemsize]
    places = np.random.RandomState(2).permutation(80).astype(np.int32)[:50]
    out = np.zeros(80, dtype)
    scatter(values, out.dtype.itemsize, places, out.view(np.uint8))
    assert out[places].tobytes() == values.tobytes()


def test_what_does_not_fit() -> None:
    out = np.zeros(4, np.uint8)
    for places in ([4], [-1]):
        with pytest.raises(IndexError, match="of 4"):
            scatter(np.ones(1, np.uint8), 1, np.array(places, np.int32), out)
    with pytest.raises(ValueError, match="3 bytes are not 1 values of 2 bytes"):
        scatter(np.ones(3, np.uint8), 2, np.zeros(1, np.int32), out)
    scatter(np.ones(0, np.uint8), 1, np.zeros(0, np.int32), np.zeros(0, np.uint8))
    assert not out.any()
