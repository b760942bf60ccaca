"""The file `regulusSynced`: it names a record of the log; that record and all before it are certainly on disk.

One line of text, numbers with blanks between them:

    start            physical offset of the record
    size             its bytes
    store_timestamp  when it was stored, in ms
    checksum         CRC-32 of its first HEAD_SIZE bytes: place, time, length and checksum of its body among them
    line checksum    CRC-32 of the line up to the blank before it

The mark names a record and not only a position: if there is no record with that checksum at that position, the mark
belongs to another log and counts as absent. RocketMQ does not know the file and ignores it.
"""

from typing import NamedTuple
from zlib import crc32

from regulus.errors import CorruptRecord

HEAD_SIZE = 88
_FIELD_COUNT = 4                # without the line's checksum


class SyncedMark(NamedTuple):
    start: int
    size: int
    store_timestamp: int
    checksum: int

    @property
    def end(self) -> int:
        """All bytes of the log before this physical offset are on disk."""
        return self.start + self.size

    def fits(self, head: bytes) -> bool:
        """Whether these are the first bytes of the marked record."""
        return len(head) == HEAD_SIZE and crc32(head) == self.checksum


def encode(mark: SyncedMark) -> bytes:
    line = " ".join(map(str, mark))
    return f"{line} {crc32(line.encode())}\n".encode()


def decode(data: bytes) -> SyncedMark:
    """Raises CorruptRecord when the data is not a whole mark."""
    line, _, checksum = data.removesuffix(b"\n").rpartition(b" ")
    fields = line.split(b" ")
    if len(fields) != _FIELD_COUNT or not all(field.isdigit() for field in (*fields, checksum)) \
            or int(checksum) != crc32(line):
        raise CorruptRecord("no mark of a synced record")
    return SyncedMark._make(map(int, fields))
