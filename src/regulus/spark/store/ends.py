"""Compares the files of a store to find messages that some of them know of and the table cannot read.

Three files know of messages that a queue should have after its last one that can be read:

    its own units     whose records are not in the log, which was cut short or lost its last bytes
    `regulusQueues`   the table of a Regulus broker, which says where each queue ended when it was saved
    the log           whose last records are of queues that have no units of them, or are gone altogether

and `checkpoint` says up to which store time messages were on disk. Only the last LOOK_BYTES of the log are walked, and
around a unit whose record is not there as much again, because several rotten records may follow each other.

A queue begins with its first message that the log has, because retention removes the log's oldest files first, and
those of queues after them. So a queue lacks messages before its first one in two cases:

    in the log        a record of the queue is before that of the first unit, among the log's first LOOK_BYTES
    the log is whole  it begins at 0 and so has all messages ever stored, but the queue begins later, without fillers

The log may begin with a file that retention took out of use but could not delete, because a process was reading it. The
table of a Regulus broker says where the log begins; without it, nothing in the first of several files counts.

What a difference means depends on how the broker left the store. A stopping broker flushes the log, gives each record
its unit, and removes the file `abort`; so in a store with `checkpoint` and without `abort` all of this must agree, and
what does not is lost. While `abort` is there the broker runs, was killed, or was copied as it ran: then the log and the
queues may each be ahead of the other, as far as a start would repair, and a difference is logged but is not a loss. The
same holds for a copy without `checkpoint`, which may lack `abort` because its root was not copied. While a broker has
the store locked nothing is compared, because all files are changing.

Two differences do not count. A unit whose place in the log has another good record is a leftover of a queue that a
start of the broker cut, because RocketMQ does not clear those. A record of a deleted topic has no unit. If the topic
was created again since, its epoch shows that; a unit from before the record shows that it was not.

Source: DefaultMessageStore.shutdown, isTempFileExist, ConsumeQueue.truncateDirtyLogicFiles, StoreCheckpoint.
"""

from array import array
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from regulus.errors import CorruptRecord, DataLoss, RecordError
from regulus.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from regulus.model.timestamps import dated
from regulus.record import queue_table, store_checkpoint
from regulus.record.log_units import FIELDS, LogWalk
from regulus.record.queue_table import QueueTable
from regulus.spark.read_plan import Missing
from regulus.spark.store.files import CommitLogFiles, ConsumeQueueFiles, StoreFiles, is_in_use
from regulus.spark.store.log_walk import filled_end, next_record

LOOK_BYTES = 16 << 20
"""Bytes of the log's end that are walked. A queue whose last record is before them is compared with the table alone."""
PARTS_MAX = 4
"""Walked parts from the midst of the log that are kept. Units behind the end of a queue point into few of them."""
BAD_STRETCHES_MAX = 1000
"""Bad stretches in the walked part, after which its rest counts as damaged."""
_WALK_ROWS = 16_384
_HASHES = 32_768
"""Room for hashes that a walk needs even if it hashes no keys: more than half of the bytes that properties may have."""
_WITH_UNIT = (TRANSACTION_NOT, TRANSACTION_COMMIT)


class Left(Enum):
    """How the broker left the store."""

    CLOSED = "closed"
    OPEN = "open"
    IN_USE = "in use"


class EdgeRecord(NamedTuple):
    """The last record of a queue in the log, or the first."""

    queue_offset: int
    physical_offset: int
    store_timestamp: int


