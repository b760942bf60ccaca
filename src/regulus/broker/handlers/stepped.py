"""Long bodies, a part at a time: as many fragments a step as take some ms."""

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any

from regulus.wire import encoded_table
from regulus.wire.encoded_table import EncodedTable, Pieces

MEMBERS_A_STEP = 256
"""Of a table, each of which is encoded, looked at or changed in some ten us."""
PIECES_A_STEP = 64
"""Of a document: each has up to 256 members, which are copied."""
FRAGMENTS_A_STEP = 64
"""Each is, for instance, what the answer says of one queue, and costs up to 50 us."""


def joined_in_steps(fragments: Iterator[bytes], separator: bytes = b",") -> Generator[None, None, list[bytes]]:
    """All fragments in a few parts, with `separator` between them; yields after each step but the last."""
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
    """A document as it travels, of which these tables are the large parts; yields after each step but the last. It is
    not made to wait by changes that go on: so many steps as what had changed at the beginning takes."""
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
