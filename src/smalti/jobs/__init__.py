"""Pipeline jobs on files: convert, compact, verify, profile; on this machine or on Spark, by the same code.

Plans are pure (`splits`), tasks are picklable values and module-level functions (`copying`, `checking`, `measuring`),
executors are small (`engine`, `smalti.spark.executor`), and results appear all at once (`staging`). Nothing here
imports pyspark unless the engine is "spark".
"""

from smalti.jobs.compacting import compact
from smalti.jobs.converting import convert
from smalti.jobs.events import Progress
from smalti.jobs.profiling import Profile, profile
from smalti.jobs.staging import recover
from smalti.jobs.summary import JobError, JobSummary, Skipped, WrittenFile
from smalti.jobs.verifying import FileReport, Problem, VerifyReport, verify
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
