"""Whose turn it is: rooms of limited size, each with a line of those who wait for a place, first come, first served.

Who finds room pays nothing for the line: no task, no future, no timer. A line has no limit of its own, as each who
stands in it is a caller of this process that waits, and keeps nothing here but its message.
"""

import asyncio
import sys
from collections import OrderedDict


class Room:
    """What is inside has `size_max` at most (0: no limit); what is larger than that enters when nothing else is inside.

    Whoever took a place gives it back, whatever happened.
    """

    __slots__ = ("_line", "size", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max or sys.maxsize
        self.size = 0
        # A cancelled one leaves at once, wherever it stands; the first of a plain dict is not found at once.
        self._line: OrderedDict[asyncio.Future[None], int] = OrderedDict()

    @property
    def is_empty(self) -> bool:
        """Nobody is inside and nobody waits."""
        return not self.size and not self._line

    def take(self, size: int) -> bool:
        """Enter now; False when there is no room or others wait already."""
        if self._line or (self.size and self.size + size > self.size_max):
            return False
        self.size += size
        return True

    async def wait(self, size: int) -> None:
        """Enter when it is our turn."""
        if self.take(size):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line[future] = size
        try:
            await future
        except asyncio.CancelledError:
            self._leave_line(future, size)
            raise

    def give_back(self, size: int) -> None:
        self.size -= size
        if self._line:
            self._admit()

    def _admit(self) -> None:
        while self._line:
            future = next(iter(self._line))
            size = self._line[future]
            if not future.done():
                if self.size and self.size + size > self.size_max:
                    return
                self.size += size
                future.set_result(None)
            del self._line[future]

    def _leave_line(self, future: "asyncio.Future[None]", size: int) -> None:
        """A turn that came in the same moment goes to the next; so does that of a large one that nobody could pass."""
        self._line.pop(future, None)
        if not future.cancelled():
            self.size -= size
        self._admit()
