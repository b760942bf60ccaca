"""One task of a sink: rows in, requests out, and back only when every row is stored."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from regulus.client import sync
from regulus.client.bulk_sender import BulkConfig, BulkSend, BulkSender
from regulus.client.config import ClientConfig
from regulus.model import message_properties as names
from regulus.model.message_queue import MessageQueue
from regulus.spark.sink_lanes import Lane, Lanes, Run
from regulus.spark.sink_options import SinkOptions
from regulus.spark.sink_rows import Rows, record_data, record_ends, records_of, rows_of

SLICE_ROWS = 4096
"""Rows encoded at a time."""
REQUEST_ROWS_MAX = 1024
REQUEST_SIZE_MAX = 512 << 10
"""Bytes of a request's body, unless one message alone has more."""
RATE_STEPS = 10
"""With a rate limit, a second is divided into so many requests at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlace:
    """Which task this is. The same rows come back under the same `sink_id`, `batch` and `partition`."""

    sink_id: str
    batch: int
    partition: int
    attempt: int = 0

    def __str__(self) -> str:
        return f"batch {self.batch}, task {self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """`stored` counts messages, `duplicates` those of them that the broker had from an earlier attempt."""

    stored: int
    duplicates: int


def run_task(batches: Iterable[Any], options: SinkOptions, place: TaskPlace) -> TaskReport:
    """Send all rows of some pa.RecordBatches. Raises ClientError, RowRefused."""
    sender: BulkSender = sync.run(_opened(options))
    try:
        task = _Task(sender, options, place)
        for batch in batches:
            task.send(batch)
        sync.run(sender.flush())
        return TaskReport(stored=sender.stored, duplicates=sender.duplicates)
    finally:
        sync.run(sender.__aexit__(None, None, None))


async def _opened(options: SinkOptions) -> BulkSender:
    config = BulkConfig(send_timeout_ms=options.send_timeout_ms, retry_budget_ms=options.retry_budget_ms,
                        in_flight_max=options.in_flight_max, reroutes=not options.is_exactly_once,
                        client=ClientConfig(connect_timeout=options.send_timeout_ms))
    return await BulkSender(options.name_server, options.producer_group, config).__aenter__()


class _Task:
    def __init__(self, sender: BulkSender, options: SinkOptions, place: TaskPlace) -> None:
        self._sender = sender
        self._options = options
        self._place = place
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._lanes = Lanes(partition=place.partition, batch=place.batch, topic=options.topic,
                            queues_of=self._queues_of)
        self._next_row = 0
        self._pace = _Pace(options.rate_limit)
        rate_rows = max(1, options.rate_limit // RATE_STEPS) if options.rate_limit else REQUEST_ROWS_MAX
        self._request_rows_max = min(REQUEST_ROWS_MAX, options.in_flight_max, rate_rows)

    def send(self, batch: Any) -> None:
        """Begin to send the rows of one Arrow batch."""
        for start in range(0, batch.num_rows, SLICE_ROWS):
            part = batch.slice(start, SLICE_ROWS)
            rows = rows_of(part, self._next_row, self._sender.make_unique_key()[:28], str(self._place))
            self._next_row += len(rows)
            for send in self._sends(rows):
                self._pace.wait(send.size)
                sync.run(self._sender.submit(send))

    def _sends(self, rows: Rows) -> Iterator[BulkSend]:
        rows, runs = self._lanes.runs(rows)
        records = records_of(rows)
        ends, data = record_ends(records), record_data(records)
        for run in runs:
            if run.delay_level:
                yield from self._singles(rows, run)
                continue
            start = run.start
            while start < run.end:
                end = self._request_end(ends, start, run.end)
                yield self._batch(run.lane, bytes(data[ends[start]:ends[end]]), end - start)
                start = end

    def _request_end(self, ends: Any, start: int, run_end: int) -> int:
        """The row behind the last one that the request that begins at row `start` can hold."""
        end = int(ends.searchsorted(int(ends[start]) + REQUEST_SIZE_MAX, side="right")) - 1
        return max(start + 1, min(end, run_end, start + self._request_rows_max))

    def _batch(self, lane: Lane, body: bytes, count: int) -> BulkSend:
        send = BulkSend(queue=lane.queue, body=body, count=count, lane=lane.queue,
                        properties=self._marks(lane))
        lane.next_row += count
        return send

    def _singles(self, rows: Rows, run: Run) -> Iterator[BulkSend]:
        """A delayed message cannot be in a batch."""
        for row in range(run.start, run.end):
            properties = names.parse(rows.properties[row].as_py().decode())
            properties[names.DELAY_TIME_LEVEL] = str(run.delay_level)
            properties.update(self._marks(run.lane))
            run.lane.next_row += 1
            yield BulkSend(queue=run.lane.queue, body=rows.bodies[row].as_py(), flag=int(rows.flags[row]),
                           lane=run.lane.queue, properties=properties)

    def _marks(self, lane: Lane) -> dict[str, str]:
        return {}

    def _queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        queues = self._queues.get(topic)
        if queues is None:
            queues = self._queues[topic] = sync.run(self._sender.publish_queues(topic))
        return queues


class _Pace:
    """Holds a task to so many messages a second."""

    def __init__(self, rate: int | None) -> None:
        self._rate = rate
        self._next = time.monotonic()

    def wait(self, count: int) -> None:
        if self._rate is None:
            return
        now = time.monotonic()
        if self._next > now:
            time.sleep(self._next - now)
        self._next = max(self._next, now) + count / self._rate
