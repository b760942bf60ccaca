"""Counts by topic of messages that wait for a time of their own, in RocketMQ's document.

A waiting message adds one, a recall marker subtracts one, and each is undone when it is done; a recalled message
therefore counts zero. Records have no topics, but their hashes, so counts are kept by hash, and the name is that of the
first topic with it. Two topics with the same hash are counted together.

The note of the timers also has the version of the document. If the two differ, after a kill or a run of RocketMQ, the
records are counted again.

Source: TimerMetrics.
"""

from contextlib import suppress

from regulus.errors import HeaderError
from regulus.model.java_hash import java_hash
from regulus.model.topics import DataVersion
from regulus.record.timer_units import DELETE_KIND, TimerRecord
from regulus.wire.bodies import TimerMetric, TimerMetricsSerializeWrapper
from regulus.wire.encoded_table import Pieces

TOPICS_MAX = 100_000
"""Topics that are counted; messages of further topics are not."""


class TimerCounts:
    """Counts by hash of the topic. `version` counts the changes, over all runs."""

    def __init__(self) -> None:
        self.version = 0
        self._state_version = 0
        self._version_ms = 0
        self._counts: dict[int, int] = {}
        self._topics: dict[int, str] = {}
        self._changed_ms: dict[int, int] = {}

    def entered(self, record: TimerRecord, topic: str, now_ms: int) -> None:
        if record.topic_hash not in self._topics and len(self._topics) < TOPICS_MAX:
            self._topics[record.topic_hash] = topic
        self._add(record.topic_hash, _value(record.kind), now_ms)

    def done(self, topic_hash: int, kind: int, now_ms: int) -> None:
        self._add(topic_hash, -_value(kind), now_ms)

    def _add(self, topic_hash: int, value: int, now_ms: int) -> None:
        if topic_hash in self._topics:
            self._counts[topic_hash] = self._counts.get(topic_hash, 0) + value
            self._changed_ms[topic_hash] = now_ms
            self._change(now_ms)

    def _change(self, now_ms: int) -> None:
        self.version += 1
        self._version_ms = now_ms

    @property
    def changes(self) -> int:
        return self.version

    def begin_anew(self, version: int, now_ms: int) -> None:
        """Start with empty counts, and a version after the given one."""
        self._counts, self._topics, self._changed_ms = {}, {}, {}
        self.version = max(version, self.version)
        self._change(now_ms)

    def remove_topic(self, topic: str, now_ms: int) -> None:
        hash_ = java_hash(topic)
        if self._topics.pop(hash_, None) is not None:
            del self._counts[hash_], self._changed_ms[hash_]
            self._change(now_ms)

    def knows(self, topic_hash: int) -> bool:
        return topic_hash in self._topics

    def topic_of(self, topic_hash: int) -> str:
        """Empty for a topic that is not counted."""
        return self._topics.get(topic_hash, "")

    def by_topic(self) -> list[tuple[str, int]]:
        """How many wait of each topic."""
        return [(self._topics[hash_], max(count, 0)) for hash_, count in self._counts.items()]

    @property
    def total(self) -> int:
        """A topic whose messages were recalled more than once has a negative count, which is not subtracted from
        others."""
        return sum(max(count, 0) for count in self._counts.values())

    # --- the document ------------------------------------------------------------------------------------------------

    def wrapper(self) -> TimerMetricsSerializeWrapper:
        version = DataVersion(counter=self.version, state_version=self._state_version, timestamp=self._version_ms)
        return TimerMetricsSerializeWrapper(data_version=version, timing_count={
            self._topics[hash_]: TimerMetric(count=count, time_stamp=self._changed_ms[hash_])
            for hash_, count in self._counts.items()})

    def document(self) -> Pieces:
        """The document in one line, like RocketMQ's."""
        return [(self.wrapper().encode(),)]

    def load(self, text: str) -> None:
        """Take over what an earlier run saved. An invalid document is ignored, because the records are counted again
        then."""
        with suppress(HeaderError):
            self.follow(text)

    def follow(self, text: str) -> None:
        """Take over a document. Raises HeaderError."""
        wrapper = TimerMetricsSerializeWrapper.decode(text.encode())
        if len(wrapper.timing_count) > TOPICS_MAX:
            raise HeaderError(f"more than {TOPICS_MAX} topics have messages that wait")
        version = wrapper.data_version
        self.version, self._state_version, self._version_ms = version.counter, version.state_version, version.timestamp
        metrics = {java_hash(topic): (topic, metric) for topic, metric in wrapper.timing_count.items()}
        self._topics = {hash_: topic for hash_, (topic, _) in metrics.items()}
        self._counts = {hash_: metric.count for hash_, (_, metric) in metrics.items()}
        self._changed_ms = {hash_: metric.time_stamp for hash_, (_, metric) in metrics.items()}


def _value(kind: int) -> int:
    return -1 if kind & DELETE_KIND else 1
