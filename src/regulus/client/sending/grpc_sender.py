"""Sends to servers of RocketMQ 5, which choose the queue of a message.

After a failed attempt the next one follows at once, at another address if there is one. A server that asks for fewer
requests, or refuses connections, is left alone for a time first, like a broker (`core.resend`), within the time of the
call.

Source: ProducerImpl of rocketmq-clients.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence

from regulus.client import unique_key
from regulus.client.config import ProducerConfig
from regulus.client.connecting.client_instance import now_ms, steady_ms
from regulus.client.core.send_course import SendCourse
from regulus.client.grpc import conversion
from regulus.client.grpc.session import QueueEndpoint, Session, check_status
from regulus.client.send_result import SendResult, SendStatus
from regulus.client.sending import recalls
from regulus.client.sending.send_queues import SendQueues
from regulus.errors import (
    AnswerUnreadable,
    BrokerRefused,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    ConnectRefused,
    NoRoute,
    RequestTimeout,
    TooManyRequests,
)
from regulus.model.message import Message, MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import ClientType, Code, TransactionResolution, TransactionSource

ATTEMPT_MS_MIN = 20_000
"""The shortest time limit of an attempt, if the send has that much time left, so that a slow server does not get the
same message twice."""
_UNLIMITED = 1 << 20
_RPCS = messages.MessagingService
_RETRIED = (Code.INTERNAL_SERVER_ERROR, Code.PROXY_TIMEOUT, Code.HA_NOT_AVAILABLE)
_STATUSES: dict[int, SendStatus] = {
    Code.OK: SendStatus.SEND_OK, Code.MASTER_PERSISTENCE_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    Code.SLAVE_PERSISTENCE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    Code.HA_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE}

OnRecover = Callable[[MessageExt, str, str], Awaitable[None]]
"""Called when a server asks for the outcome of a transaction: its message, its id, and the server's address."""


