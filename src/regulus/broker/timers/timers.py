"""Delivers messages that wait for a time of their own.

Such a message is stored in the topic of timers (`placement.place`) with the tick at which it is due, TIMER_OUT_MS. From
there it is entered in the book, tick by tick the book's slots are done, and a delivery is one more append. A slot is
done when its tick is over, so nothing comes early, and late by a tick at most:

    sent -> topic of timers -> enter -> slot of the book -> done: delivered | put back to wait on | taken out

Of a slot, first the markers that take others out are read, then all others are delivered, in the order in which they
came. A slot is begun when all that was stored before its tick was over has been entered: a marker that was stored in
time is there. A message whose tick is done already is entered in the next slot. One that waits longer than the window
is put back to the topic when that is over, so that its place in the log is never so old that it would be deleted.

What is done is noted now and then. After a crash the log tells what was delivered behind the last note: as many
messages with the same key are passed by. So nothing is lost, and nothing comes twice. Where the book is damaged, the
log tells all of it: each message of the topic of timers is entered again, and those that came are passed by.

A slave enters and does not deliver. Its master tells what is done; the slave takes that over when its own log has what
the master's had then, so that no slot is done here whose deliveries are not.

Source: TimerMessageStore.
"""

from array import array
from collections.abc import Generator
from contextlib import suppress
from typing import NamedTuple

from regulus.broker.config import BrokerConfig
from regulus.broker.message_store import MessageStore
from regulus.broker.placement import deliver_ms, put_back, when_time_came
from regulus.broker.storing import Storing
from regulus.broker.timers.copies import TimerCopies
from regulus.broker.timers.counts import TimerCounts
from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.model import message_properties as names
from regulus.model.happenings import Happenings
from regulus.model.java_hash import java_hash
from regulus.model.message import MessageExt
from regulus.model.store_result import PutStatus
from regulus.model.store_rules import TIMER_PRECISIONS_MS
from regulus.model.topics import TIMER_TOPIC
from regulus.record.timer_units import (
    AGAIN_KIND,
    DEFAULT_KIND,
    DELETE_KIND,
    NOWHERE,
    ROLL_KIND,
    SLOTS,
    TimerCheck,
    TimerRecord,
)

DAMAGED = "what waits for a time of its own is entered anew from the log"
GONE = "a message that waited for its time is gone with an old file of the log, or cannot be read"
HOMELESS = "a message in the topic of timers does not say when it is due, or where it goes, and is passed by"
REFUSED = "a message whose time has come is not what the log takes, and is not delivered"
LATER = "a message whose time has come is tried again in a minute"
NOT_ENTERED = "messages wait to be entered among those with a time of their own"
ENTERED_PER_TICK_MAX = 256
STEPS_PER_TICK_MAX = 256
"""Of deliveries, or of looks at the book."""
RECORDS_PER_STEP = 16
SLOTS_PER_TICK_MAX = 2_000
"""Empty ones that are passed."""
POLL_MS = 100
"""The longest rest while messages wait, and the rest of a store that refuses."""
NOTE_MS = 1_000
"""Between two notes of what is done."""
IDLE_NOTE_MS = 30_000
"""The same while nothing is entered and nothing done."""
LEFT_MAX = 20_000
"""Records of a half done slot that are entered anew at the end of a run."""
AGAIN_MS = 60_000
"""What cannot be delivered, because its queue is damaged or its file is not there, waits so long once more."""
LATE_MS = 60_000
"""A slave takes a message whose tick its master has passed for delivered when that is longer ago."""

TOLD_LOOKED_MAX = 8_192
"""Messages that a slave looks at which its master had not entered; of more, it takes nothing for done this time."""

_SPAN_SLOTS = SLOTS // 2


class _Told(NamedTuple):
    """Of what stands in the topic of timers before `queue_offset`, all slots before `read_ms` are done, by deliveries
    that lie before `log_end`; those of others lie behind `began_at`."""

    read_ms: int
    began_at: int
    log_end: int
    queue_offset: int


