"""Which bytes to ask for: a pure plan that merges neighbours and cuts long reads, and a small executor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from smalti.io.sources import Range, Source
from smalti.threads import REQUESTS

#: Bytes that are read without being wanted, as a share of the wanted bytes, because fewer requests are cheaper.
SPARE_SHARE = 0.05
#: The largest gap worth reading to save a round trip.
REMOTE_GAP = 512 << 10
#: Merging makes no request longer than this. Longer ranges of a remote file are read in several requests at once.
LOCAL_REQUEST = 32 << 20
REMOTE_REQUEST = 8 << 20


class Request(NamedTuple):
    """One read, and the indices of the wanted ranges that it covers."""

    offset: int
    size: int
    parts: tuple[int, ...]


def plan_requests(
    ranges: Sequence[Range], max_gap: int, max_request: int, max_requests: int = REQUESTS
) -> list[Request]:
    """Merge ranges into requests: those that touch, and those with gaps between them that are cheaper than requests.

    Gaps are closed from the smallest on, as long as all of them together are a small share of the wanted bytes. If
    there are more than `max_requests` then, they would not be under way all at once, and gaps of up to `max_gap` bytes
    are closed until they are. A request is not made longer than `max_request` by merging, so that several can be under
    way. Empty ranges need no request.

    Examples
    --------
    >>> plan_requests([Range(10, 5), Range(15, 5), Range(40, 1)], max_gap=0, max_request=100)
    [Request(offset=10, size=10, parts=(0, 1)), Request(offset=40, size=1, parts=(2,))]
    """
    order = sorted((i for i in range(len(ranges)) if ranges[i].size), key=lambda i: ranges[i].offset)
    closed = _closed_gaps([ranges[i] for i in order], max_gap, max_requests)
    requests: list[Request] = []
    start = end = 0
    parts: list[int] = []
    for position, i in enumerate(order):
        wanted = ranges[i]
        joins = wanted.offset <= end or position in closed
        if parts and joins and max(end, wanted.end) - start <= max_request:
            end = max(end, wanted.end)
            parts.append(i)
            continue
        if parts:
            requests.append(Request(start, end - start, tuple(parts)))
        start, end, parts = wanted.offset, wanted.end, [i]
    if parts:
        requests.append(Request(start, end - start, tuple(parts)))
    return requests


def _closed_gaps(ranges: Sequence[Range], max_gap: int, max_requests: int) -> set[int]:
    """Positions of sorted ranges that are read in one request with the range before, and the gap between them."""
    gaps = [
        (gap, position)
        for position, (before, wanted) in enumerate(pairwise(ranges), 1)
        if (gap := wanted.offset - before.end) > 0
    ]
    spare = int(SPARE_SHARE * sum(wanted.size for wanted in ranges))
    closed: set[int] = set()
    for gap, position in sorted(gaps):
        spare -= gap
        if gap > max_gap or (spare < 0 and len(gaps) + 1 - len(closed) <= max_requests):
            break
        closed.add(position)
    return closed


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


def fetch(source: Source, ranges: Sequence[Range]) -> list[memoryview]:
    """Read ranges, in as few requests as the source's cost of a round trip suggests; one view per range, in order.

    Refuses a closed source, even if there is nothing to read.
    """
    source.check_open()
    # Pieces of a local file would be read one after the other, and joined for nothing.
    max_gap, max_request, longest = (
        (REMOTE_GAP, REMOTE_REQUEST, REMOTE_REQUEST) if source.is_remote else (0, LOCAL_REQUEST, source.size)
    )
    requests = plan_requests(ranges, max_gap, max_request)
    pieces = [split(request, longest) for request in requests]
    blobs = iter(source.read_many([piece for some in pieces for piece in some]))
    out = [memoryview(b"")] * len(ranges)
    for request, some in zip(requests, pieces, strict=True):
        read = [next(blobs) for _ in some]
        view = memoryview(read[0] if len(read) == 1 else b"".join(read))
        for i in request.parts:
            at = ranges[i].offset - request.offset
            out[i] = view[at : at + ranges[i].size]
    return out
