"""Sends messages.

A send chooses a queue, waits for the broker's answer and, when an attempt fails, tries again elsewhere while its time
budget lasts. A returned result means that the message is stored; an error means that it may or may not be (a lost
answer cannot be told from a lost request), and that the application owns it again.
"""

import asyncio
import logging
import random
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from regulus.client import client_instance
from regulus.client.client_instance import ClientInstance, RequestHandler, steady_ms
from regulus.client.config import IsolationStrategy, ProducerConfig
from regulus.client.core import batching, fault_isolation
from regulus.client.core.batching import BatchKey, Gatherer
from regulus.client.core.fault_isolation import NO_ISOLATION, Outcome, brokers_to_avoid
from regulus.client.core.message_check import check_group, check_message, check_topic
from regulus.client.core.queue_selector import QueueSelector, RoundRobin, check_selected
from regulus.client.core.resend import RETRY_CODES, BackOff, SendBudget
from regulus.client.core.routes import Route
from regulus.client.outgoing import Outgoing
from regulus.client.send_result import SendResult, SendStatus
from regulus.client.tasks import TaskGroup
from regulus.errors import (
    BrokerRefused,
    ClientClosed,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    RequestTimeout,
    SendFailed,
    Throttled,
    TooManyRequests,
)
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import ConsumerData
from regulus.wire.codes import ResponseCode

_log = logging.getLogger(__name__)

_ONE_ATTEMPT = SendBudget(attempts=1)

_COMPRESS_IN_THREAD_FROM = 256 << 10
"""Compressing a body of this size takes some ms, during which the event loop should serve others."""


