"""Long bodies and long deeds, a part at a time: as many fragments or deeds a step as take some ms."""

from collections.abc import Generator, Iterator
from itertools import islice

DEEDS_A_STEP = 256
"""Each is a few entries less in some tables, and costs up to 10 us."""

FRAGMENTS_A_STEP = 64
"""Each is, for instance, what the answer says of one queue, and costs up to 50 us."""


def done_in_steps(deeds: Iterator[None]) -> Generator[None, None, None]:
    """Do all of what yields after each of many small deeds; yields after each step."""
    for number, _ in enumerate(deeds, 1):
        if number % DEEDS_A_STEP == 0:
            yield


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
