"""The protocol between a master and its slaves: reports in one direction, pieces of the log in the other.

    slave -> master     8 bytes     the offset up to which the slave has the log
    master -> slave     12 bytes    position of the piece in the log (8), its size (4); size 0 keeps the link alive
                        size        the log's bytes, cut anywhere, never across two of its files

Numbers are big-endian.

Source: HAConnection.ReadSocketService, HAConnection.WriteSocketService, HAService.HAClient.
"""

from struct import Struct

from regulus.errors import FrameError

PIECE_SIZE_MAX = 4 << 20
"""A slave of RocketMQ has this much room for a piece and its head."""
HEAD_SIZE = 12

_REPORT = Struct(">q")
_HEAD = Struct(">qi")


def encode_report(offset: int) -> bytes:
    return _REPORT.pack(offset)


def encode_head(offset: int, size: int) -> bytes:
    return _HEAD.pack(offset, size)


class ReportReader:
    """Reads reports from bytes in any portions."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """The last complete report, which includes what earlier ones reported. Raises FrameError."""
        data = self._rest + data
        whole = len(data) // _REPORT.size * _REPORT.size
        self._rest = data[whole:]
        if not whole:
            return None
        (offset,) = _REPORT.unpack_from(data, whole - _REPORT.size)
        if offset < 0:
            raise FrameError(f"a slave reports {offset} as the end of its log")
        return int(offset)


class PieceReader:
    """Reads pieces from bytes in any portions, and keeps at most one incomplete piece."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The pieces completed by `data`: the position in the log and the bytes, which are empty for a keep-alive.
        Raises FrameError."""
        self._buffer += data
        pieces = []
        position = 0
        while len(self._buffer) - position >= HEAD_SIZE:
            offset, size = _HEAD.unpack_from(self._buffer, position)
            if offset < 0 or not 0 <= size <= PIECE_SIZE_MAX:
                raise FrameError(f"what the master sends is not a piece of a log: {size} bytes for {offset}")
            end = position + HEAD_SIZE + size
            if len(self._buffer) < end:
                break
            pieces.append((offset, bytes(memoryview(self._buffer)[position + HEAD_SIZE:end])))
            position = end
        del self._buffer[:position]
        return pieces