class Producer:
    """A producer of one group.

        async with Producer("127.0.0.1:9876", "my-group") as producer:
            result = await producer.send(Message("my-topic", b"hello"))

    Any number of sends may be under way at the same time; they share one connection to each broker.
    """

    def __init__(self, name_server: str, group: str, config: ProducerConfig | None = None) -> None:
        """Connects to nothing yet. Raises ConfigError."""
        check_group(group)
        self.group = group
        self.config = config or ProducerConfig()
        self._name_server = name_server
        self._instance: ClientInstance | None = None
        self._turns: dict[str, RoundRobin] = {}
        self._back_off = BackOff()
        strategy = self.config.isolation_strategy
        if strategy is IsolationStrategy.NONE and self.config.send_latency_fault_enable:
            strategy = IsolationStrategy.LATENCY
        self._isolation = fault_isolation.STRATEGIES[strategy]()
        self._retries = SendBudget(attempts=1 + self.config.retry_times_when_send_failed,
                                   attempt_timeout_max_ms=self.config.send_msg_max_timeout_per_request,
                                   java_budget=self.config.java_budget)
        codes = self.config.retry_response_codes
        self._retry_codes = RETRY_CODES if codes is None else codes
        self._gatherer = Gatherer(batch_size_max=self.config.batch_max_bytes,
                                  held_size_max=self.config.total_batch_max_bytes)
        self._gathered: dict[BatchKey, _Waiters] = {}
        self._tasks = TaskGroup()
        self._thread_size = max(_COMPRESS_IN_THREAD_FROM, self.config.compress_msg_body_over_howmuch)
        permits = self.config.back_pressure_for_async_send_num
        self._permits = asyncio.Semaphore(permits) if permits else None

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Needs no network. Raises ConfigError for a malformed name server address."""
        if self._instance is None:
            self._instance = client_instance.acquire(self._name_server, self.config, self)

    async def shutdown(self) -> None:
        """Send what waits in batches, unregister, and close connections that nobody else uses."""
        instance = self._instance
        if instance is None:
            return
        for key in list(self._gathered):
            self._send_gathered(key)
        pending = self._tasks.all()
        if pending:
            await asyncio.wait(pending)
        self._instance = None
        await client_instance.release(instance, self)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.shutdown()

    @property
    def client_id(self) -> str:
        return self._running().client_id

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send(self, message: Message, *, queue: MessageQueue | None = None, selector: QueueSelector | None = None,
                   argument: object = None, timeout_ms: int | None = None) -> SendResult:
        """Store one message; the message gets its unique key, and its body is left as it is.

        Without `queue` and `selector` the queue is chosen in turn and failures are retried on another broker. With one
        of them (ordered sends) there is one attempt. `argument` is handed to the selector. `timeout_ms` replaces
        `send_msg_timeout` for the whole call.

        Raises MessageIllegal before anything is sent; NoRoute, NoNameServer; BrokerRefused for an answer that is not
        retried; SendFailed when all attempts failed; Throttled and TooManyRequests when the budget leaves no room.
        """
        check_message(message, self.config.max_message_size)
        if selector is not None:
            queues = (await self._route(message.topic)).publish_queues
            queue = check_selected(queues, selector(queues, message, argument))
        if self.config.auto_batch and timeout_ms is None:
            future = self._gather(message, queue)
            if future is not None:
                return await future
        return await self._send(await self._outgoing(message), queue, timeout_ms or self.config.send_msg_timeout)

    async def send_batch(self, messages: Sequence[Message], *, queue: MessageQueue | None = None,
                         timeout_ms: int | None = None) -> SendResult:
        """Store several messages of one topic in one request, neighbours in one queue; all of them or none.

        The result has their ids joined by commas, in order, and the queue offset of the first. Raises as `send`;
        MessageIllegal also when the messages cannot be one batch.
        """
        batching.check_batch(messages)
        for message in messages:
            check_message(message, self.config.max_message_size)
        return await self._send(self._outgoing_batch(messages), queue, timeout_ms or self.config.send_msg_timeout)

    async def send_in_batches(self, messages: Iterable[Message], *, size_max: int = 1 << 20) -> list[SendResult]:
        """Store any number of messages of one topic, cut into batches of at most `size_max` bytes, one after another.

        Raises as `send_batch`; batches before the failed one are stored.
        """
        return [await self.send_batch(batch) for batch in batching.split(list(messages), size_max)]

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None,
                          selector: QueueSelector | None = None, argument: object = None) -> None:
        """Write one message to the broker's connection and wait for no answer: it may be lost unseen.

        Raises MessageIllegal, NoRoute, NoNameServer, ConnectFailed: what is known on this side.
        """
        check_message(message, self.config.max_message_size)
        instance = self._running()
        route = await self._route(message.topic)
        if selector is not None:
            queue = check_selected(route.publish_queues, selector(route.publish_queues, message, argument))
        elif queue is None:
            queue = self._turn(message.topic).select(route.publish_queues)
        outgoing = await self._outgoing(message)
        await instance.connections.send_oneway(_master(route, queue), outgoing.command(queue, oneway=True),
                                               self.config.send_msg_timeout)

    async def fetch_publish_message_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that take sends. Raises NoRoute, NoNameServer."""
        check_topic(topic)
        return (await self._route(topic)).publish_queues

    # --- what a client instance asks of its members ------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData | None:
        return None

    def topics(self) -> Iterable[str]:
        return self._turns

    def routes_changed(self) -> None:
        pass

    def request_handlers(self) -> dict[int, RequestHandler]:
        return {}

    # --- one send ----------------------------------------------------------------------------------------------------

    async def _send(self, outgoing: Outgoing, queue: MessageQueue | None, timeout_ms: int) -> SendResult:
        if self._permits is None:
            return await self._attempts(outgoing, queue, timeout_ms)
        started = steady_ms()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._permits.acquire()
        except TimeoutError:
            raise TooManyRequests(f"{self.config.back_pressure_for_async_send_num} sends are under way, and none ended "
                                  f"within {timeout_ms} ms") from None
        try:
            return await self._attempts(outgoing, queue, max(1, timeout_ms - (steady_ms() - started)))
        finally:
            self._permits.release()

    async def _attempts(self, outgoing: Outgoing, wanted: MessageQueue | None, timeout_ms: int) -> SendResult:
        """Try until stored. One function steers here; what it decides by is in `core`."""
        started = steady_ms()
        budget = self._budget(outgoing) if wanted is None else _ONE_ATTEMPT
        tried: list[str] = []
        failure: ClientError | None = None
        stored: SendResult | None = None
        for attempt in range(1, budget.attempts + 1):
            route = await self._route_within(outgoing.topic, timeout_ms - (steady_ms() - started))
            queue = wanted or self._choose(route, tried[-1] if tried else None)
            if not self._back_off.is_idle:
                await self._rest(queue.broker_name, timeout_ms - (steady_ms() - started), failure)
            begun = steady_ms()
            attempt_timeout = budget.attempt_timeout_ms(attempt, timeout_ms - (begun - started))
            if attempt_timeout <= 0:
                break
            tried.append(queue.broker_name)
            try:
                result = await self._attempt(outgoing, route, queue, attempt_timeout, begun)
            except BrokerRefused as error:
                if error.code not in self._retry_codes:
                    if stored is not None:
                        return stored
                    raise
                failure = error
            except (ConnectFailed, ConnectionLost, RequestTimeout, _NoMaster) as error:
                failure = error
                if not budget.resends_without_answer and isinstance(error, ConnectionLost | RequestTimeout):
                    raise SendFailed(topic=outgoing.topic, attempts=attempt, elapsed_ms=steady_ms() - started,
                                     brokers=tuple(tried), cause=error) from error
            else:
                if result.send_status is SendStatus.SEND_OK or not self.config.retry_another_broker_when_not_store_ok:
                    return result
                stored = result
        if stored is not None:
            return stored
        raise _terminal(outgoing.topic, tried, budget.attempts, steady_ms() - started, failure)

    def _budget(self, outgoing: Outgoing) -> SendBudget:
        """How the attempts of this send share its time."""
        return self._retries

    def _choose(self, route: Route, last_broker: str | None) -> MessageQueue:
        queues = route.publish_queues
        turn = self._turn(route.topic)
        if last_broker is None and self._isolation is NO_ISOLATION and self._back_off.is_idle:
            return turn.select(queues)
        now = steady_ms()
        tiers = list(self._isolation.tiers(route.brokers, last_broker, now))
        resting = self._back_off.resting(now)
        if resting:
            tiers = [*(tier | resting for tier in tiers), resting, *tiers]
        return turn.select(queues, brokers_to_avoid(queues, tiers))

    async def _rest(self, broker_name: str, left_ms: int, failure: ClientError | None) -> None:
        """Wait while the broker rests after throttling. Raises Throttled when that is longer than the budget."""
        wait = self._back_off.wait_ms(broker_name, steady_ms())
        if wait == 0:
            return
        if wait >= left_ms:
            raise Throttled(f"{broker_name} is busy and rests for {wait} ms, longer than the {left_ms} ms left of the "
                            f"send's time", ResponseCode.SYSTEM_BUSY) from failure
        await asyncio.sleep(wait / 1000)

    async def _attempt(self, outgoing: Outgoing, route: Route, queue: MessageQueue, timeout_ms: int,
                       begun_ms: int) -> SendResult:
        """One request. Raises BrokerRefused, ConnectFailed, ConnectionLost, RequestTimeout, _NoMaster."""
        broker_name = queue.broker_name
        address = route.master(broker_name)
        if address is None:
            self._report(broker_name, Outcome.CLIENT_FAULT, begun_ms)
            raise _NoMaster(f"broker {broker_name} has no master")
        try:
            answer = await self._running().connections.request(address, outgoing.command(queue), timeout_ms)
        except (ConnectFailed, ConnectionLost, RequestTimeout):
            self._report(broker_name, Outcome.TRANSPORT_FAULT, begun_ms)
            self._running().doubt_route(outgoing.topic)
            raise
        result = outgoing.result(answer, queue)
        if result is None:
            self._report(broker_name, Outcome.BROKER_FAULT, begun_ms)
            if answer.code == ResponseCode.SYSTEM_BUSY and self.config.throttle_back_off:
                self._back_off.throttled(broker_name, begun_ms, random.uniform(-1, 1))
            raise BrokerRefused(answer.code, answer.remark, address)
        if self._isolation is not NO_ISOLATION:
            self._report(broker_name, Outcome.SUCCESS, begun_ms)
        self._back_off.succeeded(broker_name)
        return result

    def _report(self, broker_name: str, outcome: Outcome, begun_ms: int) -> None:
        now = steady_ms()
        self._isolation.report(broker_name, outcome, now - begun_ms, now)

    # --- batches of concurrent sends ---------------------------------------------------------------------------------

    def _gather(self, message: Message, queue: MessageQueue | None) -> "asyncio.Future[SendResult] | None":
        """Let the message wait for others; None when it has to go alone."""
        self._running()
        key = self._gatherer.add(message, queue)
        if key is None:
            return None
        loop = asyncio.get_running_loop()
        waiters = self._gathered.get(key)
        if waiters is None:
            linger = self.config.batch_max_delay_ms
            timer = (loop.call_later(linger / 1000, self._send_gathered, key) if linger
                     else loop.call_soon(self._send_gathered, key))
            waiters = self._gathered[key] = _Waiters(timer)
        future: asyncio.Future[SendResult] = loop.create_future()
        waiters.futures.append(future)
        if self._gatherer.is_full(key):
            self._send_gathered(key)
        return future

    def _send_gathered(self, key: BatchKey) -> None:
        waiters = self._gathered.pop(key, None)
        if waiters is None:
            return
        waiters.timer.cancel()
        messages = self._gatherer.take(key)
        self._tasks.spawn_with(self._send_together(messages, key.queue), f"batch to {key.topic}",
                               lambda task: waiters.done(task, messages))

    async def _send_together(self, messages: list[Message], queue: MessageQueue | None) -> SendResult:
        outgoing = await self._outgoing(messages[0]) if len(messages) == 1 else self._outgoing_batch(messages)
        return await self._send(outgoing, queue, self.config.send_msg_timeout)

    # -----------------------------------------------------------------------------------------------------------------

    async def _outgoing(self, message: Message) -> Outgoing:
        unique_keys, now = self._running().unique_keys, client_instance.now_ms()
        if len(message.body) < self._thread_size:
            return Outgoing.single(message, self.group, self.config, unique_keys, now)
        unique_keys.give(message, now)      # here, because the counter is this thread's
        return await asyncio.to_thread(Outgoing.single, message, self.group, self.config, unique_keys, now)

    def _outgoing_batch(self, messages: Sequence[Message]) -> Outgoing:
        return Outgoing.batch(messages, self.group, self.config, self._running().unique_keys, client_instance.now_ms())

    async def _route(self, topic: str) -> Route:
        instance = self._running()
        route = instance.known_route(topic)
        if route is not None and route.publish_queues:
            return route
        return await instance.publish_route(topic, self.config.create_topic_key, self.config.default_topic_queue_nums)

    async def _route_within(self, topic: str, left_ms: int) -> Route:
        """As `_route`; raises TooManyRequests when that takes all the time that is left."""
        route = self._running().known_route(topic)
        if route is not None and route.publish_queues:
            return route
        try:
            async with asyncio.timeout(left_ms / 1000):
                return await self._route(topic)
        except TimeoutError:
            raise TooManyRequests(f"no name server told the route of {topic} within the {left_ms} ms left of the "
                                  f"send's time") from None

    def _turn(self, topic: str) -> RoundRobin:
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._turns[topic] = RoundRobin(random.getrandbits(30))
        return turn

    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise ClientClosed(f"producer {self.group} is not running; use `async with` or call start() first")
        return self._instance


