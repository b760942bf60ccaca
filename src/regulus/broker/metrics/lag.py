"""How far a group is behind in a topic: arithmetic over the queues of one pair of them.

`lag` is what is not committed, `inflight` what was pulled of it, `ready` the rest. Of a topic that a group pops, the
offset is behind what was handed out, and what is out is `inflight`. A queue without a committed offset is not behind:
RocketMQ has no number for what a group never began.

Source: ConsumerLagCalculator.
"""

from collections.abc import Collection
from dataclasses import dataclass

from regulus.broker.groups.consumer_offsets import NOT_FOUND, ConsumerOffsets
from regulus.broker.message_store import MessageStore
from regulus.broker.topic_epochs import TopicEpochs
from regulus.errors import StoreError
from regulus.model.message_filter import Filter

FILTERED_UNITS_MAX = 1_000
"""Units of a queue that are looked at for the tags of a group; what is beyond them is taken to be like them."""
TIMES_KEPT_MAX = 200_000
"""Store times of messages that are kept from one page to the next: a group that does not move is read once."""


@dataclass(slots=True)
class Lag:
    """`oldest_ms` and `unpulled_ms`: when the first message was stored that is not committed, or not pulled; 0 without
    one."""

    lag: int = 0
    inflight: int = 0
    ready: int = 0
    oldest_ms: int = 0
    unpulled_ms: int = 0

    def add(self, lag: int, inflight: int, oldest_ms: int, unpulled_ms: int) -> None:
        self.lag += lag
        self.inflight += inflight
        self.ready += lag - inflight
        self.oldest_ms = earlier(self.oldest_ms, oldest_ms)
        self.unpulled_ms = earlier(self.unpulled_ms, unpulled_ms)


def earlier(first_ms: int, second_ms: int) -> int:
    """The earlier one of two times, each of which may be 0 for none."""
    return min(first_ms, second_ms) if first_ms and second_ms else first_ms or second_ms


class StoreTimes:
    """When messages were stored, by queue and offset. `turn` begins a page: what the last one did not ask is forgotten.

    The epoch of a topic is part of the key: a new topic of the same name has other messages at the same offsets.
    """

    def __init__(self, store: MessageStore, epochs: TopicEpochs) -> None:
        self._store = store
        self._epochs = epochs
        self._known: dict[tuple[str, int, int, int], int] = {}
        self._before: dict[tuple[str, int, int, int], int] = {}

    def turn(self) -> None:
        self._before, self._known = self._known, {}

    def of(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """0 where the message is gone or cannot be read."""
        key = (topic, self._epochs.of(topic), queue_id, queue_offset)
        known = self._known.get(key) or self._before.get(key)
        if known is None:
            try:
                known = max(0, self._store.store_timestamp(topic, queue_id, queue_offset))
            except StoreError:
                known = 0
        if len(self._known) < TIMES_KEPT_MAX:
            self._known[key] = known
        return known


class LagLooker:
    """Looks at queues. `steps` counts units of work, so that the caller knows when to pause."""

    def __init__(self, store: MessageStore, offsets: ConsumerOffsets, epochs: TopicEpochs) -> None:
        self.steps = 0
        self.times = StoreTimes(store, epochs)
        self._store = store
        self._offsets = offsets

    def pulled(self, group: str, topic: str, queue_ids: Collection[int], wanted: Filter) -> Lag:
        """The lag of a group that pulls. `wanted`: messages of other tags do not count."""
        told = Lag()
        for queue_id in queue_ids:
            self.steps += 1
            committed = self._offsets.query(group, topic, queue_id)
            if committed == NOT_FOUND:
                continue
            end = max(committed, self._store.known_max_offset(topic, queue_id))
            pulled = min(max(committed, self._offsets.pulls.of(group, topic, queue_id)), end)
            if committed == end:
                continue
            inflight = self._count(topic, queue_id, committed, pulled, wanted)
            ready = self._count(topic, queue_id, pulled, end, wanted)
            told.add(inflight + ready, inflight, self._time(topic, queue_id, committed, end),
                     self._time(topic, queue_id, pulled, end))
        return told

    def popped(self, group: str, topic: str, queue_ids: Collection[int], out: int, out_since_ms: int) -> Lag:
        """The lag of a group that pops. `out`: messages that it has and did not acknowledge, the first one since
        `out_since_ms`."""
        told = Lag()
        for queue_id in queue_ids:
            self.steps += 1
            committed = self._offsets.query(group, topic, queue_id)
            end = self._store.known_max_offset(topic, queue_id)
            if committed != NOT_FOUND and committed < end:
                unpulled_ms = self._time(topic, queue_id, committed, end)
                told.add(end - committed, 0, unpulled_ms, unpulled_ms)
        told.add(out, out, out_since_ms, 0)
        return told

    def _time(self, topic: str, queue_id: int, queue_offset: int, end: int) -> int:
        if queue_offset >= end:
            return 0
        self.steps += 4
        return self.times.of(topic, queue_id, max(queue_offset, self._store.min_offset(topic, queue_id)))

    def _count(self, topic: str, queue_id: int, begin: int, end: int, wanted: Filter) -> int:
        if wanted.tags_codes is None or begin >= end:
            return end - begin
        try:
            units = self._store.queue_units(topic, queue_id, begin, min(end - begin, FILTERED_UNITS_MAX))
        except StoreError:
            return end - begin
        self.steps += len(units) // 4
        if not units:
            return end - begin
        taken = sum([wanted.takes(unit.tags_code) for unit in units])
        looked = units[-1].queue_offset + 1 - begin
        return taken if looked >= end - begin else taken * (end - begin) // looked
