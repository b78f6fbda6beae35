"""Pipeline jobs on files: convert, compact, verify, profile, and changes of tables in place. The same code runs on this
machine and on Spark.

A module is named after its verb: `<verb>_job` holds the function that users call, `<verb>_task` the work that it hands
out. `recover` is in `staging`, and `clean` in `smalti.table.cleaning`, because they are about commits of any job.
`convert` and `compact` share `copy_job`, which runs their tasks and commits the result, and `copy_task`.
`source_files` lists the files to read, `target` is where the result goes, and `planning` (pure) decides which task
writes which files. Tasks run on an executor of `engine`, or of `smalti.spark.executor`, which alone needs pyspark.
`staging` keeps finished tasks for a job that is run again. `formats` has readers and writers, `summary` the classes
that jobs return.

Changes in place (`columns_job`, `rows_job`, `merge_job`) share `change_job`, which runs a task for each file
(`change_task`) and commits the result. What a verb does to a file is in `change_columns` and `change_rows`, and
`change_plan` (pure) decides what is copied and what is encoded. `given_data` and `change_data` are about the data that
a change brings, `keys` finds rows by key columns.

A name is imported from its module when it is first used, so that the command line can use `formats` without loading
the jobs. No module has the name of a function, because importing it would hide the function in this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smalti.jobs.columns_job import add_columns, drop_columns, rename_columns, reorder_columns, replace_columns
    from smalti.jobs.compact_job import compact
    from smalti.jobs.convert_job import convert
    from smalti.jobs.merge_job import merge
    from smalti.jobs.profile_job import Profile, profile
    from smalti.jobs.rows_job import delete, update
    from smalti.jobs.staging import recover
    from smalti.jobs.summary import ChangeReport, JobError, JobSummary, Skipped
    from smalti.jobs.verify_job import FileReport, Problem, VerifyReport, verify
    from smalti.progress import Progress
    from smalti.table.cleaning import clean
    from smalti.table.staging import WrittenFile

__all__ = [
    "ChangeReport",
    "FileReport",
    "JobError",
    "JobSummary",
    "Problem",
    "Profile",
    "Progress",
    "Skipped",
    "VerifyReport",
    "WrittenFile",
    "add_columns",
    "clean",
    "compact",
    "convert",
    "delete",
    "drop_columns",
    "merge",
    "profile",
    "recover",
    "rename_columns",
    "reorder_columns",
    "replace_columns",
    "update",
    "verify",
]

#: Modules and the names that they hold.
_HOMES = {
    "smalti.jobs.columns_job": (
        "add_columns",
        "drop_columns",
        "rename_columns",
        "reorder_columns",
        "replace_columns",
    ),
    "smalti.jobs.compact_job": ("compact",),
    "smalti.jobs.convert_job": ("convert",),
    "smalti.jobs.merge_job": ("merge",),
    "smalti.jobs.profile_job": ("Profile", "profile"),
    "smalti.jobs.rows_job": ("delete", "update"),
    "smalti.jobs.staging": ("recover",),
    "smalti.jobs.summary": ("ChangeReport", "JobError", "JobSummary", "Skipped"),
    "smalti.jobs.verify_job": ("FileReport", "Problem", "VerifyReport", "verify"),
    "smalti.progress": ("Progress",),
    "smalti.table.cleaning": ("clean",),
    "smalti.table.staging": ("WrittenFile",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
