"""Timers in memory, with the slots and chains of those in files; nothing is persistent."""

from collections.abc import Iterator

from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.record.timer_units import (
    AGAIN_KIND,
    DELETE_KIND,
    NOWHERE,
    RECORD_SIZE,
    SLOTS,
    TimerCheck,
    TimerRecord,
    TimerSlot,
)


class MemoryTimers:
    """The timers; `taken` is the last checkpoint. A test sets `refusal`, for a full disk; `kill` returns to that
    checkpoint."""

    def __init__(self, precision_ms: int) -> None:
        self.precision_ms = precision_ms
        self.check = TimerCheck()
        self.taken = TimerCheck()
        self.refusal = ""
        self.damage = ""
        self.again: dict[int, int] = {}
        self._records: list[TimerRecord] = []
        self._slots: dict[int, TimerSlot] = {}
        self._taken_slots: dict[int, TimerSlot] = {}

    def slot(self, slot_ms: int) -> TimerSlot:
        time = slot_ms // self.precision_ms
        slot = self._slots.get(time % SLOTS)
        return slot if slot is not None and slot.time == time else TimerSlot(time)

    def chain(self, position: int, count_max: int) -> tuple[list[TimerRecord], int]:
        found: list[TimerRecord] = []
        while position != NOWHERE and len(found) < count_max:
            if position // RECORD_SIZE >= len(self._records):
                raise StoreDamaged(f"there is no record at {position}")
            found.append(self._records[position // RECORD_SIZE])
            position = found[len(found) - 1].previous
        return found, position

    def waiting(self) -> Iterator[TimerRecord]:
        for position, record in enumerate(self._records):
            slot = self.slot(record.slot_ms)
            if slot.first <= position * RECORD_SIZE <= slot.last:
                yield record

    def last_record(self) -> TimerRecord | None:
        return next((record for record in reversed(self._records) if not record.kind & AGAIN_KIND), None)

    def enter(self, record: TimerRecord) -> None:
        if self.refusal:
            raise StoreNotWritable(self.refusal)
        time = record.slot_ms // self.precision_ms
        slot = self._slots.get(time % SLOTS, TimerSlot(time))
        position = len(self._records) * RECORD_SIZE
        self._records.append(record._replace(previous=slot.last))
        waiting = slot.waiting - 1 if record.kind & DELETE_KIND else slot.waiting + 1
        first = position if slot.first == NOWHERE else slot.first
        self._slots[time % SLOTS] = TimerSlot(min(time, slot.time), first, position, waiting)

    def clear(self, slot_ms: int) -> None:
        self._slots.pop(slot_ms // self.precision_ms % SLOTS, None)

    def put_back(self, slot: TimerSlot) -> None:
        self._slots[slot.time % SLOTS] = slot

    def forget(self) -> None:
        if self.refusal:
            raise StoreNotWritable(self.refusal)
        self._records.clear()
        self._slots.clear()
        self._taken_slots = {}
        self.taken = TimerCheck()

    def end_with(self, check: TimerCheck) -> None:
        self.take(check)

    def take(self, check: TimerCheck) -> None:
        self.taken = check._replace(timer_log_end=len(self._records) * RECORD_SIZE)
        self._taken_slots = dict(self._slots)

    def kill(self) -> None:
        """Return to the state of the last checkpoint."""
        self.check = self.taken
        self._slots = dict(self._taken_slots)
        del self._records[self.check.timer_log_end // RECORD_SIZE:]

    @property
    def earliest_ms(self) -> int | None:
        behind = self._records[self.check.timer_log_end // RECORD_SIZE:]
        return min((record.slot_ms for record in behind), default=None)
