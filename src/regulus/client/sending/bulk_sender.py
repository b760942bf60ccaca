"""Sends whole requests of many messages, many at a time, and drops none.

    async with BulkSender("127.0.0.1:9876", "my-group", config) as sender:
        await sender.submit(send)       # returns when there is room; raises what an earlier send failed with
        await sender.flush()            # returns when all are stored

The body of a request comes encoded, so that this costs per request and not per message. Sends of one lane reach the
broker in the order of `submit`: a send that fails is tried again only after those before it are stored. A failure that
may pass (a busy broker, a lost connection, no answer in time) is tried again until the retry budget is spent; then this
send and the sender fail, and with them all that waits.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from regulus.client.config import ClientConfig
from regulus.client.connecting import client_instance
from regulus.client.connecting.client_instance import ClientInstance
from regulus.client.core.resend import RETRY_CODES, is_worth_a_retry
from regulus.client.core.routes import Route
from regulus.errors import (
    BrokerRefused,
    ClientClosed,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    NoNameServer,
    NoRoute,
    RequestTimeout,
    SendFailed,
)
from regulus.model.message_queue import MessageQueue
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import SendMessageRequest
from regulus.wire.remoting_command import RemotingCommand

RETRY_PAUSE_FIRST_MS = 50
RETRY_PAUSE_MAX_MS = 2_000

DUPLICATE = "duplicate"
"""Field of an answer that says that the broker had stored the messages before."""

_STORED = frozenset((ResponseCode.SUCCESS, ResponseCode.SLAVE_NOT_AVAILABLE))
_RETRIED = RETRY_CODES | {ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT}
"""Stored, but not as safely as the broker was told to: the sender owns the messages until they are."""


@dataclass(slots=True, kw_only=True)
class BulkSend:
    """One request. `body` is a batch request's when `count` is given, else a single message's; a view is not copied.

    `properties` are the request's own: of a batch they belong to each of its messages. Sends of one `lane` keep their
    order. `on_stored` is called with the queue and the answer; what it raises fails the send.
    """

    queue: MessageQueue
    body: bytes | memoryview
    properties: dict[str, str] = field(default_factory=dict)
    count: int = 0
    flag: int = 0
    sys_flag: int = 0
    lane: object = None
    on_stored: "Callable[[MessageQueue, RemotingCommand], None] | None" = None

    @property
    def size(self) -> int:
        """Messages."""
        return self.count or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkConfig:
    """`reroutes`: whether another try may go to another broker, where the queue does not matter.

    `repeats`: whether a message may be stored twice; if not, a send whose answer is lost is not tried again and fails.
    """

    send_timeout_ms: int = 3_000            # of one attempt
    retry_budget_ms: int = 30_000           # of all attempts of one send
    in_flight_max: int = 1024               # messages sent and not yet answered; one send may be larger
    in_flight_size_max: int = 32 << 20      # bytes of their bodies; one send may be larger
    reroutes: bool = False
    repeats: bool = True
    client: ClientConfig = field(default_factory=ClientConfig)


class _Turn:
    """A send in the order of its lane. `begun` is set when its first attempt may go out."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def done(self) -> None:
        """Returns when it is stored or has failed."""
        if self.task is not None and not self.task.done():
            await asyncio.wait((self.task,))


