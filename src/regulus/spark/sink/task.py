"""One task of a sink: rows in, requests out, and back only when every row is stored."""

import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from regulus.client import shared_loop, sync
from regulus.client.config import ClientConfig
from regulus.client.sending.bulk_sender import BulkConfig, BulkSend, BulkSender
from regulus.client.sending.transaction_producer import HalfMessage
from regulus.errors import RowRefused
from regulus.model import message_properties as names
from regulus.model import sys_flag
from regulus.model.delay_level import DEFAULT_LADDER, parse_ladder
from regulus.model.message_id import parse_offset_message_id
from regulus.model.message_queue import MessageQueue
from regulus.spark.credentials import resolve
from regulus.spark.sink.commits import Attempt, RowSum
from regulus.spark.sink.lanes import Lane, Lanes, Run
from regulus.spark.sink.marks import check_batch, check_begin, check_ends, lane_name, note_stored, release
from regulus.spark.sink.options import SinkOptions
from regulus.spark.sink.order import in_key_order, with_key
from regulus.spark.sink.routes import SinkRoutes, grew
from regulus.spark.sink.rows import TRANSACTION_OF_SINK, Records, Rows, rows_of
from regulus.spark.sink.transactions import answer_brokers, commit_batch, roll_back
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import SendMessageResponse
from regulus.wire.remoting_command import RemotingCommand

SLICE_ROWS = 4096
"""Rows encoded at a time."""
REQUEST_ROWS_MAX = 1024
REQUEST_SIZE_MAX = 1 << 20
"""Bytes of a request's body, unless one message alone has more."""
GROUP_ROWS = 1024
GROUP_SIZE = 1 << 20
"""Requests are handed to the event loop's thread in groups of this many rows or bytes: a hand-over costs more than a
message."""
_DEFAULT_LEVELS = len(parse_ladder(DEFAULT_LADDER))
RATE_STEPS = 10
"""With a rate limit, a second is divided into at least this many requests."""


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
    """`stored` counts messages, `duplicates` those of them that the broker had from an earlier attempt.

    `grown_topics` have got queues that the sink does not use yet. `queues` are those that the task had rows for,
    `brokers` all that its topics lie on, each with one of them.
    """

    stored: int
    duplicates: int
    grown_topics: tuple[str, ...] = ()
    partition: int = 0
    queues: tuple[MessageQueue, ...] = ()
    brokers: tuple[tuple[str, str], ...] = ()
    attempt: str = ""                           # of a transactional sink, with what waits for the commit
    halves: tuple[HalfMessage, ...] = ()
    rows: tuple[tuple[str, RowSum], ...] = ()


def run_task(batches: Iterable[Any], options: SinkOptions, place: TaskPlace,
             environment: Mapping[str, str]) -> TaskReport:
    """Send all rows of some pa.RecordBatches. `environment` may hold credentials.

    Raises ClientError, RowRefused, SinkRefused, OptionError.
    """
    with ExitStack() as stack:
        client = client_config(options, environment)
        config = BulkConfig(send_timeout_ms=options.send_timeout_ms, retry_budget_ms=options.retry_budget_ms,
                            in_flight_max=options.in_flight_max, reroutes=not options.is_exactly_once,
                            repeats=not options.is_transactional, client=client)
        sender = stack.enter_context(_Blocking(options, config))
        routes = None
        if options.is_exactly_once:
            admin = stack.enter_context(sync.Admin(options.name_server, client))
            routes = SinkRoutes(admin, place.sink_id)
        halves = stack.enter_context(_Halves(options, place, client)) if options.is_transactional else None
        task = _Task(sender, options, place, routes, halves)
        for batch in _ordered(batches, options, place):
            task.send(batch)
        sender.flush()
        task.check_ends()
        report = TaskReport(stored=sender.stored, duplicates=sender.duplicates, partition=place.partition,
                            grown_topics=tuple(task.grown_topics), queues=task.queues_used(),
                            brokers=tuple(task.brokers.items()))
        return report if halves is None else halves.handed_over(report)


