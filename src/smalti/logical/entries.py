"""The entries of a dictionary in a file that is made from columns of other files, and from new ones.

The companion keeps the entries of a dictionary in their order, also those that no row uses. If rows are removed, an
entry that only these rows used must go: it is a value that somebody wanted to be deleted. So entries of a file of which
not all row groups are copied stay only if a copied row uses them, and the same holds for entries of new columns.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti.logical.types import is_list_like


class Entries:
    """Collects the entries of one dictionary: in their order by file, and the values that rows use."""

    def __init__(self) -> None:
        self._ordered: list[pa.Array] = []
        self._kept: list[pa.Array] = []
        self._used: list[pa.Array] = []
        self._is_known = True

    def order_by(self, entries: pa.Array | None) -> None:
        """Entries that stay come in the order of these, of which each call adds some."""
        if entries is not None:
            self._ordered.append(entries)

    def keep(self, entries: pa.Array | None) -> None:
        """Keep all of these. None: values are there whose entries nobody knows, so that none can be kept."""
        self.order_by(entries)
        if entries is None:
            self._is_known = False
        else:
            self._kept.append(entries)

    def use(self, stored: pa.Array) -> None:
        """Keep the entries of these values, which are as they are stored."""
        self._used.append(_elements(stored).unique())
        if len(self._used) > 16:
            self._used = [pa.concat_arrays(self._used).unique()]

    def result(self) -> pa.Array | None:
        """The entries of the new file; None if they are not known."""
        if not self._is_known or not self._ordered:
            return None
        import pyarrow.compute as pc

        from smalti.logical.arrays import to_stored  # slow to import: see its docstring

        try:
            every = pa.concat_arrays(self._ordered).unique().drop_null()
            is_kept: Any = pa.nulls(len(every), pa.bool_()).fill_null(False)
            if self._kept:
                is_kept = pc.is_in(every, value_set=pa.concat_arrays(self._kept))
            if self._used:
                used = pa.concat_arrays(self._used)
                is_kept = pc.or_(is_kept, pc.is_in(to_stored(every, used.type), value_set=used))
            kept: pa.Array = every.filter(is_kept)
            return kept
        except pa.ArrowNotImplementedError:  # Arrow cannot compare values of every type.
            return None


def _elements(array: Any) -> Any:
    """The values of an array, or those in its lists; of a dictionary those that are used."""
    while is_list_like(array.type):
        array = array.flatten()
    return array.dictionary.take(array.indices.unique().drop_null()) if pt.is_dictionary(array.type) else array
