"""Running brokers as a place of queues, through the client of this package.

Spark's processes have no event loop, so this uses the client's shared one, which has a thread of its own. A broker that
does not answer is asked again until the option `retryTimeout` is over, so that a restart does not fail a query; the
wait is logged. An address that leads to no name server is refused at once, unless it led to one before.
"""

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from regulus.client import shared_loop
from regulus.client.administration import bulk_admin
from regulus.client.administration.admin import Admin
from regulus.client.administration.bulk_admin import QueueRead
from regulus.client.administration.expected_brokers import check_all_is_readable, check_brokers, unreadable_queues
from regulus.client.config import ClientConfig
from regulus.errors import BrokerRefused, ClientError, NoRoute, OptionError, RecordError, WrongNameServer
from regulus.model.delay_level import DEFAULT_LADDER, parse_ladder
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig
from regulus.record import message_record
from regulus.spark.credentials import credentials_of
from regulus.spark.marks import Mark, mark_of
from regulus.spark.options import ReadOptions
from regulus.spark.read_bounds import QueueState, Sizes
from regulus.spark.read_plan import (
    Gap,
    ReadRange,
    UnitRange,
    divided,
    in_task_order,
    sample_offsets,
)
from regulus.wire.codes import ResponseCode

_log = logging.getLogger(__name__)
T = TypeVar("T")
K = TypeVar("K")

REQUESTS_MAX = 64
"""Requests under way at the same time while planning, at most."""

SAMPLES_MAX = 32
"""Messages that are fetched to estimate sizes, over all ranges together, but at least one of each range."""

SMALL_READ_RECORDS = 256
"""Messages up to which one task reads everything, so that their sizes do not matter."""

RECORD_SIZE_GUESS = 1024.0
_NO_RECORD = re.compile(r"message (\d+) of queue (\d+) of (\S+) is (damaged|in the log's file).* is set to (\d+)$")
_PAUSE_MIN, _PAUSE_MAX = 0.05, 1.0
_FIRST_GAP_S, _GAP_MAX_S = 5.0, 60.0
"""Seconds between two log lines about a wait; each gap is twice the one before."""
_PASSING_REFUSALS = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.TOPIC_NOT_EXIST)