class LogPart:
    """A part of a log, from `start` on: the last record of each queue, or else the first. `end`: where records end."""

    def __init__(self, log: CommitLogFiles, start: int, limit: int, *, has_last: bool) -> None:
        self.of_queue: dict[tuple[str, int], EdgeRecord] = {}
        self.last_timestamp = 0
        self.bad: list[tuple[int, int]] = []
        """Start and end of each stretch that holds no records, with records after it."""
        self._doubtful = -1
        """Start of the present stretch without records; -1 when there is none."""
        self._log = log
        self._limit = limit
        self._has_last = has_last
        self._walk = LogWalk((), False, False, False)
        # An array instead of numpy, because planning must not need numpy.
        self._table = array("q", bytes(8 * len(FIELDS) * _WALK_ROWS))
        self._hashes = array("q", bytes(8 * _HASHES))
        self._zeros_from = filled_end(log)
        self.start = self.end = start
        self._read()

    def has_record_over(self, physical_offset: int) -> bool:
        """Whether a good record covers that place in the walked part."""
        is_walked = self.start <= physical_offset < self.end
        return is_walked and not any(low <= physical_offset < high for low, high in self.bad)

    def _read(self) -> None:
        position = self.start
        while position < self._limit and len(self.bad) < BAD_STRETCHES_MAX:
            position = self._read_window(position)

    def _read_window(self, position: int) -> int:
        """Read a window and return where the next one begins; the end of the log when there is no more."""
        try:
            piece = self._log.piece_at(position)
        except DataLoss:
            self._doubtful = position
            return self._log.next_start(position)
        piece_end = piece.start + piece.size
        window = self._log.window(position, min(LOOK_BYTES, piece_end - position))
        within = position - window.start
        rows = self._walk.walk(memoryview(window.data), window.data, within, len(window.data), window.start,
                               memoryview(self._table), _WALK_ROWS, memoryview(self._hashes))
        reached = window.start + self._walk.position
        if rows:
            self._take(rows, window.start, reached)
        if self._walk.is_blank:
            return piece_end
        if self._walk.fault is None or reached > position:
            return reached
        self._doubtful = position
        limit = max(within, min(len(window.data), self._zeros_from - window.start))
        found = next_record(window.data, within + 1, limit, window.start)
        return window.start + found if found < limit else piece_end

    def _take(self, rows: int, base: int, reached: int) -> None:
        positions, topics, queue_ids, queue_offsets, flags, timestamps = (
            self._column(name, rows) for name in ("position", "topic", "queue_id", "queue_offset", "sys_flag",
                                                  "store_timestamp"))
        if self._doubtful >= 0:
            self.bad.append((self._doubtful, base + positions[0]))
            self._doubtful = -1
        self.end = reached
        self.last_timestamp = timestamps[-1]
        names = [name.decode("utf-8", "replace") for name in self._walk.topics]
        towards_edge = range(rows) if self._has_last else range(rows - 1, -1, -1)
        last = {(topics[row], queue_ids[row]): row for row in towards_edge
                if flags[row] & TRANSACTION_MASK in _WITH_UNIT}
        for (topic, queue_id), row in last.items():
            found = EdgeRecord(queue_offsets[row], base + positions[row], timestamps[row])
            known = self.of_queue.setdefault((names[topic], queue_id), found)
            if known is not found and self._has_last:
                self.of_queue[names[topic], queue_id] = found

    def _column(self, name: str, rows: int) -> "array[int]":
        start = FIELDS.index(name) * _WALK_ROWS
        return self._table[start:start + rows]


class LogTail(LogPart):
    """The last records of a log."""

    def __init__(self, log: CommitLogFiles) -> None:
        start = _first_record(log, max(log.start, filled_end(log) - LOOK_BYTES))
        super().__init__(log, start, log.end, has_last=True)


