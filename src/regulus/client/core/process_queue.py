"""The messages of one queue between pull and commit.

A pull `put`s messages in order of their queue offsets; workers finish them in any order and `remove` them. The offset
to commit is always the smallest one that is not finished, so that no message is lost when the client dies.

    put 5 6 7 8      commit_offset 5
    remove 6, 8                    5    5 is still being worked on
    remove 5                       7
    remove 7                       9    nothing is left: the offset after the last one put

Source: ProcessQueue.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from regulus.model.message import MessageExt

NOTHING_PUT = -1


class ProcessQueue:
    """The unfinished messages of one queue, by queue offset. `size`: bytes of their bodies."""

    def __init__(self) -> None:
        self.size = 0
        self.max_offset = NOTHING_PUT
        self._sizes: dict[int, int] = {}    # by queue offset, measured when put, because listeners may change a body
        self._order: deque[int] = deque()

    @property
    def count(self) -> int:
        return len(self._sizes)

    def put(self, messages: Sequence[MessageExt]) -> list[MessageExt]:
        """Cache messages; returns those that were not cached yet, in the order in which they came."""
        cached = self._sizes
        fresh = []
        late = []
        for message in messages:
            offset = message.queue_offset
            if offset in cached:
                continue
            cached[offset] = size = len(message.body)
            self.size += size
            if offset > self.max_offset:
                self.max_offset = offset
                self._order.append(offset)
            else:
                late.append(offset)
            fresh.append(message)
        if late:    # rare: pulls come in order, except when a queue is read again from an earlier offset
            self._order = deque(sorted({*self._order, *late}))
        return fresh

    def remove(self, messages: Iterable[MessageExt]) -> int:
        """Finish messages; returns the offset that may be committed, NOTHING_PUT when nothing was ever put."""
        cached = self._sizes
        for message in messages:
            self.size -= cached.pop(message.queue_offset, 0)
        return self.commit_offset()

    def commit_offset(self) -> int:
        """The smallest unfinished offset, or the one after the last put; NOTHING_PUT when nothing was ever put."""
        order = self._order
        cached = self._sizes
        while order and order[0] not in cached:
            order.popleft()
        if order:
            return order[0]
        return self.max_offset + 1 if self.max_offset != NOTHING_PUT else NOTHING_PUT

    def holds(self, message: MessageExt) -> bool:
        return message.queue_offset in self._sizes

    def span(self) -> int:
        """Distance between the first unfinished and the last offset put; 0 when nothing is cached."""
        return self.max_offset - self.commit_offset() if self._sizes else 0

    def offset_range(self) -> tuple[int, int]:
        """The smallest and largest cached offset; 0, 0 when nothing is cached."""
        return (min(self._sizes), max(self._sizes)) if self._sizes else (0, 0)
