"""What the files of a store say of each other's ends: which messages some of them know of and the table cannot read.

Three files know of messages that a queue should have behind its last one that can be read:

    its own units     whose records are not in the log, which was cut short or lost its last bytes
    `regulusQueues`   the table of a Regulus broker, which says where each queue ended when it was saved
    the log           whose last records are of queues that have no units of them, or are gone altogether

and `checkpoint` says up to which store time messages were on disk. Of the log only its last LOOK_BYTES are walked.

What that means depends on how the broker left the store. A broker that stops cleanly flushes the log, gives each record
its unit, and removes the file `abort`; so in a store with `checkpoint` and without `abort` all of this must agree, and
what does not is lost. While `abort` is there the broker runs, was killed, or was copied as it ran: then the log and the
queues may each be ahead of the other, as far as a start would mend, and what disagrees is told and no loss. The same
holds for a copy without `checkpoint`, which may lack `abort` because its root was not copied. Where a broker has the
store locked nothing is compared, as all of it moves.

What does not count: a unit in whose place the log has another good record is a leftover of a queue that a start cut,
for RocketMQ does not clear those. A record in the log of a topic that was deleted has no unit; where the topic was made
anew since, that it was is known by the topic's epoch, or by a unit from before the record that says it was not.

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
from regulus.spark.store.files import CommitLogFiles, ConsumeQueueFiles, StoreFiles, is_in_use
from regulus.spark.store.log_walk import filled_end, next_record

LOOK_BYTES = 16 << 20
"""So much of the log's end is walked; a queue whose last record lies before it is compared with the table alone."""
BAD_STRETCHES_MAX = 1000
"""Of the walked part. Behind so many the rest counts as damaged."""
_WALK_ROWS = 16_384
_HASHES = 32_768
"""Room that a walk asks for, whether or not it hashes keys: half of the bytes that properties may have, and more."""
_WITH_UNIT = (TRANSACTION_NOT, TRANSACTION_COMMIT)


class Left(Enum):
    """How the broker left the store."""

    CLOSED = "closed"
    OPEN = "open"
    IN_USE = "in use"


class Missing(NamedTuple):
    """Messages [first, next) of a queue, and how they are known of. `is_loss`: or else a start may mend it."""

    first: int
    next: int
    cause: str
    is_loss: bool


class LastRecord(NamedTuple):
    """The last of a queue's in the log."""

    queue_offset: int
    physical_offset: int
    store_timestamp: int


class LogTail:
    """The last records of a log. `start`: where the walk began; `end`: where the records end."""

    def __init__(self, log: CommitLogFiles) -> None:
        self.last: dict[tuple[str, int], LastRecord] = {}
        self.last_timestamp = 0
        self.bad: list[tuple[int, int]] = []
        """From where to where there are no records between others."""
        self._doubtful = -1
        """From there on no record was found yet."""
        self._log = log
        self._walk = LogWalk((), False, False, False)
        # No numpy: planning does without.
        self._table = array("q", bytes(8 * len(FIELDS) * _WALK_ROWS))
        self._hashes = array("q", bytes(8 * _HASHES))
        self._zeros_from = filled_end(log)
        self.start = self.end = _first_record(log, max(log.start, self._zeros_from - LOOK_BYTES))
        self._read()

    def has_record_over(self, physical_offset: int) -> bool:
        """Whether a good record covers that place, as far as the walk went."""
        return physical_offset < self.end and not any(low <= physical_offset < high for low, high in self.bad)

    def _read(self) -> None:
        position = self.start
        while position < self._log.end and len(self.bad) < BAD_STRETCHES_MAX:
            position = self._read_window(position)

    def _read_window(self, position: int) -> int:
        """Where to go on; the end of the log when there is nothing more."""
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
        last = {(topic, queue_id): row for row, (topic, queue_id, flag) in enumerate(
                    zip(topics, queue_ids, flags, strict=True))
                if flag & TRANSACTION_MASK in _WITH_UNIT}
        for (topic, queue_id), row in last.items():
            self.last[names[topic], queue_id] = LastRecord(queue_offsets[row], base + positions[row], timestamps[row])

    def _column(self, name: str, rows: int) -> "array[int]":
        start = FIELDS.index(name) * _WALK_ROWS
        return self._table[start:start + rows]


