"""From a change to a committed table: what all jobs that change a table in place share.

The table is listed and its files are opened once. A verb makes a `FileChange` of that, a task for each file carries it
out, and one commit replaces the files. If other jobs have added files meanwhile, these are changed too, and the commit
is tried again. If they have replaced files that this job has changed, the job raises `ConflictError`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypedDict

import pyarrow as pa

from smalti.errors import ConflictError, MosaicError, PaimonTableError, ReplacedError, SchemaError
from smalti.io.locations import AnyFileSystem, AnyPath, AnyStorageOptions, Location, chosen, locate
from smalti.io.sinks import follow_links
from smalti.jobs.change_task import ChangeSettings, FileChange, FileTask, change_file
from smalti.jobs.engine import AnySession, Executor, check_positive, choose_executor, run_tasks
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.source_files import fingerprint
from smalti.jobs.staging import Staging, check_run_id, job_digest
from smalti.jobs.summary import ChangeReport, SplitResult, StagedFile
from smalti.jobs.target import Target, find_table
from smalti.options import WriterOptions
from smalti.progress import Listener, Meter
from smalti.sizes import FILE_BYTES
from smalti.spec import FILE_SUFFIX
from smalti.table.listing import Listing, list_files, list_table, read_again
from smalti.table.names import JOBS, new_token, partition_directory, staging_directory, unique_names
from smalti.table.paimon_layout import refuse_writing
from smalti.table.records import FileId, FilesAddedError, FinishedRun, Run
from smalti.table.snapshot import ReadSettings, Snapshot
from smalti.table.staging import DirectoryPlan
from smalti.table.writing import stage_empty

#: What is summed over the results of tasks, by the names of the attributes of the report.
_COUNTS = (
    *("rows", "files", "row_groups", "bytes_copied", "bytes_encoded"),
    *("rows_unknown", "rows_unmatched", "rows_updated", "rows_inserted", "null_keys"),
)
#: How often files that other jobs have added are changed, too, before the table counts as too busy.
_MAX_ROUNDS = 20
_PAIMON = (
    "a Paimon table: only its own commits may change it. Paimon has ALTER TABLE for columns, and DELETE, UPDATE and "
    "MERGE INTO for the rows of tables with a primary key or with data evolution; run them in Spark or Flink"
)


class RunValues(TypedDict, total=False):
    """The arguments that all jobs which change a table have. `run_change` has their defaults."""

    dry_run: bool
    engine: str
    spark: AnySession
    workers: int | None
    progress: Listener | None
    filesystem: AnyFileSystem
    storage_options: AnyStorageOptions
    keep: float | None
    resume: bool
    run_id: str | None


@dataclass(frozen=True)
class OpenTable:
    """The table that is changed, as it was listed: what a verb needs to know to make its `FileChange`."""

    target: Target
    listing: Listing
    snapshot: Snapshot
    executor: Executor
    staging: Staging
    #: The directory below the staged files in which this run stages its data; no other run touches it.
    data_name: str = field(default_factory=lambda: f"data-{new_token()}")

    @property
    def data(self) -> Location:
        return self.staging.directory.child(self.data_name)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of all files, then the partition columns that no file stores."""
        return self.snapshot.all_columns.schema

    @property
    def partitions(self) -> list[str]:
        """The columns that the names of directories spell."""
        return list(self.snapshot.partitions.names)

    @cached_property
    def stored(self) -> list[str]:
        """The columns that files store, partition columns included if some file stores them."""
        unstored = set(self.partitions) - self.snapshot.stored_partitions(self.snapshot.files)
        return [name for name in self.schema.names if name not in unstored]

    @cached_property
    def changeable(self) -> list[str]:
        """The columns that files store and that directories do not spell, which would contradict other values."""
        partitions = set(self.partitions)
        return [name for name in self.stored if name not in partitions]

    def plan_files(self) -> DirectoryPlan:
        """How further files of the table are written."""
        job, root = self.staging.job_id, self.staging.root
        partitions, stored = tuple(self.partitions), tuple(self.stored)
        return DirectoryPlan(job, root, self.schema, partitions, WriterOptions(), FILE_BYTES, stored=stored)