def commit(reports: Sequence[TaskReport], options: SinkOptions, sink_id: str, batch: int,
           environment: Mapping[str, str]) -> None:
    """All tasks of the batch are done: make its messages visible, if they wait for that.

    It may be called again for the same batch. Raises ClientError, SinkRefused, OptionError.
    """
    client = client_config(options, environment)
    if options.is_transactional:
        rows: defaultdict[str, RowSum] = defaultdict(RowSum)
        for topic, some in (row for report in reports for row in report.rows):
            rows[topic] += some
        commit_batch(options, sink_id, batch, {str(report.partition): report.attempt for report in reports},
                     [half for report in reports for half in report.halves], rows, client)
    elif options.is_exactly_once:
        config = BulkConfig(send_timeout_ms=options.send_timeout_ms, retry_budget_ms=options.retry_budget_ms,
                            client=client)
        with sync.Admin(options.name_server, client) as admin, _Blocking(options, config) as sender:
            routes = SinkRoutes(admin, sink_id)
            brokers = _brokers(reports, options, batch, routes)
            _check_batch(reports, sink_id, batch, brokers, sender)
            for topic in sorted({topic for report in reports for topic in report.grown_topics}):
                routes.renew(topic, batch + 1, sender.publish_queues(topic))
            if options.is_for_once:
                release(sender.ask, sink_id, brokers)
                routes.forget()


def abort(reports: Sequence[TaskReport | None], options: SinkOptions, sink_id: str,
          environment: Mapping[str, str]) -> None:
    """Not all tasks were done: give up what waits for a commit.

    When all were, it is the commit that failed, and what it has decided holds: the next commit of the batch goes on.
    """
    done = [report for report in reports if report is not None]
    if options.is_transactional and len(done) < len(reports):
        halves = [half for report in done for half in report.halves]
        roll_back(options, sink_id, halves, client_config(options, environment))
    if options.is_exactly_once and options.is_for_once:
        with sync.Admin(options.name_server, client_config(options, environment)) as admin:
            SinkRoutes(admin, sink_id).forget()


def _brokers(reports: Sequence[TaskReport], options: SinkOptions, batch: int,
             routes: SinkRoutes) -> list[tuple[str, str]]:
    """Those that may have rows of the batch, each with a topic that it serves."""
    brokers = {broker: topic for report in reports for broker, topic in report.brokers}
    if not brokers and options.topic is not None:
        brokers = {queue.broker_name: queue.topic for queue in routes.kept(options.topic, batch)}
    return sorted(brokers.items())


def _check_batch(reports: Sequence[TaskReport], sink_id: str, batch: int, brokers: Sequence[tuple[str, str]],
                 sender: "_Blocking") -> None:
    """Raises SinkRefused when the batch was begun otherwise than its tasks came now."""
    used = {(queue.broker_name, lane_name(sink_id, queue, report.partition))
            for report in reports for queue in report.queues}
    check_batch(sender.ask, sink_id, batch, brokers, used, len(reports))


def client_config(options: SinkOptions, environment: Mapping[str, str]) -> ClientConfig:
    """Raises OptionError when the credentials are not where they should be."""
    credentials = resolve(options.credentials or "", environment)
    return ClientConfig(connect_timeout=options.send_timeout_ms, access_key=credentials.access_key,
                        secret_key=credentials.secret_key, tls=credentials.tls)


def _ordered(batches: Iterable[Any], options: SinkOptions, place: TaskPlace) -> Iterable[Any]:
    if not options.dedup_key:
        return batches
    if options.is_exactly_once:
        return in_key_order(batches, options.dedup_key, SLICE_ROWS, str(place))
    return (with_key(batch, options.dedup_key, str(place)) for batch in batches)


class _Halves:
    """The half messages of one attempt of a transactional task. They are given up when it ends without a report."""

    def __init__(self, options: SinkOptions, place: TaskPlace, client: ClientConfig) -> None:
        self._options = options
        self._client = client
        self._attempt = Attempt(place.sink_id, place.batch, place.partition, uuid.uuid4().hex[:16])
        self._halves: list[HalfMessage] = []
        self._rows: defaultdict[str, RowSum] = defaultdict(RowSum)

    def __enter__(self) -> "_Halves":
        return self

    def __exit__(self, *error: object) -> None:
        roll_back(self._options, self._attempt.sink_id, self._halves, self._client)

    def handed_over(self, report: TaskReport) -> TaskReport:
        halves, self._halves = self._halves, []
        return replace(report, attempt=self._attempt.attempt, halves=tuple(halves),
                       rows=tuple(self._rows.items()))

    def answer_brokers(self, topic: str) -> None:
        answer_brokers(self._options, self._client, (topic,))

    def send(self, queue: MessageQueue, body: bytes, flag: int, properties: dict[str, str]) -> BulkSend:
        key = properties[names.UNIQUE_KEY]
        self._rows[queue.topic] += RowSum.of(body, flag, properties)

        def stored(at: MessageQueue, command: RemotingCommand) -> None:
            answer = SendMessageResponse.decode(command)
            _, physical_offset = parse_offset_message_id(answer.msg_id)
            self._halves.append(HalfMessage(self._options.producer_group, at.topic, at.broker_name,
                                            answer.queue_offset, physical_offset, key, answer.msg_id))

        return BulkSend(queue=queue, body=body, flag=flag, sys_flag=sys_flag.TRANSACTION_PREPARED, lane=queue,
                        on_stored=stored, properties={
                            **properties, names.TRANSACTION_PREPARED: "true",
                            names.PRODUCER_GROUP: self._options.producer_group,
                            TRANSACTION_OF_SINK: str(self._attempt)})


