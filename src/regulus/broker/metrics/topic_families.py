"""Families by topic: what was sent, what waits for a time, what became of transactions."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from regulus.broker.metrics.names import DISK, is_system
from regulus.broker.metrics.sheet import Sheet
from regulus.broker.send_facts import SIZE_EDGES, SentCounts
from regulus.broker.state import BrokerState
from regulus.errors import StoreError
from regulus.model import message_properties as names
from regulus.model.topics import TRANS_HALF_TOPIC
from regulus.wire.metrics_text import COUNTER, GAUGE, HISTOGRAM, Histogram

TOPICS_A_STEP = 64
HALVES_MAX = 50_000
"""Open halves that are shown by topic; of more, the oldest are."""
HALVES_A_STEP = 256
SLOTS_A_STEP = 2_000
SNAPSHOT_MS = 30_000
"""How old the numbers by distance may be: they take a look at each slot of a day."""
BOUNDS_S = (5, 60, 300, 900, 3600, 14_400, 28_800, 86_400)
"""Source: DefaultStoreMetricsConstant, timer message bounds."""

_DISK = tuple(DISK.values())


def sends(broker: BrokerState, sheet: Sheet) -> Iterator[None]:
    """Yields after each step."""
    labels = ("is_system", "message_type", "topic")
    nums = sheet.counter("rocketmq_messages_in_total", "Messages that were sent and stored, under the topic in which "
                         "they were stored.").rows(*labels)
    size = sheet.counter("rocketmq_throughput_in_total", "Their bytes in the log.").rows(*labels)
    sizes = sheet.rocketmq("rocketmq_message_size", HISTOGRAM, "Bytes of a send in the log; of a batch, the mean of "
                           "its messages.").rows(*labels)
    stored = sheet.own("topic_messages_stored_total", COUNTER, "Messages that were stored in the topic, deliveries and "
                       "commits included; 0 from the start.").rows("topic")
    for number, facts in enumerate(list(broker.topics.facts.values()), 1):
        topic = facts.topic
        for kind, counts in facts.sent.items():
            if counts.nums:
                series = (is_system(topic), kind, topic)
                nums.add(counts.nums, *series)
                size.add(counts.size, *series)
                sizes.add_histogram(sizes_of(counts), *series)
        stored.add(facts.put_nums, topic)
        if number % TOPICS_A_STEP == 0:
            yield
    yield


def sizes_of(counts: SentCounts) -> Histogram:
    histogram = Histogram(SIZE_EDGES)
    sends = counts.nums - counts.batched
    histogram.counts = [above - beyond for above, beyond in pairwise([sends, *counts.larger, 0])]
    histogram.sum = counts.size - counts.batched_size
    return histogram


class OpenHalves:
    """Open half messages by topic. The topic of each is read once; a topic that had one stays, with 0."""

    def __init__(self) -> None:
        self._topics: dict[int, str] = {}
        self._seen: dict[str, None] = {}

    def add(self, broker: BrokerState, sheet: Sheet) -> Iterator[None]:
        """Yields after each step."""
        known, self._topics = self._topics, {}
        counts = dict.fromkeys(self._seen, 0)
        read = 0
        for offset in broker.transactions.open_offsets(HALVES_MAX):
            topic = known.get(offset)
            if topic is None:
                topic = _topic_of_half(broker, offset)
                read += 1
                if read % HALVES_A_STEP == 0:
                    yield
            if topic:
                self._topics[offset] = topic
                counts[topic] = counts.get(topic, 0) + 1
        if len(counts) <= HALVES_MAX:
            self._seen = dict.fromkeys(counts)
        rows = sheet.gauge("rocketmq_half_messages", "Messages of open transactions.").rows("topic")
        yield from _added(rows.add, counts)


def _topic_of_half(broker: BrokerState, offset: int) -> str:
    try:
        units = broker.store.queue_units(TRANS_HALF_TOPIC, 0, offset, 1)
        half = broker.store.look_head(units[0].physical_offset) if units else None
    except StoreError:
        return ""
    return half.properties.get(names.REAL_TOPIC, "") if half is not None else ""


def _added(add: Callable[..., None], table: Mapping[str, object], *labels: str) -> Iterator[None]:
    """Add the value of each topic, whose name is the last label. Yields after each step."""
    for number, (topic, value) in enumerate(list(table.items()), 1):
        add(value, *labels, topic)
        if number % TOPICS_A_STEP == 0:
            yield
    yield


def ended_transactions(broker: BrokerState, sheet: Sheet) -> Iterator[None]:
    """Yields after each step."""
    ends = broker.statistics.ends
    rows = sheet.counter("rocketmq_commit_messages_total", "Transactions that were committed.").rows("topic")
    yield from _added(rows.add, ends.commits)
    rows = sheet.counter("rocketmq_rollback_messages_total", "Transactions that were rolled back.").rows("topic")
    yield from _added(rows.add, ends.rollbacks)
    rows = sheet.rocketmq("rocketmq_finish_message_latency_milliseconds", HISTOGRAM, "Seconds between the birth of a "
                          "message and its commit; the name is RocketMQ's.").rows("topic")
    yield from _added(rows.add_histogram, ends.finished)


class TimerFamilies:
    """What waits for a time of its own."""

    def __init__(self) -> None:
        self._snapshot: list[int] = [0] * len(BOUNDS_S)
        self._looked_ms = 0

    def add(self, broker: BrokerState, sheet: Sheet, now_ms: int) -> Iterator[None]:
        """Yields after each step."""
        timers = broker.timers
        seconds, messages = timers.behind(now_ms)
        waiting = timers.counts.total

        def gauge(name: str, text: str, value: float) -> None:
            sheet.gauge(f"rocketmq_timer_{name}", text).rows(*DISK).add(value, *_DISK)
        gauge("enqueue_lag", "Messages that are stored and not entered among the timers.", messages)
        gauge("enqueue_latency_milliseconds", "How far entering is behind.", seconds * 1000 if messages else 0)
        gauge("dequeue_lag", "All messages that wait for their time; the name is RocketMQ's.", waiting)
        gauge("dequeue_latency_milliseconds", "Time since the last slot that was delivered.",
              max(0, now_ms - timers.read_ms) if waiting or seconds else 0)
        labels = ("storage_medium", "storage_type", "topic")
        medium = (DISK["storage_medium"], DISK["storage_type"])
        for name, text, table in (
                ("rocketmq_timer_enqueue_total", "Messages that began to wait for a time.", timers.totals.entered),
                ("rocketmq_timer_dequeue_total", "Messages whose time came.", timers.totals.done)):
            yield from _added(sheet.counter(name, text).rows(*labels).add, table, *medium)
        rows = sheet.gauge("rocketmq_timing_messages", "Messages that wait for a time, by the topic where they go."
                           ).rows(*labels)
        yield from _added(rows.add, dict(timers.counts.by_topic()), *medium)
        rows = sheet.rocketmq("rocketmq_delay_message_latency_seconds", HISTOGRAM, "How long messages were to wait "
                              "when they came; the name is RocketMQ's.").rows(*labels)
        yield from _added(rows.add_histogram, timers.totals.delays, *medium)
        yield from self._look(broker, now_ms, is_idle=not waiting)
        rows = sheet.gauge("rocketmq_timer_message_snapshot", "Messages that wait, by how soon they are due: each "
                           "bound in seconds with those between it and the one before.").rows(*DISK, "timer_bound_s")
        for bound, count in zip(BOUNDS_S, self._snapshot, strict=True):
            rows.add(count, *_DISK, str(bound))
        sheet.own("timers_late_seconds", GAUGE, "Whole seconds since the first slot that should have been delivered."
                  ).add(seconds)
        sheet.own("timers_not_entered_messages", GAUGE, "Messages that are stored and not entered among the timers."
                  ).add(messages)
        sheet.own("timers_delivered_total", COUNTER, "Messages that were delivered at their time."
                  ).add(timers.delivered)

    def _look(self, broker: BrokerState, now_ms: int, *, is_idle: bool) -> Iterator[None]:
        if is_idle:
            self._snapshot = [0] * len(BOUNDS_S)
        if is_idle or 0 <= now_ms - self._looked_ms < SNAPSHOT_MS:
            return
        self._looked_ms = now_ms
        book = broker.store.timers
        precision = book.precision_ms
        first_ms = max(broker.timers.read_ms, now_ms // precision * precision)
        snapshot, bound = [0] * len(BOUNDS_S), 0
        for number in range(BOUNDS_S[-1] * 1000 // precision):
            slot_ms = first_ms + number * precision
            while slot_ms - first_ms > BOUNDS_S[bound] * 1000:
                bound += 1
            snapshot[bound] += book.slot(slot_ms).waiting
            if number % SLOTS_A_STEP == SLOTS_A_STEP - 1:
                yield
        self._snapshot = snapshot


def delay_levels(broker: BrokerState, sheet: Sheet, now_ms: int) -> None:
    """RocketMQ has no metrics of these."""
    waiting = sheet.own("delay_level_waiting_messages", GAUGE, "Messages that wait at a delay level.").rows("level")
    late = sheet.own("delay_level_late_milliseconds", GAUGE, "For how long the first message of the level has been "
                     "due.").rows("level")
    for level, (done, end) in broker.delay_schedule.progress().items():
        waiting.add(max(0, end - done), str(level))
        late.add(broker.delay_schedule.late_ms(level, now_ms), str(level))
