"""Check whether the units of a consume queue point at its own records.

The first and the last unit of each file are checked, which is enough to recognize a foreign or overwritten file;
opening the queue has checked that the units between follow the log's order.

No checksum covers the queue stated in a record. If a record and its unit disagree, the units around it show which of
the two is wrong: a foreign or overwritten file has no matching unit nearby.
"""

from collections.abc import Callable
from typing import TypeVar

from regulus.errors import StoreError
from regulus.record.batch_unit import UNIT_SIZE as BATCH_UNIT_SIZE
from regulus.record.batch_unit import decode_all as batch_units
from regulus.record.consume_queue_unit import FILLER, UNIT_SIZE, unpack_all
from regulus.store import disk
from regulus.store.batch_consume_queue import BatchConsumeQueue
from regulus.store.commit_log import CommitLog
from regulus.store.consume_queue import ConsumeQueue
from regulus.store.log_heads import inner_count_in, owner_in
from regulus.store.mapped_file import MappedFile

NEAR = 4
"""Units checked on each side of one. More consecutive records than that are not damaged by accident."""
NOBODY = ("", -1, -1, -1)
"""The owner of bytes that are not a record."""

_Found = TypeVar("_Found")


class QueueCheck:
    def __init__(self, log: CommitLog, log_end: int) -> None:
        """`log_end`: the end of the log when it was recovered."""
        self._log = log
        self._log_end = log_end

    def fault_of(self, queue: ConsumeQueue) -> str:
        """What is wrong with a queue, as a text to follow its name; empty when nothing is. Raises StoreError."""
        if queue.is_light:
            return ""
        if isinstance(queue, BatchConsumeQueue):
            return self._batch_fault(queue)
        if queue.end < queue.known_end:
            return f"ends at {queue.max_offset}, and something was there up to {queue.known_end // UNIT_SIZE}"
        if queue.has_gap:
            return "has a gap, or a record that does not follow"
        for file in queue.files.files:
            for number in self._samples(queue, file):
                if not self._is_own(queue, number) and not self._is_record_rotten(queue, number):
                    return f"has a unit that is not its own: {number}"
        return ""

    def _batch_fault(self, queue: BatchConsumeQueue) -> str:
        """Like `fault_of`, for a queue whose units say themselves which messages they have."""
        if queue.end < queue.known_end or queue.max_offset < queue.tabled_max_offset:
            return f"ends at {queue.max_offset}, and something was there behind"
        if queue.has_gap:
            return "has a gap, or a record that does not follow"
        for file in queue.files.files:
            first = max(queue.start, file.start)
            last = min(queue.end, file.start + file.size) - BATCH_UNIT_SIZE
            for position in sorted({first, last}) if first <= last else ():
                (unit,) = batch_units(disk.read_at(file.path, position - file.start, BATCH_UNIT_SIZE))
                owner = self._owner(unit.physical_offset) if not unit.is_filler else None
                if owner not in (None, (queue.topic, queue.queue_id, unit.queue_offset, unit.size)):
                    return f"has a unit that is not its own: that of {unit.queue_offset}"
        newest = queue.last_unit()
        # Otherwise the next unit decides. Later messages would get numbers that messages of this record have.
        if newest is not None and not newest.is_filler \
                and newest.message_count < (self._looked(newest.physical_offset, inner_count_in) or 0):
            return f"has a unit of fewer messages than its record: that of {newest.queue_offset}"
        return ""

    @staticmethod
    def _samples(queue: ConsumeQueue, file: MappedFile) -> list[int]:
        """Queue offsets of the first and the last unit in a file that may be served."""
        first = max(queue.start, file.start)
        last = min(queue.end, file.start + file.size) - UNIT_SIZE
        return sorted({first // UNIT_SIZE, last // UNIT_SIZE}) if first <= last else []

    @staticmethod
    def _unit(queue: ConsumeQueue, number: int) -> tuple[int, int, int] | None:
        """The unit; None when it may not be served."""
        position = number * UNIT_SIZE
        file = queue.files.find(position) if queue.start <= position < queue.end else None
        if file is None:
            return None
        (unit,) = unpack_all(disk.read_at(file.path, position - file.start, UNIT_SIZE))
        return unit

    def _is_own(self, queue: ConsumeQueue, number: int) -> bool:
        """Whether the unit points at a record of this queue, or may be skipped.

        A filler has no record, nor has a unit whose record's file was deleted: reads skip both. A unit after the log's
        end is cut when the queue is opened.
        """
        unit = self._unit(queue, number)
        if unit is None or unit[1] == FILLER.size:
            return True
        owner = self._owner(unit[0])
        return owner is None or owner == (queue.topic, queue.queue_id, number, unit[1])

    def _owner(self, physical_offset: int) -> tuple[str, int, int, int] | None:
        """The owner stated by the record there, if it is one; None when the log no longer has this position."""
        return self._looked(physical_offset, lambda log_file, place: owner_in(log_file, place) or NOBODY)

    def _looked(self, physical_offset: int, look: Callable[[MappedFile, int], _Found]) -> _Found | None:
        """What `look` finds in the log there; None when the log no longer has this position."""
        log_file = self._log.files.find(physical_offset)
        if log_file is None or physical_offset >= self._log_end:
            return None
        try:
            return look(log_file, physical_offset)
        except StoreError:
            if self._log.files.find(physical_offset) is log_file:
                raise
            return None     # its file was deleted during the check

    def _is_record_rotten(self, queue: ConsumeQueue, number: int) -> bool:
        """Whether the record is damaged, and its unit is not.

        That is so if the record differs in one field, is between its neighbours in the log, and one of these has its
        own unit. A queue of few messages may have no such neighbour: then it must end where the table says.
        """
        unit = self._unit(queue, number)
        owner = self._owner(unit[0]) if unit is not None else None
        own = (queue.topic, queue.queue_id, number)
        if unit is None or owner is None or owner[3] != unit[1] \
                or sum(said != is_ for said, is_ in zip(owner, own, strict=False)) > 1:
            return False
        near = [(other, found) for other in range(number - NEAR, number + NEAR + 1)
                if other != number and (found := self._unit(queue, other)) is not None and found[1] != FILLER.size]
        if any((other < number) != (found[0] < unit[0]) or found[0] == unit[0] for other, found in near):
            return False
        if any(self._owner(found[0]) == (*own[:2], other, found[1]) for other, found in near):
            return True
        return owner[:2] == own[:2] and queue.max_offset - queue.min_offset <= NEAR \
            and queue.max_offset == queue.tabled_max_offset
