"""Sends whole requests of many messages, many at a time, and drops none.

    async with BulkSender("127.0.0.1:9876", "my-group", config) as sender:
        await sender.submit(send)       # returns when there is room; raises the error of an earlier send that failed
        await sender.flush()            # returns when all are stored

The caller encodes the bodies of requests, so that the sender's cost is per request and not per message. Sends of one
lane reach the broker in the order of `submit`: a send that fails is tried again only after those before it are stored.
After a failure that may be temporary (a busy broker, a lost connection, no answer in time) the send is tried again
until its retry budget is spent. Then the sender fails, with this send and all that wait.

With `reroutes`, a send is tried again, too, when the broker no longer has its queue: the route is fetched again, and
this send and later ones go to the queues that are left, those of the same broker first.
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
from regulus.client.core.resend import RETRY_CODES, is_of_a_gone_queue, is_worth_a_retry
from regulus.client.core.routes import Route
from regulus.errors import (
    BrokerRefused,
    ClientClosed,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    HeaderError,
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
"""The field of an answer which says that the broker had already stored the messages."""

_STORED = frozenset((ResponseCode.SUCCESS, ResponseCode.SLAVE_NOT_AVAILABLE))
_RETRIED = RETRY_CODES | {ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT}
"""Codes after which a send is repeated. FLUSH_DISK_TIMEOUT and FLUSH_SLAVE_TIMEOUT mean: stored, but not as safely as
the broker is set up to; the sender is responsible for the messages until they are."""


@dataclass(slots=True, kw_only=True)
class BulkSend:
    """One request. With `count`, `body` is the body of a batch, else of a single message; a view is not copied.

    `properties` are the request's own; those of a batch apply to each of its messages. Sends of one `lane` keep their
    order. `on_stored` is called with the queue and the answer; an exception in it fails the send.
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
        """The number of messages."""
        return self.count or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkConfig:
    """How a bulk sender sends."""

    send_timeout_ms: int = 3_000
    """[ms] Time for one attempt."""
    retry_budget_ms: int = 30_000
    """[ms] Time for all attempts of one send. More survives longer outages."""
    in_flight_max: int = 1024
    """[messages] Sent and not yet answered; one send may be larger. More is faster and uses more memory."""
    in_flight_size_max: int = 32 << 20
    """[bytes] Size of the bodies of these messages; one send may be larger."""
    reroutes: bool = False
    """Whether another attempt may go to another broker. Switch it off where the queue matters."""
    repeats: bool = True
    """On: a send whose answer is lost is tried again, and may be stored twice. Off: it fails."""
    client: ClientConfig = field(default_factory=ClientConfig)
    """Settings of the connections."""


class _Turn:
    """The position of a send in its lane. `begun` is set when the send begins its first attempt."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def done(self) -> None:
        """Return when the send is stored or has failed."""
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
        self._gone: set[MessageQueue] = set()
        """Queues that their brokers no longer have, of those that the caller sent to."""
        self._last: dict[object, _Turn] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._instance = client_instance.acquire(self._name_server, self.config.client)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        """Cancel the sends under way; call `flush` first to wait for them."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        instance, self._instance = self._instance, None
        if instance is not None:
            await client_instance.release(instance)

    # --- sending -----------------------------------------------------------------------------------------------------

    async def submit(self, send: BulkSend) -> None:
        """Begin a send as soon as there is room. Raises the error of an earlier send that failed."""
        while not self._has_room(send):
            self._raise_failure()
            self._room.clear()
            await self._room.wait()
        # Without a connection first, the first sends to a broker would leave in any order once it is open.
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
        """Return when everything that was submitted is stored. Raises the error of the first send that failed."""
        while self._tasks and self._failure is None:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        self._raise_failure()

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that take sends, or will once the first send creates the topic. Raises NoRoute, NoNameServer."""
        return (await self._route(topic)).publish_queues

    async def request(self, broker_name: str, topic: str, command: RemotingCommand) -> RemotingCommand:
        """The answer, whatever its code, of the master that serves the topic; the request may reach it twice.

        Like a send, this waits for a broker that is down. Raises ClientError.
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
        queue = self._left_queue(send.queue)
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
                if not self._is_rerouted(failure) and not is_worth_a_retry(
                        failure, _RETRIED if self.config.repeats else RETRY_CODES):
                    raise failure
            if before is not None:
                await before.done()
            elapsed_ms = int((time.monotonic() - began) * 1000)
            if self._failure is not None or elapsed_ms + pause_ms > self.config.retry_budget_ms:
                raise SendFailed(topic=queue.topic, attempts=len(tried), elapsed_ms=elapsed_ms,
                                 brokers=tuple(dict.fromkeys(tried)), cause=failure)
            self.retries += 1
            if self._is_rerouted(failure):
                self._gone.add(queue)
                if await self._is_dropped(queue) and (left := self._left_queue(send.queue)) not in self._gone:
                    queue = left
                    continue
            await asyncio.sleep(pause_ms * random.uniform(0.5, 1) / 1000)
            pause_ms = min(2 * pause_ms, RETRY_PAUSE_MAX_MS)
            if queue in self._gone:
                queue = self._left_queue(send.queue)
            elif self.config.reroutes:
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
        """A queue of another broker if there is one, chosen by the queue id; else the same queue."""
        try:
            queues = (await self._route(queue.topic)).publish_queues
        except ClientError:
            return queue
        others = [each for each in queues if each.broker_name != queue.broker_name and each not in self._gone]
        return others[queue.queue_id % len(others)] if others else queue

    def _is_rerouted(self, failure: ClientError) -> bool:
        """Whether the broker has no such queue, and another one will do."""
        return self.config.reroutes and is_of_a_gone_queue(failure)

    async def _is_dropped(self, queue: MessageQueue) -> bool:
        """Whether a fresh route has no such queue; False when no route comes. A broker reports to the name servers
        soon."""
        try:
            return queue not in (await self._running().fetch_route(queue.topic)).publish_queues
        except (NoRoute, NoNameServer, HeaderError):
            return False

    def _left_queue(self, queue: MessageQueue) -> MessageQueue:
        """The queue itself, or for one that its broker no longer has, always the same one of those that are left: of
        the same broker, or else of others."""
        route = self._running().known_route(queue.topic) if queue in self._gone else None
        if route is None:
            return queue
        left = [each for each in route.publish_queues if each not in self._gone]
        left = [each for each in left if each.broker_name == queue.broker_name] or left
        return left[queue.queue_id % len(left)] if left else queue

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
        # Retrieve the error of every task: otherwise asyncio reports later that the errors after the first were lost.
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
