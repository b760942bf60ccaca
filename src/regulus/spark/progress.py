"""Computes a stream's lag from Spark's progress of each batch, and publishes its offsets as a consumer group's.

    spark.streams.addListener(ProgressPublisher())
    query = orders.writeStream...start()

A query's progress comes after its batch is committed, sink included. So a group never claims messages that were not
processed; after a crash it may be a batch behind until the next one. RocketMQ's tools show the group with its lag; it
has no members.
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
    """What a queue has after the last batch: messages, their bytes estimated from samples, and for how many seconds the
    first of them has been waiting. `size` and `seconds` are None when not known."""

    queue: MessageQueue
    messages: int
    size: int | None
    seconds: float | None


Publish = Callable[[dict[str, str], str, QueueOffsets], None]
"""Publishes offsets. The arguments are the options of a place, a group, and its offsets."""


def lag(progress: StreamingQueryProgress) -> list[QueueLag]:
    """The lag of each queue of all our sources after the batch of the progress."""
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

    Name server and option `credentials` are those of the query, so the keys must also be on the machine where this
    program runs; a query with a group and the option `accessKey` is refused when it is planned. Call `finish(query)`
    after `awaitTermination`: Spark calls listeners later, and a program may end before that.
    """

    def __init__(self, publish: Publish | None = None) -> None:
        self._publish = publish or _publish
        self._published: dict[tuple[str, str], QueueOffsets] = {}
        """The key is name server and group, because another cluster may have brokers and groups of the same names."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing to publish yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._take(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing new to publish."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing to publish: it came as progress before."""

    def finish(self, query: StreamingQuery) -> None:
        """Publish the last batch of a query that has ended. Raises RegulusError when that cannot be done."""
        progress = query.lastProgress
        if progress is not None:
            self._each_group(progress)

    def _take(self, progress: StreamingQueryProgress) -> None:
        # An error raised in a listener is lost in Spark's log, so it is logged here. The next progress, or `finish`,
        # publishes everything up to then.
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
    """The offset as an object; None for one of another source."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.get("v") == 1 and "topics" in value else None
