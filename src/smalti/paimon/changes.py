"""The rows that commits have appended to a table since a snapshot, for streams of Spark.

pypaimon's own streaming scan waits for commits and remembers itself what it has read. A stream of Spark asks for new
rows at times of its own, and remembers the id of a snapshot in its checkpoint. So a range of snapshots is planned here,
with the parts of pypaimon's scan. As in that scan, commits that compact or overwrite are skipped.
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
    if table.is_primary_key_table:
        reason = "rows replace those of the same primary key"
    elif table.options.data_evolution_enabled():
        reason = "commits change columns of rows that are there (data-evolution.enabled)"
    else:
        return
    reason = f"streams are read from tables to which rows are appended; here {reason}"
    raise UnsupportedFeatureError(reason, path=table.table_path)


def latest_snapshot(table: FileStoreTable) -> int:
    """The id of the newest snapshot; 0 if there is none yet."""
    snapshot = table.snapshot_manager().get_latest_snapshot()
    return 0 if snapshot is None else int(snapshot.id)


def last_of_batch(table: FileStoreTable, after: int, latest: int, max_files: int | None) -> int:
    """The last snapshot of the batch that follows `after`: at most `max_files` files, but at least one commit.

    The first batch of a stream, for which `after` is 0, has all rows of one snapshot.
    """
    if max_files is None or after == 0 or latest <= after:
        return max(after, latest)
    manifests, files, last = ManifestListManager(table), 0, after + 1
    for snapshot in _appending(table, after, latest):
        files += sum(manifest.num_added_files for manifest in manifests.read_delta(snapshot))
        if files > max_files and snapshot.id > after + 1:
            return last
        last = int(snapshot.id)
    return latest  # The snapshots after the last one that appends rows are part of the batch.


def appended(opened: PaimonTable, after: int, until: int) -> list[Split]:
    """What was appended after the snapshot `after`, up to `until`; if `after` is 0, all rows as of `until`.

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
    """Those snapshots of a range that append rows."""
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
