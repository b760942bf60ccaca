"""Delivers messages whose delay is over.

A delayed message waits in the schedule topic, in the queue of its level; the tag slot of its consume queue unit holds
the time at which it is due. All messages of a level wait equally long, so each queue is in order of time: the schedule
keeps one queue offset per level and looks only at its head. A delivery is one more append, and the level's offset moves
behind the unit when the append is done. The offsets are saved now and then: after a crash some messages may be
delivered twice, none is lost.

One whose queue is damaged is appended to the schedule topic once more, so that it waits on and those behind it do not.
It waits as long as its queue has been out of use by then, within limits: so the waits double, the log grows by few
copies, and a queue that was built anew gets its messages late by no more than it was gone.

One that lies in a file of the log that is missing keeps nobody either: its place is noted beside the offsets, and
looked at again after each start, for that is when the file may be back.

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
POLL_MS = 100
"""How long an empty or refused level rests; a waiting one rests at most as long as its head still has to wait."""
AGAIN_PER_TICK_MAX = DELIVERIES_PER_TICK_MAX // 2
"""Of those that were missing in an earlier run, so that others go on."""
UPDATES_PER_DATA_VERSION = 200
PARKED_AGAIN_MS_MIN = 60_000
PARKED_AGAIN_MS_MAX = 1_800_000
"""What cannot be delivered because its queue is damaged waits for the longest level up to a time between these."""
_MISSING_KEY = "regulusMissing"
DAMAGED_QUEUES_MAX = 10_000
"""Queues of which it is remembered since when they take nothing; of more, the first begin anew."""


class DelaySchedule:
    """`changes` counts moves of any offset, for saving."""

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
        self._damaged_since: dict[tuple[str, int], int] = {}    # of each queue that took nothing, when that began
        # Of each level what was not delivered, by the queue offset behind it, and where that begins; of an earlier run
        # level, begin and end.
        self._missing: dict[int, dict[int, int]] = {}
        self._again: deque[tuple[int, int, int]] = deque()

    @property
    def level_max(self) -> int:
        return len(self._ladder_ms)

    def progress(self) -> dict[int, tuple[int, int]]:
        """Of each level in use: the next queue offset to deliver, and the queue offset that the next message gets."""
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
        """Deliver what is due, DELIVERIES_PER_TICK_MAX at most; ms until the next look, 0 when more is due."""
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
                # The next tick begins behind this level, so that a crowded one does not keep the others waiting.
                self._last_level = level
                return 0
        return wait_ms

    def _deliver(self, level: int, room: int, now_ms: int) -> tuple[int, int]:
        """How many of one level were looked at, and the ms until its next one is due."""
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
        """Deliver a part of what was missing in an earlier run; how many that were. What still is, is noted anew."""
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
        # Further away than one full delay: the clock was turned back since. It counts as due.
        due_ms = unit.tags_code
        return now_ms if due_ms > now_ms + self._ladder_ms[level - 1] else due_ms

    def _deliver_unit(self, unit: QueueUnit, level: int, now_ms: int) -> bool:
        """False when the store refuses for now, so that the unit must be tried again.

        What it never takes is passed: all behind it would wait for ever. What its own queue does not take, because
        that is damaged, waits once more and keeps nobody.
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
        """At which level a message waits for a queue that takes nothing."""
        since_ms = self._damaged_since.setdefault(queue, now_ms)
        if len(self._damaged_since) > DAMAGED_QUEUES_MAX:
            del self._damaged_since[next(iter(self._damaged_since))]
        wait_ms = min(max(now_ms - since_ms, PARKED_AGAIN_MS_MIN), PARKED_AGAIN_MS_MAX)
        fitting = [level for level, delay_ms in enumerate(self._ladder_ms, 1) if delay_ms <= wait_ms]
        return max(fitting, key=lambda level: self._ladder_ms[level - 1], default=1)

    def _corrected(self, level: int) -> int:
        """The level's offset, moved into what its queue still holds."""
        queue_offset = self.offset_table.get(level, 0)
        first = self._store.min_offset(SCHEDULE_TOPIC, level - 1)
        return first if queue_offset < first else queue_offset

    def _move(self, level: int, queue_offset: int, now_ms: int) -> None:
        self.offset_table[level] = queue_offset
        self.changes += 1
        if self.changes % UPDATES_PER_DATA_VERSION == 0:
            self.data_version = self.data_version.next(now_ms)

    def wrapper(self) -> DelayOffsetSerializeWrapper:
        """The offsets as they travel and as they are saved."""
        return DelayOffsetSerializeWrapper(offset_table=self.offset_table, data_version=self.data_version)

    def document(self) -> Pieces:
        missing = [[level, first, end] for level, ranges in self._missing.items() for end, first in ranges.items()]
        missing += [list(each) for each in self._again]
        return encoded_table.document({**to_value(self.wrapper()), **({_MISSING_KEY: missing} if missing else {})})

    def load(self, text: str) -> None:
        """Take over saved offsets, each moved into what its queue holds; also of levels that the ladder does not have
        now, for it may have them again. Raises HeaderError."""
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
                # What lies behind what was delivered is not due yet, whatever the document says.
                self._again.append((level, max(begin, 0), min(end, self.offset_table.get(level, 0))))

    def warnings(self) -> Iterator[str]:
        """A sentence for each level with messages that nobody delivers, for a longer ladder was set when they came."""
        for level in sorted(queue_id + 1 for queue_id in self._store.queue_ids(SCHEDULE_TOPIC)):
            waiting = self._store.max_offset(SCHEDULE_TOPIC, level - 1) - self._corrected(level)
            if level > self.level_max and waiting > 0:
                yield (f"messages wait at delay level {level} ({waiting} of them), and messageDelayLevel has only "
                       f"{self.level_max}: they wait until it has that level again")

    def follow(self, text: str) -> None:
        """Take over what the master has delivered. Raises HeaderError."""
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
        raise HeaderError(f"{_MISSING_KEY} is no list of level, first and end")
    return [(level, first, end) for level, first, end in places]
