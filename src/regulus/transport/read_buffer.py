"""The memory that sockets are read into.

The connections of a listener share one: the event loop reads one socket at a time, and what came is taken out before it
reads the next. So thousands of connections need no more than one, and it stays in the processor's cache, where memory
taken anew for each read would have to be given pages by the kernel first.
"""

ROOM_SIZE = 256 << 10
"""Bytes that one read brings at most."""
FRONT_SIZE = 64 << 10
"""The beginning of a frame, left over by the read before, is put in front if it is not longer than this."""


class ReadBuffer:
    """Reads go to `room`, which is data[front:]."""

    def __init__(self, room_size: int = ROOM_SIZE, front_size: int = FRONT_SIZE) -> None:
        self.front = front_size
        self.data = bytearray(front_size + room_size)
        self.room = memoryview(self.data)[front_size:]
