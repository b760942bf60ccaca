"""Decides which queue a row goes to, and which number it has there.

Both depend on the row alone, so that a task that is tried again sends the same rows to the same places under the same
numbers. A lane is what one task sends to one queue. Its rows are numbered from 0 without gaps, whatever the size of the
Arrow batches that they came in. Rows that do not name a queue or key go to the queues in turn, in runs of
ROWS_PER_TURN; tasks and batches start at different queues.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from regulus.errors import RowRefused
from regulus.model.java_hash import java_hash
from regulus.model.message_queue import MessageQueue
from regulus.spark.sink.rows import Rows

ROWS_PER_TURN = 512

QueuesOf = Callable[[str], Sequence[MessageQueue]]


@dataclass(slots=True)
class Lane:
    """What one task sends to one queue. `next_row` numbers the next row, and `digest` is that of the rows before it.

    `rows_stored` is the number of rows that the broker has from all attempts, according to its answers.
    """

    queue: MessageQueue
    next_row: int = 0
    digest: int = 0
    rows_stored: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """Rows `start` to `end` of some Rows: neighbours that go to one lane with one delay level."""

    lane: Lane
    start: int
    end: int
    delay_level: int


class Lanes:
    """The lanes of one task. `queues_of` gives a topic's queues, always the same ones."""

    def __init__(self, *, partition: int, batch: int, topic: str | None, queues_of: QueuesOf) -> None:
        self._partition = partition
        self._first_turn = partition + batch
        self._topic = topic
        self._queues_of = queues_of
        self._lanes: list[Lane] = []
        self._first_of_topic: dict[str, int] = {}

    def runs(self, rows: Rows) -> tuple[Rows, Iterator[Run]]:
        """The rows, reordered where that makes longer runs, and the runs in the order in which to send them.

        Raises RowRefused for a row that names a queue that does not exist, and the errors of `queues_of`.
        """
        numbers = self._lane_numbers(rows)
        if rows.topics is not None or rows.sharding_keys is not None or rows.queue_ids is not None:
            order = np.argsort(numbers, kind="stable")
            rows, numbers = rows.take(order), numbers[order]
        return rows, self._cut(numbers, rows.delay_levels)

    def used(self) -> list[Lane]:
        """The lanes that have rows."""
        return [lane for lane in self._lanes if lane.next_row > 0]

    def _cut(self, numbers: Any, delay_levels: Any | None) -> Iterator[Run]:
        keys = numbers if delay_levels is None else numbers * (1 << 32) + delay_levels
        starts = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist()] if len(keys) else []
        for start, end in zip(starts, [*starts[1:], len(keys)], strict=True):
            level = 0 if delay_levels is None else int(delay_levels[start])
            yield Run(self._lanes[int(numbers[start])], start, end, level)

    def _lane_numbers(self, rows: Rows) -> Any:
        if rows.topics is None:
            assert self._topic is not None
            return self._of_topic(self._topic, rows, np.arange(len(rows)))
        numbers = np.zeros(len(rows), dtype=np.int64)
        codes, topics = _uniques(rows.topics)
        for code, topic in enumerate(topics):
            chosen = np.flatnonzero(codes == code)
            numbers[chosen] = self._of_topic(topic, rows, chosen)
        return numbers

    def _of_topic(self, topic: str, rows: Rows, chosen: Any) -> Any:
        """Lane numbers of the rows at the positions `chosen`, which all go to one topic."""
        queues = self._queues_of(topic)
        first = self._first_of_topic.get(topic)
        if first is None:
            first = self._first_of_topic[topic] = len(self._lanes)
            self._lanes += [Lane(queue) for queue in queues]
        places = ((rows.first_row + chosen) // ROWS_PER_TURN + self._first_turn) % len(queues)
        if rows.sharding_keys is not None:
            places = _by_key(places, rows.sharding_keys.take(chosen), len(queues))
        if rows.queue_ids is not None:
            places = self._by_queue_id(places, rows, chosen, queues)
        return places + first

    def _by_queue_id(self, places: Any, rows: Rows, chosen: Any, queues: Sequence[MessageQueue]) -> Any:
        assert rows.queue_ids is not None
        wanted = rows.queue_ids[chosen]
        for queue_id in np.unique(wanted[wanted >= 0]).tolist():
            same = [place for place, queue in enumerate(queues) if queue.queue_id == queue_id]
            if not same:
                row = rows.first_row + int(chosen[np.flatnonzero(wanted == queue_id)[0]])
                known = sorted({queue.queue_id for queue in queues})
                raise RowRefused(f"row {row} of task {self._partition} names queue {queue_id}; topic "
                                 f"{queues[0].topic} has {known[0]} to {known[-1]}")
            places = np.where(wanted == queue_id, same[self._partition % len(same)], places)
        return places


def _by_key(places: Any, keys: Any, count: int) -> Any:
    """Set the queue of each sharding key: the one that Java's SelectMessageQueueByHash chooses."""
    codes, texts = _uniques(keys)
    chosen = np.array([abs(java_hash(text)) % count for text in texts] + [0], dtype=np.int64)[codes]
    return np.where(codes < 0, places, chosen)


def _uniques(texts: Any) -> tuple[Any, list[str]]:
    """For each text the number of its distinct value, -1 for null; and the distinct texts by number."""
    encoded = texts.dictionary_encode()
    return np.asarray(pc.fill_null(encoded.indices, -1)), encoded.dictionary.to_pylist()
