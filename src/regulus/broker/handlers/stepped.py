"""Long bodies, a part at a time: as many fragments a step as take some ms."""

from collections.abc import Generator, Iterator
from itertools import islice

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
