"""After a crash: finds the timed messages that were delivered after the last note of the timers, so that they are
skipped.

The search reads the log. A message that was delivered or put back says so in its properties, and is identified by its
original topic, its key, and the time when its producer made it. It is skipped as many times as it was found.
"""

from collections import Counter
from collections.abc import Generator

from regulus.broker.message_store import MessageStore
from regulus.model import message_properties as names
from regulus.model.happenings import Happenings
from regulus.model.message import MessageExt
from regulus.model.topics import TIMER_TOPIC, is_retry_topic
from regulus.record.timer_units import TimerCheck

UNCOUNTED = "more timed messages were delivered since than are counted, and the rest may be delivered twice"
CAME_MAX = 1 << 22
"""Different copies that are counted, at most: some 600 MB."""

_LEFT = (names.TIMER_DEQUEUE_MS + names.NAME_VALUE_SEPARATOR).encode()
"""Text in the record of each message that was delivered or put back."""


class TimerCopies:
    """Copies in the log that must not be delivered again. `happenings` reports when there are too many."""

    def __init__(self, store: MessageStore, happenings: Happenings) -> None:
        self.is_looking = False
        """Whether the log is still searched; nothing is delivered until then."""
        self.until_ms = 0
        """When slots from this time on are done, no counted message can be among the rest."""
        self.since = TimerCheck()
        """The note from which on the log is searched."""
        self._store = store
        self._happenings = happenings
        self._counts: Counter[str] = Counter()

    @property
    def is_needed(self) -> bool:
        """Whether messages are still to be counted or skipped, so that another crash needs the same search."""
        return bool(self._counts) or self.is_looking

    def look_in_steps(self, position: int) -> Generator[bool, None, None]:
        """Count what was delivered after that position of the log. Cost is proportional to the log after it; with
        regular notes that is a second or two of messages."""
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
            return      # a copy for another attempt
        # The clock may have been set back since: ticks that were done then can come again.
        self.until_ms = max(self.until_ms, message.store_timestamp + self._store.timers.precision_ms)
        if len(self._counts) < CAME_MAX or identity in self._counts:
            self._counts[identity] += 1
        else:
            self._happenings.note(UNCOUNTED, f"at {message.physical_offset} of the log: CAME_MAX is {CAME_MAX}")

    def passes_by(self, waiting: MessageExt, *, is_rolled: bool) -> bool:
        """Whether to skip the message, because it was delivered before a crash or, with `is_rolled`, put back. True
        once for each time that it was."""
        identity = _identity(waiting, _rolls(waiting) + 1 if is_rolled else None)
        count = self._counts.get(identity, 0)
        if count > 1:
            self._counts[identity] = count - 1
        elif count:
            del self._counts[identity]
        return count > 0

    def forget_done(self) -> None:
        """Note that the remaining records of the slot that was noted as half done are alone in it: none of them is
        done."""
        self.since = self.since._replace(done=0)

    def pass_slot(self, read_ms: int) -> None:
        """Note that all slots before this time are done."""
        if self._counts and read_ms > self.until_ms:
            self._counts.clear()


def _rolls(message: MessageExt) -> int:
    """How often the message was put back."""
    return max(0, names.number(message.properties.get(names.TIMER_ROLL_TIMES)))


def _identity(message: MessageExt, rolls: int | None = None) -> str:
    """Identity of a waiting message and its copies: original topic, key, and time of birth.

    The time distinguishes another message with the same properties, which a consumer may have forwarded. Line breaks,
    which no topic contains, set apart recall markers, and messages that were put back for the `rolls`-th time.
    """
    properties = message.properties
    kind = "\n" if names.TIMER_DEL_UNIQUE_KEY in properties else ""
    if rolls is not None:
        kind += f"{rolls}\n"
    home, key = properties.get(names.REAL_TOPIC, ""), properties.get(names.UNIQUE_KEY, "")
    return f"{kind}{home}+{message.born_timestamp}+{key}"
