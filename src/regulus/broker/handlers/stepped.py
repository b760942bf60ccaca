"""Long bodies in steps of some ms."""

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any

from regulus.wire import encoded_table
from regulus.wire.encoded_table import EncodedTable, Pieces

MEMBERS_A_STEP = 256
"""Members of a table per step; each takes some ten us to encode, read or change."""
PIECES_A_STEP = 64
"""Pieces of a document per step; each has up to 256 members, which are copied."""
FRAGMENTS_A_STEP = 64
"""Fragments per step; one may be the answer's part about one queue, and costs up to 50 us."""


def joined_in_steps(fragments: Iterator[bytes], separator: bytes = b",") -> Generator[None, None, list[bytes]]:
    """All fragments joined into a few parts, with `separator` between them; yields after each step but the last."""
    parts: list[bytes] = []
    while True:
        made = list(islice(fragments, FRAGMENTS_A_STEP))
        if parts and made and separator:
            parts.append(separator)
        parts.append(separator.join(made))
        if len(made) < FRAGMENTS_A_STEP:
            return parts
        yield


def document_in_steps(tables: Sequence[EncodedTable[Any]],
                      document: Callable[[], Pieces]) -> Generator[None, None, list[bytes]]:
    """A document as it is sent, whose large parts are these tables; yields after each step but the last.

    The number of steps depends on the changes at the beginning, so that later changes cannot prolong it without end.
    """
    for table in tables:
        for _ in range(len(table.changed) // MEMBERS_A_STEP):
            table.encode(MEMBERS_A_STEP)
            yield
    parts: list[bytes] = []
    for part in encoded_table.compact(document()):
        if parts and len(parts) % PIECES_A_STEP == 0:
            yield
        parts.append(part)
    return parts
