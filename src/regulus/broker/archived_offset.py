"""Physical offset up to which an external archive has the log, and the identity of that archive.

The process that writes the archive reports the offset; retention with the archive gate never deletes beyond it. The
offset is saved at intervals. After a crash the broker may know an older one, which only keeps files longer until the
archive reports again.

An archive has an identity, which is stored inside it. Only reports of the archive that the broker's settings name open
the gate, so that an archive in the wrong place never causes the log to be deleted.
"""

from regulus.errors import HeaderError
from regulus.wire import encoded_table, fastjson
from regulus.wire.encoded_table import Pieces

NONE = -1       # no archive has reported yet

_KEY = "archivedPhysicalOffset"
_IDENTITY_KEY = "archiveIdentity"
IDENTITY_SIZE_MAX = 128     # characters; saved with the offset


class ArchivedOffset:
    def __init__(self) -> None:
        self.physical_offset = NONE
        self.identity = ""
        self.changes = 0

    def trusted(self, identity: str) -> int:
        """The reported offset, if the archive with this identity reported it; otherwise NONE. An empty identity never
        matches."""
        return self.physical_offset if identity and identity == self.identity else NONE

    def advance(self, physical_offset: int, flushed_offset: int, identity: str = "") -> str:
        """Take over a report. Returns why it is refused, or an empty text.

        It replaces the report of another archive. An archive that was restored from a backup reports less than before,
        and so keeps more of the log.
        """
        if len(identity) > IDENTITY_SIZE_MAX:
            return f"the archive's identity has {len(identity)} characters; {IDENTITY_SIZE_MAX} are the most"
        if physical_offset < 0:
            return f"archivedPhysicalOffset is {physical_offset}: write 0 or more"
        if physical_offset > flushed_offset:
            return (f"archivedPhysicalOffset {physical_offset} is beyond {flushed_offset}, the end of the log on "
                    "disk: this archive belongs to another broker, or to a log that was lost")
        if (physical_offset, identity) != (self.physical_offset, self.identity):
            self.physical_offset, self.identity = physical_offset, identity
            self.changes += 1
        return ""

    def behind_bytes(self, log_start: int, log_end: int) -> int:
        """Bytes of the log that are not archived yet; NONE before the first report."""
        return NONE if self.physical_offset == NONE else log_end - max(self.physical_offset, log_start)

    def document(self) -> Pieces:
        return encoded_table.document({_KEY: self.physical_offset, _IDENTITY_KEY: self.identity})

    def load(self, text: str, log_end: int) -> None:
        """Take over a saved report. The log is written again after its end, so the offset is lowered to it. Raises
        HeaderError."""
        value = fastjson.loads(text)
        offset = value.get(_KEY) if isinstance(value, dict) else None
        if not isinstance(offset, int):
            raise HeaderError(f"the document of the archived offset has no number {_KEY}")
        identity = value.get(_IDENTITY_KEY, "")
        if not isinstance(identity, str):
            raise HeaderError(f"the document of the archived offset has a {_IDENTITY_KEY} that is not a text")
        self.physical_offset, self.identity = min(offset, log_end), identity

    def follow(self, text: str, log_end: int) -> None:
        """Take over the master's report. Raises HeaderError."""
        before = self.physical_offset, self.identity
        self.load(text, log_end)
        self.changes += (self.physical_offset, self.identity) != before
