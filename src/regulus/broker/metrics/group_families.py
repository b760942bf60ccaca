"""Families by group and topic: what was given out, and how far groups are behind.

RocketMQ shows the lag of groups of which a consumer is there, and of retries of groups that pop. Families of our own
show all groups, and all retries.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from regulus.broker.filters.message_filter import subscription_filter
from regulus.broker.metrics.lag import Lag, LagLooker, earlier
from regulus.broker.metrics.names import is_system
from regulus.broker.metrics.sheet import Sheet
from regulus.broker.state import BrokerState
from regulus.broker.statistics import GROUP_GET_NUMS, GROUP_GET_SIZE
from regulus.errors import HeaderError
from regulus.model.message_filter import EVERYTHING, Filter
from regulus.model.receipt_handle import is_popped_retry_topic, normal_topic, retry_topic_v1, retry_topic_v2
from regulus.model.topics import SCHEDULE_TOPIC, SYSTEM_GROUPS, is_dlq_topic, is_retry_topic, retry_topic
from regulus.record.pop_record import REVIVE_GROUP
from regulus.wire.metrics_text import GAUGE, Rows

PAIRS_A_STEP = 128
QUEUES_A_STEP = 256
FLIGHTS_A_STEP = 2_000
TOPICS_A_QUEUE = 8
"""Number of topics that are listed in the time in which one queue is looked at."""
POPPED_LATELY_MS = 600_000
"""A group that popped since then counts as connected. Source: BrokerConfig.subscriptionExpiredTimeout."""
SCHEDULE_GROUP = "SCHEDULE_CONSUMER"

_NOTHING = Lag()


class Out(NamedTuple):
    """Messages that were popped and are not acknowledged, and when the first of them was popped."""

    messages: int
    since_ms: int


def gets(broker: BrokerState, sheet: Sheet) -> Iterator[None]:
    """Yields after each step."""
    nums = sheet.counter("rocketmq_messages_out_total", "Messages that were given out, acknowledged or not.")
    sizes = sheet.counter("rocketmq_throughput_out_total", "Their bytes in the log.")
    pulled = [family.rows("consumer_group", "is_system", "topic") for family in (nums, sizes)]
    popped = [family.rows("consumer_group", "is_retry", "is_system", "topic") for family in (nums, sizes)]
    statistics = broker.statistics
    items = statistics.items
    for number, (key, item) in enumerate(list(items.get(GROUP_GET_NUMS, {}).items()), 1):
        if number % PAIRS_A_STEP == 0:
            yield
        topic, _, group = key.partition("@")
        size = items[GROUP_GET_SIZE].get(key)
        if is_retry_topic(topic) or is_dlq_topic(topic) or size is None:
            continue
        pops = statistics.pops.get((group, topic))
        rest = item.value - (pops.nums if pops is not None else 0)
        if rest:
            labels = (group, is_system(topic, group), topic)
            pulled[0].add(rest, *labels)
            pulled[1].add(size.value - (pops.size if pops is not None else 0), *labels)
    for number, ((group, topic), pops) in enumerate(list(statistics.pops.items()), 1):
        if number % PAIRS_A_STEP == 0:
            yield
        for is_retry, count, size_of in (("false", pops.nums, pops.size), ("true", pops.retry_nums, pops.retry_size)):
            if count:
                labels_of_pop = (group, is_retry, is_system(topic, group), topic)
                popped[0].add(count, *labels_of_pop)
                popped[1].add(size_of, *labels_of_pop)
    schedule = broker.delay_schedule
    if schedule.delivered_nums:
        pulled[0].add(schedule.delivered_nums, SCHEDULE_GROUP, "true", SCHEDULE_TOPIC)
        pulled[1].add(schedule.delivered_size, SCHEDULE_GROUP, "true", SCHEDULE_TOPIC)
    yield


def ended(broker: BrokerState, sheet: Sheet) -> Iterator[None]:
    """Yields after each step."""
    ends = broker.statistics.ends
    rows = sheet.counter("rocketmq_send_to_dlq_messages_total", "Messages that became dead letters, under the topic "
                         "that they had first.").rows("consumer_group", "is_system", "topic")
    for number, ((group, topic), count) in enumerate(list(ends.dead_letters.items()), 1):
        rows.add(count, group, is_system(topic, group), topic)
        if number % PAIRS_A_STEP == 0:
            yield
    rows = sheet.counter("rocketmq_pop_revive_retry_messages_total", "Messages whose invisible time ended, and that "
                         "were put into the retry topic.").rows("consumer_group", "put_status", "topic")
    for number, ((group, topic), count) in enumerate(list(ends.pop_retries.items()), 1):
        rows.add(count, group, "PUT_OK", topic)
        if number % PAIRS_A_STEP == 0:
            yield
    yield


class GroupFamilies:
    """Keeps from page to page when the next message of each group was stored."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker
        self._looker = LagLooker(broker.store, broker.consumer_offsets, broker.topics.epochs)
        self.pairs_left_out = 0
        """Pairs of group and topic for which the last page had no room."""

    def add(self, sheet: Sheet, now_ms: int) -> Iterator[None]:
        """Yields after each step."""
        broker, looker = self._broker, self._looker
        looker.times.turn()
        out: dict[tuple[str, str], Out] = {}
        for number, flight in enumerate(broker.pop_flights.all(), 1):
            key, count = flight.checkpoint.key, flight.out_count
            if count:
                before = out.get((key.group, key.topic), Out(0, 0))
                out[key.group, key.topic] = Out(before.messages + count, earlier(before.since_ms, key.pop_time))
            if number % FLIGHTS_A_STEP == 0:
                yield
        yield
        writer = _Writer(sheet, now_ms)
        for number, group in enumerate(list(broker.subscription_groups.table), 1):
            consumers = broker.clients.consumer_group(group)
            if consumers is not None or group not in SYSTEM_GROUPS:
                writer.members(group, len(consumers.clients) if consumers is not None else 0)
            if number % PAIRS_A_STEP == 0:
                yield
            if group == REVIVE_GROUP:
                continue
            for _ in self._group(group, out, writer):
                if looker.steps >= QUEUES_A_STEP:
                    looker.steps = 0
                    yield
        self.pairs_left_out = writer.pairs_left_out
        yield

    def _group(self, group: str, out: dict[tuple[str, str], Out], writer: "_Writer") -> Iterator[None]:
        broker = self._broker
        consumers = broker.clients.consumer_group(group)
        subscriptions = consumers.subscriptions if consumers is not None else {}
        topics = self._topics(group, subscriptions)
        self._looker.steps += len(topics) // TOPICS_A_QUEUE
        for number, topic in enumerate(topics):
            if writer.is_full:
                writer.pairs_left_out += len(topics) - number
                break
            pops = broker.statistics.pops.get((group, topic))
            if pops is not None and broker.steady_ms - pops.asked_ms <= POPPED_LATELY_MS:
                lag = self._popped(group, topic, topic, out)
                again = self._sum([self._popped(group, topic, each, out) for each in
                                   (retry_topic_v1(topic, group), retry_topic_v2(topic, group))])
                writer.pair(group, topic, lag, is_live=True)
                writer.retries_of_pops(group, topic, again, is_live=True)
            elif pops is not None or any((group, each) in out for each in (topic, retry_topic_v1(topic, group))):
                writer.pair(group, topic, self._popped(group, topic, topic, out), is_live=False)
                again = self._sum([self._popped(group, topic, each, out) for each in
                                   (retry_topic_v1(topic, group), retry_topic_v2(topic, group))])
                writer.retries_of_pops(group, topic, again, is_live=False)
            else:
                subscription = subscriptions.get(topic)
                wanted = EVERYTHING
                if subscription is not None:
                    try:
                        wanted = subscription_filter(subscription)
                    except HeaderError:
                        wanted = EVERYTHING
                writer.pair(group, topic, self._pulled(group, topic, wanted), is_live=subscription is not None)
            yield
        if not writer.is_full:
            for topic in [each for each in broker.consumer_offsets.topics_of(group)
                          if is_popped_retry_topic(each, group) and (group, normal_topic(each, group))
                          not in broker.statistics.pops]:
                writer.retries_of_pops(group, normal_topic(topic, group), self._popped(group, topic, topic, out),
                                       is_live=False)
                yield
            writer.retries(group, self._pulled(group, retry_topic(group), EVERYTHING))
        yield

    def _topics(self, group: str, subscribed: Iterable[str]) -> list[str]:
        """Topics that the group wants now, and topics in which it has an offset; no retry topics."""
        broker = self._broker
        found = dict.fromkeys([*subscribed, *broker.consumer_offsets.topics_of(group)])
        return [topic for topic in found if not is_retry_topic(topic) and topic in broker.topics]

    def _queues(self, topic: str) -> range:
        config = self._broker.topics.get(topic)
        return range(max(config.read_queue_nums, config.write_queue_nums) if config is not None else 0)

    def _pulled(self, group: str, topic: str, wanted: Filter) -> Lag:
        return self._looker.pulled(group, topic, self._queues(topic), wanted)

    def _popped(self, group: str, topic: str, of: str, out: dict[tuple[str, str], Out]) -> Lag:
        """The lag in the topic, or in one of its retry topics, `of`."""
        count, since_ms = out.get((group, of), Out(0, 0))
        if of != topic and of not in self._broker.topics:
            return _NOTHING
        return self._looker.popped(group, of, self._queues(of), count, since_ms)

    def _sum(self, lags: list[Lag]) -> Lag:
        told = Lag()
        for each in lags:
            told.add(each.lag, each.inflight, each.oldest_ms, each.unpulled_ms)
        return told


