"""How far a stream is: its lag, from what Spark says of each batch, and its progress as a consumer group's.

    spark.streams.addListener(ProgressPublisher())
    query = orders.writeStream...start()

A query's progress comes after its batch is committed, sink included. So a group never claims what was not done; after a
crash it may be a batch behind until the next one. The group shows in RocketMQ's tools with its lag; nobody joins it.
"""

import json
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery

from regulus.errors import RegulusError
from regulus.model.message_queue import MessageQueue
from regulus.spark.offsets import QueueOffsets, parse_offsets
from regulus.spark.options import parse_options
from regulus.spark.selection import queue_text

_log = logging.getLogger(__name__)
_PROGRESS = "progress"


class QueueLag(NamedTuple):
    """What a queue has beyond the last batch: messages, their bytes by samples, and for how many seconds the first of
    them has been waiting. `size` and `seconds` are None where they are not known."""

    queue: MessageQueue
    messages: int
    size: int | None
    seconds: float | None


Publish = Callable[[dict[str, str], str, QueueOffsets], None]
"""The options of a place, a group, its offsets."""


def lag(progress: StreamingQueryProgress) -> list[QueueLag]:
    """The lag of each queue of all our sources, behind the batch that the progress is of."""
    return [each for source in progress.sources for each in _source_lag(source.endOffset, source.latestOffset)]


def _source_lag(end: str | None, latest: str | None) -> list[QueueLag]:
    ends, latests = _object(end), _object(latest)
    if ends is None or latests is None:
        return []
    facts = latests.get("lag", {})
    done, there = parse_offsets(json.dumps(ends), _PROGRESS), parse_offsets(json.dumps(latests), _PROGRESS)
    lags = []
    for queue, high in sorted(there.items()):
        messages = max(0, high - done.get(queue, high))
        record_size = facts.get("recordBytes", {}).get(queue_text(queue))
        since = facts.get("waitingSince", {}).get(queue_text(queue))
        size = 0 if messages == 0 else messages * record_size if record_size else None
        seconds = 0.0 if messages == 0 else None if since is None else max(0, facts["asOf"] - since) / 1000
        lags.append(QueueLag(queue, messages, size, seconds))
    return lags


class ProgressPublisher(StreamingQueryListener):
    """Publishes the progress of all queries whose option `consumerGroup` names a group.

    Name server and option `credentials` are those of the query, so the keys must lie where this program runs, too; a
    query with a group and the option `accessKey` is refused when it is planned. Call `finish(query)` after
    `awaitTermination`: Spark tells listeners in its own time, and a program may end before.
    """

    def __init__(self, publish: Publish | None = None) -> None:
        self._publish = publish or _publish
        self._published: dict[tuple[str, str], QueueOffsets] = {}
        """By name server and group: another cluster may have brokers and groups of the same names."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is done yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._take(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing new is done."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """What was done came as progress."""

    def finish(self, query: StreamingQuery) -> None:
        """Publish the last batch of a query that has ended. Raises RegulusError when that cannot be done."""
        progress = query.lastProgress
        if progress is not None:
            self._each_group(progress)

    def _take(self, progress: StreamingQueryProgress) -> None:
        # A listener's error would be lost in Spark's log; the next progress, or `finish`, publishes more than this one.
        try:
            self._each_group(progress)
        except RegulusError as error:
            _log.warning("progress of query %s was not published: %s", progress.name or progress.id, error)

    def _each_group(self, progress: StreamingQueryProgress) -> None:
        for source in progress.sources:
            ends, latest = _object(source.endOffset), _object(source.latestOffset)
            place = (latest or {}).get("lag", {}).get("read", {})
            group = place.get("consumerGroup")
            if ends is None or not group:
                continue
            offsets = parse_offsets(json.dumps(ends), _PROGRESS)
            at = place.get("nameServer", ""), group
            before = self._published.get(at, {})
            changed = {queue: offset for queue, offset in offsets.items() if before.get(queue) != offset}
            if changed:
                self._publish(place, group, changed)
                self._published[at] = {**before, **changed}


def _publish(place: dict[str, str], group: str, offsets: QueueOffsets) -> None:
    from regulus.spark.live.brokers import LiveBrokers

    options = {name: value for name, value in place.items() if value}
    with LiveBrokers(parse_options({**options, "topic": min(offsets).topic}), was_reached=True) as brokers:
        brokers.publish(group, offsets)


def _object(text: str | None) -> dict[str, Any] | None:
    """An offset of this source; None for one of another."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.get("v") == 1 and "topics" in value else None
