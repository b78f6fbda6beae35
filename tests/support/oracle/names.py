"""Column names: front coding, and byte pair encoding (notes, 2.1 to 2.3)."""

from __future__ import annotations

import itertools
from collections import Counter

from tests.support.oracle.wire import Cursor, uv

MAX_RULES = 128


def shared_prefix(left: bytes, right: bytes) -> int:
    length = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        length += 1
    return length


def front_code(names: list[bytes]) -> list[bytes]:
    """One piece per name: shared length with the name before, length of the rest, the rest."""
    pieces, previous = [], b""
    for name in names:
        shared = shared_prefix(previous, name)
        pieces.append(uv(shared) + uv(len(name) - shared) + name[shared:])
        previous = name
    return pieces


def train(names: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Rules (two bytes each) and the names rewritten with them; no rules if any byte is not ASCII."""
    rules: list[bytes] = []
    if any(byte >= 0x80 for name in names for byte in name):
        return rules, names
    while len(rules) < MAX_RULES:
        counts: Counter[tuple[int, int]] = Counter()
        for name in names:
            counts.update(itertools.pairwise(name))
        if not counts:
            break
        pair = max(counts, key=lambda pair: (counts[pair], pair))
        if counts[pair] == 1:
            break
        token = bytes([0x80 + len(rules)])
        rules.append(bytes(pair))
        names = [name.replace(bytes(pair), token) for name in names]
    return rules, names


def encode(names: list[bytes]) -> tuple[bytes, list[bytes]]:
    """The name encoding byte with its table, and one piece per name (already sorted)."""
    raw = front_code(names)
    rules, rewritten = train(names)
    coded = front_code(rewritten)
    if rules and 1 + 2 * len(rules) + sum(map(len, coded)) < sum(map(len, raw)):
        return b"\x01" + uv(len(rules)) + b"".join(rules), coded
    return b"\x00", raw


def read_rules(cursor: Cursor) -> list[bytes]:
    """The BPE table, every rule expanded to plain bytes."""
    expanded: list[bytes] = []
    for _ in range(cursor.uv()):
        expanded.append(b"".join(expand(bytes([token]), expanded) for token in cursor.take(2)))
    return expanded


def expand(name: bytes, rules: list[bytes]) -> bytes:
    return b"".join(rules[token - 0x80] if rules and token >= 0x80 else bytes([token]) for token in name)