class LiveBrokers:
    """The brokers behind a name server. Close it when done."""

    def __init__(self, options: ReadOptions, *, was_reached: bool = False) -> None:
        """`was_reached`: the planner of the read reached them. Raises OptionError for credentials that are not where
        the option says."""
        self._options = options
        self._was_reached = was_reached
        self._found: set[str] = set()
        """Topics that a pattern has selected."""
        self._delays_ms: dict[str, tuple[int, ...]] = {}
        keys = credentials_of(options, os.environ)
        self._admin = Admin(options.name_server, ClientConfig(
            instance_name=f"spark-{os.getpid()}", access_key=keys.access_key, secret_key=keys.secret_key,
            tls=keys.tls))
        shared_loop.run(self._admin.start())

    def close(self) -> None:
        shared_loop.run(self._admin.shutdown())

    def __enter__(self) -> "LiveBrokers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what a place reports -----------------------------------------------------------------------------------------

    def queues(self) -> list[MessageQueue]:
        selection = self._options.selection
        found = self.queues_by_topic(sorted(selection.named_topics))
        if found and all(found.values()):
            # The list of all topics, which may be long, is not needed.
            return selection.queues_of([queue for queues in found.values() for queue in queues], "the cluster")
        topics = selection.topics_of(self.topics(), "the cluster")
        found = self.queues_by_topic(topics)
        self._found = set(topics)
        return selection.queues_of([queue for queues in found.values() for queue in queues], "the cluster")

    def queues_by_topic(self, topics: Sequence[str]) -> dict[str, list[MessageQueue]]:
        """The queues of each topic at the brokers that are there; empty for a topic whose brokers are all away.

        Raises ClientError when these are not the brokers that the options expect, or when expected ones have messages
        that cannot be read.
        """
        self._check_brokers()
        found = self._each(topics, self._queues_of)
        if self._options.expected_brokers is not None:
            check_all_is_readable(self._each(topics, self._unreadable))
        # Check once more, because the routes do not show a broker that went away in between.
        self._check_brokers()
        return found

    def _check_brokers(self) -> None:
        if self._options.expected_brokers is not None:
            check_brokers(self._options.expected_brokers, self.call(self._admin.cluster_info, "the list of brokers"))

    def topics(self) -> set[str]:
        """All topics of the cluster. Without any there is no broker, which has system topics, so this waits for one."""
        return self.call(self._topics, "the list of topics")

    async def _topics(self) -> set[str]:
        found = set(await self._admin.list_topics())
        if not found:
            raise ClientError(f"the name server {self._options.name_server} knows no broker")
        return found

    def states(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueState]:
        by_broker: dict[tuple[str, str], list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault((queue.topic, queue.broker_name), []).append(queue)
        found = self._each(sorted(by_broker), lambda key: self._admin.queue_states(by_broker[key]))
        return {queue: QueueState(*state) for states in found.values() for queue, state in states.items()}

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return self._each(list(times), lambda queue: self._offset_at(queue, times[queue]))

    def group_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        return self._each(queues, lambda queue: self._admin.group_offset(self._options.consumer_group, queue))

    def marks(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
        found = self._each(list(offsets), lambda queue: self._mark(queue, offsets[queue]))
        return {queue: mark for queue, mark in found.items() if mark is not None}

    async def _offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        """The first message stored at or after the time. RocketMQ 4.9 answers with the nearest one, earlier or later,
        and with any of several of that time, so the answer is checked, and a wrong one starts a search."""
        low, high, _ = await self._admin.queue_state(queue)
        found = min(max(await self._admin.search_offset(queue, time_ms), low), high)
        if (found == low or await self._is_before(queue, found - 1, time_ms)) and \
                (found == high or not await self._is_before(queue, found, time_ms)):
            return found
        while low < high:
            middle = (low + high) // 2
            if await self._is_before(queue, middle, time_ms):
                low = middle + 1
            else:
                high = middle
        return low

    async def _is_before(self, queue: MessageQueue, queue_offset: int, time_ms: int) -> bool:
        """Whether the message was stored before the time; true for a message that is gone."""
        mark = await self._mark(queue, queue_offset)
        return mark is None or mark.store_time < time_ms

    async def _mark(self, queue: MessageQueue, queue_offset: int) -> Mark | None:
        """The mark of a message; None if it cannot be read, which shows when RocketMQ gives a later one instead."""
        data = await self._record_at(queue, queue_offset)
        if not data:
            return None
        try:
            message = message_record.decode(data, 0, False)
        except RecordError:
            return None
        return mark_of(message) if message.queue_offset == queue_offset else None

    def record_sizes(self, ranges: Sequence[UnitRange]) -> list[float]:
        """Bytes of a message of each range, on average, from samples; the same ranges have the same samples."""
        if sum(unit.end - unit.start for unit in ranges) <= SMALL_READ_RECORDS:
            return [RECORD_SIZE_GUESS] * len(ranges)
        per_range = max(1, SAMPLES_MAX // len(ranges))
        places = [(number, offset) for number, unit in enumerate(ranges)
                  for offset in sample_offsets(unit.start, unit.end, per_range)]
        sizes = self._each(places, lambda place: self._size_at(ranges[place[0]].queue, place[1]))
        averages = []
        for number in range(len(ranges)):
            known = [size for (owner, _), size in sizes.items() if owner == number and size]
            averages.append(sum(known) / len(known) if known else RECORD_SIZE_GUESS)
        return averages

    def partitions(self, ranges: Sequence[UnitRange], gaps: Sequence[Gap], *, cores: int | None,
                   sizes: Sizes | None = None) -> list[ReadRange]:
        ordered = in_task_order(ranges)
        known = [sizes[unit.queue] for unit in ordered] if sizes else self.record_sizes(ordered)
        parts = divided(ordered, known, self._options, cores)
        if gaps:
            first = parts[0] if parts else ReadRange(())
            parts[:1] = [ReadRange(first.units, tuple(gaps))]
        return parts

    # --- what a task needs -------------------------------------------------------------------------------------------

    def begin_read(self, queue: MessageQueue, start: int, end: int) -> "Future[QueueRead]":
        """Begin a read; `finish_read` waits for it."""
        return shared_loop.submit(self._read(queue, start, end))

    def finish_read(self, reading: "Future[QueueRead]", queue: MessageQueue, start: int, end: int) -> QueueRead:
        """The answer to a read; a failed one is repeated. Raises ClientError, OptionError."""
        try:
            return reading.result()
        except ClientError as error:
            if not self._is_passing(error):
                raise self._refused(error) from error
        return self.call(lambda: self._read(queue, start, end), f"{queue.topic}/{queue.broker_name}/{queue.queue_id}",
                         {queue.topic})

    def has_bulk(self, queue: MessageQueue) -> bool:
        return self.call(lambda: self._admin.has_bulk(queue), queue.topic, {queue.topic})

    def delays_ms(self, broker_name: str) -> tuple[int, ...]:
        """The delays of a broker's levels; empty if this client may not read its settings. Raises ClientError."""
        if broker_name not in self._delays_ms:
            self._delays_ms[broker_name] = self.call(lambda: self._ladder(broker_name),
                                                     f"the settings of {broker_name}")
        return self._delays_ms[broker_name]

    async def _ladder(self, broker_name: str) -> tuple[int, ...]:
        broker = (await self._admin.cluster_info()).broker_addr_table.get(broker_name)
        if broker is None or not broker.broker_addrs:
            raise ClientError(f"no broker {broker_name!r} is registered at {self._options.name_server}")
        try:
            config = await self._admin.broker_config(broker.broker_addrs[min(broker.broker_addrs)])
        except BrokerRefused as error:
            if error.code != ResponseCode.NO_PERMISSION:
                raise
            return ()
        return parse_ladder(config.get("messageDelayLevel", DEFAULT_LADDER))

    # --- progress ----------------------------------------------------------------------------------------------------

    def publish(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Set the offsets of a consumer group, which is created unless it exists."""
        try:
            self.call(lambda: self._admin.set_offsets(group, offsets), f"group {group}")
        except BrokerRefused as error:
            if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            self.call(lambda: self._admin.create_group(SubscriptionGroupConfig(group_name=group)), f"group {group}")
            self.call(lambda: self._admin.set_offsets(group, offsets), f"group {group}")

    # -----------------------------------------------------------------------------------------------------------------

    def call(self, make: Callable[[], Coroutine[Any, Any, T]], what: str, topics: set[str] | None = None) -> T:
        """The answer to a request, which is repeated until `retryTimeout` is over if the broker does not answer.

        Raises ClientError that says what could not be read, and OptionError when the broker refuses an option.
        """
        begun = time.monotonic()
        until = begun + self._options.retry_timeout_ms / 1000
        pause, told_at, gap = _PAUSE_MIN, begun, 0.0
        while True:
            try:
                answer = shared_loop.run(make())
            except ClientError as error:
                if not self._is_passing(error):
                    raise self._refused(error) from error
                now = time.monotonic()
                if now + pause >= until:
                    raise self._given_up(error, what) from error
                if now >= told_at + gap:
                    _log.warning("cannot read %s yet; trying for %.0f s (option 'retryTimeout'), %.0f s so far: %s",
                                 what, until - begun, now - begun, error)
                    told_at, gap = now, min(2 * gap or _FIRST_GAP_S, _GAP_MAX_S)
            else:
                self._was_reached = True
                return answer
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX)
            self._look_for_brokers(topics or set())

    def _is_passing(self, error: ClientError) -> bool:
        """Whether the error may be gone a little later, so that the request is worth repeating."""
        if isinstance(error, WrongNameServer):
            return self._was_reached    # a name may be unknown while its server restarts
        return not isinstance(error, BrokerRefused) or error.code in _PASSING_REFUSALS

    def _given_up(self, error: ClientError, what: str) -> ClientError:
        """The error to raise at the end, of the class of the last one if that class takes a text."""
        kind = type(error) if type(error).__init__ is ClientError.__init__ else ClientError
        return kind(f"{what} could not be read for {self._options.retry_timeout_ms} ms (option 'retryTimeout'), last "
                    f"because {error}", error.code)

    def _look_for_brokers(self, topics: set[str]) -> None:
        """Read the routes again, because a broker may come back at another address."""
        try:
            shared_loop.run(self._admin.forget_routes(topics))
        except ClientError:
            # The request that follows meets the same fault and reports it.
            return

    def _refused(self, error: ClientError) -> Exception:
        if self._options.sql and isinstance(error, BrokerRefused) and not _NO_RECORD.match(error.remark):
            return OptionError(f"option 'sql' is not applied by this broker ({error.remark or error}): filter with "
                               "where(...), or set enablePropertyFilter=true on the broker")
        return error

    async def _read(self, queue: MessageQueue, start: int, end: int) -> QueueRead:
        options = self._options
        if options.sql:
            return await self._admin.read_queue(queue, start, end, expression=options.sql, expression_type="SQL92")
        expression = "*" if options.tags is None else "||".join(sorted(options.tags))
        return await self._admin.read_queue(queue, start, end, expression=expression)

    async def _queues_of(self, topic: str) -> list[MessageQueue]:
        try:
            return await self._admin.queues(topic)
        except NoRoute:
            # The topic was deleted since the list was made, or its broker is away.
            return []

    async def _unreadable(self, topic: str) -> list[MessageQueue]:
        return await unreadable_queues(self._admin, topic)

    async def _size_at(self, queue: MessageQueue, offset: int) -> int:
        return len(await self._record_at(queue, offset))

    async def _record_at(self, queue: MessageQueue, offset: int) -> bytes | memoryview:
        """The record at an offset, or the one that RocketMQ gives in its place; empty for a damaged one."""
        try:
            return (await self._admin.read_queue(queue, offset, offset + 1, size_max=1)).data
        except BrokerRefused as error:
            if no_record(error, queue) is None:
                raise
            return b""

    def _each(self, keys: Sequence[K], ask: Callable[[K], Awaitable[T]]) -> dict[K, T]:
        """The answer for each key, with at most REQUESTS_MAX requests at a time."""
        async def all_of_them() -> dict[K, T]:
            free = asyncio.Semaphore(REQUESTS_MAX)

            async def one(key: K) -> T:
                async with free:
                    return await ask(key)
            return dict(zip(keys, await asyncio.gather(*(one(key) for key in keys)), strict=True))
        # A pattern names no topics, so the routes of the topics that it has selected are read again.
        topics = self._options.selection.named_topics or self._found
        return self.call(all_of_them, "the brokers' queues", topics) if keys else {}


class NoRecord(NamedTuple):
    """Messages [start, end) that a Regulus broker refuses to give, because the record is damaged, or they were in a
    file of the log that is missing."""

    start: int
    end: int
    is_gone: bool


def no_record(error: BrokerRefused, queue: MessageQueue) -> NoRecord | None:
    """The messages of the queue that a refusal is about; None when it is about something else."""
    told = _NO_RECORD.match(error.remark) if error.code == ResponseCode.SYSTEM_ERROR else None
    if told is None or (int(told[2]), told[3]) != (queue.queue_id, queue.topic):
        return None
    return NoRecord(int(told[1]), int(told[5]), told[4] != "damaged")


BULK_SIZE = bulk_admin.BULK_SIZE
PULL_COUNT = bulk_admin.PULL_COUNT