class StoreEnds:
    """Compares the files of a store in their present state. Raises StoreDamaged."""

    def __init__(self, store: StoreFiles) -> None:
        self._store = store
        self.left = left(store)
        self._configured = store.configured_topics()
        self._epochs = store.topic_epochs()
        self._tail: LogTail | None = None
        self._table: QueueTable | None = None
        self._firsts: dict[str, int | None] = {}
        self._head: LogPart | None = None
        self._parts: dict[int, LogPart] = {}
        """Parts in the midst of the log, by number; the last PARTS_MAX that were used."""
        if self.left is not Left.IN_USE and store.log.pieces:
            self._tail = LogTail(store.log)
            self._table = self._read_table(self._tail)

    def queue_ids(self, topic: str) -> set[int]:
        """The topic's queues that the table or the log knows, with or without files of their own."""
        tabled = set(self._table.queues.get(topic, ())) if self._table is not None else set()
        logged = self._tail.of_queue if self._tail is not None and topic in self._configured else {}
        return tabled | {queue_id for name, queue_id in logged if name == topic}

    def missing(self, queue: ConsumeQueueFiles) -> Missing | None:
        """Messages that are missing after the queue's last one that can be read; None when none is known."""
        if self._tail is None:
            return None
        low, end = queue.bounds(self._store.log)
        is_loss = self.left is Left.CLOSED
        told = [*self._by_units(self._tail, queue, end), *self._by_table(queue, end),
                *self._by_log(self._tail, queue, low, end)]
        sure = [each for each in told if each.is_loss]
        behind, cause = max(((each.next, each.cause) for each in sure or told), default=(end, ""))
        return Missing(end, behind, cause, is_loss and bool(sure)) if behind > end else None

    def missing_before(self, queue: ConsumeQueueFiles) -> Missing | None:
        """Messages that are missing before the queue's first one that can be read; None when none is known."""
        low, end = queue.bounds(self._store.log)
        if self._tail is None or low == 0 or queue.topic not in self._configured:
            return None
        first, cause = self._first_before(queue, low, queue.unit(low).physical_offset if low < end else self._tail.end)
        return Missing(first, low, cause, self.left is Left.CLOSED) if first < low else None

    def doubt(self) -> str:
        """The sign that the log has lost its end, though no queue knows of it; empty for none. It is not a proof: if
        the clock was set back, the last record is not the one with the latest time."""
        if self._tail is None or self.left is not Left.CLOSED or not self._tail.last_timestamp:
            return ""
        synced = self._checkpoint_time()
        if synced <= self._tail.last_timestamp:
            return ""
        return (f"{self._store.path / 'checkpoint'} says that messages stored up to {_text(synced)} were on disk, "
                f"and the log ends at {self._tail.end} with one of {_text(self._tail.last_timestamp)}: unless the "
                "clock was set back, the log has lost its end, and the queues theirs")

    # -----------------------------------------------------------------------------------------------------------------

    def _first_before(self, queue: ConsumeQueueFiles, low: int, place: int) -> tuple[int, str]:
        """The first missing message before `low`, and the cause. The record of `low` is at `place`.

        The result is `low` when no missing message is known.
        """
        begin = self._log_begin()
        if self._head is None:
            self._head = LogPart(self._store.log, begin, min(begin + LOOK_BYTES, self._store.log.end), has_last=False)
        record = self._head.of_queue.get((queue.topic, queue.queue_id))
        if record is not None and record.physical_offset < place:
            # A topic that was created again since began with 0, after this record.
            first = record.queue_offset if self._is_of_this_topic(queue, record) else 0
            if first < low:
                return first, (f"the log has them from byte {record.physical_offset} on, and the consume queue has no "
                               "units of them")
        if begin == 0 and not queue.begins_with_filler():
            return 0, "the log has all messages since its first one, and the consume queue has no units of them"
        return low, ""

    def _is_of_this_topic(self, queue: ConsumeQueueFiles, record: EdgeRecord) -> bool:
        born = self._table.births.get((queue.topic, queue.queue_id), 0) if self._table is not None else 0
        return record.physical_offset >= born and record.store_timestamp >= self._epochs.get(queue.topic, 0)

    def _log_begin(self) -> int:
        """The position from which on the log surely has everything that retention has left."""
        pieces = self._store.log.pieces
        if self._table is not None and self._table.log_start != queue_table.UNKNOWN_START:
            return max(pieces[0].start, self._table.log_start)
        return pieces[1].start if len(pieces) > 1 else pieces[0].start

    def _by_units(self, tail: LogTail, queue: ConsumeQueueFiles, end: int) -> Iterator[Missing]:
        for offset, unit in queue.units_behind(end):
            if not self._is_lost(tail, unit.physical_offset):
                continue
            yield Missing(end, offset + 1, "the consume queue has units of them, and the log, which ends at "
                                           f"{tail.end}, does not have their records", True)
            return

    def _is_lost(self, tail: LogTail, place: int) -> bool:
        if place >= tail.start:
            return not tail.has_record_over(place)
        # Most leftovers of a queue that was cut have the beginning of another record at their place.
        return not self._is_record(place) and not self._part_with(place).has_record_over(place)

    def _part_with(self, place: int) -> LogPart:
        """A walked part of the log with that place, from so far before it that a record over it begins there, too."""
        number = place // LOOK_BYTES
        part = self._parts.pop(number, None)
        if part is None:
            log = self._store.log
            start = _first_record(log, max(log.start, (number - 1) * LOOK_BYTES))
            part = LogPart(log, start, min(log.end, (number + 1) * LOOK_BYTES), has_last=True)
        self._parts[number] = part
        if len(self._parts) > PARTS_MAX:
            del self._parts[next(iter(self._parts))]
        return part

    def _is_record(self, physical_offset: int) -> bool:
        try:
            return self._store.log.tells_its_place(physical_offset)
        except (RecordError, DataLoss):
            return False

    def _by_table(self, queue: ConsumeQueueFiles, end: int) -> Iterator[Missing]:
        text = self._table.queues.get(queue.topic, {}).get(queue.queue_id) if self._table is not None else None
        behind = queue_table.bounds(text)[1] if text is not None else end
        if behind > end:
            yield Missing(end, behind, "the log or the consume queue ends before them, and the store's file "
                                       f"{queue_table.FILE_NAME} says that the queue has messages up to {behind - 1}",
                          True)

    def _by_log(self, tail: LogTail, queue: ConsumeQueueFiles, low: int, end: int) -> Iterator[Missing]:
        last = tail.of_queue.get((queue.topic, queue.queue_id))
        if last is None or last.queue_offset < end or queue.topic not in self._configured:
            return
        is_of_this_topic = self._was_there_before(queue.topic, last)
        yield Missing(end, last.queue_offset + 1, f"the log has them up to byte {last.physical_offset}, and the "
                                                  "consume queue has no units of them", is_of_this_topic)

    def _was_there_before(self, topic: str, record: EdgeRecord) -> bool:
        """Whether the record is of the topic that there is now, and not of a former one of its name."""
        epoch = self._epochs.get(topic)
        if epoch is not None:
            return record.store_timestamp >= epoch
        if topic not in self._firsts:
            self._firsts[topic] = self._first_place(topic)
        first = self._firsts[topic]
        return first is not None and first < record.physical_offset

    def _first_place(self, topic: str) -> int | None:
        """The physical offset of the first record in the topic's queues."""
        places = []
        for queue in self._store.queues(topic):
            low, end = queue.bounds(self._store.log)
            if low < end:
                places.append(queue.unit(low).physical_offset)
        return min(places, default=None)

    def _read_table(self, tail: LogTail) -> QueueTable | None:
        """The table of a Regulus broker; None when the log is longer, so that another broker has used the store."""
        try:
            table = queue_table.decode((self._store.path / queue_table.FILE_NAME).read_bytes())
        except (FileNotFoundError, CorruptRecord):
            return None
        return table if tail.end <= table.position else None

    def _checkpoint_time(self) -> int:
        try:
            return store_checkpoint.decode((self._store.path / "checkpoint").read_bytes()).physic_msg_timestamp
        except (FileNotFoundError, RecordError):
            return 0


def _text(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(dated(timestamp_ms) / 1000, UTC).isoformat(timespec="milliseconds")


def left(store: StoreFiles) -> Left:
    """How the broker left the store, judged by its files."""
    if is_in_use(str(store.path)):
        return Left.IN_USE
    is_closed = (store.path / "checkpoint").exists() and not (store.path / "abort").exists()
    return Left.CLOSED if is_closed else Left.OPEN


def _first_record(log: CommitLogFiles, about: int) -> int:
    """The start of the first record at or after that place in its file; the file's end when there is none."""
    if not log.pieces or about >= log.end or any(piece.start == about for piece in log.pieces):
        return about
    piece = log.piece_at(about)
    window = log.window(about, min(LOOK_BYTES, piece.start + piece.size - about))
    return window.start + next_record(window.data, about - window.start, len(window.data), window.start)
