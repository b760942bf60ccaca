"""Receives from servers of RocketMQ 5. Source: ConsumerImpl, SimpleConsumerImpl of rocketmq-clients."""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing

from regulus.client.config import ClientConfig
from regulus.client.connecting.client_instance import steady_ms
from regulus.client.consuming.receiver import INVISIBLE_MS_MAX, ConsumeDirectly, Receive, ReceiveRules
from regulus.client.grpc import conversion
from regulus.client.grpc.session import QueueEndpoint, Session, check_status
from regulus.client.received_message import ReceivedMessage
from regulus.client.tasks import TaskGroup
from regulus.errors import ClientClosed, ClientError, ConnectFailed, ConnectionLost, NoRoute
from regulus.model.failure_causes import Cause
from regulus.wire.bodies import SubscriptionData
from regulus.wire.bodies.subscription_data import SQL92
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import ClientType, Code, FilterType
from regulus.wire.grpc.times import get_ms, set_ms

_log = logging.getLogger(__name__)

RECEIVE_MARGIN_MS = 3_000
"""How much longer than its poll a server may take to answer."""
POLL_MS_MIN = 5_000
"""RocketMQ's proxy waits at least this long, whatever the request says, and refuses a call with a shorter deadline."""
DELIVERIES_MAX = 17
RETRY_DELAYS_MS = tuple(seconds * 1000 for seconds in (
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200))
_DELAYS_MAX = 100
_GROWING_DELAYS = 32
_RPCS = messages.MessagingService