class StoreEnds:
    """A store's files compared, as they are now. Raises StoreDamaged."""

    def __init__(self, store: StoreFiles) -> None:
        self._store = store
        self.left = left(store)
        self._configured = store.configured_topics()
        self._epochs = store.topic_epochs()
        self._tail: LogTail | None = None
        self._table: QueueTable | None = None
        self._firsts: dict[str, int | None] = {}
        if self.left is not Left.IN_USE and store.log.pieces:
            self._tail = LogTail(store.log)
            self._table = self._read_table(self._tail)

    def queue_ids(self, topic: str) -> set[int]:
        """The queues of which there is more to say than their own files do."""
        tabled = set(self._table.queues.get(topic, ())) if self._table is not None else set()
        logged = {queue_id for name, queue_id in self._tail.last if name == topic} if self._tail is not None else set()
        return tabled | (logged if topic in self._configured else set())

    def missing(self, queue: ConsumeQueueFiles) -> Missing | None:
        """What is known of the queue behind its last message that can be read."""
        if self._tail is None:
            return None
        low, end = queue.bounds(self._store.log)
        is_loss = self.left is Left.CLOSED
        told = [*self._by_units(self._tail, queue, end), *self._by_table(queue, end),
                *self._by_log(self._tail, queue, low, end)]
        sure = [each for each in told if each.is_loss]
        behind, cause = max(((each.next, each.cause) for each in sure or told), default=(end, ""))
        return Missing(end, behind, cause, is_loss and bool(sure)) if behind > end else None

    def doubt(self) -> str:
        """What the log's end may have lost, though no queue knows of it; empty for nothing. It is no proof: where the
        clock was set back, the last record is not the one with the latest time."""
        if self._tail is None or self.left is not Left.CLOSED or not self._tail.last_timestamp:
            return ""
        synced = self._checkpoint_time()
        if synced <= self._tail.last_timestamp:
            return ""
        return (f"{self._store.path / 'checkpoint'} says that messages stored up to {_text(synced)} were on disk, "
                f"and the log ends at {self._tail.end} with one of {_text(self._tail.last_timestamp)}: unless the "
                "clock was set back, the log has lost its end, and the queues theirs")

    # -----------------------------------------------------------------------------------------------------------------

    def _by_units(self, tail: LogTail, queue: ConsumeQueueFiles, end: int) -> Iterator[Missing]:
        for offset, unit in queue.units_behind(end):
            if not self._is_lost(tail, unit.physical_offset, unit.size):
                continue
            yield Missing(end, offset + 1, "the consume queue has units of them, and the log, which ends at "
                                           f"{tail.end}, does not have their records", True)
            return

    def _is_lost(self, tail: LogTail, place: int, size: int) -> bool:
        if place >= tail.start:
            return not tail.has_record_over(place)
        # Not walked. A record that is rotten leaves its place between others, unlike what came over a leftover.
        return not self._is_record(place) and self._is_record(place + size)

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
        last = tail.last.get((queue.topic, queue.queue_id))
        if last is None or last.queue_offset < end or queue.topic not in self._configured:
            return
        is_of_this_topic = self._was_there_before(queue.topic, last)
        yield Missing(end, last.queue_offset + 1, f"the log has them up to byte {last.physical_offset}, and the "
                                                  "consume queue has no units of them", is_of_this_topic)

    def _was_there_before(self, topic: str, record: LastRecord) -> bool:
        """Whether the record is of the topic that there is now, and not of a former one of its name."""
        epoch = self._epochs.get(topic)
        if epoch is not None:
            return record.store_timestamp >= epoch
        if topic not in self._firsts:
            self._firsts[topic] = self._first_place(topic)
        first = self._firsts[topic]
        return first is not None and first < record.physical_offset

    def _first_place(self, topic: str) -> int | None:
        """Where the first record lies that the topic's queues have."""
        places = []
        for queue in self._store.queues(topic):
            low, end = queue.bounds(self._store.log)
            if low < end:
                places.append(queue.unit(low).physical_offset)
        return min(places, default=None)

    def _read_table(self, tail: LogTail) -> QueueTable | None:
        """The table of a Regulus broker, unless another broker has used the store since: then the log goes beyond."""
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
    """How the broker left the store, as far as its files tell."""
    if is_in_use(str(store.path)):
        return Left.IN_USE
    is_closed = (store.path / "checkpoint").exists() and not (store.path / "abort").exists()
    return Left.CLOSED if is_closed else Left.OPEN


def _first_record(log: CommitLogFiles, about: int) -> int:
    """Where the first record at that place or behind it begins in its file; the file's end where none does."""
    if not log.pieces or about >= log.end or any(piece.start == about for piece in log.pieces):
        return about
    piece = log.piece_at(about)
    window = log.window(about, min(LOOK_BYTES, piece.start + piece.size - about))
    return window.start + next_record(window.data, about - window.start, len(window.data), window.start)
