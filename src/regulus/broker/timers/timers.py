"""Delivers messages that wait for a time of their own.

Such a message is stored in the topic of timers (`placement.place`) with the tick at which it is due, TIMER_OUT_MS. From
there it is entered in the book. The slots of the book are done tick by tick, and a delivery is one more append. A slot
is done when its tick is over, so no message is early, and none is later than a tick:

    sent -> topic of timers -> enter -> slot of the book -> done: delivered | put back to wait | recalled

In each slot the markers that recall others are read first, and then all others are delivered in the order in which they
came. A slot is begun when all messages that were stored before the end of its tick are entered, so that every marker
that was stored in time takes effect. A message whose tick is done already is entered in the next slot. One that waits
longer than the window is put back to the topic when that is over, so that its record is never old enough to be deleted.

Progress is noted at intervals. After a crash the log shows what was delivered after the last note, and as many messages
with the same key are skipped. Nothing is lost, and nothing is delivered twice. If the book is damaged, it is rebuilt
from the log: each message of the topic of timers is entered again, and those that were delivered are skipped.

A slave enters messages and does not deliver. Its master reports what is done. The slave takes that over when its own
log has reached the end of the master's log at that time, so that no slot counts as done without its deliveries.

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
from regulus.broker.timers.totals import TimerTotals
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

DAMAGED = "messages with a time of their own are entered again from the log"
GONE = "a message that waited for its time was deleted with an old file of the log, or cannot be read"
HOMELESS = "a message in the topic of timers does not say when it is due, or where it goes, and is skipped"
REFUSED = "a message whose time has come is refused by the log, and is not delivered"
LATER = "a message whose time has come is tried again in a minute"
NOT_ENTERED = "messages wait to be entered among those with a time of their own"
ENTERED_PER_TICK_MAX = 256
"""Messages entered by one tick, at most, so that other requests are served in between."""
STEPS_PER_TICK_MAX = 256
"""Deliveries, or reads of the book, in one tick."""
RECORDS_PER_STEP = 16       # of a slot's chain, each of which is a random read
SLOTS_PER_TICK_MAX = 2_000
"""Empty slots that one tick passes."""
POLL_MS = 100
"""Pause in ms while messages wait, at most, and after the store refused."""
NOTE_MS = 1_000
"""Pause in ms between two notes of progress."""
IDLE_NOTE_MS = 30_000
"""Pause in ms between two notes while there is no progress."""
LEFT_MAX = 20_000
"""Records of a half done slot that are entered again at the end of a run, at most."""
AGAIN_MS = 60_000
"""Wait in ms of a message that cannot be delivered now, because its queue is damaged or its file is missing."""
LATE_MS = 60_000
"""Age in ms from which a slave considers a message as delivered, if its master has passed the tick."""

TOLD_LOOKED_MAX = 8_192
"""Messages not entered by its master that a slave reads at most; with more, it takes over no progress this time."""

_SPAN_SLOTS = SLOTS // 2    # half a turn of the wheel: progress further behind stops entering


class _Told(NamedTuple):
    """Progress that the master reported: for messages of the topic of timers before `queue_offset`, all slots before
    `read_ms` are done.

    Their deliveries are before `log_end` of the log; deliveries of later slots are after `began_at`.
    """

    read_ms: int
    began_at: int
    log_end: int
    queue_offset: int


class Timers:
    """Timed messages of one broker. `progress` counts what was entered and what was done."""

    def __init__(self, config: BrokerConfig, store: MessageStore, storing: Storing) -> None:
        self.config = config
        self.read_ms = 0
        """All slots before this time are done."""
        self.queue_offset = 0
        """Offset in the topic of timers of the next message to enter."""
        self.master_offset = 0
        """Offset up to which this slave's master has entered messages."""
        self.happenings = Happenings()
        self.counts = TimerCounts()
        self.totals = TimerTotals()
        self.progress = 0
        self.delivered = 0
        self.rates = (0.0, 0.0)
        """Messages entered and delivered per second, between the last two notes."""
        self._store = store
        self._storing = storing
        self._is_open = False
        self._is_refused = False    # whether the disk refused a record in the last tick
        self._now_ms = 0
        self._work: Generator[bool, None, None] | None = None
        self._done = 0          # records of the slot `read_ms` that are done
        self._awaited = NOWHERE     # offset up to which messages must be entered before that slot is begun
        self._began_at = 0      # end of the log then, or at an earlier note
        self._noted_ms = 0
        self._noted_progress = -1
        self._noted_done = (0, 0)
        self._last_told = (0, 0)    # the master's progress, and the end of the log here before the report was requested
        self._log_end = 0           # end of the log here at the last request
        self._told: _Told | None = None
        self._copies = TimerCopies(store, self.happenings)      # deliveries after the last note before a crash
        self._is_unknown = False    # the book must be rebuilt from the log
        self._refusal = ""      # of the disk, as it was logged

    # --- start -------------------------------------------------------------------------------------------------------

    def open(self, now_ms: int) -> None:
        """Continue where the last run ended; call once, when the store is open."""
        book, check = self._store.timers, self._store.timers.check
        precision = book.precision_ms
        self.read_ms = check.read_ms // precision * precision or (now_ms // precision - 1) * precision
        self.queue_offset = self._entered_offset(check)
        self.master_offset = check.master_offset
        # The rest of a slot may have been entered again after the note; then its first records are not done.
        self._done = check.done if book.slot(self.read_ms).first < check.timer_log_end else 0
        earliest_ms = book.earliest_ms
        if check.read_ms and earliest_ms is not None and earliest_ms < self.read_ms:
            # The clock was set back after the note: slots before it have new messages.
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
        """Count by records. In a half done slot the first ones are done."""
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
            # RocketMQ's rule: its note may be ahead of its master.
            offset = min(offset, check.master_offset)
        return min(max(offset, self._store.min_offset(TIMER_TOPIC, 0)), self._store.max_offset(TIMER_TOPIC, 0))

    # --- while running -----------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> int | None:
        """Enter and deliver some messages. Returns ms until the next call, 0 when there is more, None when nothing
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
        """Whole seconds since the slot that is done next, and number of messages that are not entered."""
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
        """Have the current progress brought to disk, after the log."""
        done = (self.queue_offset, self.delivered)
        seconds = max(now_ms - self._noted_ms, 1) / 1000
        self.rates = (done[0] - self._noted_done[0]) / seconds, (done[1] - self._noted_done[1]) / seconds
        self._noted_done = done
        self._noted_ms, self._noted_progress = now_ms, self.progress
        self._store.timers.take(self.check())

    def stop(self, now_ms: int) -> None:
        """Note the end of a run. Only the rest of a half done slot is left in it, so that RocketMQ can continue with
        the store."""
        self._now_ms = now_ms
        if self._work is not None and self._done and not self._is_unknown and not self._copies.is_looking:
            with suppress(StoreDamaged):
                self._leave_the_rest()
        self._work = None
        self._store.timers.end_with(self.check())

    def _leave_the_rest(self) -> None:
        """Leave only the undone records in their slot. Does nothing if there are more than LEFT_MAX: a Regulus broker
        knows from the note how many are done."""
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
        """Current progress; an empty check while the book must be rebuilt."""
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
        """Take over the master's progress, and where its log ended then or a little later."""
        before_ms, began_at = self._last_told
        precision = self._store.timers.precision_ms
        read_ms = told.read_ms // precision * precision
        if read_ms > before_ms and (self._told is None or log_end < self._told.log_end):
            self._told = _Told(read_ms, began_at, log_end, told.queue_offset)
        self.master_offset = told.queue_offset
        self._last_told = (read_ms, self._log_end)
        self._log_end = self._store.commit_log_max_offset()

    def forget_master(self) -> None:
        """Forget the report of a master: the log of a new one may lack its deliveries."""
        self._told, self._last_told = None, (0, self._began_at)

    def _pass_what_master_did(self, entered_to: int) -> None:
        """Apply the master's report, once all that the log has up to its end is entered."""
        told = self._told
        if told is not None and told.log_end <= entered_to:
            self._told = None
            read_ms = self._done_by_master(told)
            if read_ms > self.read_ms:
                self.read_ms, self._began_at = read_ms, told.began_at
                self.progress += 1

    def _done_by_master(self, told: _Told) -> int:
        """Time up to which the master is done, limited to the first slot with a message that it had not entered.

        The limit is needed because a master also passes slots while it cannot read all of its log.
        """
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
                    # It may first have waited for half of a window.
                    read_ms = min(read_ms, due_ms, message.store_timestamp + self.config.timer_window_ms // 2)
                queue_offset = unit.queue_offset + 1
        return read_ms // self._store.timers.precision_ms * self._store.timers.precision_ms

    # --- entering ----------------------------------------------------------------------------------------------------

    def _enter(self, now_ms: int) -> bool:
        """Enter messages from the topic of timers. True when there is more to enter at once."""
        book = self._store.timers
        if self._is_unknown:
            return False    # the rebuild would forget it with the others
        if now_ms - self.read_ms > _SPAN_SLOTS * book.precision_ms and not self.config.is_slave:
            return False    # the wheel is a week behind, and its slots still have messages of that time
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
        """False when the disk refuses it now. A message without a time or an original topic is skipped."""
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
        stored_ms = message.store_timestamp // precision * precision   # the same at master and slave
        window = self.config.timer_window_ms
        if slot_ms - stored_ms >= window:
            kind |= ROLL_KIND
            # Avoids a short wait after the last window.
            slot_ms = stored_ms + (window // 2 if slot_ms - stored_ms - window < window // 3 else window)
            slot_ms = slot_ms // precision * precision
            if self.config.is_slave and slot_ms < first_ms - LATE_MS:
                return True
            slot_ms = max(slot_ms, first_ms)
        if names.TIMER_DEL_UNIQUE_KEY in message.properties:
            kind |= DELETE_KIND
        topic = message.properties.get(names.REAL_TOPIC, "")
        record = TimerRecord(slot_ms, kind, entered_ms, message.physical_offset, size, java_hash(topic))
        is_entered = self._enter_record(record, topic)
        if is_entered and not self.config.is_slave:
            self.totals.note_entered(topic, max(0, due_ms - message.store_timestamp) // 1000)
        return is_entered

    def _enter_record(self, record: TimerRecord, topic: str) -> bool:
        refusal = ""
        try:
            self._store.timers.enter(record)
        except StoreNotWritable as error:
            refusal = str(error)
        if refusal and not self._refusal:
            self.happenings.note(NOT_ENTERED, refusal)
        self._refusal = refusal
        if not refusal and not self.config.is_slave:    # a slave has its master's counts
            self.counts.entered(record, topic, self._now_ms)
        return not refusal

    # --- delivering --------------------------------------------------------------------------------------------------

    def _follow_clock(self, now_ms: int) -> None:
        """Handle a large difference between the clock and the progress.

        After the clock was set back, slots that are done are empty, so repeating them delivers nothing twice. Of a slot
        that is half done after a kill, the rest waits for its time to come again.
        """
        precision = self._store.timers.precision_ms
        if now_ms - self.read_ms > SLOTS * precision and self._work is None and not self.config.is_slave:
            self._pass_a_turn(now_ms)
        if self.read_ms > now_ms + precision and self._work is None and not self.config.is_slave:
            self._go_back(now_ms // precision * precision)

    def _go_back(self, slot_ms: int) -> None:
        if self._done:
            with suppress(StoreDamaged):    # which is noticed again when the slot is done
                self._leave_the_rest()
        self.read_ms, self._done, self._awaited = slot_ms, 0, NOWHERE

    def _pass_a_turn(self, now_ms: int) -> None:
        """Rebuild the book, because more than one turn of the wheel is between the clock and the progress.

        The cause is a long stop, a wrong clock or a damaged note. Looking at each slot in between could take hours, and
        the cost of a rebuild is bounded by the log.
        """
        precision = self._store.timers.precision_ms
        self.happenings.note(DAMAGED, f"the clock says {now_ms}, and all before {self.read_ms} was done")
        self.read_ms, self._done, self._awaited = (now_ms // precision - 1) * precision, 0, NOWHERE
        self._enter_all_anew()

    def _find_slot(self, now_ms: int) -> bool:
        """Pass empty slots whose tick is over. True when there is work: a slot, or more to pass."""
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
        """Do a part of the work; False when the store refuses now."""
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
        """Do the slot `read_ms`, a step at a time. A False item says that the store refuses now."""
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
        """After the clock was set back: records for the same place of the wheel in a later turn."""
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
                pass    # entered again before a crash that lost its progress; the later record counts
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
                        # Whether the message is recalled is known only when it can be read.
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
                self.totals.note_done(self.counts.topic_of(hashes[index]))
                self._done = index + 1
            self.progress += 1
            yield True
        while not self._end_slot([(places[index], slots[index], kinds[index], hashes[index]) for index in later]):
            yield False
        self._pass_slot()

    def _end_slot(self, later: list[tuple[int, int, int, int]]) -> bool:
        """End a slot, and enter the records for later at once, because both use the same place of the wheel. False when
        the disk refuses."""
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
        """Empty the book, and count all deliveries, so that entering all messages again leaves only those that are not
        done. Cost is proportional to the log from the first message of the topic of timers on."""
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
        """Deliver one message or let it wait again. False when the store refuses now, and it must be tried again.
        Raises StoreDamaged."""
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
        """When a message is tried again that cannot be delivered now; it does not block others."""
        precision = self._store.timers.precision_ms
        return (self._now_ms + AGAIN_MS) // precision * precision

    def _enter_again(self, physical_offset: int, slot_ms: int, kind: int, topic_hash: int,
                     waiting: MessageExt | None = None) -> bool:
        """Enter a message again. False when the disk refuses."""
        size = waiting.store_size if waiting is not None else 0
        topic = waiting.properties.get(names.REAL_TOPIC, "") if waiting is not None else ""
        record = TimerRecord(slot_ms, kind | AGAIN_KIND, self._now_ms, physical_offset, size, topic_hash)
        return self._enter_record(record, topic)


def _place(message: MessageExt) -> str:
    return f"at {message.physical_offset} of the log"


def _take_out_key(waiting: MessageExt) -> str:
    return f"{waiting.properties.get(names.REAL_TOPIC, '')}+{waiting.properties.get(names.UNIQUE_KEY, '')}"


def _last_ms(waiting: MessageExt, tick_ms: int, precision_ms: int) -> int:
    """The last tick before the message is due.

    If it was sent while ticks were longer, its noted tick `tick_ms` is such a longer one, in which it may be due as
    late as the end; then its own time counts. For a recall marker and its target, the noted tick counts.
    """
    if precision_ms == TIMER_PRECISIONS_MS[-1]:
        return tick_ms
    last_ms = (deliver_ms(waiting.properties, waiting.store_timestamp) - 1) // precision_ms * precision_ms
    return last_ms if tick_ms < last_ms < tick_ms + TIMER_PRECISIONS_MS[-1] else tick_ms