class GrpcReceiver:
    def __init__(self, address: str, group: str, config: ClientConfig, subscriptions: Callable[[],
                 Iterable[SubscriptionData]], *, request_timeout_ms: int, is_push: bool = False,
                 is_orderly: bool = False) -> None:
        """Connects to nothing yet. Raises ConfigError."""
        self.prolongs = is_push
        self.consume_directly: ConsumeDirectly | None = None
        self._group = group
        self._subscriptions = subscriptions
        self._is_orderly = is_orderly
        kind = ClientType.PUSH_CONSUMER if is_push else ClientType.SIMPLE_CONSUMER
        self._session = Session(address, config, kind, self._settings, self._on_command, request_timeout_ms, group)
        self._rules: ReceiveRules | None = None
        self._returning = TaskGroup()
        self._timeout_ms = request_timeout_ms

    @property
    def client_id(self) -> str:
        return self._session.client_id

    @property
    def rules(self) -> ReceiveRules:
        """The rules that the server sent at the start. They stay the same, so that a consumer does not change between
        ordered and unordered while it runs."""
        assert self._rules is not None, "it was not started"
        return self._rules

    async def start(self) -> None:
        """Connect, and get the rules of the group. Raises ConnectFailed, BrokerRefused."""
        await self._session.start()
        self._rules = _rules_of(self._session.told)
        if self._is_orderly and not self._rules.is_orderly:
            _log.warning("consume_orderly is set, but group %s is not an ordered group at the server: use `regulus "
                         "group create %s --in-order`; its messages come in any order", self._group, self._group)

    async def close(self) -> None:
        try:
            await self._returning.finish(self._timeout_ms)
        finally:
            await self._session.close()

    def subscriptions_changed(self) -> None:
        self._session.settings_changed()

    async def brokers(self, topic: str) -> Sequence[str]:
        try:
            places = await self._session.route(topic)
        except NoRoute:
            return ()
        return sorted({place.broker for place in places if place.is_readable})

    # --- receiving ---------------------------------------------------------------------------------------------------

    async def receive(self, asked: Receive) -> list[ReceivedMessage]:
        topic = asked.subscription.topic
        place = await self._place(topic, asked.broker)
        request = messages.ReceiveMessageRequest(batch_size=asked.messages_max, auto_renew=asked.is_prolonged)
        request.group.name = self._group
        request.message_queue.CopyFrom(place.queue)
        request.filter_expression.type = int(_filter_type(asked.subscription))
        request.filter_expression.expression = asked.subscription.sub_string
        set_ms(request.long_polling_timeout, asked.await_ms)
        if not asked.is_prolonged:
            set_ms(request.invisible_duration, asked.invisible_ms)
        if asked.attempt_id:
            request.attempt_id = asked.attempt_id
        try:
            return await self._answers(request, place, asked)
        except (ConnectFailed, ConnectionLost):
            self._session.forget_route(topic)
            raise

    async def _answers(self, request: messages.ReceiveMessageRequest, place: QueueEndpoint,
                       asked: Receive) -> list[ReceivedMessage]:
        came: list[messages.Message] = []
        status = None
        parts = self._session.receive(request, place.target,
                                      max(asked.await_ms, POLL_MS_MIN) + RECEIVE_MARGIN_MS)
        async with aclosing(parts):
            try:
                async for part in parts:
                    kind = part.WhichOneof("content")
                    if kind == "message":
                        came.append(part.message)
                    elif kind == "status":
                        status = part.status
                    if len(came) > asked.messages_max:
                        _log.warning("%s sends more than the %d messages that were requested; the others are delivered "
                                     "again when their invisible time is over", place.target, asked.messages_max)
                        came.pop()
                        break
            except asyncio.CancelledError:
                self._returning.spawn(self._give_back(came, asked, place), f"late messages of {self._group}")
                raise
            except ClientClosed:
                raise       # without a connection the messages could be neither acknowledged nor given back
            except ClientError as error:
                if not came:
                    raise
                # The server counts them as delivered, and may keep them invisible as long as this client is connected.
                _log.warning("the answer of %s broke off after %d messages: %s", place.target, len(came), error)
        if not came and status is not None and status.code != Code.MESSAGE_NOT_FOUND:
            check_status(status, place.target)
        until_ms = steady_ms() + asked.invisible_ms
        return [conversion.received(told, asked.subscription.topic, asked.broker, until_ms) for told in came]

    async def _give_back(self, came: Sequence[messages.Message], asked: Receive, place: QueueEndpoint) -> None:
        """Give back messages for which no caller waits, so that other members get them at once. They do not count as
        delivered, if the server supports `suspend`."""
        for told in came:
            request = messages.ChangeInvisibleDurationRequest(
                receipt_handle=told.system_properties.receipt_handle, message_id=told.system_properties.message_id,
                suspend=True)
            request.group.name, request.topic.name = self._group, asked.subscription.topic
            set_ms(request.invisible_duration, 0)
            try:
                await self._session.call(_RPCS.ChangeInvisibleDuration, request, place.target)
            except ClientError as error:
                _log.warning("message %s arrived too late for a receive of group %s and could not be given back; it is "
                             "delivered again when its invisible time is over: %s",
                             told.system_properties.message_id, self._group, error)

    async def _place(self, topic: str, broker: str) -> QueueEndpoint:
        places = [place for place in await self._session.route(topic) if place.is_readable]
        for place in places:
            if place.broker == broker:
                return place
        raise NoRoute(f"broker {broker} has nothing of topic {topic!r} any more")

    # --- what is done with it ----------------------------------------------------------------------------------------

    async def ack(self, message: ReceivedMessage) -> None:
        request = messages.AckMessageRequest()
        request.group.name, request.topic.name = self._group, message.topic
        receipt = request.entries.add()
        receipt.message_id, receipt.receipt_handle = message.message_id, message.receipt_handle
        target = await self._target(message)
        answer = await self._session.call(_RPCS.AckMessage, request, target)
        for entry in answer.entries:
            check_status(entry.status, target)

    async def change_invisible(self, message: ReceivedMessage, invisible_ms: int) -> None:
        request = messages.ChangeInvisibleDurationRequest(
            receipt_handle=message.receipt_handle, message_id=message.message_id)
        request.group.name, request.topic.name = self._group, message.topic
        set_ms(request.invisible_duration, invisible_ms)
        until_ms = steady_ms() + invisible_ms
        answer = await self._session.call(_RPCS.ChangeInvisibleDuration, request, await self._target(message))
        message.receipt_handle = answer.receipt_handle or message.receipt_handle
        message.invisible_until_ms = until_ms

    async def dead_letter(self, message: ReceivedMessage, deliveries_max: int, cause: Cause) -> None:
        request = messages.ForwardMessageToDeadLetterQueueRequest(
            receipt_handle=message.receipt_handle, message_id=message.message_id,
            delivery_attempt=message.delivery_attempt, max_delivery_attempts=deliveries_max)
        request.group.name, request.topic.name = self._group, message.topic
        await self._session.call(_RPCS.ForwardMessageToDeadLetterQueue, request, await self._target(message))

    async def _target(self, message: ReceivedMessage) -> str:
        """The address of the message's broker, or the access point if the route no longer has it: a receipt names its
        broker."""
        try:
            return (await self._place(message.topic, message.broker_name)).target
        except NoRoute:
            return self._session.targets[0]

    # --- what the server asks ----------------------------------------------------------------------------------------

    def _settings(self) -> messages.Settings:
        made = messages.Settings()
        made.subscription.group.name = self._group
        made.subscription.fifo = self._is_orderly
        for each in self._subscriptions():
            entry = made.subscription.subscriptions.add()
            entry.topic.name = each.topic
            entry.expression.type, entry.expression.expression = int(_filter_type(each)), each.sub_string
        return made

    async def _on_command(self, command: messages.TelemetryCommand,
                          target: str) -> messages.TelemetryCommand | None:
        kind = command.WhichOneof("command")
        answer = messages.TelemetryCommand()
        answer.status.code = int(Code.OK)
        if kind == "print_thread_stack_trace_command":
            answer.thread_stack_trace.nonce = command.print_thread_stack_trace_command.nonce
            answer.thread_stack_trace.thread_stack_trace = stack_traces()
            return answer
        if kind != "verify_message_command":
            return None
        answer.verify_message_result.nonce = command.verify_message_command.nonce
        if self.consume_directly is None:
            answer.status.code = int(Code.NOT_IMPLEMENTED)
            answer.status.message = "this client has no listener"
            return answer
        message, unreadable = conversion.message_of(command.verify_message_command.message)
        try:
            is_consumed = not unreadable and await self.consume_directly(message)
        except ClientError as error:
            is_consumed, unreadable = False, str(error)
        if not is_consumed:
            answer.status.code = int(Code.FAILED_TO_CONSUME_MESSAGE)
            answer.status.message = unreadable or "the listener failed"
        return answer


