"""What the broker asks of a store. `store.file_message_store` is one; tests have one in memory."""

from collections.abc import Generator, Iterable, Iterator
from typing import Protocol

from regulus.model.java_numbers import LONG_MAX
from regulus.model.message import MessageExt
from regulus.model.message_filter import Filter
from regulus.model.store_result import Appended, GetResult, LogRead, QueryResult, QueueUnit
from regulus.record.timer_units import TimerCheck, TimerRecord, TimerSlot


class TimerBook(Protocol):
    """Where messages wait for a time of their own, by the tick at which they are due: a slot each, a chain of records.
    A slot's time is a multiple of `precision_ms`. `check` is what was known of it when it was brought to disk last."""

    precision_ms: int
    check: TimerCheck
    damage: str
    """At a start: why nothing of the book can be trusted; then it is empty, and the note a new one. Else empty."""

    @property
    def earliest_ms(self) -> int | None:
        """At a start: the first slot of what was entered behind the note; None where nothing was."""

    again: dict[int, int]
    """At a start: messages that were entered once more behind the note; the position of the last record of each."""

    def slot(self, slot_ms: int) -> TimerSlot: ...

    def chain(self, position: int, count_max: int) -> tuple[list[TimerRecord], int]:
        """Records of one slot from the one at `position` back; where the next is, or NOWHERE. Raises StoreDamaged."""

    def waiting(self) -> Iterator[TimerRecord]:
        """All that are in a slot, of each slot in the order in which they were entered; those that cannot be read are
        passed by. Proportional to the slots, and to the records from the first that waits on."""

    def last_record(self) -> TimerRecord | None:
        """The one that was entered last, of those that were not entered before."""

    def enter(self, record: TimerRecord) -> None:
        """Raises StoreNotWritable; then the message does not wait.

        Where its place in the wheel is that of a later time, which waits on a clock that was put back, both wait in
        the earlier slot: each record says its own."""

    def clear(self, slot_ms: int) -> None:
        """All records of the slot are done."""

    def put_back(self, slot: TimerSlot) -> None:
        """Let a slot be as it was."""

    def forget(self) -> None:
        """Nothing waits any more, and a start knows nothing until the next note. Raises StoreNotWritable."""

    def take(self, check: TimerCheck) -> None:
        """Note what is known now, to be brought to disk some time after the log, up to `check.log_position`."""

    def end_with(self, check: TimerCheck) -> None:
        """The same at the end of a run: the store brings it to disk when it is closed."""


class MessageStore(Protocol):
    @property
    def timers(self) -> TimerBook: ...

    def append(self, message: MessageExt, now_ms: int) -> Appended:
        """Append one record; fills in the message's offsets and store time. Never raises for what a client sent."""

    def append_batch(self, messages: Iterable[MessageExt], now_ms: int) -> Appended:
        """Append records of one queue contiguously, all or none.

        Goes through the messages twice; it may be one object each time, filled anew.
        """

    def get_message(self, topic: str, queue_id: int, queue_offset: int, count_max: int, bytes_max: int,
                    message_filter: Filter) -> GetResult:
        """Records from `queue_offset` on that the filter takes, as slices of the log, at least one."""

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset of the first message kept; 0 for an unknown queue."""

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset that the next message will get; 0 for an unknown queue."""

    def known_max_offset(self, topic: str, queue_id: int) -> int:
        """The same for many queues one after the other: none is opened for it, and one that is damaged tells, too."""

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, upper: bool = False) -> int:
        """The smallest offset with store time >= timestamp, else max; upper: the largest with store time <= it."""

    def store_timestamp(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Store time in ms of one message; -1 when it is not there."""

    def queue_units(self, topic: str, queue_id: int, queue_offset: int, count_max: int) -> list[QueueUnit]:
        """Units of the consume queue from `queue_offset` on; empty at its end."""

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether it is one of `queues`."""

    def queues(self) -> list[tuple[str, int]]:
        """All (topic, queue id) that have a consume queue."""

    def queue_ids(self, topic: str) -> list[int]:
        """Those of one topic; costs no more than it has."""

    def look_message(self, physical_offset: int) -> MessageExt | None:
        """The message whose record starts at `physical_offset`, an offset that may come from anybody.

        None when the log has no record of its own there: bytes in a message's body that look like one are none. Nor is
        one found whose queue is gone (its topic was deleted), for its queue is what vouches for a record.
        """

    def look_head(self, physical_offset: int) -> MessageExt | None:
        """The same without its body, where a unit of this store's own queues names the place: nothing else vouches for
        it, and damage of the body is not seen."""

    def is_missing(self, physical_offset: int) -> bool:
        """Whether it lies in a file of the log that is not there, and may be there again after a start."""

    def record_bytes(self, physical_offset: int) -> memoryview | None:
        """The same undecoded, to be shown and not acted on: also of a queue that is gone, which nothing vouches for."""

    def messages_holding(self, text: bytes, physical_offset: int) -> Iterator[MessageExt]:
        """Messages behind `physical_offset` whose records hold `text` anywhere, in the log's order, without bodies."""

    def messages_holding_in_steps(self, text: bytes, physical_offset: int) -> Iterator[MessageExt | None]:
        """The same for whoever must not keep others waiting: None after a few records at the latest."""

    def log_position_before(self, timestamp: int) -> int:
        """A physical offset before which no message was stored at `timestamp` or later; not too far before it."""

    def query_message(self, topic: str, key: str, count_max: int, begin: int, end: int,
                      before: int = LONG_MAX) -> QueryResult:
        """The newest records indexed under `key` (a message key or unique key) with store time in [begin, end], at
        physical offsets below `before`."""

    def query_message_in_steps(self, topic: str, key: str, count_max: int, begin: int, end: int,
                               before: int = LONG_MAX) -> Generator[None, None, QueryResult]:
        """The same, yielding after each step of a long search."""

    def keep_batches(self, topic: str) -> None:
        """The topic is one of `queue.type=BatchCQ`: of it, a record may be a batch. Raises StoreError."""

    def delete_topic(self, topic: str) -> None:
        """Drop the consume queues of a topic; the log keeps its records."""

    def commit_log_min_offset(self) -> int: ...

    def commit_log_max_offset(self) -> int: ...

    @property
    def flushed_offset(self) -> int:
        """Physical offset up to which the log is on disk."""

    def read_log(self, physical_offset: int, size_max: int, end: int) -> LogRead | None:
        """Whole records from `physical_offset` on and up to `end`, such as the flushed offset; at least one, unless it
        is `end` itself. None when no record begins there."""

    def dispatch_behind_bytes(self) -> int: ...

    def earliest_store_timestamp(self) -> int:
        """Store time of the first record of the log in ms; -1 when empty."""