#: Makes the change, when the table is known.
Prepare = Callable[[OpenTable], FileChange]
#: Writes further files when all files were changed: returns them, and what the report counts.
Finish = Callable[[OpenTable, ChangeSettings, Sequence[SplitResult]], Sequence[SplitResult]]


def run_change(
    job: str,
    table: AnyPath,
    request: object | None,
    prepare: Prepare,
    finish: Finish | None = None,
    *,
    dry_run: bool = False,
    engine: str = "local",
    spark: AnySession = None,
    workers: int | None = None,
    progress: Listener | None = None,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    keep: float | None = None,
    resume: bool = True,
    run_id: str | None = None,
) -> ChangeReport:
    """Change a table, or a single file.

    Parameters
    ----------
    job : str
        The name of the verb.
    table : path or URI
    request : object, optional
        Describes what is asked for, the same whenever the same is asked for; None if that cannot be said, because the
        data is in memory. Then an interrupted job starts from the beginning.
    prepare, finish : callable
    dry_run, engine, spark, workers, progress, filesystem, storage_options, keep, resume, run_id
        As in `add_columns`.
    """
    began = time.monotonic()
    check_positive(keep=keep, workers=workers)
    executor = choose_executor(engine, spark, workers)
    target, listing, snapshot = _open_table(table, chosen(filesystem, storage_options), is_dry=dry_run)
    target.refuse_for_file(keep=keep, run_id=run_id)
    digest = "" if request is None else job_digest([job, target.location.path, request])
    run = None if run_id is None else Run(check_run_id(run_id), digest)
    if run is not None and not dry_run and run.id in listing.state.checkpoint.runs:
        return _finished_report(job, run, listing.state.checkpoint.runs[run.id])
    # What a dry run stages is removed, and an interrupted run needs what it has staged, so their ids differ.
    asked = new_token() if dry_run or request is None else digest
    staging = Staging(target.root, asked[:8] + job_digest(fingerprint(listing))[:8])
    if not resume and not dry_run:
        staging.discard()
    opened = OpenTable(target, listing, snapshot, executor, staging)
    report = ChangeReport(job, executor.name, target.location.path, dry_run=dry_run)
    runner = _Runner(report, opened, finish, progress, keep, run)
    with runner.errors(is_resumable=request is not None and not dry_run):
        if not dry_run:
            target.restrict_staging(staging.job_id, [file.path for file in listing.files])
        report = runner.run(prepare(opened), began)
    if dry_run:
        runner.discard()
    return report


def _finished_report(job: str, run: Run, finished: FinishedRun) -> ChangeReport:
    """Return the report of a named run that was committed, which must have been asked for the same."""
    report = ChangeReport(**finished.note)
    if report.job != job or (run.request and finished.request and run.request != finished.request):
        raise MosaicError(
            "this run id belongs to a job that was asked for something else; each job needs a run id of its own",
            path=report.table,
            found=f"run_id={run.id!r} of {report.job}",
        )
    return report


def _open_table(table: AnyPath, filesystem: AnyFileSystem, *, is_dry: bool) -> tuple[Target, Listing, Snapshot]:
    """List a table and find out which columns its files have; again if files are replaced meanwhile."""
    location = locate(table, filesystem).absolute()

    def find() -> tuple[Target, Listing]:
        try:
            return _find_file(location) if location.is_file() else find_table(location, is_dry=is_dry)
        except PaimonTableError as error:
            raise PaimonTableError(_PAIMON, path=error.place["path"]) from None

    found = find()  # A table that is missing from the start is not looked for again.

    def find_again() -> None:
        nonlocal found
        found = find()

    def learn() -> tuple[Target, Listing, Snapshot]:
        snapshot = Snapshot.of(found[1], ReadSettings())
        snapshot.learn(snapshot.files)
        return *found, snapshot

    return read_again(learn, find_again)


def _find_file(location: Location) -> tuple[Target, Listing]:
    if location.is_local:
        location = Location(location.filesystem, str(follow_links(location.path)))
    target = Target(location, FORMATS["mosaic"], FILE_SUFFIX, is_file=True)
    refuse_writing(target.root)
    return target, list_files(location, globs=False)


