"""Which messages of a queue somebody wants."""

from collections.abc import Mapping


class Filter:
    """First by the hash of the tag, which queues keep: `tags_codes`, None for every one.

    A kind of filter that must see a message's properties as well says `reads_properties` and more in `matches`; it is
    asked only about messages whose tag passed. `weight`: how often it looks at them, more or less, for each message.
    """

    def __init__(self, tags_codes: frozenset[int] | None = None, reads_properties: bool = False,
                 weight: int = 1) -> None:
        self.tags_codes = tags_codes
        self.reads_properties = reads_properties
        self.weight = weight

    def takes(self, tags_code: int) -> bool:
        """Whether the tag passes."""
        return self.tags_codes is None or tags_code in self.tags_codes

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether the properties pass, too. Of tags only the hash counts here: who consumes compares the texts."""
        return True


EVERYTHING = Filter()
