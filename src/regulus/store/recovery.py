"""Recovery makes log, queues and index agree after any kind of stop.

The log decides. Recovery walks it from a file before which everything is known to be intact, checks each record, adds
missing units and index entries, and ends the log where the records end. After a clean stop, the walk begins in the file
in which the queues end; after a crash, in the last file that was begun before the checkpoint.

If something else follows the last record, two cases are distinguished. A tail was being written when the machine failed
and was never certainly on disk: it is cut, kept aside and reported. Damage is within what was certainly on disk, by the
mark of the last synced record or, if none fits, by the checkpoint's times: then the start is refused, until the
operator orders a cut there.

Everything after the end is filled with zeros, so that no old record reappears after a later crash.

Source: CommitLog.recoverNormally, CommitLog.recoverAbnormally.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from regulus.errors import StoreDamaged, StoreNewer, StoreNotWritable, TruncatedRecord
from regulus.model.java_numbers import LONG_MAX
from regulus.model.topics import SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from regulus.record.layout import MAGIC_V1, MAGIC_V2
from regulus.record.queue_table import QueueTable
from regulus.record.synced_mark import SyncedMark
from regulus.store import disk
from regulus.store.commit_log import CommitLog
from regulus.store.consume_queues import ConsumeQueues
from regulus.store.dispatch import Dispatcher
from regulus.store.log_cut import DIRECTORY, LogCut
from regulus.store.log_heads import TIME_SIZE, LogHead, find_heads, head_in
from regulus.store.mapped_file import MappedFile
from regulus.store.mapped_file_queue import file_name
from regulus.store.numbering import Numbering
from regulus.store.queue_check import QueueCheck
from regulus.store.queue_table_file import fits

SCAN_WINDOW = 8 << 20
QUEUES_CHECKED_MAX = 2000
"""Queues that are opened and checked before a start is done. Further ones rest until they are used."""
QUEUES_NAMED_MAX = 20
"""Rebuilt queues whose names are reported; of more, only the number is."""
STRAYS_NAMED_MAX = 10
"""Names reported of entries among the queues that are not queues; of more, only the number is."""
NO_GAP = -1
"""The index lacks no records that it had."""
MISSING = "the file is missing"
WANTED = "so it was wanted"
NO_CUT = -1
"""The operator has ordered no cut."""

_MAGICS = (MAGIC_V1 & 0xFFFFFFFF, MAGIC_V2 & 0xFFFFFFFF)
_MAGIC_FAMILY = _MAGICS[0] >> 8


Tell = Callable[[str, int, int], None]
"""Called during a long step with its name, the bytes done, 0 when it begins, and the total bytes."""


def tell_nobody(step: str, done: int, total: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What recovery found and did, for the log of the program that opened the store."""

    is_clean_stop: bool
    start: int
    """Physical offset of the first record kept."""
    kept_to: int
    """Physical offset after the last record kept."""
    scanned_from: int
    records: int
    """Records checked."""
    redispatched: int
    """Records whose consume queue unit was missing and was added."""
    queues: int
    dropped_bytes: int
    """Bytes that were cut after `kept_to`, in each file up to the last one that was not zero; 0 when the log ended as
    it should."""
    dropped_records: int
    """Records among them that can still be recognized, besides the one at `kept_to`."""
    dropped_files: tuple[str, ...]
    """Files that no longer belong to the log: empty ones that were removed, and others that are kept aside."""
    kept_aside: str
    """Where the cut bytes are kept; empty when nothing was cut, or it could not be kept yet (see `unfinished`)."""
    stop_reason: str
    """Why the walk ended before the end of the last file; empty when only zeros follow."""
    notes: tuple[str, ...]
    """What was missing or wrong in queues and index, and what was done: one sentence each."""
    unfinished: str
    """Why something that recovery must write is not written yet, and no message is accepted; empty when everything
    is."""
    duration_ms: int
    unplaced_records: int = 0
    """Records with an invalid topic name, which no queue has."""
    unplaced_reason: str = ""

    @property
    def is_warning(self) -> bool:
        """Whether an operator should know: something was cut, rebuilt or left undone."""
        return bool(self.dropped_bytes or self.unplaced_records or self.notes or self.unfinished)

    def __str__(self) -> str:
        text = (f"{'clean stop' if self.is_clean_stop else 'crash'}: log {self.start} to {self.kept_to}, "
                f"{self.records} records checked from {self.scanned_from}, {self.redispatched} redispatched, "
                f"{self.queues} queues, {self.duration_ms} ms")
        if self.stop_reason:
            text += (f"; cut at {self.kept_to}: {self.stop_reason}, {self.dropped_bytes} bytes and "
                     f"{self.dropped_records} records behind it dropped")
        if self.kept_aside:
            text += f"; kept in {self.kept_aside}"
        if self.dropped_files:
            text += f"; no part of the log any more: {', '.join(self.dropped_files)}"
        if self.unplaced_records:
            text += f"; {self.unplaced_records} records are in no queue, the last for this: {self.unplaced_reason}"
        for note in self.notes:
            text += f"; {note}"
        if self.unfinished:
            text += f"; messages are refused until this is over: {self.unfinished}"
        return text