class GrpcSender:
    def __init__(self, address: str, config: ProducerConfig, queues: SendQueues, topics: Callable[[], Iterable[str]],
                 on_recover: OnRecover) -> None:
        """`topics`: topics about whose transactions servers may ask. Raises ConfigError."""
        self._config = config
        self._queues = queues
        self._topics = topics
        self._on_recover = on_recover
        self._session = Session(address, config, ClientType.PRODUCER, self._settings, self._on_command,
                                config.send_msg_timeout)
        self._host = config.client_ip or unique_key.local_address()
        self.unique_keys = unique_key.UniqueKeys(self._host)
        self._under_way = asyncio.Semaphore(config.back_pressure_for_async_send_num or _UNLIMITED)

    @property
    def client_id(self) -> str:
        return self._session.client_id

    async def start(self) -> None:
        """Connect and send the settings. Raises ConnectFailed, BrokerRefused."""
        await self._session.start()

    async def close(self) -> None:
        await self._session.close()

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send(self, batch: Sequence[Message], course: SendCourse) -> SendResult:
        """Try until the messages are stored. Raises MessageIllegal, NoRoute, BrokerRefused, SendFailed, Throttled,
        TooManyRequests, ClientError."""
        request = self._request(batch)
        is_new = course.topic not in self._queues.turns
        async with self._under_way:
            if not course.counts_waits:
                course.started_ms = steady_ms()
            while True:
                places = await self._places(course.topic)
                if is_new:
                    is_new = False
                    self._queues.turn(course.topic)
                    self._session.settings_changed()
                place = self._choose(course, places)
                if not await self._queues.rest(place.target, course):
                    break
                begun = steady_ms()
                is_alone = all(each.target == place.target for each in places)
                timeout_ms = course.begin_attempt(place.target, begun, is_alone=is_alone)
                if timeout_ms <= 0:
                    break
                timeout_ms = max(timeout_ms, min(course.left_ms(begun), ATTEMPT_MS_MIN))
                try:
                    answer = await self._session.ask(_RPCS.SendMessage, request, place.target, timeout_ms)
                    if not _is_stored(answer, len(batch)):
                        check_status(answer.status, place.target)
                    return self._result(answer, batch, place, begun)
                except ClientError as error:
                    if not self._tries_again(course, error, place.target, begun):
                        raise
                if course.is_over(steady_ms()):
                    break
            return course.end(steady_ms())

    def _request(self, batch: Sequence[Message]) -> messages.SendMessageRequest:
        request = messages.SendMessageRequest()
        now = now_ms()
        for message in batch:
            self.unique_keys.give(message, now)
            request.messages.append(conversion.to_grpc(message, self._host))
        return request

    async def _places(self, topic: str) -> list[QueueEndpoint]:
        places = [place for place in await self._session.route(topic) if place.is_writable]
        if not places:
            raise NoRoute(f"topic {topic!r} has no queue that takes sends: check its permission and whether a master "
                          "is up")
        return places

    def _choose(self, course: SendCourse, places: Sequence[QueueEndpoint]) -> QueueEndpoint:
        """Each in turn, avoiding the server of the last attempt and servers that rest, if there are others."""
        queues = [MessageQueue(course.topic, place.target, number) for number, place in enumerate(places)]
        avoid = set(self._queues.back_off.resting(steady_ms()))
        if course.last_broker is not None:
            avoid.add(course.last_broker)
        return places[self._queues.turn(course.topic).select(queues, avoid).queue_id]

    def _tries_again(self, course: SendCourse, error: ClientError, target: str, begun: int) -> bool:
        course.failure = error
        if isinstance(error, ConnectRefused) and self._config.retry_refused_connection:
            course.was_refused()
            self._queues.back_off.refused(target, begun, steady_ms())
        if isinstance(error, TooManyRequests):
            self._queues.back_off.throttled(target, begun, random.uniform(-1, 1))
            return True
        if isinstance(error, AnswerUnreadable):
            raise course.failed_for_good(steady_ms()) from error
        if isinstance(error, ConnectionLost | RequestTimeout) and not course.budget.resends_without_answer:
            raise course.failed_for_good(steady_ms()) from error
        if isinstance(error, ConnectFailed | ConnectionLost):
            self._session.forget_route(course.topic)
        return isinstance(error, ConnectFailed | ConnectionLost | RequestTimeout) or (
            isinstance(error, BrokerRefused) and error.code in _RETRIED)

    def _result(self, answer: messages.SendMessageResponse, batch: Sequence[Message], place: QueueEndpoint,
                begun: int) -> SendResult:
        entries = answer.entries
        if len(entries) != len(batch):
            raise AnswerUnreadable(f"{place.target} took {len(batch)} messages and answered for {len(entries)}")
        self._queues.succeeded(place.target, begun)
        statuses = [_STATUSES.get(entry.status.code) for entry in entries]
        if None in statuses:
            raise AnswerUnreadable(f"{place.target} answered {[entry.status.code for entry in entries]} to "
                                   "messages that it stored")
        worst = max((status for status in statuses if status is not None), key=list(SendStatus).index)
        first = entries[0]
        queue = MessageQueue(batch[0].topic, place.broker, place.queue.id)
        return SendResult(worst, ",".join(entry.message_id for entry in entries), queue, first.offset,
                          transaction_id=first.transaction_id, recall_handle=first.recall_handle)

    # --- what was sent -----------------------------------------------------------------------------------------------

    async def recall(self, topic: str, recall_handle: str, timeout_ms: int) -> str:
        """Take a message back; returns its id. Raises like `Producer.recall`."""
        broker = recalls.read(recall_handle, topic).broker_name
        request = messages.RecallMessageRequest(recall_handle=recall_handle)
        request.topic.name = topic
        target = await self._target(topic, broker)
        return (await self._session.call(_RPCS.RecallMessage, request, target, timeout_ms)).message_id

    async def end_transaction(self, topic: str, message_id: str, transaction_id: str, *, commits: bool,
                              from_check: bool, timeout_ms: int, broker_name: str = "", target: str = "") -> None:
        """Commit or roll back at the address `target`, or else at the address of the broker. Raises BrokerRefused,
        ClientError."""
        request = messages.EndTransactionRequest(
            message_id=message_id, transaction_id=transaction_id,
            resolution=int(TransactionResolution.COMMIT if commits else TransactionResolution.ROLLBACK),
            source=int(TransactionSource.SOURCE_SERVER_CHECK if from_check else TransactionSource.SOURCE_CLIENT))
        request.topic.name = topic
        await self._session.call(_RPCS.EndTransaction, request, target or await self._target(topic, broker_name),
                                 timeout_ms)

    async def _target(self, topic: str, broker_name: str) -> str:
        places = await self._places(topic)
        return next((place.target for place in places if place.broker == broker_name), places[0].target)

    # --- what the server asks ----------------------------------------------------------------------------------------

    def _settings(self) -> messages.Settings:
        made = messages.Settings()
        made.publishing.SetInParent()
        made.publishing.validate_message_type = True
        for topic in self._topics():
            made.publishing.topics.add().name = topic
        made.publishing.max_body_size = self._config.max_message_size
        return made

    async def _on_command(self, command: messages.TelemetryCommand, target: str) -> None:
        if command.WhichOneof("command") == "recover_orphaned_transaction_command":
            asked = command.recover_orphaned_transaction_command
            message, _ = conversion.message_of(asked.message)
            await self._on_recover(message, asked.transaction_id, target)


def _is_stored(answer: messages.SendMessageResponse, count: int) -> bool:
    """Whether all messages are stored, even if not yet on the disk or a slave: then the status of the whole answer is
    that of a refusal."""
    entries = answer.entries
    return len(entries) == count and all(entry.message_id and entry.status.code in _STATUSES for entry in entries)
