"""Pipeline jobs on files: convert, compact, verify, profile. The same code runs on this machine and on Spark.

`converting`, `compacting`, `verifying` and `profiling` have the jobs. What they read is in `sources`, where they write
in `target`, and which task does what in `planning` (pure). Tasks are in `copying`, `checking` and `measuring`. They run
on an executor of `engine`, or of `smalti.spark.executor`, which alone needs pyspark. `running` and `staging` make the
results visible all at once. `formats` has readers and writers, `summary` what jobs return.

Names are imported from their modules when first used: the command line shows values by `formats` without loading jobs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smalti.jobs.compacting import compact
    from smalti.jobs.converting import convert
    from smalti.jobs.profiling import Profile, profile
    from smalti.jobs.staging import recover
    from smalti.jobs.summary import JobError, JobSummary, Skipped, WrittenFile
    from smalti.jobs.verifying import FileReport, Problem, VerifyReport, verify
    from smalti.progress import Progress
    from smalti.table.cleaning import clean

__all__ = [
    "FileReport",
    "JobError",
    "JobSummary",
    "Problem",
    "Profile",
    "Progress",
    "Skipped",
    "VerifyReport",
    "WrittenFile",
    "clean",
    "compact",
    "convert",
    "profile",
    "recover",
    "verify",
]

#: Modules and the names that they hold.
_HOMES = {
    "smalti.jobs.compacting": ("compact",),
    "smalti.jobs.converting": ("convert",),
    "smalti.jobs.profiling": ("Profile", "profile"),
    "smalti.jobs.staging": ("recover",),
    "smalti.jobs.summary": ("JobError", "JobSummary", "Skipped", "WrittenFile"),
    "smalti.jobs.verifying": ("FileReport", "Problem", "VerifyReport", "verify"),
    "smalti.progress": ("Progress",),
    "smalti.table.cleaning": ("clean",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
