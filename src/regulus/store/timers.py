"""The storage of messages that wait for their delivery time: the timer log, the wheel, and what of both is on disk.

    timerlog/<offset>    a record for each message that waits, in the order in which they were entered
    timerwheel           a slot for each tick of a week, reused in turn: the last record of that tick
    config/timercheck    up to where all this is on disk, and which slots are done

The records of a slot form a chain from the last to the first. Neither file is authoritative: the topic of timers in the
commit log is. Records lost in a crash are entered again from there, after the last remaining record.

A slot that changed is kept in memory until its record is on disk; then it is written to the wheel, and then the
checkpoint, in this order (`flush`). So the wheel never points at a record that a power cut may take, and a start reads
only the records after the checkpoint.

The appending thread calls all but `flush`, which a worker runs between `begin_flush` and `end_flush`.

Source: TimerLog, TimerWheel, TimerCheckpoint, TimerMessageStore.recover.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.record import timer_units
from regulus.record.timer_units import (
    AGAIN_KIND,
    BLANK_SIZE,
    NOWHERE,
    RECORD_SIZE,
    SLOT_SIZE,
    SLOTS,
    TimerCheck,
    TimerRecord,
    TimerSlot,
)
from regulus.store import disk
from regulus.store.mapped_file import MappedFile, MappedFilePool
from regulus.store.mapped_file_queue import MappedFileQueue

CHANGED_SLOTS_MAX = 1 << 18
"""The maximum number of changed slots in memory; at the limit nothing is entered until some are on disk."""

MAPPED_FILES_MAX = 64
"""Mapped files of the timer log; the most recently used ones."""

_RECORD_BLANK = RECORD_SIZE + BLANK_SIZE
_WHEEL_SIZE = SLOTS * SLOT_SIZE


class TimerFiles:
    def __init__(self, root: Path, file_size: int, precision_ms: int) -> None:
        self.precision_ms = precision_ms
        self.check = TimerCheck()
        """The checkpoint of the last run."""
        self.damage = ""
        self.earliest_ms: int | None = None
        self.again: dict[int, int] = {}
        self._log = MappedFileQueue(root / "timerlog", file_size, MappedFilePool(MAPPED_FILES_MAX),
                                    "mappedFileSizeTimerLog")
        self._wheel_path = root / "timerwheel"
        self._check_path = root / "config" / "timercheck"
        self._wheel: MappedFile | None = None
        # A separate mapping: a worker writes to it, and must not find it unmapped.
        self._wheel_pool = MappedFilePool(1)
        self._changed: dict[int, TimerSlot] = {}
        self._flushing: dict[int, TimerSlot] = {}
        self._taken: TimerCheck | None = None
        self._is_in_flush = False
        self._last: TimerCheck | None = None

    # --- start -------------------------------------------------------------------------------------------------------

    def open(self, log_end: int) -> None:
        """Take over the files, up to the last record whose message the commit log has; none, if they are inconsistent
        (`damage`). Raises StoreError."""
        data = disk.read_file(self._check_path)
        is_whole = data is not None and len(data) >= timer_units.CHECK_SIZE
        self.check = timer_units.decode_check(data) if data is not None and is_whole else TimerCheck()
        self._log.load()
        self._open_wheel()
        self.damage = self._find_damage(log_end)
        if self.damage:
            self._remove_all()
            self.check = TimerCheck()
        elif self._log.files:
            self._log.truncate(self._enter_anew(log_end))
        self._drop_dangling()

    def _find_damage(self, log_end: int) -> str:
        """Why one of the files does not match the others. Everything that the checkpoint describes was on disk before
        it."""
        check, log = self.check, self._log
        if not log.files and self._wheel is None and not check.timer_log_end:
            return ""
        if self._wheel is None:
            return f"{self._wheel_path} is not there"
        if self._wheel.size != _WHEEL_SIZE:
            return f"{self._wheel_path} has {self._wheel.size} bytes, and a timer wheel has {_WHEEL_SIZE}"
        if not check.read_ms:
            return f"{self._check_path} is not there, not whole, or damaged"
        if self._is_of_another_precision():
            return f"{self._wheel_path} has slots of another timerPrecisionMs than {self.precision_ms}"
        if log.end < check.timer_log_end:
            return f"{log.directory} ends at {log.end}, and had {check.timer_log_end} bytes when it was noted"
        noted = self._record_before(check.timer_log_end)
        if noted is None and check.timer_log_end > log.start:
            return f"{log.directory} has no record before {check.timer_log_end}, where its end was noted"
        if noted is not None and self._slot_at(self._index(noted.slot_ms)) == TimerSlot(0, 0, 0):
            return f"{self._wheel_path} has nothing of the last message that was noted"
        if check.log_position > log_end or (noted is not None and noted.physical_offset >= log_end):
            return f"the log ends at {log_end}, before messages that {log.directory} has"
        return ""

    def _is_of_another_precision(self) -> bool:
        """Whether the files have another precision. A slot's time counts ticks; with another tick it is wrong by at
        least half."""
        assert self._wheel is not None
        now = self.check.read_ms // self.precision_ms
        low, high = now - now // 4, now + now // 4
        data = self._wheel.slice(0, _WHEEL_SIZE)
        return any(last > NOWHERE and time > 0 and not low < time < high
                   for time, _, last, _, _ in timer_units.SLOT.iter_unpack(data))

    def _remove_all(self) -> None:
        """Remove the files, the checkpoint first: without it a start trusts none of the others."""
        if disk.exists(self._check_path):
            disk.remove_file(self._check_path)
            disk.sync_directory(self._check_path.parent)
        self._log.remove_all()
        if self._wheel is not None:
            self._wheel.unmap()
            self._wheel = None
            disk.remove_file(self._wheel_path)
        self._changed, self._flushing, self._taken = {}, {}, None
        self.again = {}

    def _open_wheel(self) -> None:
        with suppress(OSError):
            if disk.exists(self._wheel_path):
                size = disk.file_size(self._wheel_path)
                self._wheel = MappedFile(str(self._wheel_path), 0, size, size, self._wheel_pool)

    def _enter_anew(self, log_end: int) -> int:
        """Enter into the wheel what was appended after the checkpoint; returns where that ends."""
        files = self._log.files
        position = max(min(self.check.timer_log_end, self._log.end), self._log.start)
        file = self._log.find(position) or files[len(files) - 1]
        if (position - file.start) % RECORD_SIZE:
            position = file.start       # not the position of a record: RocketMQ begins there, too
        while True:
            record = self._record_at(position)
            if record is None and position > file.start:
                following = self._log.find(file.start + self._log.file_size)
                if following is None or not self._is_blank(position):
                    return position
                file, position = following, following.start
                record = self._record_at(position)
            if record is None or record.physical_offset >= log_end:
                return position
            slot = self._slot_to_enter(record.slot_ms)
            self.earliest_ms = min(record.slot_ms, self.earliest_ms or record.slot_ms)
            if record.kind & AGAIN_KIND:
                self.again[record.physical_offset] = position
            if slot.last < position:
                if record.previous == NOWHERE != slot.last:
                    self._link(position, record, slot.last)
                self._put_slot(record.slot_ms, slot, position, record.kind)
            position += RECORD_SIZE

    def _link(self, position: int, record: TimerRecord, previous: int) -> None:
        """Link a record into its slot. The slot was empty when the record was entered, but the checkpoint does not say
        so: what waited in the slot still does, except records that were entered again."""
        file = self._log.find(position)
        assert file is not None
        begin = position - file.start
        file.write(begin, timer_units.encode(record, previous))
        file.flushed_position = min(file.flushed_position, begin)

    def _drop_dangling(self) -> None:
        """Enter the remaining records of those slots again that refer to lost records.

        The time is proportional to the slots that wait, and to the log from their first record on, if there are any.
        """
        if self._wheel is None:
            return
        end = self._log.end
        data = self._wheel.slice(0, _WHEEL_SIZE)
        dangling = [index for index, (_, _, last, _, _) in enumerate(timer_units.SLOT.iter_unpack(data)) if last >= end]
        first = min([self._slot_at(index).first for index in dangling], default=end)
        for index in dangling:
            self._changed[index] = self._slot_at(index)._replace(first=NOWHERE, last=NOWHERE, waiting=0)
        wanted = set(dangling)
        position = max(first, self._log.start) if wanted and first >= 0 else end
        while position < end:
            record = self._record_at(position)
            if record is None:
                file = self._log.find(position)
                if file is None:
                    return
                position = file.start + self._log.file_size
                continue
            index = self._index(record.slot_ms)
            slot = self._slot_at(index)
            if index in wanted and slot.time == record.slot_ms // self.precision_ms:
                self._put_slot(record.slot_ms, slot, position, record.kind)
            position += RECORD_SIZE

    # --- reading -----------------------------------------------------------------------------------------------------

    def slot(self, slot_ms: int) -> TimerSlot:
        """The slot of this tick; an empty one when nothing waits for it."""
        slot = self._slot_at(self._index(slot_ms))
        time = slot_ms // self.precision_ms
        return slot if slot.time == time else TimerSlot(time)

    def chain(self, position: int, count_max: int) -> tuple[list[TimerRecord], int]:
        """Records of one slot from the one at `position` back; then the position of the next, or NOWHERE. Raises
        StoreDamaged."""
        found: list[TimerRecord] = []
        while position != NOWHERE and len(found) < count_max:
            record = self._record_at(position)
            if record is None or record.previous >= position:
                raise StoreDamaged(f"{self._log.directory} has no record at {position}, where one should wait")
            found.append(record)
            position = record.previous
        return found, position

    def waiting(self) -> Iterator[TimerRecord]:
        """All waiting records, in the order in which they were entered in each slot. At a start."""
        if self._wheel is None:
            return
        data = self._wheel.slice(0, SLOTS * SLOT_SIZE)
        slots = {time: (first, last) for time, first, last, _, _ in timer_units.SLOT.iter_unpack(data) if last >= 0}
        slots.update({slot.time: (slot.first, slot.last) for slot in self._changed.values()})
        first = min([first for first, last in slots.values() if last >= 0], default=self._log.end)
        for file in self._log.files:
            position = max(first, file.start)
            while position + RECORD_SIZE <= file.start + file.wrote_position:
                record = timer_units.decode(file.slice(position - file.start, RECORD_SIZE))
                if record is None:
                    break
                begin, end = slots.get(record.slot_ms // self.precision_ms, (NOWHERE, NOWHERE))
                if begin <= position <= end:
                    yield record
                position += RECORD_SIZE

    def last_record(self) -> TimerRecord | None:
        """The record that was entered last, not counting repeated entries; None when there is none.

        The time is proportional to the records that were entered again after it.
        """
        position = self._before(self._log.end)
        record = self._record_at(position)
        while record is not None and record.kind & AGAIN_KIND:
            position = self._before(position)
            record = self._record_at(position)
        return record

    def _record_before(self, end: int) -> TimerRecord | None:
        return self._record_at(self._before(end))

    def _before(self, end: int) -> int:
        """The start of the record before that position."""
        position = end - RECORD_SIZE
        if end % self._log.file_size == 0 and self._record_at(position) is None:
            return end - self._log.file_size + self._last_in_file()     # a blank ends its file
        return position

    def _last_in_file(self) -> int:
        """The start of the last record of a full file."""
        return (self._log.file_size - BLANK_SIZE) // RECORD_SIZE * RECORD_SIZE - RECORD_SIZE

    def _record_at(self, position: int) -> TimerRecord | None:
        file = self._log.find(position)
        if file is None or position + RECORD_SIZE > file.start + min(file.wrote_position, file.size):
            return None
        return timer_units.decode(file.slice(position - file.start, RECORD_SIZE))

    def _is_blank(self, position: int) -> bool:
        file = self._log.find(position)
        if file is None or file.start + file.size - position < BLANK_SIZE:
            return True
        head = file.slice(position - file.start, BLANK_SIZE)
        return int.from_bytes(head[12:], "big") == timer_units.BLANK_MAGIC

    def _index(self, slot_ms: int) -> int:
        return slot_ms // self.precision_ms % SLOTS

    def _slot_at(self, index: int) -> TimerSlot:
        slot = self._changed.get(index) or self._flushing.get(index)
        if slot is not None:    # which is not an empty tuple
            return slot
        if self._wheel is None:
            return TimerSlot(NOWHERE)
        return timer_units.decode_slot(self._wheel.slice(index * SLOT_SIZE, SLOT_SIZE))

    # --- writing -----------------------------------------------------------------------------------------------------

    def enter(self, record: TimerRecord) -> None:
        """Let a message wait in the slot of `record.slot_ms`. Raises StoreNotWritable; then it does not wait."""
        if len(self._changed) >= CHANGED_SLOTS_MAX:
            raise StoreNotWritable(f"{CHANGED_SLOTS_MAX} slots of {self._wheel_path} are not on disk yet: they are "
                                   "flushed each second, if the disk takes them")
        if self._wheel is None:
            self._make_wheel()
        slot = self._slot_to_enter(record.slot_ms)
        position = self._append(timer_units.encode(record, slot.last))
        self._put_slot(record.slot_ms, slot, position, record.kind)

    def _slot_to_enter(self, slot_ms: int) -> TimerSlot:
        """The current content of the slot that is in the wheel. A slot that this run has delivered is empty; one of an
        earlier run is covered by its checkpoint. After the clock was set back, messages wait there again."""
        slot, note = self._slot_at(self._index(slot_ms)), self.check
        is_done = slot.last == NOWHERE or not slot.time or (
            slot.time < note.read_ms // self.precision_ms and slot.last < note.timer_log_end)
        return TimerSlot(slot_ms // self.precision_ms) if is_done else slot

    def clear(self, slot_ms: int) -> None:
        """Mark everything that waited for this tick as done; a clock that is set back does not bring it back."""
        self._changed[self._index(slot_ms)] = TimerSlot(NOWHERE)

    def put_back(self, slot: TimerSlot) -> None:
        self._changed[slot.time % SLOTS] = slot

    def forget(self) -> None:
        """Forget everything that waits: it is entered again from the log. Raises StoreNotWritable."""
        if self._is_in_flush:
            raise StoreNotWritable(f"{self._check_path} is just being written: it is removed when that is done")
        self._remove_all()

    def _append(self, data: bytes) -> int:
        file = self._log.last
        if file is not None and file.size - file.wrote_position < _RECORD_BLANK:
            room = file.size - file.wrote_position
            if room >= BLANK_SIZE:
                file.write(file.wrote_position, timer_units.blank(room))
            file.wrote_position = file.size
        if file is None or file.wrote_position == file.size:
            file = self._log.extend(file.start + file.size if file is not None else 0)
        position = file.wrote_position
        file.write(position, data)
        file.wrote_position = position + RECORD_SIZE
        return file.start + position

    def _put_slot(self, slot_ms: int, slot: TimerSlot, position: int, kind: int) -> None:
        first = position if slot.first == NOWHERE else slot.first
        waiting = slot.waiting - 1 if kind & timer_units.DELETE_KIND else slot.waiting + 1
        time = min(slot.time, slot_ms // self.precision_ms)
        self._changed[self._index(slot_ms)] = TimerSlot(time, first, position, waiting)

    def _make_wheel(self) -> None:
        """Make the wheel with all its blocks, because slots are written through memory."""
        size = _WHEEL_SIZE
        disk.create_sized(self._wheel_path, size, is_anew=True)
        disk.reserve(self._wheel_path, 0, size)
        self._wheel = MappedFile(str(self._wheel_path), 0, size, size, self._wheel_pool)

    # --- to disk -----------------------------------------------------------------------------------------------------

    def take(self, check: TimerCheck) -> None:
        """Note the current checkpoint, to be written once the commit log is on disk up to `check.log_position`. An
        earlier one that is not on disk yet stays."""
        if self._taken is None and self._wheel is not None:
            self._taken = check._replace(timer_log_end=self._log.end)
            self._changed, self._flushing = {}, self._changed

    def end_with(self, check: TimerCheck) -> None:
        """Note the checkpoint at the end of a run."""
        self._last = check

    def take_last(self) -> None:
        if self._last is not None:
            self.take(self._last)
            self._last = None

    def begin_flush(self, log_flushed: int) -> Callable[[], None] | None:
        """The work for a worker; None when there is nothing, or the commit log is not on disk far enough."""
        check = self._taken
        if check is None or check.log_position > log_flushed:
            return None
        self._is_in_flush = True
        files, slots, wheel = list(self._log.files), self._flushing, self._wheel
        if wheel is not None and slots:
            wheel.map()

        def flush() -> None:
            for file in files:
                file.flush_appended()
            new = [file for file in files if file.is_new]
            if new:
                disk.sync_directory(self._log.directory)
                disk.sync_directory(self._log.directory.parent)
            for file in new:
                file.is_new = False
            if wheel is not None and slots:
                for index, slot in slots.items():
                    wheel.write(index * SLOT_SIZE, timer_units.encode_slot(slot))
                disk.sync_data(wheel.path)
            disk.make_directory(self._check_path.parent)    # a store without documents lacks it
            disk.write_file(self._check_path, timer_units.encode_check(check))
        return flush

    def end_flush(self, is_done: bool) -> None:
        """Finish after the work of `begin_flush` was done, or failed: then it is tried again with the next
        checkpoint."""
        if not is_done:
            self._changed = {**self._flushing, **self._changed}
        self._flushing = {}
        self._taken = None
        self._is_in_flush = False

    # --- old files ---------------------------------------------------------------------------------------------------

    def drop_before(self, log_start: int) -> None:
        """Remove files whose messages the commit log no longer has. Raises StoreNotWritable."""
        files = self._log.files
        while len(files) > 1:
            last = self._last_new_in(files[0])
            if last is None or last.physical_offset >= log_start:
                break
            file = files.pop(0)
            file.unmap()
            disk.remove_file(Path(file.path))

    def _last_new_in(self, file: MappedFile) -> TimerRecord | None:
        """The youngest message of a full file; one that was entered again may be older than those before it."""
        position = file.start + self._last_in_file()
        last = self._record_at(position)
        while last is not None and last.kind & AGAIN_KIND and position > file.start:
            position -= RECORD_SIZE
            last = self._record_at(position)
        return last
