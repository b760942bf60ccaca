"""Which messages of a queue a reader wants: the one filter for pulls, held pulls and all other reads."""

from collections.abc import Mapping

LOOKED_MAX = 16_000_000
"""Bytes of properties that one read may examine, each counted `weight` times; the next read continues from there. It
keeps a request within tens of milliseconds instead of seconds."""


class Filter:
    """A filter by the hash of the tag, which queues keep: `tags_codes`, None for every tag.

    A filter that also needs a message's properties sets `reads_properties`, names them in `names`, and examines them in
    `matches`, which is called only for messages whose tag passed. `weight`: about how many times it examines them for
    each message.
    """

    def __init__(self, tags_codes: frozenset[int] | None = None, reads_properties: bool = False,
                 weight: int = 1, names: tuple[str, ...] = ()) -> None:
        self.tags_codes = tags_codes
        self.reads_properties = reads_properties
        self.weight = weight
        self.names = [name.encode() for name in names]

    def takes(self, tags_code: int) -> bool:
        """Whether the hash of the tag passes."""
        return self.tags_codes is None or tags_code in self.tags_codes

    def matches(self, values: list[str | None]) -> bool:
        """Whether the properties pass too: the values of `names`, in their order; None for a missing one. Only the hash
        of a tag is compared here: the consumer compares the text."""
        return True

    def matches_all(self, properties: Mapping[str, str]) -> bool:
        """Like `matches`, but takes all properties of a message."""
        return self.matches([properties.get(name.decode()) for name in self.names])


EVERYTHING = Filter()
