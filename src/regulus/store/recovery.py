"""Making log, queues and index agree after whatever happened.

The log decides. Recovery walks it from a file before which all is known to be well, checks each record, builds units
and index entries that are missing, and ends the log where the records end. After a clean stop that is the file in which
the queues end; after a crash it is the last file that was begun before the checkpoint.

What lies behind the end is zeroed, so that no record of former times comes back to life behind a later crash.

Source: CommitLog.recoverNormally, CommitLog.recoverAbnormally.
"""

from dataclasses import dataclass
from pathlib import Path

from regulus.errors import StoreDamaged, StoreNewer, TruncatedRecord
from regulus.model.sys_flag import BORN_HOST_V6
from regulus.record import big_endian, layout
from regulus.store import disk
from regulus.store.commit_log import CommitLog
from regulus.store.dispatch import Dispatcher
from regulus.store.mapped_file import MappedFile
from regulus.store.mapped_file_queue import file_name

SCAN_WINDOW = 8 << 20

_HEAD_SIZE = layout.BODY_START_V4
_MAGICS = (layout.MAGIC_V1 & 0xFFFFFFFF, layout.MAGIC_V2 & 0xFFFFFFFF)
_MAGIC_FAMILY = _MAGICS[0] >> 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What recovery found and did, for the log of whoever opened the store."""

    is_clean_stop: bool
    start: int
    """Physical offset of the first record kept."""
    kept_to: int
    """Physical offset behind the last record kept."""
    scanned_from: int
    records: int
    """Records checked."""
    redispatched: int
    """Records whose consume queue unit was missing and is there now."""
    queues: int
    dropped_bytes: int
    """Bytes behind `kept_to` that were not zero, from the first to the last; 0 when the log ended as it should."""
    dropped_files: tuple[str, ...]
    stop_reason: str
    """Why the walk ended before the end of the last file; empty when only zeros follow."""
    duration_ms: int
    unplaced_records: int = 0
    """Records whose topic is no name, so that no queue has them."""
    unplaced_reason: str = ""

    def __str__(self) -> str:
        text = (f"{'clean stop' if self.is_clean_stop else 'crash'}: log {self.start} to {self.kept_to}, "
                f"{self.records} records checked from {self.scanned_from}, {self.redispatched} redispatched, "
                f"{self.queues} queues, {self.duration_ms} ms")
        if self.stop_reason:
            text += f"; cut at {self.kept_to}: {self.stop_reason}, {self.dropped_bytes} bytes dropped"
        if self.dropped_files:
            text += f"; removed {', '.join(self.dropped_files)}"
        if self.unplaced_records:
            text += f"; {self.unplaced_records} records are in no queue, the last for this: {self.unplaced_reason}"
        return text


class Recovery:
    """Recovers one log once. The queues are loaded already."""

    def __init__(self, log: CommitLog, dispatcher: Dispatcher, *, is_clean_stop: bool, check_crc: bool) -> None:
        self._log = log
        self._dispatcher = dispatcher
        self._is_clean_stop = is_clean_stop
        self._check_crc = check_crc
        self._buffer = bytearray(SCAN_WINDOW)
        self._stop_reason = ""

    def run(self, checkpoint_timestamp: int) -> RecoveryReport:
        """Raises StoreDamaged, StoreNewer, StoreNotWritable. `duration_ms` of the report is 0."""
        queues = self._dispatcher.queues
        queues_end = queues.max_physical_offset
        files = self._log.files.files
        first = self._first_clean(queues_end) if self._is_clean_stop else self._first_after_crash(checkpoint_timestamp)
        scanned_from = files[first].start if files else 0
        dispatch_from = queues_end if self._is_clean_stop else 0
        end = self._scan_files(first, dispatch_from) if files else 0
        self._check_end(end)
        dropped_bytes, dropped_files = self._log.files.truncate(end)
        if not files:
            for topic in tuple(queues.table):
                queues.delete(topic, end, end)
        queues.truncate(end)
        queues.correct_starts(self._log.files.start)
        self._settle(end)
        return RecoveryReport(
            is_clean_stop=self._is_clean_stop, start=self._log.files.start, kept_to=end, scanned_from=scanned_from,
            records=self._dispatcher.record_count, redispatched=self._dispatcher.dispatched_count,
            queues=len(queues.all()), dropped_bytes=dropped_bytes, dropped_files=tuple(dropped_files),
            stop_reason=self._stop_reason if dropped_bytes else "", duration_ms=0,
            unplaced_records=self._dispatcher.unplaced_count, unplaced_reason=self._dispatcher.unplaced_reason)

    # --- where to begin ----------------------------------------------------------------------------------------------

    def _first_clean(self, queues_end: int) -> int:
        """The last file that begins where the queues are complete."""
        files = self._log.files.files
        return max((number for number, file in enumerate(files) if file.start <= queues_end), default=0)

    def _first_after_crash(self, checkpoint_timestamp: int) -> int:
        """The last file that was begun before the checkpoint; the first one when none was."""
        for number in range(len(self._log.files.files) - 1, 0, -1):
            timestamp = _first_store_timestamp(self._log.files.files[number])
            if 0 < timestamp <= checkpoint_timestamp:
                return number
        return 0

    # --- the walk ----------------------------------------------------------------------------------------------------

    def _scan_files(self, first: int, dispatch_from: int) -> int:
        """Physical offset behind the last good record."""
        files = self._log.files.files
        end = files[first].start
        for file in files[first:]:
            if file.start != end:
                raise StoreDamaged(f"{Path(file.path).parent / file_name(end)} is missing: bring it back from a backup "
                                   "or replica, or move the files behind it away to go on without their messages")
            position = self._scan_file(file, dispatch_from)
            end = file.start + position
            if position < file.size:
                break
        return end

    def _scan_file(self, file: MappedFile, dispatch_from: int) -> int:
        """Bytes of good records at the beginning of the file; all of them when it ends in a blank."""
        position = 0
        while position < file.size:
            view = memoryview(self._buffer)
            filled = disk.read_into(file.path, position, view[:file.size - position])
            stop = self._dispatcher.scan(view, view, filled, file.start + position, self._check_crc, dispatch_from)
            position += stop.position
            if stop.is_blank:
                return file.size
            if stop.error is None:
                continue
            is_cut_by_window = isinstance(stop.error, TruncatedRecord) and position - stop.position + filled < file.size
            if not is_cut_by_window:
                self._refuse_newer(file, position)
                self._stop_reason = str(stop.error).rpartition(" at ")[0]
                break
            if stop.position == 0:
                self._buffer = bytearray(2 * len(self._buffer))
        return position

    def _refuse_newer(self, file: MappedFile, position: int) -> None:
        magic = int.from_bytes(disk.read_at(file.path, position + 4, 4), "big")
        # A last byte of zero is a magic number that a crash cut off, and not one that a later version wrote.
        if magic >> 8 == _MAGIC_FAMILY and magic & 0xFF and magic not in _MAGICS:
            raise StoreNewer(f"{file.path} has a record of a later format ({magic:#x}) at {position}: open the store "
                             "with the version of RocketMQ or Regulus that wrote it")

    def _check_end(self, end: int) -> None:
        """After a clean stop nothing is torn: intact records in a later file mean that the log broke in its middle."""
        if not self._is_clean_stop:
            return
        for file in self._log.files.files:
            if file.start > end and _first_store_timestamp(file) > 0:
                raise StoreDamaged(
                    f"the commit log is damaged at {end} ({self._stop_reason}), but {Path(file.path).name} behind it "
                    f"is well: bring {Path(file.path).parent} back from a backup or replica; or, to cut the log at "
                    f"{end} and lose all messages behind, create an empty file `abort` in the store's directory "
                    "and start again")

    # --- the end -----------------------------------------------------------------------------------------------------

    def _settle(self, end: int) -> None:
        """Tell log and dispatcher where they stand."""
        log = self._log
        files = log.files.files
        log.tail = files[-1] if files else None
        log.end = end
        log.flushed_offset = end
        log.last_store_timestamp = self._dispatcher.last_store_timestamp
        self._dispatcher.position = end


def _first_store_timestamp(file: MappedFile) -> int:
    """Store time of the record with which the file begins; 0 when it does not begin with a record of its own place."""
    head = disk.read_at(file.path, 0, _HEAD_SIZE)
    if len(head) < _HEAD_SIZE or int.from_bytes(head[4:8], "big") not in _MAGICS:
        return 0
    if big_endian.int8(head, layout.PHYSICAL_OFFSET) != file.start:
        return 0
    is_v6 = big_endian.int4(head, layout.SYS_FLAG) & BORN_HOST_V6
    born_end = layout.BORN_HOST + (layout.HOST_V6_SIZE if is_v6 else layout.HOST_V4_SIZE)
    return big_endian.int8(head, born_end + layout.STORE_TIMESTAMP)
