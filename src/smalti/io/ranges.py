"""Which bytes to ask for: a pure plan that weighs requests against bytes and cuts long reads, and a small executor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from smalti.io.connection import Cost
from smalti.io.sources import Range, Source

#: Bytes that are read between the wanted ones are no more than the wanted ones, or than this many if that is more.
SPARE = 16 << 20
#: The largest gap that is read to save a request, whatever a request seems to cost.
MAX_GAP = 1 << 20
#: The largest bucket that is read whole to save the round trip for its directory.
MAX_WHOLE = 1 << 20
#: Merging makes no request longer than this. Longer ranges of a remote file are read in several requests at once.
LOCAL_REQUEST = 32 << 20
REMOTE_REQUEST = 8 << 20


class Request(NamedTuple):
    """One read, and the indices of the wanted ranges that it covers."""

    offset: int
    size: int
    parts: tuple[int, ...]


def plan_requests(ranges: Sequence[Range], max_gap: int, max_request: int, spare: int = SPARE) -> list[Request]:
    """Merge ranges into requests: those that touch, and those with gaps between them that are cheaper than requests.

    Gaps of up to `max_gap` bytes are closed, from the smallest on, as long as all of them together have no more than
    the wanted bytes, or than `spare` if that is more. A request is not made longer than `max_request` by merging, so
    that several can be under way. Empty ranges need no request.

    Examples
    --------
    >>> plan_requests([Range(10, 5), Range(15, 5), Range(40, 1)], max_gap=0, max_request=100)
    [Request(offset=10, size=10, parts=(0, 1)), Request(offset=40, size=1, parts=(2,))]
    """
    order = sorted((i for i in range(len(ranges)) if ranges[i].size), key=lambda i: ranges[i].offset)
    largest = _largest_gap([ranges[i] for i in order], max_gap, spare) if max_gap else 0
    requests: list[Request] = []
    start = end = 0
    parts: list[int] = []
    for i in order:
        wanted = ranges[i]
        if parts and wanted.offset - end <= largest and max(end, wanted.end) - start <= max_request:
            end = max(end, wanted.end)
            parts.append(i)
            continue
        if parts:
            requests.append(Request(start, end - start, tuple(parts)))
        start, end, parts = wanted.offset, wanted.end, [i]
    if parts:
        requests.append(Request(start, end - start, tuple(parts)))
    return requests


def _largest_gap(ranges: Sequence[Range], max_gap: int, spare: int) -> int:
    """The size of gaps between sorted ranges up to which all of them are closed."""
    gaps = sorted(gap for before, wanted in pairwise(ranges) if 0 < (gap := wanted.offset - before.end) <= max_gap)
    spare = max(spare, sum(wanted.size for wanted in ranges))
    if sum(gaps) <= spare:
        return max_gap
    for gap in gaps:
        spare -= gap
        if spare < 0:
            return gap - 1
    return max_gap


class Parts(NamedTuple):
    """A bucket of which some parts are wanted, and where they are is known only after its head was read."""

    size: int
    head: int
    #: The share of the bytes behind the head that is wanted, and in how many pieces.
    share: float
    pieces: int


def plan_whole(buckets: Sequence[Parts], cost: Cost, spare: int = SPARE) -> list[bool]:
    """Which buckets to read whole, because that takes less time than their heads, then their wanted parts.

    If all of them are read whole there is only one round of requests, and the time of a round trip is saved. Otherwise
    those are read whole for which the bytes between take less time than the requests. Buckets of more than `MAX_WHOLE`
    bytes never are, and the others only as long as they have no more than `spare` bytes together.

    Examples
    --------
    >>> cost = Cost(latency=0.05, request=0.001, byte=1e-8)
    >>> plan_whole([Parts(size=200_000, head=400, share=0.01, pieces=1)], cost)
    [True]
    >>> plan_whole([Parts(size=400_000, head=400, share=0.01, pieces=1)] * 50, cost)[:2]
    [False, False]
    """
    whole, in_parts, chosen = 0.0, 0.0, []
    for size, head, share, pieces in buckets:
        one_read = cost.request + size * cost.byte if size <= MAX_WHOLE else float("inf")
        two_reads = (1 + pieces) * cost.request + (head + share * (size - head)) * cost.byte
        whole += one_read
        in_parts += min(one_read, two_reads)
        chosen.append(one_read <= two_reads)
    if not all(chosen) and whole <= in_parts + cost.latency:
        chosen = [True] * len(chosen)
    if sum(parts.size for parts, is_whole in zip(buckets, chosen, strict=True) if is_whole) > spare:
        return [False] * len(chosen)
    return chosen


def split(request: Request, max_request: int) -> list[Range]:
    """Cut a long request into pieces of about the same length, which are read at the same time.

    Examples
    --------
    >>> split(Request(100, 10, (0,)), max_request=4)
    [Range(offset=100, size=4), Range(offset=104, size=3), Range(offset=107, size=3)]
    """
    count = -(-request.size // max_request)
    bounds = [request.offset + -(-request.size * number // count) for number in range(count + 1)]
    return [Range(start, end - start) for start, end in pairwise(bounds)]


def fetch(source: Source, ranges: Sequence[Range], spare: int = SPARE) -> list[memoryview]:
    """Read ranges in as few requests as their cost suggests; one view per range, in order.

    `spare` bounds the bytes that are read without being wanted, see `plan_requests`; they are released before this
    returns. Refuses a closed source, even if there is nothing to read.
    """
    if len(ranges) == 1 and ranges[0].size and source.connection is None:
        return [memoryview(source.read_at(*ranges[0]))]  # the usual case of small reads
    source.check_open()
    out = [memoryview(b"")] * len(ranges)
    if not any(wanted.size for wanted in ranges):
        return out
    if source.connection is None:
        # Long requests are not cut: pieces of a local file would be read one after the other, and joined for nothing.
        requests = plan_requests(ranges, 0, LOCAL_REQUEST)
        blobs = source.read_many([request[:2] for request in requests])
    else:
        requests = plan_requests(ranges, min(MAX_GAP, source.connection.cost.gap), REMOTE_REQUEST, spare)
        pieces = [split(request, REMOTE_REQUEST) for request in requests]
        parts = iter(source.read_many([piece for some in pieces for piece in some]))
        blobs = [next(parts) if len(some) == 1 else b"".join(islice(parts, len(some))) for some in pieces]
    for request, blob in zip(requests, blobs, strict=True):
        view = memoryview(blob)
        if len(request.parts) == 1:
            out[request.parts[0]] = view
            continue
        has_spare = source.connection is not None and sum(ranges[i].size for i in request.parts) < request.size
        for i in request.parts:
            at = ranges[i].offset - request.offset
            part = view[at : at + ranges[i].size]
            out[i] = memoryview(bytes(part)) if has_spare else part
    return out