class _NoMaster(ClientError):
    """The route names no master for the chosen queue's broker."""


class _Waiters:
    """The callers whose messages travel in one batch."""

    def __init__(self, timer: asyncio.Handle) -> None:
        self.timer = timer
        self.futures: list[asyncio.Future[SendResult]] = []

    def done(self, task: "asyncio.Task[SendResult]", messages: Sequence[Message]) -> None:
        """Give each caller its own result, or all of them the same failure."""
        if task.cancelled():
            for future in self.futures:
                future.cancel()
            return
        error = task.exception()
        if error is not None:
            for future in self.futures:
                if not future.done():
                    future.set_exception(error)
            return
        for future, result in zip(self.futures, split_result(task.result(), messages), strict=True):
            if not future.done():
                future.set_result(result)


def split_result(result: SendResult, messages: Sequence[Message]) -> list[SendResult]:
    """The result of each message of a batch."""
    if len(messages) == 1:
        return [result]
    offset_ids = result.offset_message_id.split(",")
    if len(offset_ids) != len(messages):
        offset_ids = [result.offset_message_id] * len(messages)
    return [SendResult(result.send_status, message.message_id, result.message_queue, result.queue_offset + index,
                       offset_id) for index, (message, offset_id) in enumerate(zip(messages, offset_ids, strict=True))]


def _terminal(topic: str, tried: Sequence[str], attempts: int, elapsed_ms: int,
              failure: ClientError | None) -> ClientError:
    """The error of a send whose attempts have all failed, or whose time is up."""
    if len(tried) < attempts:
        error: ClientError = TooManyRequests(
            f"the time budget of a send to {topic} was used up after {elapsed_ms} ms and {len(tried)} of {attempts} "
            f"attempts (brokers {', '.join(tried) or 'none'}): {failure or 'no attempt was made'}")
    else:
        error = SendFailed(topic=topic, attempts=len(tried), elapsed_ms=elapsed_ms, brokers=tuple(tried), cause=failure)
    error.__cause__ = failure
    return error


def _master(route: Route, queue: MessageQueue) -> str:
    address = route.master(queue.broker_name)
    if address is None:
        raise ConnectFailed(f"broker {queue.broker_name} has no master")
    return address