class _Writer:
    """The rows of all pairs. `is_live`: RocketMQ shows the pair as well."""

    def __init__(self, sheet: Sheet, now_ms: int) -> None:
        self._page = sheet.page
        self._now_ms = now_ms
        self.pairs_left_out = 0
        labels = ("consumer_group", "is_retry", "is_system", "topic")

        def rows(name: str, text: str) -> Rows:
            return sheet.gauge(f"rocketmq_consumer_{name}", text).rows(*labels)
        self._lag = rows("lag_messages", "Messages that the group has not committed or acknowledged.")
        self._inflight = rows("inflight_messages", "Messages that the group has and did not commit or acknowledge.")
        self._ready = rows("ready_messages", "Messages that the group did not ask for yet.")
        self._age = rows("lag_latency_milliseconds", "Age of the first message that the group has not committed or "
                         "acknowledged; 0 without one.")
        self._queueing = rows("queueing_latency_milliseconds", "Age of the first message that the group did not ask "
                              "for yet; 0 without one.")
        pair = ("consumer_group", "topic")
        self._own_lag = sheet.own("group_lag_messages", GAUGE, "Messages that the group has not consumed, connected or "
                                  "not.").rows(*pair)
        self._own_age = sheet.own("group_lag_milliseconds", GAUGE, "Age of the first of them; 0 without one."
                                  ).rows(*pair)
        self._retries = sheet.own("group_retries_waiting_messages", GAUGE, "Messages that wait in a retry topic of the "
                                  "group. Those of consumers that pull have no topic here.").rows(*pair)
        self._retries_age = sheet.own("group_retries_waiting_milliseconds", GAUGE, "Age of the first of them; 0 "
                                      "without one.").rows(*pair)
        self._members = sheet.own("group_members", GAUGE, "Consumers of the group that are connected.").rows(
            "consumer_group")

    @property
    def is_full(self) -> bool:
        return self._page.is_full

    def members(self, group: str, count: int) -> None:
        self._members.add(count, group)

    def pair(self, group: str, topic: str, lag: Lag, *, is_live: bool) -> None:
        if is_live:
            self._rocketmq(group, topic, lag, "false")
        self._own_lag.add(lag.lag, group, topic)
        self._own_age.add(self._since(lag.oldest_ms), group, topic)

    def retries_of_pops(self, group: str, topic: str, lag: Lag, *, is_live: bool) -> None:
        if is_live:
            self._rocketmq(group, topic, lag, "true")
        self._retries.add(lag.lag, group, topic)
        self._retries_age.add(self._since(lag.oldest_ms), group, topic)

    def retries(self, group: str, lag: Lag) -> None:
        if lag.lag:
            self._retries.add(lag.lag, group, "")
            self._retries_age.add(self._since(lag.oldest_ms), group, "")

    def _rocketmq(self, group: str, topic: str, lag: Lag, is_retry: str) -> None:
        labels = (group, is_retry, is_system(topic, group), topic)
        self._lag.add(lag.lag, *labels)
        self._inflight.add(lag.inflight, *labels)
        self._ready.add(lag.ready, *labels)
        self._age.add(self._since(lag.oldest_ms), *labels)
        self._queueing.add(self._since(lag.unpulled_ms), *labels)

    def _since(self, time_ms: int) -> int:
        return max(0, self._now_ms - time_ms) if time_ms else 0