@dataclass
class _Runner:
    """Runs the tasks of one job and commits, again and again while other jobs add files."""

    #: The report with what is known before the job runs; counts are filled in.
    blank: ChangeReport
    table: OpenTable
    finish: Finish | None
    progress: Listener | None
    keep: float | None
    run_once: Run | None
    #: The files of the table that have got a task, with their ids from that time, and the results of the tasks.
    seen: dict[str, FileId] = field(default_factory=dict)
    results: dict[str, SplitResult] = field(default_factory=dict)
    num_tasks: int = 0
    resumed: int = 0

    def run(self, change: FileChange, began: float) -> ChangeReport:
        table = self.table
        settings = ChangeSettings(
            table.staging,
            change,
            table.schema,
            None if table.executor.task_threads is None else WriterOptions(threads=table.executor.task_threads),
            self.blank.dry_run,
            table.target.is_file,
        )
        listing, conflict = table.listing, None
        done = {} if self.blank.dry_run else table.staging.finished_splits().get(0, {})
        for _ in range(_MAX_ROUNDS):
            self._change_files(settings, listing, done)
            more = [] if self.finish is None else self.finish(table, settings, list(self.results.values()))
            report = self._report(more, began)
            if self.blank.dry_run:
                return report
            try:
                self._commit(settings, report, more)
                return report
            except FilesAddedError as error:
                conflict = error
                if not change.follows_additions:
                    raise
                listing, done = list_table(table.target.location), {}
                self._refuse_other_columns(listing)
        assert conflict is not None
        raise conflict

    # --- tasks ------------------------------------------------------------------------------------------------------

    def _change_files(self, settings: ChangeSettings, listing: Listing, done: Mapping[int, SplitResult]) -> None:
        """Run a task for each file that had none yet, and forget files that have gone."""
        ids = {listing.relative(file): file for file in listing.files}
        for name in [name for name, id_ in self.seen.items() if name not in ids or id_.is_other(ids[name].id)]:
            if self.results[name].counts.get("files"):
                raise ConflictError(
                    "another job has replaced or removed a file that this one has changed; nothing was changed. "
                    "Run it again",
                    found=name,
                )
            del self.seen[name], self.results[name]
        unseen = ((name, file) for name, file in ids.items() if name not in self.seen)
        tasks = [FileTask(number, file, name) for number, (name, file) in enumerate(unseen, self.num_tasks)]
        # A number is never used again, not even that of a file that is forgotten: staged files are named after it.
        self.num_tasks += len(tasks)
        done = {number: result for number, result in done.items() if number < len(tasks)}
        self.resumed += len(done)
        self.seen |= {task.relative: task.file.id for task in tasks}
        meter = Meter(self.blank.job, len(tasks), sum(task.num_bytes for task in tasks), self.progress)
        if done:
            meter.add(0, sum(tasks[index].num_bytes for index in done), len(done))
        settings.staging.log.check_links({task.relative.rpartition("/")[0] for task in tasks})
        results = run_tasks(self.table.executor, partial(change_file, settings), tasks, meter, done)
        self.results |= {task.relative: result for task, result in zip(tasks, results, strict=True)}

    def _refuse_other_columns(self, listing: Listing) -> None:
        """Raise if files added meanwhile have columns or types that the checks of this job have not covered."""
        first, seen = self.table.snapshot, set(self.table.snapshot.files)
        added = [file for file in listing.files if file not in seen]
        both = Snapshot.of(replace(listing, files=[*first.files, *added]), ReadSettings())
        both.columns.update(first.columns)
        types = {field.name: field.type for field in self.table.schema}
        try:
            other = [each.name for each in both.all_columns.schema if types.get(each.name) != each.type]
        except SchemaError as error:
            other = [str(error)]
        if other:
            raise ConflictError(
                "another job has added files with other columns or types while this one has changed the table; "
                "nothing was changed. Run it again",
                found=other[:5],
            )

    # --- the end ----------------------------------------------------------------------------------------------------

    def _report(self, more: Sequence[SplitResult], began: float) -> ChangeReport:
        results = [*self.results.values(), *more]
        return replace(
            self.blank,
            **{name: sum(result.counts.get(name, 0) for result in results) for name in _COUNTS},
            total_files=len(self.seen),
            resumed_files=self.resumed,
            seconds=time.monotonic() - began,
            peak_memory=max((result.peak_memory for result in results), default=0),
        )

    def _commit(self, settings: ChangeSettings, report: ChangeReport, more: Sequence[SplitResult]) -> None:
        changed = {name: result for name, result in self.results.items() if result.counts.get("files")}
        files = [file for result in [*changed.values(), *more] for file in result.files]
        staged = {file.staged: file.path for file in files}
        if self.table.target.is_file:
            self._replace_file(changed, staged)
            return
        if not changed and not staged and self.run_once is None:
            self.discard()
            return
        if self._loses_columns({name for name, result in changed.items() if not result.files}):
            # A file without rows keeps them.
            name = f"{self._no_partition()}/part{FILE_SUFFIX}".lstrip("/")
            empty = stage_empty(self.table.plan_files())
            files += [StagedFile(name, 0, file.num_bytes, file.path, ()) for file in empty]
            staged = {file.staged: file.path for file in files}
        root = self.table.target.root
        self.table.target.keep_access(files, [root.child(name).path for name in self.seen])
        token = new_token()
        replaced = {name: self.seen[name] for name in changed}
        commit = replace(
            self.table.target.change("change", replaced, self.keep),
            seen=self.seen,
            run=self.run_once,
            changes_columns=settings.change.changes_columns,
        )
        in_order = dict(sorted(staged.items(), key=lambda item: item[1]))
        names = unique_names(in_order, token, keeps_order=True)
        commit.commit(self.table.staging.job_id, names, token, note=report.to_dict())

    def _loses_columns(self, emptied: Collection[str]) -> bool:
        """Whether columns of the table would go with the files that have no rows any more."""
        if not emptied:
            return False
        root, snapshot = self.table.target.root, self.table.snapshot
        gone = {root.child(name).path for name in emptied}
        left = snapshot.columns_of([file for file in snapshot.files if file.path not in gone])
        return not set(self.table.stored) <= set(left.names)

    def _no_partition(self) -> str:
        """The directory of a file without rows: it keeps the types of the partition columns, and none of the values."""
        fields = self.table.snapshot.partitions
        return partition_directory([(field.name, "0" if field.type == pa.int64() else None) for field in fields])

    def _replace_file(self, changed: Mapping[str, SplitResult], staged: Mapping[str, str]) -> None:
        """Give the new file the name of the old one, in one step, if the old one is still what was read."""
        if not changed:
            self.discard()
            return
        (seen,) = self.seen.values()
        self.table.target.put_file(self.table.staging, next(iter(staged)), "overwrite", seen)

    def discard(self, *, only_data: bool = False) -> None:
        """Remove what was staged, or only the data, unless a commit needs it. What cannot be removed is for `clean`."""
        staging = self.table.staging
        directory = staging_directory(staging.job_id, self.table.data_name) if only_data else f"{JOBS}/{staging.job_id}"
        with suppress(OSError, MosaicError):
            staging.log.discard([directory], unless_pending=True)

    @contextmanager
    def errors(self, *, is_resumable: bool) -> Iterator[None]:
        """Say which table an error is about, and what has become of the work, which is kept if it can be resumed."""
        target = self.table.target
        try:
            yield
        except BaseException as error:
            self.discard(only_data=is_resumable)
            if not isinstance(error, (OSError, MosaicError)):
                raise
            if not self.blank.dry_run:
                change = target.change("replace", self.seen)
                target.explain(error, self.table.staging, change, is_resumable=is_resumable)
            if isinstance(error, ReplacedError):
                raise ConflictError(
                    "another job has replaced or removed a file of the table; nothing was changed. Run this job again",
                    path=target.location.path,
                    found=error.place.get("path"),
                ) from error
            if isinstance(error, MosaicError):
                raise error.locate(path=target.location.path) from None
            raise