class _Blocking:
    """A BulkSender for a thread without an event loop."""

    def __init__(self, options: SinkOptions, config: BulkConfig) -> None:
        self._sender = BulkSender(options.name_server, options.producer_group, config)

    def __enter__(self) -> "_Blocking":
        shared_loop.run(self._sender.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        shared_loop.run(self._sender.__aexit__(None, None, None))

    def submit(self, sends: list[BulkSend]) -> None:
        async def submit_all() -> None:
            for send in sends:
                await self._sender.submit(send)
        shared_loop.run(submit_all())

    def flush(self) -> None:
        shared_loop.run(self._sender.flush())

    def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        return shared_loop.run(self._sender.publish_queues(topic))

    def ask(self, broker_name: str, topic: str, command: RemotingCommand) -> RemotingCommand:
        return shared_loop.run(self._sender.request(broker_name, topic, command))

    def make_unique_key(self) -> str:
        return self._sender.make_unique_key()

    @property
    def stored(self) -> int:
        return self._sender.stored

    @property
    def duplicates(self) -> int:
        return self._sender.duplicates


class _Task:
    """`routes` is given when a row must come back to its broker, `halves` when messages wait for a commit."""

    def __init__(self, sender: _Blocking, options: SinkOptions, place: TaskPlace, routes: SinkRoutes | None,
                 halves: _Halves | None) -> None:
        self.grown_topics: list[str] = []
        self.brokers: dict[str, str] = {}
        self._halves = halves
        self._routes = routes
        self._sender = sender
        self._options = options
        self._place = place
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._lanes = Lanes(partition=place.partition, batch=place.batch, topic=options.topic,
                            queues_of=self._queues_of)
        self._levels: dict[str, int] = {}
        self._next_row = 0
        self._pace = _Pace(options.rate_limit)
        rate_rows = max(1, options.rate_limit // RATE_STEPS) if options.rate_limit else REQUEST_ROWS_MAX
        self._request_rows_max = min(REQUEST_ROWS_MAX, options.in_flight_max, rate_rows)
        self._group_rows_max = min(GROUP_ROWS, rate_rows)

    def send(self, batch: Any) -> None:
        """Begin to send the rows of one Arrow batch."""
        for start in range(0, batch.num_rows, SLICE_ROWS):
            part = batch.slice(start, SLICE_ROWS)
            rows = rows_of(part, self._next_row, self._sender.make_unique_key()[:28], str(self._place))
            self._next_row += len(rows)
            group: list[BulkSend] = []
            count = size = 0
            for send in self._sends(rows):
                group.append(send)
                count += send.size
                size += len(send.body)
                if count >= self._group_rows_max or size >= GROUP_SIZE:
                    self._submit(group, count)
                    group, count, size = [], 0, 0
            self._submit(group, count)

    def _submit(self, group: list[BulkSend], count: int) -> None:
        """Begin the sends of one group of rows."""
        if group:
            self._pace.wait(count)
            self._sender.submit(group)

    def _sends(self, rows: Rows) -> Iterator[BulkSend]:
        rows, runs = self._lanes.runs(rows)
        if self._halves is not None:
            for run in runs:
                yield from self._half_messages(rows, run, self._halves)
            return
        records = Records(rows)
        for run in runs:
            if run.delay_level:
                self._check_delay(run)
                for row in range(run.start, run.end):
                    yield self._single(rows, records, run, row)
                continue
            start = run.start
            while start < run.end:
                end = records.fitting(start, min(run.end, start + self._request_rows_max), REQUEST_SIZE_MAX)
                if records.size(start, end) > REQUEST_SIZE_MAX:
                    # Of a batch the broker counts the lengths and properties as well, of a message its body alone.
                    yield self._single(rows, records, run, start)
                    start = end
                    continue
                yield self._batch(run.lane, records.request(start, end), end - start)
                self._go_on(run.lane, records, start, end)
                start = end

    def _batch(self, lane: Lane, body: memoryview, count: int) -> BulkSend:
        send = BulkSend(queue=lane.queue, body=body, count=count, lane=lane.queue, properties=self._marks(lane),
                        on_stored=partial(note_stored, lane, lane.next_row + count))
        lane.next_row += count
        return send

    def _single(self, rows: Rows, records: Records, run: Run, row: int) -> BulkSend:
        """Of a delayed message, which cannot be in a batch, and of a large one."""
        properties = names.parse(rows.properties[row].as_py().decode())
        if run.delay_level:
            properties[names.DELAY_TIME_LEVEL] = str(run.delay_level)
        properties.update(self._marks(run.lane))
        run.lane.next_row += 1
        send = BulkSend(queue=run.lane.queue, body=rows.bodies[row].as_py(), flag=int(rows.flags[row]),
                        lane=run.lane.queue, properties=properties,
                        on_stored=partial(note_stored, run.lane, run.lane.next_row))
        self._go_on(run.lane, records, row, row + 1)
        return send

    def _check_delay(self, run: Run) -> None:
        """Raises RowRefused for a level that the broker does not have, which it would take for its last one."""
        queue = run.lane.queue
        if run.delay_level <= _DEFAULT_LEVELS:
            return
        if queue.broker_name not in self._levels:
            self._levels[queue.broker_name] = _levels_of(self._sender, queue)
        levels = self._levels[queue.broker_name]
        if run.delay_level > levels:
            raise RowRefused(f"a row of {self._place} has delay_level {run.delay_level}, and broker "
                             f"{queue.broker_name} has levels 1 to {levels}: see its setting messageDelayLevel")

    def _go_on(self, lane: Lane, records: Records, start: int, end: int) -> None:
        """These rows are no longer before the lane's next one, but of those behind which it comes."""
        if self._routes is not None:
            lane.digest = records.digest(start, end, lane.digest)

    def _half_messages(self, rows: Rows, run: Run, halves: _Halves) -> Iterator[BulkSend]:
        for row in range(run.start, run.end):
            properties = names.parse(rows.properties[row].as_py().decode())
            yield halves.send(run.lane.queue, rows.bodies[row].as_py(), int(rows.flags[row]), properties)

    def _marks(self, lane: Lane) -> dict[str, str]:
        """The name of what this task sends to the lane's queue, and the number that comes next there."""
        if self._routes is None:
            return {}
        place, queue = self._place, lane.queue
        return {names.SINK: lane_name(place.sink_id, queue, place.partition),
                names.SEQUENCE: f"{place.batch}/{lane.next_row}", names.SINK_DIGEST: str(lane.digest)}

    def check_ends(self) -> None:
        check_ends(self._lanes.used(), self._place.sink_id, str(self._place))

    def queues_used(self) -> tuple[MessageQueue, ...]:
        return tuple(lane.queue for lane in self._lanes.used())

    def _queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        queues = self._queues.get(topic)
        if queues is None:
            current = queues = self._sender.publish_queues(topic)
            if self._halves is not None:
                self._halves.answer_brokers(topic)
            if self._routes is not None:
                queues = self._routes.queues(topic, self._place.batch, current)
                if grew(queues, current):
                    self.grown_topics.append(topic)
                for broker_name in sorted({queue.broker_name for queue in queues}):
                    check_begin(self._sender.ask, broker_name, topic, self._place.sink_id, self._place.batch)
                    self.brokers[broker_name] = topic
            self._queues[topic] = queues
        return queues


def _levels_of(sender: _Blocking, queue: MessageQueue) -> int:
    """How many delay levels a broker has; RocketMQ's own number where it does not tell whoever sends."""
    answer = sender.ask(queue.broker_name, queue.topic, RemotingCommand(RequestCode.GET_BROKER_CONFIG))
    if answer.code != ResponseCode.SUCCESS:
        return _DEFAULT_LEVELS
    lines = (line.partition("=") for line in answer.body.decode().splitlines())
    settings = {name.strip(): value for name, _, value in lines}
    return len(parse_ladder(settings.get("messageDelayLevel", DEFAULT_LADDER)))


class _Pace:
    """Holds a task to its messages a second."""

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