def stack_traces() -> str:
    """The stacks of all threads, and of the tasks of this event loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
             for ident, frame in sys._current_frames().items()]
    parts.extend(f"task {task.get_name()}\n{''.join(map(str, task.get_stack(limit=5)))}"
                 for task in asyncio.all_tasks())
    return "\n".join(parts)


def _filter_type(subscription: SubscriptionData) -> FilterType:
    return FilterType.SQL if subscription.expression_type == SQL92 else FilterType.TAG


def _rules_of(told: messages.Settings) -> ReceiveRules:
    """The rules in the server's settings. Impossible values are limited to what servers accept, because another server
    might refuse them for each message."""
    policy = told.backoff_policy
    delays: tuple[int, ...] = RETRY_DELAYS_MS
    kind = policy.WhichOneof("strategy")
    if kind == "customized_backoff" and policy.customized_backoff.next:
        delays = tuple(_possible(get_ms(each)) for each in policy.customized_backoff.next[:_DELAYS_MAX])
    elif kind == "exponential_backoff":
        delays = _growing(policy.exponential_backoff)
    deliveries_max = policy.max_attempts if policy.max_attempts > 0 else DELIVERIES_MAX
    return ReceiveRules(told.subscription.fifo, deliveries_max, delays)


def _growing(policy: messages.ExponentialBackoff) -> tuple[int, ...]:
    delay, most = _possible(get_ms(policy.initial)), _possible(get_ms(policy.max))
    factor = min(max(1.0, policy.multiplier), float(INVISIBLE_MS_MAX))
    delays = []
    for _ in range(_GROWING_DELAYS):
        delays.append(min(most, delay))
        delay = int(min(most, delay * factor))
    return tuple(delays)


def _possible(delay_ms: int) -> int:
    return max(0, min(delay_ms, INVISIBLE_MS_MAX))
