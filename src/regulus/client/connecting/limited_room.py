"""A room of limited size, with a line of callers that wait for a place: first come, first served.

A caller that finds room pays nothing for the line: no task, no future, no timer. The line has no limit of its own,
because each entry is a waiting caller of this process, which keeps only its message here.
"""

import asyncio
import sys
from collections import OrderedDict


class LimitedRoom:
    """Holds at most `size_max` (0: no limit). A caller that needs more than that enters when the room is empty.

    Each caller that took a place gives it back, whatever happened.
    """

    __slots__ = ("_line", "size", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max or sys.maxsize
        self.size = 0
        # OrderedDict, because a cancelled caller leaves from any position, and in a plain dict the search for the first
        # entry gets slower with each one removed before it.
        self._line: OrderedDict[asyncio.Future[None], int] = OrderedDict()

    @property
    def is_empty(self) -> bool:
        """Whether no caller is inside and none waits."""
        return not self.size and not self._line

    def take(self, size: int) -> bool:
        """Enter now; False when there is no room, or others wait already."""
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
        """Leave the line and admit the next callers: a place that was granted at the same moment is free again, and a
        large caller that blocked the others is gone."""
        self._line.pop(future, None)
        if not future.cancelled():
            self.size -= size
        self._admit()
