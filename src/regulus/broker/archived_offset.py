"""Up to which physical offset the log stands in an archive outside of the broker, and in which.

Whoever writes the archive tells it; retention with the archive gate never passes it. It is saved now and then: after a
crash the broker may remember an older one, which only keeps files longer, and the archive tells it again.

An archive has an identity, which lies in it. Only what the one tells that the broker's settings name opens the gate:
one that was written to a place that nobody meant is no reason to delete the log.
"""

from regulus.errors import HeaderError
from regulus.wire import encoded_table, fastjson
from regulus.wire.encoded_table import Pieces

NONE = -1

_KEY = "archivedPhysicalOffset"
_IDENTITY_KEY = "archiveIdentity"
IDENTITY_SIZE_MAX = 128


class ArchivedOffset:
    def __init__(self) -> None:
        self.physical_offset = NONE
        self.identity = ""
        self.changes = 0

    def trusted(self, identity: str) -> int:
        """Up to where the archive with this identity has the log; NONE when it has told nothing, or none is named."""
        return self.physical_offset if identity and identity == self.identity else NONE

    def advance(self, physical_offset: int, flushed_offset: int, identity: str = "") -> str:
        """Take over what an archive tells; why not, or an empty text. What another archive told before counts no more.
        One that was brought back from a backup has less than it had, and keeps more of the log."""
        if len(identity) > IDENTITY_SIZE_MAX:
            return f"the archive's identity has {len(identity)} characters; {IDENTITY_SIZE_MAX} are the most"
        if physical_offset < 0:
            return f"archivedPhysicalOffset is {physical_offset}: write 0 or more"
        if physical_offset > flushed_offset:
            return (f"archivedPhysicalOffset {physical_offset} is beyond {flushed_offset}, up to where the log is on "
                    "disk: this archive belongs to another broker, or to a log that was lost")
        if (physical_offset, identity) != (self.physical_offset, self.identity):
            self.physical_offset, self.identity = physical_offset, identity
            self.changes += 1
        return ""

    def behind_bytes(self, log_start: int, log_end: int) -> int:
        """So much of the log is there and not archived; NONE as long as no archive told anything."""
        return NONE if self.physical_offset == NONE else log_end - max(self.physical_offset, log_start)

    def document(self) -> Pieces:
        return encoded_table.document({_KEY: self.physical_offset, _IDENTITY_KEY: self.identity})

    def load(self, text: str, log_end: int) -> None:
        """Take over what was saved. Behind the end of the log nothing is archived: what will be written there is new.
        Raises HeaderError."""
        value = fastjson.loads(text)
        offset = value.get(_KEY) if isinstance(value, dict) else None
        if not isinstance(offset, int):
            raise HeaderError(f"the document of the archived offset has no number {_KEY}")
        identity = value.get(_IDENTITY_KEY, "")
        if not isinstance(identity, str):
            raise HeaderError(f"the document of the archived offset has a {_IDENTITY_KEY} that is no text")
        self.physical_offset, self.identity = min(offset, log_end), identity

    def follow(self, text: str, log_end: int) -> None:
        """Take over what a master knows. Raises HeaderError."""
        before = self.physical_offset, self.identity
        self.load(text, log_end)
        self.changes += (self.physical_offset, self.identity) != before