class Timers:
    """`progress` counts what was entered and what was done."""

    def __init__(self, config: BrokerConfig, store: MessageStore, storing: Storing) -> None:
        self.config = config
        self.read_ms = 0
        """All slots before this one are done."""
        self.queue_offset = 0
        """Of the topic of timers: the next to enter."""
        self.master_offset = 0
        """What the master of this slave has entered."""
        self.happenings = Happenings()
        self.counts = TimerCounts()
        self.progress = 0
        self.delivered = 0
        self.rates = (0.0, 0.0)
        """Entered and delivered in a second, between the last two notes."""
        self._store = store
        self._storing = storing
        self._is_open = False
        self._is_refused = False    # whether the disk took no record at the last look
        self._now_ms = 0
        self._work: Generator[bool, None, None] | None = None
        self._done = 0          # of the slot `read_ms`
        self._awaited = NOWHERE     # what must be entered before that slot is begun
        self._began_at = 0      # where the log ended then, or at a former note
        self._noted_ms = 0
        self._noted_progress = -1
        self._noted_done = (0, 0)
        self._last_told = (0, 0)    # of the master: what was done, and where the log here ended before it was asked
        self._log_end = 0           # here, when the master was asked last
        self._told: _Told | None = None
        self._copies = TimerCopies(store, self.happenings)      # which a crash may have made us forget
        self._is_unknown = False    # what waits: the book is to be entered anew
        self._refusal = ""      # of the disk, as it was told

    # --- start -------------------------------------------------------------------------------------------------------

    def open(self, now_ms: int) -> None:
        """Go on where the last run ended; once, when the store is open."""
        book, check = self._store.timers, self._store.timers.check
        precision = book.precision_ms
        self.read_ms = check.read_ms // precision * precision or (now_ms // precision - 1) * precision
        self.queue_offset = self._entered_offset(check)
        self.master_offset = check.master_offset
        # What is left of a slot may be entered anew behind the note, and then its first are those that are not done.
        self._done = check.done if book.slot(self.read_ms).first < check.timer_log_end else 0
        earliest_ms = book.earliest_ms
        if check.read_ms and earliest_ms is not None and earliest_ms < self.read_ms:
            # The clock was put back behind the note: slots before it are those that were still to come.
            self._go_back(earliest_ms)
        if book.damage:
            self.happenings.note(DAMAGED, book.damage)
        turn_ms = SLOTS * precision
        is_far = bool(check.read_ms) and abs(now_ms - self.read_ms) > turn_ms and not self.config.is_slave
        if is_far:
            self._pass_a_turn(now_ms)
        elif not check.read_ms and not self.config.is_slave and self._store.max_offset(TIMER_TOPIC, 0):
            self._enter_all_anew()
        self._began_at = check.log_position
        if self.config.is_slave and not check.read_ms:
            self._began_at = 0
        if check.read_ms and not is_far:
            if self._began_at == NOWHERE:
                self._began_at = self._store.log_position_before(self.read_ms - LATE_MS)
            if not self.config.is_slave:
                self._copies.is_looking = True
                self._work = self._copies.look_in_steps(self._began_at)
            self._copies.until_ms = max(now_ms, self.read_ms) + precision
            self._copies.since = check._replace(read_ms=self.read_ms, done=self._done, log_position=self._began_at)
        is_counted = (0 < self.counts.version == check.version_counter and check.log_position != NOWHERE
                      and earliest_ms is None)
        is_fresh = not self.counts.version and check == TimerCheck() and book.last_record() is None
        if not is_counted and not is_fresh and not self.config.is_slave:
            self._count_waiting(check, now_ms)
        self._last_told, self._log_end = (0, self._began_at), self._store.commit_log_max_offset()
        self._noted_done = (self.queue_offset, 0)
        self._is_open = True

    def _count_waiting(self, check: TimerCheck, now_ms: int) -> None:
        """By their records. Those of a half done slot that were done come first in it."""
        done, counts = self._done, self.counts
        counts.begin_anew(check.version_counter, now_ms)
        for record in self._store.timers.waiting():
            if done and record.slot_ms == self.read_ms:
                done -= 1
                continue
            topic = ""
            if not counts.knows(record.topic_hash):
                message = self._store.look_message(record.physical_offset)
                if message is None:
                    continue
                topic = message.properties.get(names.REAL_TOPIC, "")
            counts.entered(record, topic, now_ms)

    def _entered_offset(self, check: TimerCheck) -> int:
        offset = check.queue_offset
        record = self._store.timers.last_record()
        message = self._store.look_message(record.physical_offset) if record is not None else None
        if message is not None and message.topic == TIMER_TOPIC:
            offset = max(offset, message.queue_offset + 1)
        if check.log_position == NOWHERE:
            # RocketMQ's rule: it may have noted more than its master had.
            offset = min(offset, check.master_offset)
        return min(max(offset, self._store.min_offset(TIMER_TOPIC, 0)), self._store.max_offset(TIMER_TOPIC, 0))

    # --- while running -----------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> int | None:
        """Enter and deliver a part of what there is; ms until the next look, 0 when there is more, None when nothing
        waits."""
        self._now_ms = now_ms
        if not self._is_open:
            self.open(now_ms)
        self._note(now_ms)
        self._follow_clock(now_ms)
        self._is_refused = False
        dispatched = self._store.commit_log_max_offset() - self._store.dispatch_behind_bytes()
        is_behind = self._enter(now_ms)
        if self.config.is_slave:
            if not is_behind and not self._is_refused:
                self._pass_what_master_did(dispatched)
            return 0 if is_behind else POLL_MS
        if self._work is None and not self._find_slot(now_ms):
            return 0 if is_behind else self._rest_ms(now_ms)
        if self._work is not None and not self._step():
            return POLL_MS
        return POLL_MS if self._is_refused and self._work is None else 0

    def behind(self, now_ms: int) -> tuple[int, int]:
        """Whole seconds since the slot that is done next, and messages that are not entered."""
        if not self._is_open or self._rest_ms(now_ms) is None:
            return 0, 0
        return max(0, now_ms - self.read_ms) // 1000, self._store.max_offset(TIMER_TOPIC, 0) - self.queue_offset

    def _rest_ms(self, now_ms: int) -> int | None:
        if self.queue_offset == 0 and self._store.max_offset(TIMER_TOPIC, 0) == 0:
            return None
        left_ms = self.read_ms + self._store.timers.precision_ms - now_ms
        return min(max(left_ms, 1), POLL_MS)

    def _note(self, now_ms: int) -> None:
        is_changed = self.progress != self._noted_progress
        if NOTE_MS <= now_ms - self._noted_ms < IDLE_NOTE_MS and not is_changed:
            return
        if 0 <= now_ms - self._noted_ms < NOTE_MS:
            return
        self.note(now_ms)

    def note(self, now_ms: int) -> None:
        """Have what is known now brought to disk, after the log."""
        done = (self.queue_offset, self.delivered)
        seconds = max(now_ms - self._noted_ms, 1) / 1000
        self.rates = (done[0] - self._noted_done[0]) / seconds, (done[1] - self._noted_done[1]) / seconds
        self._noted_done = done
        self._noted_ms, self._noted_progress = now_ms, self.progress
        self._store.timers.take(self.check())

    def stop(self, now_ms: int) -> None:
        """Note it at the end of a run. A slot that is half done is one of what is left: RocketMQ may go on with it."""
        self._now_ms = now_ms
        if self._work is not None and self._done and not self._is_unknown and not self._copies.is_looking:
            with suppress(StoreDamaged):
                self._leave_the_rest()
        self._work = None
        self._store.timers.end_with(self.check())

    def _leave_the_rest(self) -> None:
        """Let what is not done stand alone in its slot. Nothing, where that is more than LEFT_MAX: at the end of a run
        a broker of ours knows how much of it is done."""
        book = self._store.timers
        slot = book.slot(self.read_ms)
        records, end = book.chain(slot.last, LEFT_MAX)
        if end != NOWHERE:
            return
        positions = [slot.last, *(record.previous for record in records)]
        left = [record for position, record in zip(positions, records[:max(0, len(records) - self._done)], strict=False)
                if book.again.get(record.physical_offset, NOWHERE) <= position]
        book.clear(self.read_ms)
        try:
            for record in reversed(left):
                book.enter(record._replace(kind=record.kind | AGAIN_KIND))
            self._done = 0
            self._copies.forget_done()
        except StoreNotWritable:
            book.put_back(slot)

    def check(self) -> TimerCheck:
        """What is known now: nothing, until the topic of timers is about to be entered anew."""
        if self._is_unknown:
            return TimerCheck(version_timestamp=self._now_ms)
        is_slave = self.config.is_slave
        master_offset = self.master_offset if is_slave else self.queue_offset
        log_position, done = self._began_at if is_slave else self._store.commit_log_max_offset(), self._done
        needs_copies = self._copies.is_needed
        version = 0 if is_slave or needs_copies else self.counts.version
        if needs_copies and not is_slave:
            since = self._copies.since
            log_position, done = since.log_position, since.done if since.read_ms == self.read_ms else 0
        return TimerCheck(read_ms=self.read_ms, queue_offset=self.queue_offset, master_offset=master_offset,
                          version_timestamp=self._now_ms, version_counter=version, done=done,
                          log_position=log_position)

    # --- a slave -----------------------------------------------------------------------------------------------------

    def follow(self, told: TimerCheck, log_end: int) -> None:
        """Hear what the master had done, and where its log ended then or a little later."""
        before_ms, began_at = self._last_told
        precision = self._store.timers.precision_ms
        read_ms = told.read_ms // precision * precision
        if read_ms > before_ms and (self._told is None or log_end < self._told.log_end):
            self._told = _Told(read_ms, began_at, log_end, told.queue_offset)
        self.master_offset = told.queue_offset
        self._last_told = (read_ms, self._log_end)
        self._log_end = self._store.commit_log_max_offset()

    def forget_master(self) -> None:
        """There may be another one, in whose log the deliveries of this one are not."""
        self._told, self._last_told = None, (0, self._began_at)

    def _pass_what_master_did(self, entered_to: int) -> None:
        """All that the log has up to there is entered."""
        told = self._told
        if told is not None and told.log_end <= entered_to:
            self._told = None
            read_ms = self._done_by_master(told)
            if read_ms > self.read_ms:
                self.read_ms, self._began_at = read_ms, told.began_at
                self.progress += 1

    def _done_by_master(self, told: _Told) -> int:
        """Up to the first slot of what it had not entered: it passes slots, too, while it cannot see all that its log
        has."""
        read_ms = told.read_ms
        queue_offset = max(told.queue_offset, self._store.min_offset(TIMER_TOPIC, 0))
        if self.queue_offset - queue_offset > TOLD_LOOKED_MAX:
            return 0
        while queue_offset < self.queue_offset:
            units = self._store.queue_units(TIMER_TOPIC, 0, queue_offset, ENTERED_PER_TICK_MAX)
            if not units:
                return 0
            for unit in units:
                message = self._store.look_head(unit.physical_offset)
                due_ms = names.number(message.properties.get(names.TIMER_OUT_MS)) if message is not None else -1
                if message is not None and due_ms >= self.read_ms - LATE_MS:
                    # It may wait for the half of a window first.
                    read_ms = min(read_ms, due_ms, message.store_timestamp + self.config.timer_window_ms // 2)
                queue_offset = unit.queue_offset + 1
        return read_ms // self._store.timers.precision_ms * self._store.timers.precision_ms

    # --- entering ----------------------------------------------------------------------------------------------------

    def _enter(self, now_ms: int) -> bool:
        """Whether there is more to enter at once."""
        book = self._store.timers
        if self._is_unknown:
            return False    # it would be forgotten with the others
        if now_ms - self.read_ms > _SPAN_SLOTS * book.precision_ms and not self.config.is_slave:
            return False    # the wheel is a week behind: its slots are still those of that time
        units = self._store.queue_units(TIMER_TOPIC, 0, self.queue_offset, ENTERED_PER_TICK_MAX)
        if not units:
            self.queue_offset = max(self.queue_offset, self._store.min_offset(TIMER_TOPIC, 0))
        for unit in units:
            message = self._store.look_head(unit.physical_offset)
            if message is None:
                self.happenings.note(GONE, f"at {unit.physical_offset} of the log")
            elif not self._enter_message(message, unit.size, now_ms):
                self._is_refused = True
                return False
            self.queue_offset = unit.queue_offset + 1
            self.progress += 1
        return len(units) == ENTERED_PER_TICK_MAX

    def _enter_message(self, message: MessageExt, size: int, now_ms: int) -> bool:
        """False when the disk does not take it now. What has no time, or no home, is passed by."""
        due_ms = names.number(message.properties.get(names.TIMER_OUT_MS))
        if due_ms < 0:
            self.happenings.note(HOMELESS, _place(message))
            return True
        precision = self._store.timers.precision_ms
        slot_ms = due_ms // precision * precision
        is_begun = self._work is not None and not self._copies.is_looking
        first_ms = self.read_ms + precision if is_begun else self.read_ms
        if slot_ms < first_ms:
            if self.config.is_slave and slot_ms < first_ms - LATE_MS:
                return True
            slot_ms = first_ms
        kind = DEFAULT_KIND
        entered_ms = now_ms // precision * precision
        stored_ms = message.store_timestamp // precision * precision   # which is the same here and at a slave
        window = self.config.timer_window_ms
        if slot_ms - stored_ms >= window:
            kind |= ROLL_KIND
            # Not so that little is left for the last time.
            slot_ms = stored_ms + (window // 2 if slot_ms - stored_ms - window < window // 3 else window)
            slot_ms = slot_ms // precision * precision
            if self.config.is_slave and slot_ms < first_ms - LATE_MS:
                return True
            slot_ms = max(slot_ms, first_ms)
        if names.TIMER_DEL_UNIQUE_KEY in message.properties:
            kind |= DELETE_KIND
        topic = message.properties.get(names.REAL_TOPIC, "")
        record = TimerRecord(slot_ms, kind, entered_ms, message.physical_offset, size, java_hash(topic))
        return self._enter_record(record, topic)

    def _enter_record(self, record: TimerRecord, topic: str) -> bool:
        refusal = ""
        try:
            self._store.timers.enter(record)
        except StoreNotWritable as error:
            refusal = str(error)
        if refusal and not self._refusal:
            self.happenings.note(NOT_ENTERED, refusal)
        self._refusal = refusal
        if not refusal and not self.config.is_slave:    # which has its master's counts
            self.counts.entered(record, topic, self._now_ms)
        return not refusal

    # --- delivering --------------------------------------------------------------------------------------------------

    def _follow_clock(self, now_ms: int) -> None:
        """One that was put back: slots that are done are empty, so going over them again brings nothing twice. Of one
        that is half done, after a kill, the rest alone waits for its time to come again."""
        precision = self._store.timers.precision_ms
        if now_ms - self.read_ms > SLOTS * precision and self._work is None and not self.config.is_slave:
            self._pass_a_turn(now_ms)
        if self.read_ms > now_ms + precision and self._work is None and not self.config.is_slave:
            self._go_back(now_ms // precision * precision)

    def _go_back(self, slot_ms: int) -> None:
        if self._done:
            with suppress(StoreDamaged):    # which is seen again when the slot is done
                self._leave_the_rest()
        self.read_ms, self._done, self._awaited = slot_ms, 0, NOWHERE

    def _pass_a_turn(self, now_ms: int) -> None:
        """More than a turn of the wheel lies between the clock and what was done last, by a long rest, a wrong clock or
        a damaged note: looking at each slot between could take hours, and entering all anew is bounded by the log."""
        precision = self._store.timers.precision_ms
        self.happenings.note(DAMAGED, f"the clock says {now_ms}, and all before {self.read_ms} was done")
        self.read_ms, self._done, self._awaited = (now_ms // precision - 1) * precision, 0, NOWHERE
        self._enter_all_anew()

    def _find_slot(self, now_ms: int) -> bool:
        """Pass empty slots whose tick is over; whether there is work: a slot, or more to pass."""
        book = self._store.timers
        precision = book.precision_ms
        for _ in range(SLOTS_PER_TICK_MAX):
            if self.read_ms + precision > now_ms:
                return False
            if self._awaited == NOWHERE:
                self._awaited = self._store.max_offset(TIMER_TOPIC, 0)
            if self.queue_offset < self._awaited and now_ms - self.read_ms <= _SPAN_SLOTS * precision:
                return True
            slot = book.slot(self.read_ms)
            if slot.last != NOWHERE:
                if not self._done:
                    self._began_at = self._store.commit_log_max_offset()
                self._work = self._slot_in_steps(slot.last)
                return True
            self._pass_slot()
        return True

    def _pass_slot(self) -> None:
        self.read_ms += self._store.timers.precision_ms
        self._done = 0
        self._awaited = NOWHERE
        self._copies.pass_slot(self.read_ms)

    def _step(self) -> bool:
        """A part of the work; False when the store takes nothing now."""
        work = self._work
        assert work is not None
        try:
            for _ in range(STEPS_PER_TICK_MAX):
                if not next(work):
                    return False
        except StopIteration:
            self._work = None
        except StoreDamaged as error:
            self.happenings.note(DAMAGED, str(error))
            self._enter_all_anew()
        return True

    def _slot_in_steps(self, last: int) -> Generator[bool, None, None]:
        """Do the slot `read_ms`, a step at a time; False says that the store takes nothing now."""
        book = self._store.timers
        positions, places, entered, slots = array("q"), array("q"), array("q"), array("q")
        kinds, hashes = bytearray(), array("i")
        position = last
        while position != NOWHERE:
            records, following = book.chain(position, RECORDS_PER_STEP)
            for record in records:
                positions.append(position)
                places.append(record.physical_offset)
                entered.append(record.entered_ms)
                slots.append(record.slot_ms)
                kinds.append(record.kind)
                hashes.append(record.topic_hash)
                position = record.previous
            position = following
            yield True
        for column in (positions, places, entered, slots, kinds, hashes):
            column.reverse()
        taken_out: set[str] = set()
        markers: list[int] = []
        later: list[int] = []
        """Where a clock was put back: they wait for the same place of the wheel in a later turn."""
        for index, kind in enumerate(kinds):
            if kind & DELETE_KIND and not kind & ROLL_KIND and slots[index] <= self.read_ms:
                markers.append(index)
                marker = self._store.look_message(places[index])
                if marker is not None:
                    taken_out.add(marker.properties.get(names.TIMER_DEL_UNIQUE_KEY, ""))
                yield True
        for index in range(len(kinds)):
            place, kind, is_rolled = places[index], kinds[index], bool(kinds[index] & ROLL_KIND)
            if book.again.get(place, NOWHERE) > positions[index]:
                pass    # a crash let us forget that it is to wait on, and the record that tells it is there
            elif slots[index] > self.read_ms:
                later.append(index)
            elif index < self._done:
                continue
            elif is_rolled or not kind & DELETE_KIND:
                waiting = self._store.look_message(place)
                if waiting is None and self._store.is_missing(place):
                    self.happenings.note(LATER, f"at {place} of the log: its file of the log is not there")
                    again_ms = self._again_ms()
                    for each in (*(() if is_rolled else markers), index):
                        # Whether it is taken out is seen when it can be read.
                        while not self._enter_again(places[each], again_ms, kinds[each], hashes[each]):
                            yield False
                        yield True
                elif waiting is None:
                    self.happenings.note(GONE, f"at {place} of the log")
                else:
                    while not self._pass_on(waiting, entered[index], kind, taken_out):
                        yield False
            if index >= self._done:
                self.counts.done(hashes[index], kind, self._now_ms)
                self._done = index + 1
            self.progress += 1
            yield True
        while not self._end_slot([(places[index], slots[index], kinds[index], hashes[index]) for index in later]):
            yield False
        self._pass_slot()

    def _end_slot(self, later: list[tuple[int, int, int, int]]) -> bool:
        """All at once, for both are one place of the wheel. False when the disk does not take it."""
        book = self._store.timers
        slot = book.slot(self.read_ms)
        book.clear(self.read_ms)
        if not all(self._enter_again(*each) for each in later):
            book.put_back(slot)
            return False
        return True

    def _enter_all_anew(self) -> None:
        self._is_unknown = True
        self._work = self._forget_in_steps()

    def _forget_in_steps(self) -> Generator[bool, None, None]:
        """Forget the book, with all that came counted, so that what is entered from now on is that and what is not
        done. Proportional to the log from the first message of the topic of timers on."""
        queue_offset = self._store.min_offset(TIMER_TOPIC, 0)
        units = self._store.queue_units(TIMER_TOPIC, 0, queue_offset, 1)
        log_position = units[0].physical_offset if units else self._store.commit_log_max_offset()
        yield from self._copies.look_in_steps(log_position)
        while not self._forget():
            yield False
        self.counts.begin_anew(self.counts.version, self._now_ms)
        self.queue_offset, self._done, self._awaited = queue_offset, 0, NOWHERE
        self._copies.until_ms = max(self._copies.until_ms,
                                    max(self._now_ms, self.read_ms) + 2 * self._store.timers.precision_ms)
        self._copies.since = TimerCheck(read_ms=self.read_ms, log_position=log_position)
        self._is_unknown = False

    def _forget(self) -> bool:
        try:
            self._store.timers.forget()
        except StoreNotWritable:
            return False
        return True

    def _pass_on(self, waiting: MessageExt, entered_ms: int, kind: int, taken_out: set[str]) -> bool:
        """False when the store refuses for now, so that it must be tried again. Raises StoreDamaged."""
        is_rolled = bool(kind & ROLL_KIND)
        precision = self._store.timers.precision_ms
        due_ms = names.number(waiting.properties.get(names.TIMER_OUT_MS)) // precision * precision
        if waiting.topic != TIMER_TOPIC or (due_ms > self.read_ms and not is_rolled):
            raise StoreDamaged(f"a record due at {self.read_ms} names the message {_place(waiting)}, which is not due")
        if not is_rolled and _take_out_key(waiting) in taken_out:
            return True
        if not is_rolled and (last_ms := _last_ms(waiting, due_ms, precision)) > self.read_ms:
            topic = waiting.properties.get(names.REAL_TOPIC, "")
            return self._enter_again(waiting.physical_offset, last_ms, kind, java_hash(topic), waiting)
        if self._copies.passes_by(waiting, is_rolled=is_rolled):
            return True
        if is_rolled:
            message: MessageExt | None = put_back(waiting, entered_ms, self._now_ms)
        else:
            message = when_time_came(waiting, entered_ms, self._now_ms)
        if message is None:
            self.happenings.note(HOMELESS, _place(waiting))
            return True
        status = self._storing.deliver(message, self._now_ms).status
        if status == PutStatus.QUEUE_DAMAGED:
            self.happenings.note(LATER, f"{_place(waiting)}: queue {message.queue_id} of {message.topic} is damaged")
            topic = waiting.properties.get(names.REAL_TOPIC, "")
            return self._enter_again(waiting.physical_offset, self._again_ms(), kind, java_hash(topic), waiting)
        if status == PutStatus.MESSAGE_ILLEGAL:
            self.happenings.note(REFUSED, f"{message.topic} {_place(waiting)}")
            return True
        self.delivered += status == PutStatus.PUT_OK
        return status == PutStatus.PUT_OK

    def _again_ms(self) -> int:
        """When what cannot be delivered now, and keeps nobody, is tried again."""
        precision = self._store.timers.precision_ms
        return (self._now_ms + AGAIN_MS) // precision * precision

    def _enter_again(self, physical_offset: int, slot_ms: int, kind: int, topic_hash: int,
                     waiting: MessageExt | None = None) -> bool:
        """Let it wait on. False when the disk does not take it."""
        size = waiting.store_size if waiting is not None else 0
        topic = waiting.properties.get(names.REAL_TOPIC, "") if waiting is not None else ""
        record = TimerRecord(slot_ms, kind | AGAIN_KIND, self._now_ms, physical_offset, size, topic_hash)
        return self._enter_record(record, topic)


def _place(message: MessageExt) -> str:
    return f"at {message.physical_offset} of the log"


def _take_out_key(waiting: MessageExt) -> str:
    return f"{waiting.properties.get(names.REAL_TOPIC, '')}+{waiting.properties.get(names.UNIQUE_KEY, '')}"


def _last_ms(waiting: MessageExt, tick_ms: int, precision_ms: int) -> int:
    """The tick that is over when the message is due. One that was sent while ticks were longer has such a one noted,
    `tick_ms`, in which it may be due as late as at its end: its own time tells. Where it takes another out, or is taken
    out, the noted tick counts."""
    if precision_ms == TIMER_PRECISIONS_MS[-1]:
        return tick_ms
    last_ms = (deliver_ms(waiting.properties, waiting.store_timestamp) - 1) // precision_ms * precision_ms
    return last_ms if tick_ms < last_ms < tick_ms + TIMER_PRECISIONS_MS[-1] else tick_ms
