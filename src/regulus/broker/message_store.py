"""The store as the broker needs it. `store.file_message_store` implements it; tests have one in memory."""

from collections.abc import Generator, Iterable, Iterator
from typing import Protocol

from regulus.model.java_numbers import LONG_MAX
from regulus.model.message import MessageExt
from regulus.model.message_filter import Filter
from regulus.model.store_result import Appended, GetResult, LogRead, QueryResult, QueueUnit
from regulus.record.timer_units import TimerCheck, TimerRecord, TimerSlot


class TimerBook(Protocol):
    """Messages that wait for a time of their own, in slots by the tick at which they are due.

    A slot is a chain of records. Its time is a multiple of `precision_ms`. `check` is the note that was last brought to
    disk.
    """

    precision_ms: int
    check: TimerCheck
    damage: str
    """At a start: why nothing of the book can be trusted; the book is then empty, and the note a new one. Otherwise
    empty."""

    @property
    def earliest_ms(self) -> int | None:
        """At a start: the first slot of the records that were entered after the note; None if there are none."""

    again: dict[int, int]
    """At a start: messages that were entered again after the note, with the position of the last record of each."""

    def slot(self, slot_ms: int) -> TimerSlot: ...

    def chain(self, position: int, count_max: int) -> tuple[list[TimerRecord], int]:
        """Records of one slot, backwards from the one at `position`, and the position of the next or NOWHERE. Raises
        StoreDamaged."""

    def waiting(self) -> Iterator[TimerRecord]:
        """All records in slots, those of each slot in the order of entry. Unreadable records are skipped. Cost is
        proportional to the slots, and to the records from the first that still waits."""

    def last_record(self) -> TimerRecord | None:
        """The record that was entered last, not counting those that were entered again."""

    def enter(self, record: TimerRecord) -> None:
        """Raises StoreNotWritable; then the message does not wait.

        If its place in the wheel is in use for a later time, because the clock was set back, both wait in the earlier
        slot: each record has its own time.
        """

    def clear(self, slot_ms: int) -> None:
        """Mark all records of the slot as done."""

    def put_back(self, slot: TimerSlot) -> None:
        """Restore a slot to an earlier state."""

    def forget(self) -> None:
        """Drop everything that waits; a start knows nothing until the next note. Raises StoreNotWritable."""

    def take(self, check: TimerCheck) -> None:
        """Note the current state. It is brought to disk some time after the log is, up to `check.log_position`."""

    def end_with(self, check: TimerCheck) -> None:
        """Note the state at the end of a run; the store brings it to disk when it closes."""


class MessageStore(Protocol):
    @property
    def timers(self) -> TimerBook: ...

    def append(self, message: MessageExt, now_ms: int) -> Appended:
        """Append one record; fills in the message's offsets and store time. Never raises because of what a client
        sent."""

    def append_batch(self, messages: Iterable[MessageExt], now_ms: int) -> Appended:
        """Append records of one queue contiguously, all or none.

        Iterates over the messages twice. They may be one object, filled again for each iteration step.
        """

    def get_message(self, topic: str, queue_id: int, queue_offset: int, count_max: int, bytes_max: int,
                    message_filter: Filter) -> GetResult:
        """Records from `queue_offset` on that the filter accepts, as slices of the log. At least one if there is any,
        even if it is larger than `bytes_max`."""

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset of the first message that is kept; 0 for an unknown queue."""

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset that the next message will get; 0 for an unknown queue."""

    def known_max_offset(self, topic: str, queue_id: int) -> int:
        """Like `max_offset`, but opens no queue, so that it suits many queues; works for a damaged queue too."""

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, upper: bool = False) -> int:
        """The smallest offset with store time >= timestamp, else max; `upper`: the largest with store time <=
        timestamp."""

    def store_timestamp(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Store time in ms of one message; -1 when there is none."""

    def queue_units(self, topic: str, queue_id: int, queue_offset: int, count_max: int) -> list[QueueUnit]:
        """Units of the consume queue from `queue_offset` on; empty at its end."""

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether the queue is one of `queues`."""

    def queues(self) -> list[tuple[str, int]]:
        """All (topic, queue id) that have a consume queue."""

    def queue_ids(self, topic: str) -> list[int]:
        """Queue ids of one topic. Cost is proportional to their number."""

    def look_message(self, physical_offset: int) -> MessageExt | None:
        """The message whose record starts at `physical_offset`, which may be any number from a client.

        None when no record begins there: bytes in a message's body that look like a record do not count. None also when
        its queue no longer exists because the topic was deleted: only the queue proves that a record is one.
        """

    def look_head(self, physical_offset: int) -> MessageExt | None:
        """Like `look_message`, but without the body, for a place from a unit of this store's own queues. Nothing else
        proves that there is a record, and damage of the body is not noticed."""

    def is_missing(self, physical_offset: int) -> bool:
        """Whether the offset is in a missing file of the log, which may be restored before another start."""

    def record_bytes(self, physical_offset: int) -> memoryview | None:
        """The encoded record, to be shown and not acted on: it is returned without a queue that proves it."""

    def messages_holding(self, text: bytes, physical_offset: int) -> Iterator[MessageExt]:
        """Messages from `physical_offset` on whose records contain `text` anywhere, in the log's order, without
        bodies."""

    def messages_holding_in_steps(self, text: bytes, physical_offset: int) -> Iterator[MessageExt | None]:
        """Like `messages_holding`, but yields None at the latest after a few records, so that the caller can pause."""

    def log_position_before(self, timestamp: int) -> int:
        """A physical offset before which no message was stored at `timestamp` or later, and not far before that
        point."""

    def query_message(self, topic: str, key: str, count_max: int, begin: int, end: int,
                      before: int = LONG_MAX) -> QueryResult:
        """The newest records indexed under `key` (a message key or unique key), with store time in [begin, end] in ms
        and at physical offsets below `before`."""

    def query_message_in_steps(self, topic: str, key: str, count_max: int, begin: int, end: int,
                               before: int = LONG_MAX) -> Generator[None, None, QueryResult]:
        """Like `query_message`, but yields after each step of a long search."""

    def keep_batches(self, topic: str) -> None:
        """Declare the topic to be one of `queue.type=BatchCQ`, so that a record may be a batch. Raises StoreError."""

    def delete_topic(self, topic: str) -> None:
        """Delete the consume queues of a topic; the log keeps its records."""

    def commit_log_min_offset(self) -> int: ...

    def commit_log_max_offset(self) -> int: ...

    @property
    def flushed_offset(self) -> int:
        """Physical offset up to which the log is on disk."""

    def read_log(self, physical_offset: int, size_max: int, end: int) -> LogRead | None:
        """Whole records from `physical_offset` up to `end`, such as the flushed offset; at least one, unless it equals
        `end`. None when no record begins there."""

    def dispatch_behind_bytes(self) -> int: ...

    def earliest_store_timestamp(self) -> int:
        """Store time in ms of the first record of the log; -1 when the log is empty."""
