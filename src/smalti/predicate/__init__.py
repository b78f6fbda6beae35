"""Filters: understood once, used to skip row groups by their statistics, then applied to rows exactly."""

from smalti.predicate.normalize import Filter, normalize_filters
from smalti.predicate.prune import GroupStatistics, Outcome, prune

__all__ = ["Filter", "GroupStatistics", "Outcome", "normalize_filters", "prune"]
