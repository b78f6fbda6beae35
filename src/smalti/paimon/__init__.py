"""Paimon tables: pypaimon decides which rows there are, smalti reads and writes the files. Needs ``smalti[paimon]``.

`dataset` reads a table as of a snapshot, `write` commits rows to it and `create` makes one. `install` puts smalti in
the place of paimon-mosaic inside pypaimon, for programs that call pypaimon themselves.
"""

from smalti.extras import optional_module

optional_module("pypaimon", extra="paimon")

from smalti.jobs.profile_job import Profile  # noqa: E402 (The line above says what is missing.)
from smalti.jobs.summary import JobSummary  # noqa: E402
from smalti.jobs.verify_job import VerifyReport  # noqa: E402
from smalti.paimon.dataset import PaimonDataset, dataset  # noqa: E402
from smalti.paimon.engine import install, uninstall  # noqa: E402
from smalti.paimon.table_jobs import convert, profile, verify  # noqa: E402
from smalti.paimon.tables import PaimonTable, create  # noqa: E402
from smalti.paimon.writing import write  # noqa: E402

__all__ = [
    "JobSummary",
    "PaimonDataset",
    "PaimonTable",
    "Profile",
    "VerifyReport",
    "convert",
    "create",
    "dataset",
    "install",
    "profile",
    "uninstall",
    "verify",
    "write",
]
