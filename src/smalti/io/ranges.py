"""Which bytes to ask for: a pure plan that merges neighbours, and a small executor that fetches it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from smalti.io.sources import Source

#: A merged request is not made longer than this, so that many can be under way at once.
MAX_REQUEST = 32 << 20
#: Requests under way at once on a source where each is a round trip.
MAX_PARALLEL = 8


@dataclass(frozen=True)
class Range:
    """`size` bytes at `offset`."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True)
class Request:
    """One read, and the wanted ranges (by position in the input) it covers."""

    offset: int
    size: int
    parts: tuple[int, ...]


def coalesce(ranges: Sequence[Range], max_gap: int, max_request: int = MAX_REQUEST) -> list[Request]:
    """Merge ranges that touch, or lie at most `max_gap` bytes apart, into requests of at most `max_request` bytes.

    A single range longer than `max_request` stays whole. Empty ranges need no request.

    Examples
    --------
    >>> coalesce([Range(10, 5), Range(15, 5), Range(40, 1)], max_gap=0)
    [Request(offset=10, size=10, parts=(0, 1)), Request(offset=40, size=1, parts=(2,))]
    """
    order = sorted((i for i in range(len(ranges)) if ranges[i].size), key=lambda i: ranges[i].offset)
    requests: list[Request] = []
    start = end = 0
    parts: list[int] = []
    for i in order:
        wanted = ranges[i]
        if parts and wanted.offset - end <= max_gap and max(end, wanted.end) - start <= max_request:
            end = max(end, wanted.end)
            parts.append(i)
            continue
        if parts:
            requests.append(Request(start, end - start, tuple(parts)))
        start, end, parts = wanted.offset, wanted.end, [i]
    if parts:
        requests.append(Request(start, end - start, tuple(parts)))
    return requests


def fetch(source: Source, ranges: Sequence[Range]) -> list[memoryview]:
    """The bytes of each range, in order, in as few requests as the source's cost of a round trip suggests."""
    requests = coalesce(ranges, source.max_gap)
    if len(requests) > 1 and source.is_remote:
        with ThreadPoolExecutor(min(len(requests), MAX_PARALLEL)) as pool:
            blobs = list(pool.map(lambda request: source.read_at(request.offset, request.size), requests))
    else:
        blobs = [source.read_at(request.offset, request.size) for request in requests]
    out = [memoryview(b"")] * len(ranges)
    for request, blob in zip(requests, blobs, strict=True):
        view = memoryview(blob)
        for i in request.parts:
            at = ranges[i].offset - request.offset
            out[i] = view[at : at + ranges[i].size]
    return out
