"""The options of a file that is made from others: what is not asked for stays as it was."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from smalti.file.reader import MosaicFile
from smalti.file.writer import MAX_AUTO_STATISTICS, weigh_layouts
from smalti.format.index import PAGED
from smalti.logical.intake import Intake
from smalti.mosaic.rewrite_plan import keep_num_buckets, keep_threshold
from smalti.options import WriterOptions
from smalti.spec import MAX_UINT32, Compression


def options_like(
    schema: pa.Schema, options: WriterOptions | None, like: MosaicFile | None, fresh: pa.RecordBatch | pa.Table | None
) -> WriterOptions:
    """The options of the new file, with the layout and the statistics of `like` where nothing else is asked for."""
    if like is None or not like.num_row_groups:
        codec = Compression.ZSTD if like is None else like._tail.footer.compression
        options = options or WriterOptions(compression=codec.name.lower())
        if not options.is_layout_given and fresh is not None and fresh.num_rows:
            layout = weigh_layouts(fresh, options)[options.layout]
            options = replace(options, num_buckets=layout.num_buckets, page_size_threshold=layout.page_size_threshold)
        return options
    tail = like._tail
    if options is None:
        options = WriterOptions(compression=tail.footer.compression.name.lower())
    if not options.is_layout_given:
        paged = other = 0
        for bucket in tail.buckets:
            entry = tail.entry(0, bucket)
            paged, other = (paged + entry.size, other) if entry.mode == PAGED else (paged, other + entry.size)
        options = replace(
            options,
            num_buckets=keep_num_buckets(tail.schema.num_buckets, tail.schema.num_columns, MAX_UINT32),
            page_size_threshold=keep_threshold(paged, other),
        )
    if options.stats_columns == "auto":
        options = replace(options, stats_columns=_kept_statistics(schema, like, options))
    return options


def _kept_statistics(schema: pa.Schema, like: MosaicFile, options: WriterOptions) -> tuple[str, ...]:
    """The stored columns that get statistics where they are new: those that have them in `like`.

    Columns that `like` lacks have statistics if it has any, and the table is not too wide for that.
    """
    positions = {record.column for record in like._tail.statistics(0)}
    if not positions:
        return ()
    by_position = like._tail.schema.names()
    there, known = {by_position[position] for position in positions}, set(by_position)
    intake = Intake(schema, options.has_companion)
    is_narrow = len(intake.schema) <= MAX_AUTO_STATISTICS
    return tuple(
        name
        for index, name in enumerate(intake.schema.names)
        if (name in there or (is_narrow and name not in known)) and intake.has_order(index)
    )
