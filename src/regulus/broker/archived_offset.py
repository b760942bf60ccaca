"""Up to which physical offset the log stands in an archive outside of the broker.

Whoever writes the archive tells it; retention with the archive gate never passes it. It is saved now and then: after a
crash the broker may remember an older one, which only keeps files longer, and the archive tells it again.
"""

from regulus.errors import HeaderError
from regulus.wire import encoded_table, fastjson
from regulus.wire.encoded_table import Pieces

NONE = -1

_KEY = "archivedPhysicalOffset"


class ArchivedOffset:
    def __init__(self) -> None:
        self.physical_offset = NONE
        self.changes = 0

    def advance(self, physical_offset: int, flushed_offset: int) -> str:
        """Take over what an archive tells; why not, or an empty text. The same offset again is fine."""
        if physical_offset < self.physical_offset or physical_offset < 0:
            return (f"archivedPhysicalOffset {physical_offset} is behind {self.physical_offset}, up to where the log "
                    "is archived: ask for the log's state and go on from there")
        if physical_offset > flushed_offset:
            return (f"archivedPhysicalOffset {physical_offset} is beyond {flushed_offset}, up to where the log is on "
                    "disk: this archive belongs to another broker, or to a log that was lost")
        if physical_offset != self.physical_offset:
            self.physical_offset = physical_offset
            self.changes += 1
        return ""

    def behind_bytes(self, log_start: int, log_end: int) -> int:
        """So much of the log is there and not archived; NONE as long as no archive told anything."""
        return NONE if self.physical_offset == NONE else log_end - max(self.physical_offset, log_start)

    def document(self) -> Pieces:
        return encoded_table.document({_KEY: self.physical_offset})

    def load(self, text: str, log_end: int) -> None:
        """Take over what was saved. Behind the end of the log nothing is archived: what will be written there is new.
        Raises HeaderError."""
        value = fastjson.loads(text)
        offset = value.get(_KEY) if isinstance(value, dict) else None
        if not isinstance(offset, int):
            raise HeaderError(f"the document of the archived offset has no number {_KEY}")
        self.physical_offset = min(offset, log_end)

    def follow(self, text: str, log_end: int) -> None:
        """Take over what a master knows. Raises HeaderError."""
        before = self.physical_offset
        self.load(text, log_end)
        self.changes += self.physical_offset != before
