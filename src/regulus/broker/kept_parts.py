"""Describes the documents that outlive a broker, one for each part, and when each is saved."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from regulus.model.happenings import Happenings
from regulus.wire.encoded_table import EncodedTable, LatePieces


class When(Enum):
    AT_ONCE = "at once"             # a setting: a request that changes it is answered when it is saved
    LATER = "later"                 # at an interval, once the log that the document refers to is on disk
    FIRST_AT_ONCE = "first at once"     # the first document before any request is served, the others later


class Part(Protocol):
    """Part of the broker that has a document. When `changes` differs from before, the document is worth saving."""

    @property
    def changes(self) -> int: ...

    def document(self) -> LatePieces:
        """A snapshot: it has all changes so far and no later ones. A worker encodes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPart:
    """A part and how it is saved.

    `load` takes over a saved document, and raises HeaderError. Members of `tables` can be encoded in small steps before
    the document is made. `saved` is the number of changes that needs no saving at the start. `urgent` returns the
    number of the last change that must be saved at once, even if others wait.

    `behind` names a document that must be on disk first; if it cannot be saved, this one is not saved either.
    `begin_saving` is called when the document is made, and what it returns is called when the document is on disk.
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
        """Number of members that the next document has to encode."""
        return sum(len(table.changed) for table in self.tables)

    def tell(self, taker: Happenings) -> None:
        """Hand over what happened to the encoded members since the last call."""
        for table in self.tables:
            taker.put(table.happenings.take())

    def encode(self, count_max: int) -> None:
        """Encode up to `count_max` changed members of each table."""
        for table in self.tables:
            table.encode(count_max)


def _nothing() -> None:
    """Default for parts that do not depend on what is on disk."""
