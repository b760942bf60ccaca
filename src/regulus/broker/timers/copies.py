"""After a crash: which timed messages came behind the last note of the timers. Each is passed by, as often as it came.

The log tells. What was delivered or put back says so in its properties, and is known by its home, its key, and when its
producer made it.
"""

from collections import Counter
from collections.abc import Generator

from regulus.broker.message_store import MessageStore
from regulus.model import message_properties as names
from regulus.model.happenings import Happenings
from regulus.model.message import MessageExt
from regulus.model.topics import TIMER_TOPIC, is_retry_topic
from regulus.record.timer_units import TimerCheck

UNCOUNTED = "more timed messages came since than are counted, and the rest of them may come twice"
CAME_MAX = 1 << 22
"""Kinds of copies counted that came and are to be passed by: some 600 MB."""

_LEFT = (names.TIMER_DEQUEUE_MS + names.NAME_VALUE_SEPARATOR).encode()
"""What a record holds that was delivered or put back."""


class TimerCopies:
    """`happenings` is told of more than are counted."""

    def __init__(self, store: MessageStore, happenings: Happenings) -> None:
        self.is_looking = False
        """What the log tells is not all counted yet; nothing is delivered until then."""
        self.until_ms = 0
        """When slots from there on are done, none of those that came can be among them."""
        self.since = TimerCheck()
        """What was noted where the log was begun to be looked through for them."""
        self._store = store
        self._happenings = happenings
        self._counts: Counter[str] = Counter()

    @property
    def is_needed(self) -> bool:
        """Some of what came is still to be counted or passed by: another crash must find it."""
        return bool(self._counts) or self.is_looking

    def look_in_steps(self, position: int) -> Generator[bool, None, None]:
        """Count what was delivered behind that position of the log. Proportional to the log behind it, of which a note
        leaves a second or two."""
        self._counts.clear()
        for message in self._store.messages_holding_in_steps(_LEFT, position):
            if message is not None:
                self._count(message)
            yield True
        self.is_looking = False

    def _count(self, message: MessageExt) -> None:
        properties = message.properties
        if names.TIMER_DEQUEUE_MS not in properties:
            return
        if message.topic == TIMER_TOPIC:
            identity = _identity(message, _rolls(message))
        elif message.topic == properties.get(names.REAL_TOPIC) and not is_retry_topic(message.topic):
            identity = _identity(message)
        else:
            return      # a copy of it for another try
        # By a clock that may have been put back since: ticks that were done then are still to come now.
        self.until_ms = max(self.until_ms, message.store_timestamp + self._store.timers.precision_ms)
        if len(self._counts) < CAME_MAX or identity in self._counts:
            self._counts[identity] += 1
        else:
            self._happenings.note(UNCOUNTED, f"at {message.physical_offset} of the log: CAME_MAX is {CAME_MAX}")

    def passes_by(self, waiting: MessageExt, *, is_rolled: bool) -> bool:
        """Whether it came before a crash, or was put back where it is `is_rolled`; once for each time that it did."""
        identity = _identity(waiting, _rolls(waiting) + 1 if is_rolled else None)
        count = self._counts.get(identity, 0)
        if count > 1:
            self._counts[identity] = count - 1
        elif count:
            del self._counts[identity]
        return count > 0

    def forget_done(self) -> None:
        """What is left of the slot that was noted half done stands in it alone: nothing of that is done."""
        self.since = self.since._replace(done=0)

    def pass_slot(self, read_ms: int) -> None:
        """All slots before that one are done."""
        if self._counts and read_ms > self.until_ms:
            self._counts.clear()


def _rolls(message: MessageExt) -> int:
    """How often it was put back."""
    return max(0, names.number(message.properties.get(names.TIMER_ROLL_TIMES)))


def _identity(message: MessageExt, rolls: int | None = None) -> str:
    """By what a copy that came is known to be of a message that waits: its home, its key, and when its producer made
    it, so that another message with its properties, as a consumer passes it on, is not taken for it. Line breaks, which
    no topic holds, set those apart that take another out, and that were put back for the `rolls`-th time."""
    properties = message.properties
    kind = "\n" if names.TIMER_DEL_UNIQUE_KEY in properties else ""
    if rolls is not None:
        kind += f"{rolls}\n"
    home, key = properties.get(names.REAL_TOPIC, ""), properties.get(names.UNIQUE_KEY, "")
    return f"{kind}{home}+{message.born_timestamp}+{key}"
