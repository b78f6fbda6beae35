"""Paimon tables: pypaimon decides which rows there are, smalti reads and writes the files. Needs ``smalti[paimon]``.

`dataset` reads a table as of a snapshot, `write` commits rows to it and `create` makes one. `install` puts smalti in
the place of paimon-mosaic inside pypaimon, for programs that call pypaimon themselves.
"""

from smalti.extras import optional_module

optional_module("pypaimon", extra="paimon")

from smalti.paimon.dataset import PaimonDataset, dataset  # noqa: E402 (what is missing is said by the line above)
from smalti.paimon.engine import install, uninstall  # noqa: E402
from smalti.paimon.jobs import convert, profile, verify  # noqa: E402
from smalti.paimon.tables import create  # noqa: E402
from smalti.paimon.writing import write  # noqa: E402

__all__ = [
    "PaimonDataset",
    "convert",
    "create",
    "dataset",
    "install",
    "profile",
    "uninstall",
    "verify",
    "write",
]
