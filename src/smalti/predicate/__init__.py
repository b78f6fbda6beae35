"""Filters: parsed to one tree, which skips files and row groups by their partition values and statistics, then rows."""

from smalti.predicate.evaluate import Filter, filter_batch, fit_values, match_mask
from smalti.predicate.prune import GroupStatistics, Outcome, prune, prune_partitions, undecided
from smalti.predicate.python import normalize_filters

__all__ = [
    "Filter",
    "GroupStatistics",
    "Outcome",
    "filter_batch",
    "fit_values",
    "match_mask",
    "normalize_filters",
    "prune",
    "prune_partitions",
    "undecided",
]