class BulkSender:
    """`stored` and `duplicates` count messages, `retries` requests."""

    def __init__(self, name_server: str, group: str, config: BulkConfig | None = None) -> None:
        """Connects to nothing yet."""
        self.config = config or BulkConfig()
        self.stored = 0
        self.duplicates = 0
        self.retries = 0
        self._name_server = name_server
        self._group = group
        self._instance: ClientInstance | None = None
        self._in_flight = 0
        self._in_flight_size = 0
        self._room = asyncio.Event()
        self._failure: BaseException | None = None
        self._last: dict[object, _Turn] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._instance = client_instance.acquire(self._name_server, self.config.client)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        """Give up what is under way; `flush` before where it matters."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        instance, self._instance = self._instance, None
        if instance is not None:
            await client_instance.release(instance)

    # --- sending -----------------------------------------------------------------------------------------------------

    async def submit(self, send: BulkSend) -> None:
        """Begin a send, as soon as there is room. Raises what an earlier one failed with."""
        while not self._has_room(send):
            self._raise_failure()
            self._room.clear()
            await self._room.wait()
        # The first sends of a broker would else leave in any order, once the connection is there.
        with suppress(ClientError):
            await self._connect(send.queue)
        self._raise_failure()
        self._in_flight += send.size
        self._in_flight_size += len(send.body)
        turn = _Turn()
        task = asyncio.ensure_future(self._deliver(send, turn, self._last.get(send.lane)))
        turn.task = task
        self._last[send.lane] = turn
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(send, done))

    async def flush(self) -> None:
        """Returns when all that was submitted is stored. Raises what the first failed with."""
        while self._tasks and self._failure is None:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        self._raise_failure()

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that take sends, or will once the first send creates the topic. Raises NoRoute, NoNameServer."""
        return (await self._route(topic)).publish_queues

    async def request(self, broker_name: str, topic: str, command: RemotingCommand) -> RemotingCommand:
        """The answer, whatever its code, of the master that serves the topic; the request may reach it twice.

        A broker that is away is waited for, as by a send. Raises ClientError.
        """
        until = time.monotonic() + self.config.retry_budget_ms / 1000
        pause_ms = RETRY_PAUSE_FIRST_MS
        while True:
            try:
                return await self._running().connections.request(
                    self._master(await self._route(topic), broker_name), command, self.config.send_timeout_ms)
            except (ConnectFailed, ConnectionLost, RequestTimeout, NoRoute, NoNameServer):
                if time.monotonic() + pause_ms / 1000 > until:
                    raise
                self._running().doubt_route(topic)
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RETRY_PAUSE_MAX_MS)

    def make_unique_key(self) -> str:
        return self._running().unique_keys.make(client_instance.now_ms())

    # -----------------------------------------------------------------------------------------------------------------

    def _has_room(self, send: BulkSend) -> bool:
        return self._in_flight == 0 or (self._in_flight + send.size <= self.config.in_flight_max and
                                        self._in_flight_size + len(send.body) <= self.config.in_flight_size_max)

    async def _deliver(self, send: BulkSend, turn: "_Turn", before: "_Turn | None") -> None:
        if before is not None:
            await before.begun.wait()
            self._raise_failure()
        turn.begun.set()
        began = time.monotonic()
        pause_ms = RETRY_PAUSE_FIRST_MS
        tried: list[str] = []
        queue = send.queue
        while True:
            tried.append(queue.broker_name)
            try:
                answer = await self._attempt(send, queue)
            except (ConnectFailed, ConnectionLost, RequestTimeout, NoRoute, NoNameServer) as error:
                if not self.config.repeats and isinstance(error, ConnectionLost | RequestTimeout):
                    raise
                failure: ClientError = error
                self._running().doubt_route(queue.topic)
            else:
                if answer.code in _STORED:
                    self._note_stored(send, queue, answer)
                    return
                failure = BrokerRefused(answer.code, answer.remark, queue.broker_name)
                if not is_worth_a_retry(failure, _RETRIED if self.config.repeats else RETRY_CODES):
                    raise failure
            if before is not None:
                await before.done()
            elapsed_ms = int((time.monotonic() - began) * 1000)
            if self._failure is not None or elapsed_ms + pause_ms > self.config.retry_budget_ms:
                raise SendFailed(topic=queue.topic, attempts=len(tried), elapsed_ms=elapsed_ms,
                                 brokers=tuple(dict.fromkeys(tried)), cause=failure)
            self.retries += 1
            await asyncio.sleep(pause_ms * random.uniform(0.5, 1) / 1000)
            pause_ms = min(2 * pause_ms, RETRY_PAUSE_MAX_MS)
            if self.config.reroutes:
                queue = await self._other_queue(queue)

    async def _attempt(self, send: BulkSend, queue: MessageQueue) -> RemotingCommand:
        address = self._master(await self._route(queue.topic), queue.broker_name)
        return await self._running().connections.request(address, self._command(send, queue),
                                                         self.config.send_timeout_ms)

    async def _connect(self, queue: MessageQueue) -> None:
        await self._running().connections.get(self._master(await self._route(queue.topic), queue.broker_name))

    def _command(self, send: BulkSend, queue: MessageQueue) -> RemotingCommand:
        header = SendMessageRequest(self._group, queue.topic, queue_id=queue.queue_id, sys_flag=send.sys_flag,
                                    born_timestamp=client_instance.now_ms(), flag=send.flag,
                                    properties=send.properties, batch=send.count > 0, broker_name=queue.broker_name)
        code = RequestCode.SEND_BATCH_MESSAGE if send.count else RequestCode.SEND_MESSAGE_V2
        body = send.body if isinstance(send.body, bytes) else [send.body]
        return RemotingCommand.request(int(code), header.ext(), body)

    def _note_stored(self, send: BulkSend, queue: MessageQueue, answer: RemotingCommand) -> None:
        self.stored += send.size
        if answer.ext.get(DUPLICATE) == "true":
            self.duplicates += send.size
        if send.on_stored is not None:
            send.on_stored(queue, answer)

    async def _other_queue(self, queue: MessageQueue) -> MessageQueue:
        """One of another broker if there is one, whose number comes next."""
        try:
            queues = (await self._route(queue.topic)).publish_queues
        except ClientError:
            return queue
        others = [each for each in queues if each.broker_name != queue.broker_name]
        return others[queue.queue_id % len(others)] if others else queue

    async def _route(self, topic: str) -> Route:
        instance = self._running()
        known = instance.known_route(topic)
        if known is not None and known.publish_queues:
            return known
        defaults = SendMessageRequest("", topic)
        return await instance.publish_route(topic, defaults.default_topic, defaults.default_topic_queue_nums)

    def _master(self, route: Route, broker_name: str) -> str:
        address = route.master(broker_name)
        if address is None:
            raise NoRoute(f"broker {broker_name}, which topic {route.topic} is written to, has no master now")
        return address

    def _ended(self, send: BulkSend, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._in_flight -= send.size
        self._in_flight_size -= len(send.body)
        last = self._last.get(send.lane)
        if last is not None and last.task is task:
            del self._last[send.lane]
        # Asked of each, or asyncio would report at some later time that nobody has heard of those behind the first.
        failure = None if task.cancelled() else task.exception()
        if self._failure is None:
            self._failure = failure
        self._room.set()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise ClientClosed("the bulk sender is not running; use `async with`")
        return self._instance
