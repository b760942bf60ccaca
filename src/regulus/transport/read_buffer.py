"""The memory that sockets are read into.

The connections of a listener share one buffer: the event loop reads one socket at a time, and the data is taken out
before it reads the next. So thousands of connections need only one, which stays in the processor's cache; memory
allocated for each read would need new pages from the kernel first.
"""

ROOM_SIZE = 256 << 10
"""The maximum number of bytes in one read."""
FRONT_SIZE = 64 << 10
"""The beginning of a frame, left over from the read before, is copied in front if it is not longer than this."""


class ReadBuffer:
    """The buffer; reads go to `room`, which is data[front:]."""

    def __init__(self, room_size: int = ROOM_SIZE, front_size: int = FRONT_SIZE) -> None:
        self.front = front_size
        self.data = bytearray(front_size + room_size)
        self.room = memoryview(self.data)[front_size:]
