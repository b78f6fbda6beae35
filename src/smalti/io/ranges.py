"""Which bytes to ask for: a pure plan that merges neighbours and cuts long reads, and a small executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from smalti.io.sources import Source, Span
from smalti.threads import REQUESTS

#: Bytes between the wanted ones that may be read with them, as a share of those, because fewer requests are cheaper.
SPARE_SHARE = 0.05


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
    for place, i in enumerate(order):
        wanted = ranges[i]
        joins = wanted.offset <= end or place in closed
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
    """The places of sorted ranges that are read together with the range before, bytes between them included."""
    gaps = [
        (gap, place)
        for place, (before, wanted) in enumerate(pairwise(ranges), 1)
        if (gap := wanted.offset - before.end) > 0
    ]
    spare = int(SPARE_SHARE * sum(wanted.size for wanted in ranges))
    closed: set[int] = set()
    for gap, place in sorted(gaps):
        spare -= gap
        if gap > max_gap or (spare < 0 and len(gaps) + 1 - len(closed) <= max_requests):
            break
        closed.add(place)
    return closed


def split(request: Request, max_request: int) -> list[Span]:
    """Cut a long request into pieces of about the same length, which can be under way at the same time.

    Examples
    --------
    >>> split(Request(100, 10, (0,)), max_request=4)
    [(100, 4), (104, 3), (107, 3)]
    """
    count = -(-request.size // max_request)
    size, longer = divmod(request.size, count)
    pieces, offset = [], request.offset
    for number in range(count):
        length = size + (number < longer)
        pieces.append((offset, length))
        offset += length
    return pieces


def fetch(source: Source, ranges: Sequence[Range]) -> list[memoryview]:
    """The bytes of each range, in order, in as few requests as the source's cost of a round trip suggests."""
    requests = plan_requests(ranges, source.max_gap, source.max_request)
    # Pieces on this machine would come one after the other, and be put together for nothing.
    longest = source.max_request if source.is_remote else source.size
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
