"""Faults of messages that wait for a time of their own: docs/timers.md."""

from tests.mutants import Mutant

_TIMERS = "regulus/broker/timers.py"
_PLACEMENT = "regulus/broker/placement.py"
_FILES = "regulus/store/timers.py"
_OF_TIMERS = ("tests/unit/broker/test_timers.py",)
_OF_FILES = ("tests/unit/store/test_timers.py",)
_OF_SENDS = ("tests/unit/broker/handlers/test_send_message.py",)

MUTANTS = (
    Mutant(name="a timer is a tick early", path=_TIMERS, old="if self.read_ms + precision > now_ms:",
           new="if self.read_ms > now_ms:", tests=_OF_TIMERS),
    Mutant(name="a timer of a whole tick is one late", path=_PLACEMENT, old="(due_ms - 1) // timer_precision_ms",
           new="due_ms // timer_precision_ms", tests=_OF_TIMERS),
    Mutant(name="a timer in seconds is one in ms", path=_PLACEMENT, old="(names.TIMER_DELAY_SEC, 1000, now_ms)",
           new="(names.TIMER_DELAY_SEC, 1, now_ms)", tests=_OF_TIMERS),
    Mutant(name="a timer whose message was taken out comes", path=_TIMERS,
           old="if not is_rolled and _take_out_key(waiting) in taken_out:", new="if False:", tests=_OF_TIMERS),
    Mutant(name="a slot is begun before what was stored in time is entered", path=_TIMERS,
           old="if self.queue_offset < self._awaited and", new="if False and", tests=_OF_TIMERS),
    Mutant(name="what a crash made us forget comes again", path=_TIMERS,
           old="        if self._came.get(key, 0) > 0:\n", new="        if False:\n", tests=_OF_TIMERS),
    Mutant(name="what came is passed by as often as one likes", path=_TIMERS, old="            self._came[key] -= 1\n",
           new="", tests=_OF_TIMERS),
    Mutant(name="a late message is entered in a slot that is done", path=_TIMERS,
           old="            slot_ms = first_ms\n        kind", new="            pass\n        kind", tests=_OF_TIMERS),
    Mutant(name="what waits longer than the wheel is entered where it is", path=_TIMERS,
           old="            kind |= ROLL_KIND\n", new="            return True\n", tests=_OF_TIMERS),
    Mutant(name="a slot that is done is done again when the clock is put back", path=_TIMERS,
           old="        book.clear(self.read_ms)\n        self._pass_slot()", new="        self._pass_slot()",
           tests=_OF_TIMERS),
    Mutant(name="a clock that was put back stops all timers", path=_TIMERS,
           old="if self.read_ms > now_ms + precision and", new="if False and", tests=_OF_TIMERS),
    Mutant(name="a delivery that the store refused counts", path=_TIMERS,
           old="return status in (PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL)", new="return True", tests=_OF_TIMERS),
    Mutant(name="a full disk takes what is left of a slot", path=_TIMERS, old="            book.put_back(slot)\n",
           new="            pass\n", tests=_OF_TIMERS),
    Mutant(name="a slave delivers", path=_TIMERS, old="        if self.config.is_slave:\n            return 0 if",
           new="        if False:\n            return 0 if", tests=_OF_TIMERS),
    Mutant(name="a note comes to disk before the log", path=_FILES,
           old="if check is None or check.log_position > log_flushed:", new="if check is None:", tests=_OF_FILES),
    Mutant(name="a start does not look behind the checkpoint", path=_FILES,
           old="            if slot.last < position:\n", new="            if False:\n", tests=_OF_FILES),
    Mutant(name="a start enters messages that the log lost", path=_FILES,
           old="if record is None or record.physical_offset >= log_end:", new="if record is None:", tests=_OF_FILES),
    Mutant(name="slots whose flush failed are forgotten", path=_FILES,
           old="            self._changed = {**self._flushing, **self._changed}\n", new="            pass\n",
           tests=_OF_FILES),
    Mutant(name="files go whose messages wait", path=_FILES,
           old="if last is None or last.physical_offset >= log_start:", new="if last is None:", tests=_OF_FILES),
    Mutant(name="a client takes out messages of any topic", path="regulus/broker/handlers/send_timers.py",
           old='if takes_out is not None and not takes_out.startswith(f"{message.topic}+"):', new="if False:",
           tests=_OF_SENDS),
    Mutant(name="a client says itself where a waiting message goes", path="regulus/model/topics.py",
           old="SELF_TEST_TOPIC, OFFSET_MOVED_EVENT, TIMER_TOPIC})", new="SELF_TEST_TOPIC, OFFSET_MOVED_EVENT})",
           tests=_OF_SENDS),
)
