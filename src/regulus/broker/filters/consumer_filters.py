"""Keeps the SQL92 conditions of groups and their times in consumerFilter.json, as RocketMQ does.

The document is not used for filtering: a pull's condition comes from the group's live subscription, or with the pull.
RocketMQ reads it at a start to know from which time on the bit maps of its messages cover a group, and operators can
see it. A filter is dead when its group has no consumer any more, or no longer subscribes to the topic; it is forgotten
a day later.

Source: ConsumerFilterManager, DefaultConsumerIdsChangeListener.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace

from regulus.broker.config import BrokerConfig
from regulus.broker.filters.message_filter import expression_filter
from regulus.errors import HeaderError
from regulus.model.happenings import Happenings
from regulus.model.topics import name_fault
from regulus.record.bloom_positions import bloom_positions
from regulus.wire import encoded_table
from regulus.wire.bodies import SubscriptionData
from regulus.wire.bodies.consumer_filter_data import (
    BloomFilterData,
    ConsumerFilterData,
    ConsumerFilterWrapper,
    TopicFilters,
)
from regulus.wire.bodies.subscription_data import SQL92
from regulus.wire.encoded_table import EncodedTable, Pieces

FILTERS_SIZE_MAX = 2_000_000
"""Characters of all filters, with the names of their groups and topics. Filters beyond the limit work, and are not
saved."""
TOPIC_FILTERS_MAX = 1_000
"""Filters of one topic, which are encoded in one step."""
FORGOTTEN_MAX = 100
"""Dead filters forgotten in one tick."""
SILENCE_MS = 30_000
"""Time in ms before a start at which all consumers count as having left, as in RocketMQ."""
NOT_KEPT = (f"SQL92 filters that work but are not saved, because consumerFilter.json takes at most {FILTERS_SIZE_MAX} "
            f"characters and {TOPIC_FILTERS_MAX} groups of a topic")

_KEY = "filterDataByTopic"


class ConsumerFilters:
    """Filters by topic and group. `now_ms` is the time of the start; `faults` has what operators should correct."""

    def __init__(self, config: BrokerConfig, now_ms: int) -> None:
        self.config = config
        self.changes = 0
        self.faults = Happenings()
        self._start_ms = now_ms
        self._topics: dict[str, TopicFilters] = {}
        self._groups: dict[str, dict[str, None]] = {}       # the topics of each group
        self._dead: dict[tuple[str, str], int] = {}         # topic and group, in the order in which they died
        self._size = 0
        self.encoded = EncodedTable(self._topics, _write)

    def find(self, topic: str, group: str) -> ConsumerFilterData | None:
        filters = self._topics.get(topic)
        return filters.group_filter_data.get(group) if filters is not None else None

    def hear(self, group: str, subscriptions: Sequence[SubscriptionData], now_ms: int) -> Generator[None, None, None]:
        """Take over all subscriptions of a group from a heartbeat. Yields after each condition that had to be
        compiled."""
        for subscription in subscriptions:
            if subscription.expression_type == SQL92 and self._register(group, subscription, now_ms):
                yield
        if group in self._groups:
            topics = {subscription.topic for subscription in subscriptions}
            self._let_die(group, [topic for topic in self._groups[group] if topic not in topics], now_ms)

    def group_left(self, group: str, now_ms: int) -> None:
        """Note that the group has no consumer any more."""
        self._let_die(group, list(self._groups.get(group, ())), now_ms)

    def tick(self, now_ms: int) -> int | None:
        """Forget filters that were dead long enough. Returns ms until the next call; None when none is dead."""
        for _ in range(FORGOTTEN_MAX):
            if not self._dead:
                return None
            (topic, group), dead_time = next(iter(self._dead.items()))
            wait_ms = dead_time + self.config.filter_data_clean_time_span - now_ms
            if wait_ms > 0:
                return wait_ms
            self._forget(topic, group)
        return 0

    # --- what is saved -----------------------------------------------------------------------------------------------

    def document(self) -> Pieces:
        return encoded_table.document({_KEY: self.encoded})

    def load(self, text: str) -> None:
        """Take over saved filters; all of them count as dead. Raises HeaderError."""
        loaded = ConsumerFilterWrapper.decode(text.encode()).filter_data_by_topic
        every = [replace(data, topic=topic, consumer_group=group, bloom_filter_data=self._bloom(topic, group),
                         dead_time=data.dead_time or max(data.born_time, self._start_ms - SILENCE_MS))
                 for topic, filters in loaded.items() for group, data in filters.group_filter_data.items()]
        for data in sorted(every, key=lambda each: each.dead_time):
            self._put(data)
        self.encoded.replace(self._topics)

    # -----------------------------------------------------------------------------------------------------------------

    def _register(self, group: str, subscription: SubscriptionData, now_ms: int) -> bool:
        """Whether the condition had to be compiled."""
        topic, expression, version = subscription.topic, subscription.sub_string, subscription.sub_version
        known = self.find(topic, group)
        if known is not None and version <= known.client_version:
            if version == known.client_version and known.is_dead:
                self._put(replace(known, dead_time=0))
            return False
        if known is not None and (known.expression, known.expression_type) == (expression, SQL92):
            self._put(replace(known, client_version=version, dead_time=0))
            return False
        if not _is_condition(expression):
            if known is not None:
                self._forget(topic, group)
        elif name_fault(topic) is None and self._has_room(topic, group, expression):
            self._put(ConsumerFilterData(
                consumer_group=group, topic=topic, expression=expression, expression_type=SQL92, born_time=now_ms,
                client_version=version, bloom_filter_data=self._bloom(topic, group)))
        return True

    def _has_room(self, topic: str, group: str, expression: str) -> bool:
        known = self.find(topic, group)
        if known is not None:
            # The known filter is outdated in any case.
            self._forget(topic, group)
        filters = self._topics.get(topic)
        if self._size + _size(topic, group, expression) <= FILTERS_SIZE_MAX and (
                filters is None or len(filters.group_filter_data) < TOPIC_FILTERS_MAX):
            return True
        self.faults.note(NOT_KEPT, f"{group} of {topic}")
        return False

    def _let_die(self, group: str, topics: list[str], now_ms: int) -> None:
        for topic in topics:
            data = self._topics[topic].group_filter_data[group]
            if not data.is_dead:
                self._put(replace(data, dead_time=max(now_ms, data.born_time)))

    def _put(self, data: ConsumerFilterData) -> None:
        topic, group = data.topic, data.consumer_group
        self._take_out(topic, group)
        filters = self._topics.setdefault(topic, TopicFilters(topic=topic))
        filters.group_filter_data[group] = data
        self._groups.setdefault(group, {})[topic] = None
        self._size += _size(topic, group, data.expression)
        if data.is_dead:
            self._dead[topic, group] = data.dead_time
        self._changed(topic)

    def _take_out(self, topic: str, group: str) -> None:
        data = self.find(topic, group)
        if data is not None:
            self._size -= _size(topic, group, data.expression)
            self._dead.pop((topic, group), None)
            del self._topics[topic].group_filter_data[group]

    def _forget(self, topic: str, group: str) -> None:
        self._take_out(topic, group)
        if not self._topics[topic].group_filter_data:
            del self._topics[topic]
        del self._groups[group][topic]
        if not self._groups[group]:
            del self._groups[group]
        self._changed(topic)

    def _changed(self, topic: str) -> None:
        self.encoded.changed[topic] = None
        self.changes += 1

    def _bloom(self, topic: str, group: str) -> BloomFilterData:
        positions = bloom_positions(f"{group}#{topic}", self.config.expect_consumer_num_use_filter,
                                    self.config.max_error_rate_of_bloom_filter)
        return BloomFilterData(bit_num=positions.bit_num, bit_pos=list(positions.bit_pos))


def _write(filters: TopicFilters) -> str:
    return filters.text(2)


def _size(topic: str, group: str, expression: str) -> int:
    return len(topic) + len(group) + len(expression)


def _is_condition(expression: str) -> bool:
    try:
        expression_filter(expression, SQL92)
    except HeaderError:
        return False
    return bool(expression)