class Recovery:
    """Recovers one log once. The queues are loaded already.

    `mark` is the last record that is certainly on disk, None when there is no mark. `table` says which queues rest, and
    up to which record all units are on disk. From `index_end` on the index must be rebuilt, unless it is NO_GAP.
    `cut_at` is where the operator ordered a cut of a damaged log, `end_at` where the log must end whatever follows.
    `tell` is called with the progress of the walk.
    """

    def __init__(self, log: CommitLog, dispatcher: Dispatcher, *, is_clean_stop: bool, check_crc: bool,
                 mark: SyncedMark | None = None, table: QueueTable | None = None, index_end: int = NO_GAP,
                 cut_at: int = NO_CUT, end_at: int = LONG_MAX, tell: Tell = tell_nobody) -> None:
        self._log = log
        self._dispatcher = dispatcher
        self._is_clean_stop = is_clean_stop
        self._check_crc = check_crc
        self._mark = mark if mark is not None and fits(mark, log.files) else None
        self._table = table
        self._index_end = index_end
        self._cut_at = cut_at
        self._end_at = end_at
        self._tell = tell
        self._buffer = bytearray(SCAN_WINDOW)
        self._stop_reason = ""
        self._passed: list[str] = []
        self.cut: LogCut | None = None
        """The cut of the log; still to be carried out when the report is unfinished."""
        self.kept_aside = ""
        """Where the cut bytes are kept; empty when nothing was cut, or not yet."""

    def run(self, checkpoint_timestamp: int, flushed_timestamp: int) -> RecoveryReport:
        """Recover. The first time determines where the walk begins; if no mark fits, the second one distinguishes a
        tail from damage. `duration_ms` of the report is 0. Raises StoreDamaged, StoreNewer."""
        queues = self._dispatcher.queues
        queues_end = max(queues.max_physical_offset, self._table.position if self._table is not None else -1)
        files = self._log.files.files
        first = self._first_clean(queues_end) if self._is_clean_stop else self._first_after_crash(checkpoint_timestamp)
        if self._index_end != NO_GAP:
            first = min(first, self._first_clean(self._index_end))
            self._dispatcher.index_from = self._index_end
        first = min(first, self._first_clean(self._end_at))
        scanned_from = files[first].start if files else 0
        end = self._scan_files(first, self._dispatch_from(queues_end)) if files else 0
        records = self._dispatcher.record_count
        if first and end == scanned_from:
            self._see_last_before(files[first - 1], end)
        cut = self.cut = LogCut(self._log.files, end)
        dropped_bytes, dropped_records = cut.size, self._judge(cut, flushed_timestamp)
        # Intact records are cut only after the table of queues describes the shortened log: the existing table is bound
        # to a record that is cut, and without a table deletions would be forgotten.
        unfinished = _fault_of(self.finish) if self._end_at == LONG_MAX else ""
        if not files:
            for topic in (*queues.table, *queues.resting):
                queues.delete(topic, end)
        stop_reason = self._stop_reason if dropped_bytes else ""
        rebuilt = self._mend_queues(end)
        self._settle(end)
        return RecoveryReport(
            is_clean_stop=self._is_clean_stop, start=self._log.files.start, kept_to=end, scanned_from=scanned_from,
            records=records, redispatched=self._dispatcher.dispatched_count,
            queues=queues.count, dropped_bytes=dropped_bytes, dropped_records=dropped_records,
            dropped_files=cut.names, kept_aside=self.kept_aside,
            stop_reason=stop_reason,
            notes=(*self._gaps(), *(_lost(queues_end, end) if end != self._end_at else ()), *rebuilt, *_strays(queues)),
            unfinished=unfinished or self._dispatcher.fault,
            duration_ms=0,
            unplaced_records=self._dispatcher.unplaced_count, unplaced_reason=self._dispatcher.unplaced_reason)

    def _dispatch_from(self, queues_end: int) -> int:
        """The offset from which units may be missing after a crash: that of the table, or the log's start without
        one."""
        if self._is_clean_stop:
            return queues_end
        return self._table.position if self._table is not None else 0

    def finish(self) -> None:
        """Carry out what found no room before. Raises StoreNotWritable."""
        if self.cut is not None:
            self.cut.carry_out()
            self.kept_aside = str(self.cut.place or "")
            self.cut = None

    # --- where to begin ----------------------------------------------------------------------------------------------

    def _first_clean(self, queues_end: int) -> int:
        """The last file that begins where the queues are complete."""
        files = self._log.files.files
        return max((number for number, file in enumerate(files) if file.start <= queues_end), default=0)

    def _first_after_crash(self, checkpoint_timestamp: int) -> int:
        """The last file that was begun before the checkpoint; the first one when none was."""
        for number in range(len(self._log.files.files) - 1, 0, -1):
            file = self._log.files.files[number]
            head = head_in(file, file.start)
            if head is not None and 0 < head.store_timestamp <= checkpoint_timestamp and \
                    (self._table is None or file.start <= self._table.position):
                return number
        return 0

    def _gaps(self) -> list[str]:
        """A sentence for each gap between files. Before the walk, reads skip gaps."""
        files = self._log.files.files
        gaps = [f"{file_name(before.start + before.size)} is missing, the log has nothing from "
                f"{before.start + before.size} to {behind.start}: stop the broker and bring it back from a backup or "
                "replica" for before, behind in pairwise(files) if before.start + before.size != behind.start]
        begun = self._table.log_start if self._table is not None else self._log.start
        if begun < self._log.start:
            gaps.insert(0, f"{file_name(begun)} is missing, the log began there and begins at {self._log.start} now: "
                           "unless somebody deleted it on purpose, stop the broker and bring it back from a backup or "
                           "replica")
        return gaps

    # --- the walk ----------------------------------------------------------------------------------------------------

    def _scan_files(self, first: int, dispatch_from: int) -> int:
        """Returns the physical offset after the last good record."""
        files = self._log.files.files
        begin = end = files[first].start
        total = files[-1].start + files[-1].size - begin
        step = f"checking the log from {begin} on"
        self._tell(step, 0, total)
        for file in files[first:]:
            if file.start != end:
                self._stop_reason = MISSING
                break
            position = self._scan_file(
                file, dispatch_from, on_window=lambda position: self._tell(step, position - begin, total))
            end = file.start + position
            if position < file.size:
                break
            if end == self._end_at:
                self._stop_reason = WANTED
                break
        return end

    def _see_last_before(self, file: MappedFile, end: int) -> None:
        """Find the last record in the file before, because the walk met none: the table of queues is bound to it."""
        stop_reason = self._stop_reason
        self._scan_file(file, end, is_checked=False)
        self._stop_reason = stop_reason

    def _scan_file(self, file: MappedFile, dispatch_from: int, position: int = 0, is_checked: bool = True,
                   on_window: Callable[[int], None] | None = None) -> int:
        """The position after the good records from `position` of the file on; its end when they end in a blank."""
        size = min(file.size, self._end_at - file.start)
        while position < size:
            view = memoryview(self._buffer)
            filled = disk.read_into(file.path, position, view[:size - position])
            stop = self._dispatcher.scan(view, view, filled, file.start + position,
                                         self._check_crc and is_checked, dispatch_from)
            position += stop.position
            if on_window is not None:
                on_window(file.start + position)
            if stop.is_blank:
                return file.size
            if stop.error is None:
                continue
            is_cut_by_window = isinstance(stop.error, TruncatedRecord) and position - stop.position + filled < size
            if not is_cut_by_window:
                self._refuse_newer(file, position)
                self._stop_reason = str(stop.error).rpartition(" at ")[0]
                break
            if stop.position == 0:
                self._buffer = bytearray(2 * len(self._buffer))
        if position == size < file.size:
            self._stop_reason = WANTED
        return position

    def _refuse_newer(self, file: MappedFile, position: int) -> None:
        magic = int.from_bytes(disk.read_at(file.path, position + 4, 4), "big")
        # If its last byte is zero, a crash cut a magic number short; otherwise a later version wrote it.
        if magic >> 8 == _MAGIC_FAMILY and magic & 0xFF and magic not in _MAGICS:
            raise StoreNewer(f"{file.path} has a record of a later format ({magic:#x}) at {position}: open the store "
                             "with the version of RocketMQ or Regulus that wrote it")

    # --- tail or damage ----------------------------------------------------------------------------------------------

    def _judge(self, cut: LogCut, flushed_timestamp: int) -> int:
        """The number of records after the cut that can still be recognized. Raises StoreDamaged when the cut bytes were
        certainly on disk, unless the operator ordered the cut."""
        if not cut.size:
            return 0
        heads = cut.heads()
        certainty = self._certainty(cut, flushed_timestamp, bool(heads))
        if certainty and cut.end not in (self._cut_at, self._end_at):
            raise StoreDamaged(self._refusal(cut, len(heads), certainty))
        return len(heads)

    def _refusal(self, cut: LogCut, count: int, certainty: str) -> str:
        files = self._log.files
        path = files.directory / file_name(cut.end - cut.end % files.file_size)
        place = f"{path} is missing" if self._stop_reason == MISSING else \
            f"byte {cut.end % files.file_size} of {path}, {self._stop_reason}"
        return (f"the commit log is damaged at {cut.end} ({place}), and {certainty}: bring {path.name} back from a "
                f"backup or replica. Or, to go on without this record and {count} more behind it, start once with "
                f"cutDamagedLog={cut.end} (--cut-damaged-log {cut.end}); the {cut.size} bytes are kept in "
                f"{files.directory.parent / DIRECTORY} then")

    def _certainty(self, cut: LogCut, flushed_timestamp: int, has_more: bool) -> str:
        """Why the cut bytes are not a tail; empty when they are."""
        if self._mark is not None and cut.end < self._mark.end:
            return f"all before {self._mark.end} was on disk"
        if self._stop_reason == MISSING and has_more:
            return "records follow behind it"
        if self._mark is not None and not self._is_clean_stop and flushed_timestamp <= self._mark.store_timestamp:
            return ""       # otherwise a broker without marks continued the log, and its times are better evidence
        times = [head.store_timestamp for head in (cut.first_head(), *cut.heads())
                 if head is not None and not self._may_have_torn_time(head)]
        # A record of the same millisecond as the last flushed one may have come after it.
        if any(0 < time < flushed_timestamp for time in times):
            return "the checkpoint says that it was on disk"
        if self._is_clean_stop and has_more:
            return "after a clean stop nothing is torn"
        return ""

    def _may_have_torn_time(self, head: LogHead) -> bool:
        """Whether a power cut may have left only a part of the store time, which then shows another time."""
        first = head.physical_offset % self._log.files.file_size + head.time_at
        return first // disk.SECTOR_SIZE != (first + TIME_SIZE - 1) // disk.SECTOR_SIZE

    # --- queues and index --------------------------------------------------------------------------------------------

    def _mend_queues(self, end: int) -> list[str]:
        """Rebuild what does not agree with the log, which ends at `end`; returns a sentence for each."""
        queues = self._dispatcher.queues
        resting = sum(map(len, queues.resting.values()))
        if self._table is not None and (end < self._table.position or resting <= QUEUES_CHECKED_MAX):
            queues.wake_all()
        else:
            self._wake_missing()
        queues.truncate(end)
        queues.log_start, queues.log_end = self._log.files.start, end
        check = QueueCheck(self._log, end)
        faults = {(queue.topic, queue.queue_id): fault for queue in queues.all() if (fault := check.fault_of(queue))}
        self._build_anew(faults, end)
        queues.correct_starts(queues.log_start)
        queues.fault_of = check.fault_of
        return [*self._passed, *self._told(faults)]

    def _told(self, faults: dict[tuple[str, int], str]) -> list[str]:
        notes = []
        for (topic, queue_id), fault in list(faults.items())[:QUEUES_NAMED_MAX]:
            queue = self._dispatcher.queues.have(topic, queue_id)
            notes.append(f"queue {queue_id} of {topic} {fault}: built anew from the log, from {queue.min_offset} to "
                         f"{queue.max_offset}")
        if len(faults) > QUEUES_NAMED_MAX:
            notes.append(f"{len(faults) - QUEUES_NAMED_MAX} more queues were built anew")
        if self._index_end != NO_GAP and self._dispatcher.record_count:
            notes.append(f"the index was built anew from {self._index_end} on")
        return notes

    def _wake_missing(self) -> None:
        """Open some of the resting queues: those whose topic folder is missing, those with a fault, and the system's,
        which are needed at once."""
        queues = self._dispatcher.queues
        there = {*disk.names(queues.directory, directories=True), *disk.names(queues.batch_directory, directories=True)}
        for topic in [topic for topic in queues.resting if topic not in there or topic in SYSTEM_TOPICS
                      or topic.startswith(SYSTEM_TOPIC_PREFIX)]:
            for queue_id in tuple(queues.resting[topic]):
                queues.find(topic, queue_id)
        for topic, queue_id in self._table.faulty if self._table is not None else ():
            queues.find(topic, queue_id)

    def _build_anew(self, faults: dict[tuple[str, int], str], end: int) -> None:
        if not faults:
            return
        queues = self._dispatcher.queues
        is_end_known = self._table is not None and end >= self._table.position
        known_ends = {}
        for name in faults:
            queue = queues.have(*name)
            # The content of its files is not proof, but better than nothing when no table has more.
            known_ends[name] = (queue.tabled_max_offset if is_end_known else 0) or \
                (queue.max_offset if not queue.has_gap else 0)
            queue.empty()
        known_at = self._table.position if self._table is not None and is_end_known else end
        numbering = self._put_numbered(known_ends, known_at, end)
        if is_end_known:
            for topic, queue_id in faults:
                if numbering.is_begun_anew((topic, queue_id)):
                    continue
                queue = queues.have(topic, queue_id)
                queue.next_offset = max(queue.next_offset, queue.tabled_max_offset)
                # Units that found no room yet come first; if there is still no room, the next message triggers it.
                if not self._dispatcher.fault:
                    with suppress(StoreNotWritable):
                        queue.go_on_at(queue.tabled_max_offset)

    def _put_numbered(self, known_ends: dict[tuple[str, int], int], known_at: int, end: int) -> Numbering:
        """Dispatch all records of these queues, as far as there is room."""
        dispatcher = self._dispatcher
        last = dispatcher.last_physical_offset, dispatcher.last_store_timestamp
        numbering = Numbering(known_ends, dispatcher.queues.births, known_at=known_at, log_start=self._log.start,
                              put=dispatcher.dispatch)
        dispatcher.numbering = numbering
        for file in self._log.files.files:
            self._pass_over(file, end)
        if not dispatcher.fault:
            dispatcher.fault = _fault_of(numbering.end)
        if dispatcher.fault:
            dispatcher.behind_from = min(dispatcher.behind_from, numbering.held_from)
        dispatcher.numbering = None
        # A record that was held is dispatched after later ones, and is not the log's last one.
        dispatcher.last_physical_offset, dispatcher.last_store_timestamp = last
        self._passed += numbering.sentences()
        return numbering

    def _pass_over(self, file: MappedFile, end: int) -> None:
        """Dispatch all existing records of a file; damage among them was there before, and is skipped."""
        position = 0
        while position < min(file.size, end - file.start):
            position = self._scan_file(file, 0, position, is_checked=False)
            found = next(find_heads(file, position + 1), None) if position < file.size else None
            if file.start + position < end and position < file.size:
                self._passed.append(f"the log is damaged at {file.start + position} ({self._stop_reason}), within what "
                                    "was known to be well: bring its file back from a backup or replica")
            position = found.physical_offset - file.start if found is not None else file.size

    # --- the end -----------------------------------------------------------------------------------------------------

    def _settle(self, end: int) -> None:
        """Set the positions of log and dispatcher."""
        log = self._log
        files = log.files.files
        log.tail = files[-1] if files else None
        log.end = end
        log.flushed_offset = end
        log.last_store_timestamp = self._dispatcher.last_store_timestamp
        self._dispatcher.position = min(end, self._dispatcher.behind_from)


def _fault_of(deed: Callable[[], None]) -> str:
    """Why the disk prevents an action; empty when it is done."""
    try:
        deed()
    except StoreNotWritable as error:
        return str(error)
    return ""


def _strays(queues: ConsumeQueues) -> list[str]:
    """A sentence about entries among the queues that are not queues."""
    strays = queues.strays
    if not strays:
        return []
    named = ", ".join([f"{name!r}" for name in strays[:STRAYS_NAMED_MAX]])
    more = f" and {len(strays) - STRAYS_NAMED_MAX} more" if len(strays) > STRAYS_NAMED_MAX else ""
    return [f"{queues.directory} has what is no queue of a topic: {named}{more}; it is left alone"]


def _lost(queues_end: int, end: int) -> tuple[str, ...]:
    if queues_end <= end:
        return ()
    return (f"the queues knew records up to {queues_end}: {queues_end - end} bytes at the log's end are gone",)
