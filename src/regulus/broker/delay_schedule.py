"""Delivers messages after their delay level's time.

A delayed message waits in the schedule topic, in the queue of its level; the tag slot of its consume queue unit
contains the time at which it is due. All messages of a level wait equally long, so each queue is in order of time. The
schedule keeps one queue offset per level and looks only at the message there. A delivery is one more append, after
which the level's offset moves to the next unit. The offsets are saved at intervals: after a crash some messages may be
delivered twice, but none is lost.

A message for a damaged queue is appended to the schedule topic again, so that those after it need not wait. It waits as
long as the queue has been damaged so far, within limits. The waits double, so the log gets few copies, and after the
queue is rebuilt its messages are late by no more than the damage lasted.

A message in a missing file of the log does not block the level either. Its place is saved with the offsets and read
again after each start, because the file may have been restored.

Source: ScheduleMessageService.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from regulus.broker.message_store import MessageStore
from regulus.broker.placement import parked_again, when_due
from regulus.broker.storing import Storing
from regulus.errors import HeaderError, StoreError
from regulus.model.message_type import DELAY
from regulus.model.store_result import PutStatus, QueueUnit
from regulus.model.topics import SCHEDULE_TOPIC, DataVersion
from regulus.wire import encoded_table, fastjson
from regulus.wire.bodies import DelayOffsetSerializeWrapper
from regulus.wire.encoded_table import Pieces
from regulus.wire.json_fields import to_value

DELIVERIES_PER_TICK_MAX = 256
"""Bounds the appends of one tick, so that other requests are served in between."""
POLL_MS = 100
"""Pause after a level was empty or refused, in ms; a level with a waiting message pauses no longer than that message
waits."""
AGAIN_PER_TICK_MAX = DELIVERIES_PER_TICK_MAX // 2
"""Messages missing in an earlier run that one tick tries again, at most, so that the others are delivered too."""
UPDATES_PER_DATA_VERSION = 200
"""Deliveries after which slaves see a new version of the offsets."""
PARKED_AGAIN_MS_MIN = 60_000
PARKED_AGAIN_MS_MAX = 1_800_000
"""Limits in ms of the wait for a damaged queue; the longest level within that wait is used."""
_MISSING_KEY = "regulusMissing"
DAMAGED_QUEUES_MAX = 10_000
"""Queues for which the start of the damage is remembered. Beyond the limit the oldest is forgotten, and its waits begin
again at the shortest."""


class DelaySchedule:
    """Offsets of all levels. `changes` counts moves of any offset, so that a change is noticed and saved."""

    def __init__(self, store: MessageStore, ladder_ms: Sequence[int], storing: Storing) -> None:
        self.offset_table: dict[int, int] = {}
        self.data_version = DataVersion()
        self.changes = 0
        self.delivered_nums = 0
        self.delivered_size = 0
        """Messages that this run delivered, and their bytes in the log."""
        self._store = store
        self._storing = storing
        self._ladder_ms = tuple(ladder_ms)
        self._last_level = 0
        self._damaged_since: dict[tuple[str, int], int] = {}    # by queue: when it was first refused
        # By level, ranges of messages that could not be read: the end, and the first queue offset. Ranges of earlier
        # runs are in `_again`: level, first and end.
        self._missing: dict[int, dict[int, int]] = {}
        self._again: deque[tuple[int, int, int]] = deque()

    @property
    def level_max(self) -> int:
        return len(self._ladder_ms)

    def progress(self) -> dict[int, tuple[int, int]]:
        """By level in use: the next queue offset to deliver, and the queue offset that the next message gets."""
        ends = {level: self._store.max_offset(SCHEDULE_TOPIC, level - 1) for level in range(1, self.level_max + 1)}
        return {level: (self.offset_table.get(level, 0), end) for level, end in ends.items()
                if end > 0 or level in self.offset_table}

    def late_ms(self, level: int, now_ms: int) -> int:
        """For how long the first message of the level has been due; 0 when none is."""
        try:
            units = self._store.queue_units(SCHEDULE_TOPIC, level - 1, self._corrected(level), 1)
        except StoreError:
            return 0
        return max(0, now_ms - units[0].tags_code) if units else 0

    def tick(self, now_ms: int) -> int:
        """Deliver messages that are due, DELIVERIES_PER_TICK_MAX at most. Returns ms until the next call, 0 when more
        are due."""
        room = DELIVERIES_PER_TICK_MAX
        again = self._deliver_again(now_ms)
        room -= again
        wait_ms = 0 if again and self._again else POLL_MS
        for step in range(self.level_max):
            level = (self._last_level + step) % self.level_max + 1
            delivered, level_wait_ms = self._deliver(level, room, now_ms)
            room -= delivered
            wait_ms = min(wait_ms, level_wait_ms)
            if room <= 0:
                # The next tick begins after this level, so that a crowded level does not block the others.
                self._last_level = level
                return 0
        return wait_ms

    def _deliver(self, level: int, room: int, now_ms: int) -> tuple[int, int]:
        """Number of messages of one level that were handled, and ms until its next one is due."""
        queue_offset = self._corrected(level)
        if queue_offset >= self._store.max_offset(SCHEDULE_TOPIC, level - 1):
            return 0, POLL_MS
        units = self._store.queue_units(SCHEDULE_TOPIC, level - 1, queue_offset, room)
        for count, unit in enumerate(units):
            wait_ms = self._due_ms(unit, level, now_ms) - now_ms
            if wait_ms > 0:
                return count, min(wait_ms, POLL_MS)
            if not self._deliver_unit(unit, level, now_ms):
                return count, POLL_MS
            self._move(level, unit.queue_offset + 1, now_ms)
        return len(units), POLL_MS

    def _deliver_again(self, now_ms: int) -> int:
        """Deliver some messages that were missing in an earlier run; returns how many. Messages that are still missing
        are noted again."""
        if not self._again:
            return 0
        level, begin, end = self._again.popleft()
        first = begin = max(begin, self._store.min_offset(SCHEDULE_TOPIC, level - 1))
        count = min(AGAIN_PER_TICK_MAX, end - first)
        for unit in self._store.queue_units(SCHEDULE_TOPIC, level - 1, first, count) if count > 0 else ():
            if not self._deliver_unit(unit, level, now_ms):
                break
            first = unit.queue_offset + 1
        if first < end:
            self._again.append((level, first, end))
        self.changes += first > begin or first >= end
        return first - begin

    def _note_missing(self, level: int, queue_offset: int) -> None:
        ranges = self._missing.setdefault(level, {})
        ranges[queue_offset + 1] = ranges.pop(queue_offset, queue_offset)

    def _due_ms(self, unit: QueueUnit, level: int, now_ms: int) -> int:
        # More than one full delay away means that the clock was set back since; the message is due.
        due_ms = unit.tags_code
        return now_ms if due_ms > now_ms + self._ladder_ms[level - 1] else due_ms

    def _deliver_unit(self, unit: QueueUnit, level: int, now_ms: int) -> bool:
        """False when the store refuses for now, so that the unit must be tried again.

        A message that the store never accepts is skipped, because it would block all messages after it. A message for a
        damaged queue waits again without blocking others.
        """
        parked = self._store.look_message(unit.physical_offset)
        message = None if parked is None else when_due(parked)
        if message is None:
            if parked is None and self._store.is_missing(unit.physical_offset):
                self._note_missing(level, unit.queue_offset)
            return True
        queue = (message.topic, message.queue_id)
        status = self._storing.deliver(message, now_ms, DELAY).status
        if status == PutStatus.PUT_OK:
            self.delivered_nums += 1
            self.delivered_size += message.store_size
        if status == PutStatus.QUEUE_DAMAGED:
            assert parked is not None
            status = self._storing.append(parked_again(parked, self._again_level(queue, now_ms)), now_ms).status
        elif self._damaged_since:
            self._damaged_since.pop(queue, None)
        return status in (PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL)

    def _again_level(self, queue: tuple[str, int], now_ms: int) -> int:
        """The level at which a message waits for a damaged queue."""
        since_ms = self._damaged_since.setdefault(queue, now_ms)
        if len(self._damaged_since) > DAMAGED_QUEUES_MAX:
            del self._damaged_since[next(iter(self._damaged_since))]
        wait_ms = min(max(now_ms - since_ms, PARKED_AGAIN_MS_MIN), PARKED_AGAIN_MS_MAX)
        fitting = [level for level, delay_ms in enumerate(self._ladder_ms, 1) if delay_ms <= wait_ms]
        return max(fitting, key=lambda level: self._ladder_ms[level - 1], default=1)

    def _corrected(self, level: int) -> int:
        """The level's offset, raised to the first one that the queue still has."""
        queue_offset = self.offset_table.get(level, 0)
        first = self._store.min_offset(SCHEDULE_TOPIC, level - 1)
        return first if queue_offset < first else queue_offset

    def _move(self, level: int, queue_offset: int, now_ms: int) -> None:
        self.offset_table[level] = queue_offset
        self.changes += 1
        if self.changes % UPDATES_PER_DATA_VERSION == 0:
            self.data_version = self.data_version.next(now_ms)

    def wrapper(self) -> DelayOffsetSerializeWrapper:
        """The offsets as slaves get them and as they are saved."""
        return DelayOffsetSerializeWrapper(offset_table=self.offset_table, data_version=self.data_version)

    def document(self) -> Pieces:
        missing = [[level, first, end] for level, ranges in self._missing.items() for end, first in ranges.items()]
        missing += [list(each) for each in self._again]
        return encoded_table.document({**to_value(self.wrapper()), **({_MISSING_KEY: missing} if missing else {})})

    def load(self, text: str) -> None:
        """Take over saved offsets, within the bounds of their queues. Raises HeaderError.

        Offsets of levels that the ladder lacks now are kept, because a later ladder may have them again.
        """
        wrapper = DelayOffsetSerializeWrapper.decode(text.encode())
        if wrapper.data_version is not None:
            self.data_version = wrapper.data_version
        for level, queue_offset in wrapper.offset_table.items():
            if 1 <= level <= self.level_max or (level >= 1 and self._store.has_queue(SCHEDULE_TOPIC, level - 1)):
                first = self._store.min_offset(SCHEDULE_TOPIC, level - 1)
                end = self._store.max_offset(SCHEDULE_TOPIC, level - 1)
                self.offset_table[level] = min(max(queue_offset, first), end)
        for level, begin, end in _missing_places(text):
            if 1 <= level <= self.level_max:
                # Messages from the delivered offset on are not due yet, whatever the document says.
                self._again.append((level, max(begin, 0), min(end, self.offset_table.get(level, 0))))

    def warnings(self) -> Iterator[str]:
        """A sentence for each level whose messages wait for a longer ladder, which was set when they were sent."""
        for level in sorted(queue_id + 1 for queue_id in self._store.queue_ids(SCHEDULE_TOPIC)):
            waiting = self._store.max_offset(SCHEDULE_TOPIC, level - 1) - self._corrected(level)
            if level > self.level_max and waiting > 0:
                yield (f"messages wait at delay level {level} ({waiting} of them), and messageDelayLevel has only "
                       f"{self.level_max}: they wait until it has that level again")

    def follow(self, text: str) -> None:
        """Take over what the master delivered. Raises HeaderError."""
        before = dict(self.offset_table), list(self._again)
        self._again.clear()
        self.load(text)
        self.changes += before != (self.offset_table, list(self._again))


def _missing_places(text: str) -> list[tuple[int, int, int]]:
    value = fastjson.loads(text)
    places = value.get(_MISSING_KEY, []) if isinstance(value, dict) else []
    if not isinstance(places, list) or not all(
            isinstance(place, list) and len(place) == 3 and all(type(number) is int for number in place)
            for place in places):
        raise HeaderError(f"{_MISSING_KEY} is not a list of level, first and end")
    return [(level, first, end) for level, first, end in places]
