"""The messages of one queue that are consumed one batch after the other, in order.

A batch that fails stays the current one and is tried again; nothing behind it runs before it is done.

Source: ProcessQueue.takeMessages, ProcessQueue.makeMessageToConsumeAgain.
"""

from collections import deque
from collections.abc import Iterable

from regulus.model.message import MessageExt

SUSPEND_MS_MIN = 10
SUSPEND_MS_MAX = 30_000


class OrderedQueue:
    """`current` is the batch that is being consumed or waits to be tried again; empty when there is none."""

    def __init__(self) -> None:
        self.current: list[MessageExt] = []
        self._waiting: deque[MessageExt] = deque()

    def put(self, messages: Iterable[MessageExt]) -> None:
        self._waiting.extend(messages)

    def begin_next(self, size_max: int) -> list[MessageExt]:
        """Make the next messages the current batch; empty when one is current already or nothing waits."""
        if self.current:
            return []
        waiting = self._waiting
        self.current = [waiting.popleft() for _ in range(min(size_max, len(waiting)))]
        return self.current

    def done(self) -> None:
        """The current batch needs no further try."""
        self.current = []

    def failed(self) -> None:
        """The current batch is to be tried again."""
        for message in self.current:
            message.reconsume_times += 1

    def has_had_enough(self, reconsume_times_max: int) -> bool:
        """True when a message of the failed current batch was tried as often as allowed; -1 allows any number."""
        return reconsume_times_max >= 0 and any(each.reconsume_times >= reconsume_times_max for each in self.current)


def suspend_ms(wished_ms: int, default_ms: int) -> int:
    """How long a queue rests after a failure; a negative wish takes the default."""
    return min(max(default_ms if wished_ms < 0 else wished_ms, SUSPEND_MS_MIN), SUSPEND_MS_MAX)
