"""Which messages of a queue somebody wants: the one value by which pulls, held pulls and all other reads filter."""

from collections.abc import Mapping

LOOKED_MAX = 16_000_000
"""A filter that reads properties passes over no more messages once it looked at so many bytes of them, each as
often as it weighs: the next read goes on there. One request is to take tens of ms and not seconds."""


class Filter:
    """First by the hash of the tag, which queues keep: `tags_codes`, None for every one.

    A kind of filter that must see a message's properties as well says `reads_properties`, which ones in `names`, and
    more in `matches`; it is asked only about messages whose tag passed. `weight`: how often it looks at them, more or
    less, for each message.
    """

    def __init__(self, tags_codes: frozenset[int] | None = None, reads_properties: bool = False,
                 weight: int = 1, names: tuple[str, ...] = ()) -> None:
        self.tags_codes = tags_codes
        self.reads_properties = reads_properties
        self.weight = weight
        self.names = [name.encode() for name in names]

    def takes(self, tags_code: int) -> bool:
        """Whether the tag passes."""
        return self.tags_codes is None or tags_code in self.tags_codes

    def matches(self, values: list[str | None]) -> bool:
        """Whether the properties pass, too: the values of `names`, in their order; None where there is none. Of tags
        only the hash counts here: who consumes compares the texts."""
        return True

    def matches_all(self, properties: Mapping[str, str]) -> bool:
        """The same, by all properties of a message."""
        return self.matches([properties.get(name.decode()) for name in self.names])


EVERYTHING = Filter()
