"""Reads of a topic of `queue.type=BatchCQ`: whole records, from the one that contains the requested message on.

Source: DefaultMessageStore.getMessage.
"""

from regulus.errors import StoreDamaged
from regulus.model.message_filter import LOOKED_MAX, Filter
from regulus.model.store_result import GetResult, GetStatus
from regulus.record import layout
from regulus.record.batch_unit import UNIT_SIZE, BatchUnit
from regulus.record.named_properties import UNREADABLE, read_named
from regulus.store.batch_consume_queue import BatchConsumeQueue
from regulus.store.commit_log import LOOK_COST, CommitLog, damage, judge

_MAGICS = (layout.MAGIC_V1 & 0xFFFFFFFF, layout.MAGIC_V2 & 0xFFFFFFFF)


def read_batches(log: CommitLog, queue: BatchConsumeQueue, queue_offset: int, count_max: int, bytes_max: int,
                 message_filter: Filter, scan_max: int) -> GetResult:
    """Like `CommitLog.read_queue`, but `count_max` and the counts are of messages, of which a record may have many. The
    first record is returned even if it has more than `count_max`."""
    low, high = queue.min_offset, queue.max_offset
    status, offset = judge(queue_offset, low, high)
    if status is not GetStatus.FOUND:
        return GetResult(status, offset, low, high, [], 0, 0)
    status = GetStatus.OFFSET_FOUND_NULL
    buffers: list[bytes | memoryview] = []
    count = size_sum = looked = 0
    values: list[str | None] = [None] * len(message_filter.names)
    for unit, behind in queue.batch_units(offset, max(scan_max, count_max * UNIT_SIZE)):
        if status is GetStatus.OFFSET_FOUND_NULL:
            status = GetStatus.NO_MATCHED_MESSAGE
        # A unit that the filter rejects is not compared with its record, but still determines where to continue.
        if not offset < unit.next_offset <= behind:
            if count:
                break
            physical_offset = unit.physical_offset
            raise StoreDamaged(damage(log.find(physical_offset), physical_offset, queue, offset,
                                      behind if behind < high else offset + 1))
        if not unit.is_filler and message_filter.takes(unit.tags_code):
            if count and (count + unit.message_count > count_max or size_sum + unit.size > bytes_max):
                break
            data = _record(log, queue, unit, is_first=not count)
            if data is None and count:
                break
            matches = data is not None
            if data is not None and message_filter.reads_properties:
                if looked >= LOOKED_MAX:
                    break
                length = read_named(data, 0, unit.size, message_filter.names, values)
                matches = length != UNREADABLE and message_filter.matches(values)
                looked += message_filter.weight * (LOOK_COST + max(length, 0))
            if data is None:
                status = GetStatus.MESSAGE_WAS_REMOVING
            elif matches:
                buffers.append(data)
                count += unit.message_count
                size_sum += unit.size
        offset = unit.next_offset
        if count >= count_max:
            break
    if status is GetStatus.OFFSET_FOUND_NULL:
        offset = high
    return GetResult(GetStatus.FOUND if count else status, offset, low, high, buffers, count, size_sum, looked)


def _record(log: CommitLog, queue: BatchConsumeQueue, unit: BatchUnit, *, is_first: bool) -> memoryview | None:
    """The record of a unit; None if there is none. Raises StoreDamaged for the first record of a read, unless the
    deletion of old files explains that."""
    physical_offset = unit.physical_offset
    data = log.slice(physical_offset, unit.size) if unit.size >= layout.FIXED_SIZE_V1 else None
    if data is not None and _is_own(data, unit, queue) and physical_offset not in log.rotten:
        return data
    is_gone = log.find(physical_offset) is None and 0 <= physical_offset < log.start
    if is_first and not is_gone:
        if log.lacks(physical_offset):
            raise StoreDamaged(log.lack(physical_offset, queue, unit.queue_offset))
        raise StoreDamaged(damage(log.find(physical_offset), physical_offset, queue, unit.queue_offset,
                                  unit.next_offset))
    return None


def _is_own(data: memoryview, unit: BatchUnit, queue: BatchConsumeQueue) -> bool:
    """Whether the record's head agrees with its unit."""
    def number(position: int, size: int) -> int:
        return int.from_bytes(data[position:position + size], "big")
    return (number(layout.TOTAL_SIZE, 4) == unit.size and number(layout.MAGIC, 4) in _MAGICS
            and number(layout.PHYSICAL_OFFSET, 8) == unit.physical_offset
            and number(layout.QUEUE_OFFSET, 8) == unit.queue_offset
            and number(layout.QUEUE_ID, 4) == queue.queue_id)
