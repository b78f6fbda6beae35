"""What commits have appended to a table since a snapshot, for streams: pypaimon's plans, by the ids of snapshots.

pypaimon's own streaming scan waits for commits by itself and keeps its place in memory or in a file of its own. A
stream of Spark's asks when it likes and keeps its place in its checkpoint, so here a range of snapshots is planned,
with the parts that pypaimon's scan is made of. As there, commits that compact or overwrite are passed over.
"""

from __future__ import annotations

from dataclasses import replace

from pypaimon.manifest.manifest_list_manager import ManifestListManager
from pypaimon.read.scanner.delta_follow_up_scanner import DeltaFollowUpScanner
from pypaimon.read.scanner.file_scanner import FileScanner
from pypaimon.read.split import Split
from pypaimon.snapshot.snapshot import Snapshot
from pypaimon.table.file_store_table import FileStoreTable

from smalti.errors import MosaicError, UnsupportedFeatureError
from smalti.paimon.dataset import PaimonDataset
from smalti.paimon.tables import PaimonTable


def refuse_stream(table: FileStoreTable) -> None:
    """Raise if commits to a table do more than append rows."""
    reason = None
    if table.is_primary_key_table:
        reason = "rows replace those of the same primary key"
    elif table.options.data_evolution_enabled():
        reason = "commits change columns of rows that are there (data-evolution.enabled)"
    if reason is not None:
        raise UnsupportedFeatureError(
            f"streams are read from tables to which rows are appended; here {reason}", path=table.table_path
        )


def latest_snapshot(table: FileStoreTable) -> int:
    """The id of the newest snapshot; 0 if there is none yet."""
    snapshot = table.snapshot_manager().get_latest_snapshot()
    return 0 if snapshot is None else int(snapshot.id)


def last_of_batch(table: FileStoreTable, after: int, latest: int, max_files: int | None) -> int:
    """The snapshot up to which a batch reads: at most so many files, but never less than a commit.

    The first batch of a stream has all rows of one snapshot.
    """
    if max_files is None or after == 0 or latest <= after:
        return max(after, latest)
    manifests, files, last = ManifestListManager(table), 0, after + 1
    for snapshot in _appending(table, after, latest):
        files += sum(manifest.num_added_files for manifest in manifests.read_delta(snapshot))
        if files > max_files and snapshot.id > after + 1:
            break
        last = int(snapshot.id)
    else:
        last = latest  # What follows appends nothing.
    return last


def appended(opened: PaimonTable, after: int, until: int) -> list[Split]:
    """The rows that were appended after one snapshot, up to another; all rows of the other if the first is 0.

    Raises
    ------
    MosaicError
        If one of the snapshots has expired.
    """
    table = opened.table
    if after == 0:
        pinned = table.copy_without_time_travel({"scan.snapshot-id": str(until)})
        return PaimonDataset(replace(opened, table=pinned)).splits() if until else []
    snapshots = _appending(table, after, until)
    if not snapshots:
        return []
    lists = ManifestListManager(table)
    manifests = [manifest for snapshot in snapshots for manifest in lists.read_delta(snapshot)]
    return list(FileScanner(table, lambda: (manifests, snapshots[-1]), is_streaming=True).scan().splits())


def _appending(table: FileStoreTable, after: int, until: int) -> list[Snapshot]:
    """The snapshots of a range that append rows."""
    ids = list(range(after + 1, until + 1))
    found = table.snapshot_manager().get_snapshots_batch(ids)
    for number in ids:
        if found[number] is None:
            raise MosaicError(
                "a snapshot has expired before a stream has read it: begin anew, with another checkpoint, or keep "
                "snapshots longer (snapshot.time-retained)",
                path=table.table_path,
                found=f"snapshot {number}",
            )
    scanner = DeltaFollowUpScanner()
    return [found[number] for number in ids if scanner.should_scan(found[number])]
