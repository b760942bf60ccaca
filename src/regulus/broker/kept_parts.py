"""What outlives a broker: one document for each part, and when it is saved."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from regulus.model.happenings import Happenings
from regulus.wire.encoded_table import EncodedTable, LatePieces


class When(Enum):
    AT_ONCE = "at once"             # a setting: whoever changed it is answered when it is saved
    LATER = "later"                 # at an interval, when the log is on disk up to what the document speaks of
    FIRST_AT_ONCE = "first at once"     # the first document before anything is done, the others later


class Part(Protocol):
    """What is asked of a part. `changes` is another number than before when the document is worth saving."""

    @property
    def changes(self) -> int: ...

    def document(self) -> LatePieces:
        """All that changed is in it, and later changes are not; a worker goes through it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPart:
    """`load` takes over what was saved, and raises HeaderError. `tables` may be encoded bit by bit before the document
    is made. `saved` is the number of changes that needs no saving at the start. `urgent` tells the last of its changes
    that is saved at once, though others are not.

    `behind` names the document before it that must be on disk as well: where that one cannot be saved, neither is this.
    What `begin_saving` gives, as the document is made, is called when it is on disk.
    """

    name: str
    part: Part
    when: When
    load: Callable[[str], None]
    tables: tuple[EncodedTable[Any], ...] = ()
    saved: int = -1
    urgent: Callable[[], int] = lambda: -1
    behind: str = ""
    begin_saving: Callable[[], Callable[[], None]] = lambda: _nothing

    @property
    def unencoded(self) -> int:
        """Members that the next document has to encode."""
        return sum(len(table.changed) for table in self.tables)

    def tell(self, taker: Happenings) -> None:
        """Hand over what happened to the members that are encoded, since the last call."""
        for table in self.tables:
            taker.put(table.happenings.take())

    def encode(self, count_max: int) -> None:
        """Encode so many of them of each table."""
        for table in self.tables:
            table.encode(count_max)


def _nothing() -> None:
    """Most do not go by what is on disk."""
