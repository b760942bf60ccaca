"""Receives over RocketMQ's own protocol: POP_MESSAGE and related requests, sent to the masters in the routes.

Source: DefaultMQPushConsumerImpl.popMessage, PopCallback of MQClientAPIImpl.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from regulus.client.config import ClientConfig, ConsumeFromWhere
from regulus.client.connecting import client_instance
from regulus.client.connecting.client_instance import ClientInstance, GroupMember, now_ms, steady_ms
from regulus.client.consuming import consumer_start
from regulus.client.consuming.group_retry_limit import RETRIES_MAX, group_config
from regulus.client.consuming.receiver import ConsumeDirectly, Receive, ReceiveRules
from regulus.client.core.inner_batches import is_inner_batch
from regulus.client.core.received import is_any_packed
from regulus.client.core.send_back import DEAD_LETTER
from regulus.client.received_message import ReceivedMessage
from regulus.client.tasks import is_being_cancelled
from regulus.errors import (
    AnswerUnreadable,
    BrokerRefused,
    ClientClosed,
    ClientError,
    HeaderError,
    MessageIllegal,
    NoMaster,
    NoRoute,
    ReceiptInvalid,
    RecordError,
    TooManyRequests,
)
from regulus.model import message_properties as names
from regulus.model import receipt_handle, sys_flag
from regulus.model.delay_level import DEFAULT_LADDER, FIRST_RETRY_LEVEL, parse_ladder
from regulus.model.failure_causes import Cause, told
from regulus.model.receipt_handle import ReceiptHandle
from regulus.record import message_record
from regulus.wire import compression
from regulus.wire.bodies import SubscriptionData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    AckMessageRequest,
    ChangeMessageInvisibletimeRequest,
    ChangeMessageInvisibletimeResponse,
    ConsumerSendMsgBackRequest,
    PopMessageRequest,
    PopMessageResponse,
)
from regulus.wire.headers.pop_message import ANY_QUEUE, INIT_MAX, INIT_MIN
from regulus.wire.popped_offsets import PoppedOffsets
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

POP_MARGIN_MS = 2_000
"""How much longer than its poll a broker may take to answer."""
GIVE_BACK_RESTS_S = (0, 1, 5)
"""Seconds before each attempt to give back messages that came too late."""
_NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND)
_BUSY = (ResponseCode.POLLING_FULL, ResponseCode.FLOW_CONTROL, ResponseCode.SYSTEM_BUSY)
RETRY_DELAYS_MS = parse_ladder(DEFAULT_LADDER)[FIRST_RETRY_LEVEL - 1:]
"""The sixteen delays between deliveries, 10 s to 2 h."""


class RemotingReceiver:
    prolongs = False

    def __init__(self, name_server: str, member: GroupMember, config: ClientConfig,
                 consume_from_where: ConsumeFromWhere, request_timeout_ms: int, *, is_orderly: bool = False,
                 retries_max: int = -1) -> None:
        """`retries_max` -1: the group's own limit."""
        self.consume_directly: ConsumeDirectly | None = None     # not used here: brokers ask the member itself
        self._name_server = name_server
        self._member = member
        self._config = config
        self._init_mode = (INIT_MIN if consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
                           else INIT_MAX)
        self._timeout_ms = request_timeout_ms
        self._retries_max = retries_max
        self._rules = ReceiveRules(is_orderly, RETRIES_MAX + 1, RETRY_DELAYS_MS)
        self._are_rules_told = False
        self._instance: ClientInstance | None = None
        self._waiting: set[asyncio.Future[list[ReceivedMessage]]] = set()
        """Receives whose callers wait."""
        self._returning: set[asyncio.Task[Any]] = set()
        """Tasks that give back messages that came too late."""

    @property
    def client_id(self) -> str:
        return self.instance.client_id

    @property
    def rules(self) -> ReceiveRules:
        return self._rules

    @property
    def instance(self) -> ClientInstance:
        if self._instance is None:
            raise ClientClosed(f"consumer {self._member.group} is not running; use `async with` or call start() first")
        return self._instance

    async def start(self) -> None:
        """Join the group. Raises NoNameServer, BrokerRefused for a bad SQL expression, ClientError."""
        instance = client_instance.acquire(self._name_server, self._config, self._member)
        self._instance = instance
        is_started = False
        try:
            data = self._member.consumer_data()
            subscriptions: dict[str, SubscriptionData] = (
                {} if data is None else {each.topic: each for each in data.subscription_data_set})
            await consumer_start.fetch_routes(instance, list(subscriptions))
            await consumer_start.check_expressions(instance, self._member.group, subscriptions)
            await self._ask_rules(list(subscriptions))
            await instance.heartbeat()
            if self._init_mode == INIT_MAX:
                await consumer_start.begin_at_ends(instance, self._member.group, list(subscriptions))
            is_started = True
        finally:
            if not is_started:
                await self.close()

    async def close(self) -> None:
        """Leave the group; waiting receives raise ClientClosed. Messages that brokers still send for those are given
        back by the client instance if other clients use it; otherwise its connections close, and the brokers notice
        that themselves."""
        instance, self._instance = self._instance, None
        for waiting in self._waiting:
            waiting.cancel()
        try:
            if self._returning:
                await asyncio.wait(self._returning, timeout=self._timeout_ms / 1000)
        finally:
            if instance is not None:
                await client_instance.release(instance, self._member)

    def subscriptions_changed(self) -> None:
        self.instance.heartbeat_soon()

    async def _ask_rules(self, topics: Sequence[str]) -> None:
        """Get the group's retry limit and whether it is ordered, from the first broker that answers."""
        found = None
        for address in self._masters(topics):
            try:
                found = await group_config(self.instance, self._member.group, address)
                self._are_rules_told = True
                break
            except (ClientError, HeaderError) as error:
                # An answer, if not a useful one: other brokers would not say more.
                self._are_rules_told |= isinstance(error, BrokerRefused | HeaderError)
                _log.info("the settings of group %s are not known from %s: %s", self._member.group, address, error)
        limit = self._retries_max
        if limit < 0:
            limit = RETRIES_MAX if found is None else max(0, found.retry_max_times)
        is_orderly = self._rules.is_orderly or (found is not None and found.consume_message_orderly)
        self._rules = self._rules._replace(is_orderly=is_orderly, deliveries_max=limit + 1)

    def _masters(self, topics: Sequence[str]) -> list[str]:
        routes = [route for topic in topics if (route := self.instance.known_route(topic)) is not None]
        return list(dict.fromkeys(address for route in routes for address in route.masters()))

    async def brokers(self, topic: str) -> Sequence[str]:
        try:
            route = await self.instance.route(topic)
        except NoRoute:
            return ()
        return sorted({queue.broker_name for queue in route.subscribe_queues
                       if route.master(queue.broker_name) is not None})

    # --- receiving ---------------------------------------------------------------------------------------------------

    async def receive(self, asked: Receive) -> list[ReceivedMessage]:
        subscription = asked.subscription
        # If no broker answered at the start, ask again: an ordered group must not be popped unordered.
        if not self._are_rules_told:
            await self._ask_rules([subscription.topic])
            if not self._are_rules_told:
                raise NoRoute(f"no broker of topic {subscription.topic} answers with the settings of group "
                              f"{self._member.group}")
        header = PopMessageRequest(
            consumer_group=self._member.group, topic=subscription.topic, queue_id=ANY_QUEUE,
            max_msg_nums=asked.messages_max, invisible_time=asked.invisible_ms, poll_time=asked.await_ms,
            born_time=now_ms(), init_mode=self._init_mode,
            exp_type=subscription.expression_type, exp=subscription.sub_string, order=self._rules.is_orderly,
            attempt_id=asked.attempt_id or None, broker_name=asked.broker)
        # In a separate task, because a caller that gives up leaves the poll at the broker, and its answer must be
        # handled. It is a task of the instance, because this consumer may be closed by then.
        instance = self.instance
        asking = instance.spawn(self._pop(instance, header, asked), f"pop of {self._member.group}", on_done=_heard)
        waiting = asyncio.shield(asking)
        self._waiting.add(waiting)
        try:
            return await waiting
        except asyncio.CancelledError as error:
            instance.spawn(self._give_back_late(instance, asking), f"late pop of {self._member.group}")
            if is_being_cancelled(error):
                raise
            raise ClientClosed(f"consumer {self._member.group} was shut down while it received") from None
        finally:
            self._waiting.discard(waiting)

    async def _pop(self, instance: ClientInstance, header: PopMessageRequest, asked: Receive) -> list[ReceivedMessage]:
        answer = await self._ask(instance, asked.subscription.topic, asked.broker, RequestCode.POP_MESSAGE,
                                 header.ext(), asked.await_ms + POP_MARGIN_MS)
        if answer.code in _NOTHING:
            return []
        self._check(answer, asked.broker)
        # The invisible time begins at the broker, after the poll. Counted from the arrival of the answer, it ends later
        # here by the time that the answer took.
        return await self._received(instance, answer, asked, steady_ms() + asked.invisible_ms)

    async def _give_back_late(self, instance: ClientInstance, asking: "asyncio.Task[list[ReceivedMessage]]") -> None:
        """Give back messages for which no caller waits, so that other members get them at once. They do not count as
        delivered, if the broker supports `suspend`."""
        try:
            messages = await asking
        except ClientError as error:
            _log.info("nothing came too late for group %s: %s", self._member.group, error)
            return
        returning = asyncio.current_task()
        assert returning is not None
        self._returning.add(returning)
        try:
            await asyncio.gather(*(self._give_back(instance, message) for message in messages))
        finally:
            self._returning.discard(returning)

    async def _give_back(self, instance: ClientInstance, message: ReceivedMessage) -> None:
        """Give a message back, in several attempts, because its invisible time may be long."""
        for rest_s in GIVE_BACK_RESTS_S:
            await asyncio.sleep(rest_s)
            try:
                handle, topic = self._place(message)
                header = ChangeMessageInvisibletimeRequest(
                    consumer_group=self._member.group, topic=topic, queue_id=handle.queue_id,
                    extra_info=message.receipt_handle, offset=handle.queue_offset, invisible_time=0,
                    broker_name=handle.broker_name, suspend=True)
                answer = await self._ask(instance, message.topic, handle.broker_name,
                                         RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header.ext(), self._timeout_ms)
                self._check(answer, handle.broker_name)
                return
            except ReceiptInvalid:
                return      # another member has it by now
            except ClientError as error:
                failure = error
        _log.warning("message %s arrived too late for a receive of group %s and could not be given back; it is "
                     "delivered again when its invisible time is over: %s", message.message_id, self._member.group,
                     failure)

    async def _received(self, instance: ClientInstance, answer: RemotingCommand, asked: Receive,
                        until_ms: int) -> list[ReceivedMessage]:
        try:
            messages = message_record.decode_all(answer.body)
            offsets = PoppedOffsets(PopMessageResponse.decode(answer), asked.broker)
            handles = offsets.handles(messages, [each.properties.get(names.POP_CK) for each in messages])
        except (RecordError, HeaderError) as error:
            raise AnswerUnreadable(f"what broker {asked.broker} popped cannot be read: {error}") from error
        if any(is_inner_batch(message) for message in messages):
            raise AnswerUnreadable(f"broker {asked.broker} popped whole batches: {asked.subscription.topic} has "
                                   "queue.type=BatchCQ, and is consumed with PushConsumer or PullConsumer alone")
        subscription = asked.subscription
        wanted: list[ReceivedMessage] = []
        for message, handle in zip(messages, handles, strict=True):
            if self._rules.is_orderly:
                message.reconsume_times = max(message.reconsume_times, offsets.order_count(message))
            received = ReceivedMessage(message, subscription.topic, asked.broker, receipt_handle.encode(handle),
                                       until_ms)
            if subscription.tags_set and message.properties.get(names.TAGS, "") not in subscription.tags_set:
                # Brokers compare only hashes of tags. No member of the group wants this message.
                instance.spawn(self._ack_unwanted(instance, received), f"unwanted message of {subscription.topic}")
            else:
                wanted.append(received)
        if is_any_packed(wanted):
            await instance.packing(_unpack, wanted)
        return wanted

    async def _ack_unwanted(self, instance: ClientInstance, message: ReceivedMessage) -> None:
        try:
            await self._ack(instance, message)
        except ClientError as error:
            _log.info("message %s, whose tag is not subscribed, is not acknowledged: %s", message.message_id, error)

    # --- what is done with it ----------------------------------------------------------------------------------------

    async def ack(self, message: ReceivedMessage) -> None:
        await self._ack(self.instance, message)

    async def _ack(self, instance: ClientInstance, message: ReceivedMessage) -> None:
        handle, topic = self._place(message)
        header = AckMessageRequest(consumer_group=self._member.group, topic=topic, queue_id=handle.queue_id,
                                   extra_info=message.receipt_handle, offset=handle.queue_offset,
                                   broker_name=handle.broker_name)
        answer = await self._ask(instance, message.topic, handle.broker_name, RequestCode.ACK_MESSAGE, header.ext(),
                                 self._timeout_ms)
        self._check(answer, handle.broker_name)

    async def change_invisible(self, message: ReceivedMessage, invisible_ms: int) -> None:
        handle, topic = self._place(message)
        header = ChangeMessageInvisibletimeRequest(
            consumer_group=self._member.group, topic=topic, queue_id=handle.queue_id,
            extra_info=message.receipt_handle, offset=handle.queue_offset, invisible_time=invisible_ms,
            broker_name=handle.broker_name)
        until_ms = steady_ms() + invisible_ms
        answer = await self._ask(self.instance, message.topic, handle.broker_name,
                                 RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header.ext(), self._timeout_ms)
        self._check(answer, handle.broker_name)
        try:
            told = ChangeMessageInvisibletimeResponse.decode(answer)
        except HeaderError as error:
            raise AnswerUnreadable(f"broker {handle.broker_name} changed an invisible time, and its answer cannot be "
                                   f"read: {error}") from error
        message.receipt_handle = receipt_handle.encode(handle._replace(
            start_offset=handle.queue_offset, pop_time=told.pop_time, invisible_time=told.invisible_time,
            revive_queue_id=told.revive_qid))
        message.invisible_until_ms = until_ms

    async def dead_letter(self, message: ReceivedMessage, deliveries_max: int, cause: Cause) -> None:
        """Copy the message to the dead letters, then acknowledge it: in this order it cannot get lost."""
        handle, topic = self._place(message)
        text, stack = told(cause)
        header = ConsumerSendMsgBackRequest(
            offset=message.physical_offset, group=self._member.group, delay_level=DEAD_LETTER, origin_topic=topic,
            origin_msg_id=message.message_id or None, unit_mode=False, broker_name=handle.broker_name,
            max_reconsume_times=0, regulus_cause=text, regulus_stack=stack)
        answer = await self._ask(self.instance, message.topic, handle.broker_name, RequestCode.CONSUMER_SEND_MSG_BACK,
                                 header.ext(), self._timeout_ms)
        self._check(answer, handle.broker_name)
        await self.ack(message)

    def _place(self, message: ReceivedMessage) -> tuple[ReceiptHandle, str]:
        """The receipt, and the topic in which the message is stored."""
        try:
            handle = receipt_handle.decode(message.receipt_handle)
        except HeaderError as error:
            raise ReceiptInvalid(str(error)) from error
        return handle, receipt_handle.real_topic(message.topic, self._member.group, handle.retry)

    async def _ask(self, instance: ClientInstance, topic: str, broker: str, code: RequestCode, ext: dict[str, str],
                   timeout_ms: int) -> RemotingCommand:
        address = (await instance.route(topic)).master(broker)
        if address is None:
            raise NoMaster(f"broker {broker} has no master")
        try:
            return await instance.connections.request(address, RemotingCommand.request(code, ext), timeout_ms)
        except ClientError:
            instance.doubt_route(topic)
            raise

    def _check(self, answer: RemotingCommand, broker: str) -> None:
        if answer.code == ResponseCode.NO_MESSAGE:
            raise ReceiptInvalid(f"broker {broker}: {answer.remark or 'no such message is in its queue'}")
        if answer.code in _BUSY:
            raise TooManyRequests(f"broker {broker} answered {answer.code}: {answer.remark or 'it is busy'}",
                                  answer.code)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark, f"broker {broker}")


def _heard(asking: "asyncio.Task[list[ReceivedMessage]]") -> None:
    """Retrieve the error of a pop, so that asyncio does not report it as lost. A caller that waits gets it anyway."""
    if not asking.cancelled():
        asking.exception()


def _unpack(messages: Sequence[ReceivedMessage]) -> None:
    for message in messages:
        if message.sys_flag & sys_flag.COMPRESSED:
            try:
                message.body = compression.decompress(message.body, message.sys_flag)
            except MessageIllegal as error:
                message.unreadable = str(error)
