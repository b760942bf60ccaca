"""Counts for operators. The hot path adds to integers; ticks make samples and rates.

A send adds to its `TopicFacts`, everything else to a `StatisticsItem`. Samples are taken like RocketMQ's: each 10 s for
the minute, each 10 min for the hour, each hour for the day; 7, 7 and 25 of them are kept.

Intervals follow the clock that never jumps, days follow the time of day.

Source: BrokerStatsManager, StatsItem, StoreStatsService.
"""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from regulus.broker.end_counts import EndCounts
from regulus.broker.topics import Topics

TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS = "GROUP_GET_NUMS"
GROUP_GET_SIZE = "GROUP_GET_SIZE"
SNDBCK_PUT_NUMS = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS = "BROKER_PUT_NUMS"
BROKER_GET_NUMS = "BROKER_GET_NUMS"

MINUTE_SAMPLE_MS = 10_000
HOUR_SAMPLE_MS = 600_000
DAY_SAMPLE_MS = 3_600_000
MINUTE_SAMPLES_MAX = 7
HOUR_SAMPLES_MAX = 7
DAY_SAMPLES_MAX = 25
RATE_SAMPLES_MAX = 61
"""Samples of the whole broker, one each 10 s: enough for a rate over 600 s."""

SAMPLED_A_STEP = 512
"""Topics or items that one step of sampling handles; many topics take several ticks."""
SUMMED_A_STEP = 8_192
"""Topics that one step of a sum over all topics handles."""
POPS_MAX = 50_000
"""Pairs of group and topic whose pops are counted; beyond the limit the first ones are forgotten."""

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class StatisticsSnapshot:
    """`sum` over the window, `tps` is `sum` per second, `avgpt` is `sum` per call."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


_Sample = tuple[int, int, int]
"""Time in ms, `value`, `times`."""


class StatisticsItem:
    """One counted thing: total `value` of `times` calls, both 0 at `since_ms`.

    There may be several for each topic and group, so samples are tuples: a new item has only one.
    """

    __slots__ = ("_day", "_hour", "_minute", "is_gone", "times", "value")

    def __init__(self, since_ms: int) -> None:
        self.value = 0
        self.times = 0
        self.is_gone = False
        self._minute: tuple[_Sample, ...] = ((since_ms, 0, 0),)
        self._hour: tuple[_Sample, ...] = self._minute
        self._day: tuple[_Sample, ...] = self._minute

    def add(self, value: int) -> None:
        self.value += value
        self.times += 1

    def sample(self, steady_ms: int, hour: bool, day: bool) -> None:
        sample = (steady_ms, self.value, self.times)
        self._minute = (*self._minute[1 - MINUTE_SAMPLES_MAX:], sample)
        if hour:
            self._hour = (*self._hour[1 - HOUR_SAMPLES_MAX:], sample)
        if day:
            self._day = (*self._day[1 - DAY_SAMPLES_MAX:], sample)

    def minute(self) -> StatisticsSnapshot:
        return _snapshot(self._minute)

    def hour(self) -> StatisticsSnapshot:
        return _snapshot(self._hour)

    def day(self) -> StatisticsSnapshot:
        return _snapshot(self._day)


class PopCounts:
    """What a group popped of a topic. Messages that come once more are counted in `retry_nums`. `asked_ms`: the steady
    time of the last pop, whether or not it found anything."""

    __slots__ = ("asked_ms", "nums", "retry_nums", "retry_size", "size")

    def __init__(self) -> None:
        self.nums = self.size = self.retry_nums = self.retry_size = self.asked_ms = 0

    def add(self, nums: int, size: int, is_retry: bool) -> None:
        if is_retry:
            self.retry_nums += nums
            self.retry_size += size
        else:
            self.nums += nums
            self.size += size


class Statistics:
    """Counts by statistics name and key: one table per name in `items`, so that none grows by a long step. `pops` by
    group and topic. Other counts are of the whole broker since its start."""

    def __init__(self, topics: Topics, cluster_name: str, boot_timestamp: int, steady_ms: int) -> None:
        self.boot_timestamp = boot_timestamp
        self.items: dict[str, dict[str, StatisticsItem]] = {}
        self._in_turn: list[StatisticsItem] = []
        """All items, in the order in which they are sampled; dropped ones leave at the next sample."""
        self.get_found_times = 0
        self.get_missed_times = 0
        self.get_message_nums = 0
        self.put_total_yesterday_morning = 0
        self.put_total_today_morning = 0
        self.get_total_yesterday_morning = 0
        self.get_total_today_morning = 0
        self.pops: dict[tuple[str, str], PopCounts] = {}
        self.ends = EndCounts()
        self._topics = topics
        self._cluster_name = cluster_name
        self._retired_put_nums = 0
        self._retired_put_size = 0
        self._rates: deque[tuple[int, int, int, int, int]] = deque(maxlen=RATE_SAMPLES_MAX)
        self._sampled_ms = steady_ms
        self._sampling: Iterator[None] | None = None
        self._pairs_of_topic: dict[str, dict[tuple[str, str], None]] = {}
        self._pairs_of_group: dict[str, dict[tuple[str, str], None]] = {}
        """Items about a topic and a group, by topic and by group."""
        self._next_sample_ms = 0
        self._next_hour_ms = 0
        self._next_day_ms = 0
        self._next_morning_ms = 0

    def puts_in_steps(self) -> Generator[None, None, tuple[int, int]]:
        """Messages stored, and their bytes; yields after each step but the last."""
        nums, size = self._retired_put_nums, self._retired_put_size
        for number, facts in enumerate(list(self._topics.facts.values()), 1):
            nums += facts.put_nums
            size += facts.put_size
            if number % SUMMED_A_STEP == 0:
                yield
        return nums, size

    def item(self, name: str, key: str) -> StatisticsItem | None:
        """None when nothing was counted under this name and key."""
        return self.items.get(name, {}).get(key)

    def add(self, name: str, key: str, value: int) -> None:
        item = self.item(name, key) or self._new_item(name, key)
        item.add(value)

    def note_get(self, group: str, topic: str, message_count: int, size: int) -> None:
        """Count a pull or pop that found messages."""
        key = f"{topic}@{group}"
        self.get_found_times += 1
        self.get_message_nums += message_count
        self.add(GROUP_GET_NUMS, key, message_count)
        self.add(GROUP_GET_SIZE, key, size)

    def pops_of(self, group: str, topic: str, steady_ms: int) -> PopCounts:
        """The counts of pops of that topic by that group, which asks now."""
        counts = self.pops.get((group, topic))
        if counts is None:
            counts = self.pops[group, topic] = PopCounts()
            if len(self.pops) > POPS_MAX:
                self._forget_pops(*next(iter(self.pops)))
        counts.asked_ms = steady_ms
        return counts

    def note_miss(self) -> None:
        """Count a pull or pop that found nothing."""
        self.get_missed_times += 1

    def topic_deleted(self, topic: str, put_nums: int, put_size: int) -> None:
        """Keep the broker's totals when a topic and its items are dropped."""
        self._retired_put_nums += put_nums
        self._retired_put_size += put_size
        for name in (TOPIC_PUT_NUMS, TOPIC_PUT_SIZE):
            self._drop(name, topic)

    def drop_pairs_of_topic(self, topic: str) -> None:
        """Drop the items of a topic with any group."""
        for pair in list(self._pairs_of_topic.get(topic, ())):
            self._drop_pair(pair)

    def drop_pairs_of_group(self, group: str) -> None:
        """Drop the items of a group with any topic."""
        for pair in list(self._pairs_of_group.get(group, ())):
            self._drop_pair(pair)

    def tick(self, now_ms: int, steady_ms: int) -> int:
        """Take samples when they are due; returns ms until the next call."""
        if self._sampling is None:
            if steady_ms < self._next_sample_ms:
                return self._next_sample_ms - steady_ms
            self._next_sample_ms = steady_ms + MINUTE_SAMPLE_MS
            self._sampling = self._sample(now_ms, steady_ms)
        for _ in self._sampling:
            return 0
        self._sampling = None
        return max(0, self._next_sample_ms - steady_ms)

    def _sample(self, now_ms: int, steady_ms: int) -> Iterator[None]:
        """Sample everything; yields after each step but the last."""
        hour = steady_ms >= self._next_hour_ms
        day = steady_ms >= self._next_day_ms
        if hour:
            self._next_hour_ms = steady_ms + HOUR_SAMPLE_MS
        if day:
            self._next_day_ms = steady_ms + DAY_SAMPLE_MS
        put_message_nums = yield from self._collect_puts()
        self._turn_day(now_ms, put_message_nums)
        yield from self._sample_items(steady_ms, hour, day)
        self._sampled_ms = steady_ms
        self._rates.append((steady_ms, put_message_nums, self.get_found_times, self.get_missed_times,
                            self.get_message_nums))

    def _sample_items(self, steady_ms: int, hour: bool, day: bool) -> Iterator[None]:
        """Sample the items in steps. They are in a list of their own, because copying the table of all would be a long
        step."""
        items = self._in_turn
        read = kept = 0
        while read < len(items):
            if read:
                yield
            step = [item for item in items[read:read + SAMPLED_A_STEP] if not item.is_gone]
            read = min(read + SAMPLED_A_STEP, len(items))
            for item in step:
                item.sample(steady_ms, hour, day)
            items[kept:kept + len(step)] = step
            kept += len(step)
        del items[kept:]

    def put_tps(self) -> tuple[float, float, float]:
        """Messages per second over the last 10 s, 60 s and 600 s."""
        return self._tps(1)

    def get_found_tps(self) -> tuple[float, float, float]:
        return self._tps(2)

    def get_miss_tps(self) -> tuple[float, float, float]:
        return self._tps(3)

    def get_transferred_tps(self) -> tuple[float, float, float]:
        return self._tps(4)

    def _collect_puts(self) -> Generator[None, None, int]:
        """Copy the counts of sends from their topics' facts into items; returns the number of messages in all.

        Messages sent between two steps count for this sample or for the next one.
        """
        nums = self._retired_put_nums
        for number, facts in enumerate(list(self._topics.facts.values()), 1):
            nums += facts.put_nums
            if facts.put_nums and facts.topic in self._topics.facts:
                self._set((TOPIC_PUT_NUMS, facts.topic), facts.put_nums, facts.put_nums)
                self._set((TOPIC_PUT_SIZE, facts.topic), facts.put_size, facts.put_nums)
            if number % SAMPLED_A_STEP == 0:
                yield
        if nums:
            self._set((BROKER_PUT_NUMS, self._cluster_name), nums, nums)
        if self.get_found_times:
            self._set((BROKER_GET_NUMS, self._cluster_name), self.get_message_nums, self.get_found_times)
        return nums

    def _set(self, entry: tuple[str, str], value: int, times: int) -> None:
        item = self.item(*entry) or self._new_item(*entry)
        item.value = value
        item.times = times

    def _new_item(self, name: str, key: str) -> StatisticsItem:
        """A new item that was zero at the last sample, so that its first count is in the next one."""
        item = self.items.setdefault(name, {})[key] = StatisticsItem(self._sampled_ms)
        self._in_turn.append(item)
        topic, is_pair, group = key.partition("@")
        if is_pair:
            self._pairs_of_topic.setdefault(topic, {})[name, key] = None
            self._pairs_of_group.setdefault(group, {})[name, key] = None
        return item

    def _drop_pair(self, entry: tuple[str, str]) -> None:
        """Drop an item about a topic and a group, unless it is dropped already."""
        topic, _, group = entry[1].partition("@")
        self.pops.pop((group, topic), None)
        if not self._drop(*entry):
            return
        for pairs, name in ((self._pairs_of_topic, topic), (self._pairs_of_group, group)):
            del pairs[name][entry]
            if not pairs[name]:
                del pairs[name]

    def _forget_pops(self, group: str, topic: str) -> None:
        """Forget the pops of a pair and the items that include them, whose rest would count as pulls."""
        for name in (GROUP_GET_NUMS, GROUP_GET_SIZE):
            self._drop_pair((name, f"{topic}@{group}"))

    def _drop(self, name: str, key: str) -> bool:
        """False when there was none."""
        item = self.items.get(name, {}).pop(key, None)
        if item is not None:
            item.is_gone = True
        return item is not None

    def _turn_day(self, now_ms: int, put_message_nums: int) -> None:
        if now_ms < self._next_morning_ms <= now_ms + _DAY_MS:
            return
        if 0 < self._next_morning_ms <= now_ms:     # otherwise the clock was set back by days, and no day is over
            self.put_total_yesterday_morning = self.put_total_today_morning
            self.get_total_yesterday_morning = self.get_total_today_morning
            self.put_total_today_morning = put_message_nums
            self.get_total_today_morning = self.get_message_nums
        self._next_morning_ms = now_ms - now_ms % _DAY_MS + _DAY_MS

    def _tps(self, column: int) -> tuple[float, float, float]:
        return self._rate(column, 1), self._rate(column, 6), self._rate(column, 60)

    def _rate(self, column: int, samples_back: int) -> float:
        rates = self._rates
        if len(rates) < 2:
            return 0.0
        newest = rates[-1]
        oldest = rates[max(0, len(rates) - 1 - samples_back)]
        elapsed_ms = newest[0] - oldest[0]
        return (newest[column] - oldest[column]) * 1000 / elapsed_ms if elapsed_ms else 0.0


def _snapshot(samples: Sequence[_Sample]) -> StatisticsSnapshot:
    if len(samples) < 2:
        return StatisticsSnapshot()
    first_ms, first_value, first_times = samples[0]
    last_ms, last_value, last_times = samples[-1]
    total = last_value - first_value
    times = last_times - first_times
    elapsed_ms = last_ms - first_ms
    return StatisticsSnapshot(total, total * 1000 / elapsed_ms if elapsed_ms else 0.0, total / times if times else 0.0)
