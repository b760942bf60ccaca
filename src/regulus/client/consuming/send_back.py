"""Sends failed messages back to the brokers, which deliver them again from the group's retry topic.

Source: DefaultMQPushConsumerImpl.sendMessageBack.
"""

import asyncio
import logging
from collections.abc import Callable

from regulus.client.config import ClientConfig, ProducerConfig, PushConsumerConfig
from regulus.client.connecting.client_instance import ClientInstance, steady_ms
from regulus.client.consuming.group_retry_limit import GROUP_LIMIT, RetryLimit
from regulus.client.core.inner_batches import is_inner_batch, is_of_inner_batch
from regulus.client.core.received import NOT_STORED
from regulus.client.core.send_back import DEAD_LETTER, NOT_WHOLE, UNREADABLE, lacking_letter, retry_message
from regulus.client.sending.producer import Producer
from regulus.errors import (
    BrokerRefused,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    HeaderError,
    MessageIllegal,
    NoNameServer,
    NoRoute,
    RegulusError,
    RequestTimeout,
    RequestTooLarge,
    SendFailed,
)
from regulus.model.failure_causes import Cause, add_cause, told
from regulus.model.message import Message, MessageExt
from regulus.model.message_id import host_text
from regulus.model.message_properties import ORIGIN_MESSAGE_ID
from regulus.model.message_queue import MessageQueue
from regulus.model.wording import counted, one_line
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import ConsumerSendMsgBackRequest, ConsumerSendMsgBackResponse
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

SEND_BACK_TIMEOUT_MS = 5000

LETTER_WAIT_MS = 10_000
"""ms for which a broker that is busy or restarting is asked to make a dead letter that only it can make whole."""

LETTER_PAUSE_FIRST_MS = 100
LETTER_PAUSE_MAX_MS = 2_000
"""The first and the longest pause between two such requests; each pause is twice as long as the one before."""

BODY_SIZE_MAX = 0x7FFFFFFF
"""No limit on the body: the message was accepted by a broker before, packed, so a producer's default must not apply."""

IsOurs = Callable[[], bool]
"""Returns whether the message's queue is still consumed here. A queue that is being given up must not wait."""

INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"


class SendBack:
    """Sends messages back for one consumer. `limit`: the retry limit that requests carry."""

    def __init__(self, instance: ClientInstance, name_server: str, group: str, config: PushConsumerConfig,
                 limit: RetryLimit) -> None:
        self._instance = instance
        self._name_server = name_server
        self._group = group
        self._config = config
        self._limit = limit
        self._producer: Producer | None = None
        self._away: set[str] = set()

    async def send_back(self, message: MessageExt, queue: MessageQueue, delay_level: int, is_ours: IsOurs,
                        cause: Cause) -> bool:
        """Send a message back; True when a broker has it again: the one it came from, or any other through the retry
        topic."""
        if not is_of_inner_batch(message) and await self._taken_by_its_broker(message, queue, delay_level, cause):
            return True
        limit = self._limit.anywhere()
        retry = self._with_cause(retry_message(message, self._group, delay_level, limit), message, cause)
        refusal = await self._to_the_retry_topic(retry, message, queue)
        if refusal and message.reconsume_times >= self._limit.own:
            return await self.dead_letter(message, queue, is_ours, cause)
        if refusal is None and (delay_level == DEAD_LETTER or 0 <= limit <= message.reconsume_times):
            self._tell_dead(message, cause)
        return refusal is None

    async def _taken_by_its_broker(self, message: MessageExt, queue: MessageQueue, delay_level: int,
                                   cause: Cause) -> bool:
        try:
            await self._to_its_broker(message, queue, delay_level, cause)
            if queue.broker_name in self._away:
                self._away.discard(queue.broker_name)
                _log.info("broker %s takes back messages of group %s again", queue.broker_name, self._group)
            return True
        except (ClientError, HeaderError) as error:
            if _is_away(error):
                self._tell_away(queue.broker_name, error)
            else:
                _log.warning("message %s of %s not sent back, sending it to the retry topic instead: %s",
                             message.message_id, queue, error)
            return False

    async def dead_letter(self, message: MessageExt, queue: MessageQueue, is_ours: IsOurs, cause: Cause) -> bool:
        """Make a dead letter of a message that was tried here often enough; True when a broker has it.

        The properties that a dead letter adds may make it too large for a producer. Then the message's own broker makes
        it, or parts of the message are left out.
        """
        letter = self._with_cause(retry_message(message, self._group, DEAD_LETTER, GROUP_LIMIT), message, cause)
        refusal = await self._to_the_retry_topic(letter, message, queue)
        if not refusal:
            if refusal is None:
                self._tell_dead(message, cause)
            return refusal is None
        if message.physical_offset != NOT_STORED and not is_of_inner_batch(message):
            if await self._made_by_its_broker(message, queue, is_ours, cause):
                return True
            if not is_ours():
                return False
        for with_body in (True, False):
            lacking = lacking_letter(message, queue, letter, refusal, with_body=with_body)
            if lacking is None:
                continue
            said = await self._to_the_retry_topic(lacking, message, queue)
            if said is None:
                _log.warning("message %s became a dead letter that is not whole: %s; the whole one has id %s",
                             message.message_id, lacking.properties[NOT_WHOLE],
                             letter.properties[ORIGIN_MESSAGE_ID])
                self._tell_dead(message, cause)
            if not said:
                return said is None
        return False

    async def _made_by_its_broker(self, message: MessageExt, queue: MessageQueue, is_ours: IsOurs,
                                  cause: Cause) -> bool:
        """Ask the message's broker to make the dead letter; whether it did.

        Only this broker has the whole message, so it is asked repeatedly before anything is left out, until it refuses
        for good. If the queue is no longer ours, its next owner asks instead.
        """
        until_ms = steady_ms() + LETTER_WAIT_MS
        pause_ms = LETTER_PAUSE_FIRST_MS
        while True:
            try:
                await self._to_its_broker(message, queue, DEAD_LETTER, cause)
                return True
            except (ClientError, HeaderError) as error:
                _log.warning("message %s of %s not made a dead letter by its broker: %s", message.message_id, queue,
                             error)
                if _is_for_good(error) or steady_ms() + pause_ms >= until_ms:
                    return False
            self._instance.doubt_route(queue.topic)
            await asyncio.sleep(pause_ms / 1000)
            if not is_ours():
                return False
            pause_ms = min(2 * pause_ms, LETTER_PAUSE_MAX_MS)

    async def hand_on(self, message: MessageExt, queue: MessageQueue, delay_level: int, reason: str,
                      is_ours: IsOurs) -> bool:
        """Send back a message that cannot be read; True when a broker has it. If its own broker does not take it, its
        bytes become a dead letter with the reason, because in a retry message they would be taken for a body."""
        cause = Cause(f"unreadable: {reason}")
        if message.physical_offset != NOT_STORED and not is_inner_batch(message):
            try:
                await self._to_its_broker(message, queue, delay_level, cause)
                return True
            except (ClientError, HeaderError) as error:
                _log.warning("unreadable message at %d of %s not sent back, making a dead letter of its bytes: %s",
                             message.queue_offset, queue, error)
        message.properties[UNREADABLE] = reason
        return await self.dead_letter(message, queue, is_ours, cause)

    def _with_cause(self, copy: Message, message: MessageExt, cause: Cause) -> Message:
        if self._config.with_causes:
            add_cause(copy.properties, message.reconsume_times + 1, cause)
        return copy

    def _tell_dead(self, message: MessageExt, cause: Cause) -> None:
        _log.warning("message %s with keys %s is a dead letter of group %s after %s: %s", message.message_id,
                     one_line(message.keys or "-"), self._group,
                     counted(message.reconsume_times + 1, "try", "tries"), one_line(cause.text))

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.shutdown()

    def _tell_away(self, broker_name: str, error: RegulusError) -> None:
        """Warn once while the broker is away, however many messages fail."""
        _log.log(logging.INFO if broker_name in self._away else logging.WARNING,
                 "broker %s is away (%s): failed messages of group %s are kept here meanwhile, and sent to the "
                 "retry topic until a broker takes them", broker_name, error, self._group)
        self._away.add(broker_name)

    async def _to_the_retry_topic(self, copy: Message, message: MessageExt, queue: MessageQueue) -> str | None:
        """Send the copy: None when a broker has it; the reason when none ever takes it as it is; an empty text when a
        later attempt may succeed."""
        try:
            producer = await self._inner_producer()
            await producer.send(copy)
            return None
        except (ClientError, HeaderError, MessageIllegal) as error:
            _log.log(logging.INFO if _is_away(error) and self._away else logging.WARNING,
                     "message %s of %s not sent to %s: %s", message.message_id, queue, copy.topic, error)
            return str(error) if _is_for_good(error) else ""

    async def _to_its_broker(self, message: MessageExt, queue: MessageQueue, delay_level: int, cause: Cause) -> None:
        limit = self._limit.at(queue.broker_name)
        text, stack = told(cause) if self._config.with_causes else (None, None)
        header = ConsumerSendMsgBackRequest(
            offset=message.physical_offset, group=self._group, delay_level=delay_level, origin_topic=message.topic,
            origin_msg_id=message.message_id or None, unit_mode=False, broker_name=queue.broker_name,
            max_reconsume_times=None if limit == GROUP_LIMIT else limit, regulus_cause=text, regulus_stack=stack)
        route = await self._instance.route(queue.topic)
        address = route.master(queue.broker_name) or host_text(message.store_host)
        answer = await self._instance.request(
            address, RemotingCommand.request(RequestCode.CONSUMER_SEND_MSG_BACK, header.ext()), SEND_BACK_TIMEOUT_MS)
        # A broker of RocketMQ does not say what became of the message; the request shows it in some cases.
        if ConsumerSendMsgBackResponse.decode(answer).regulus_dead_letter or delay_level == DEAD_LETTER or (
                0 <= limit <= message.reconsume_times):
            self._tell_dead(message, cause)

    async def _inner_producer(self) -> Producer:
        if self._producer is None:
            shared = {key: getattr(self._config, key) for key in ClientConfig.__dataclass_fields__}
            producer = Producer(self._name_server, INNER_PRODUCER_GROUP, ProducerConfig(
                **shared, max_message_size=BODY_SIZE_MAX))
            self._producer = producer
            await producer.start()
        return self._producer


def _is_away(error: RegulusError) -> bool:
    """Whether no broker or name server answered, as while a broker is down or restarts."""
    if isinstance(error, SendFailed):
        return error.cause is not None and _is_away(error.cause)
    return isinstance(error, (ConnectFailed, ConnectionLost, RequestTimeout, NoNameServer, NoRoute))


def _is_for_good(error: RegulusError) -> bool:
    """Whether no broker will ever take the message as it is."""
    return isinstance(error, (MessageIllegal, RequestTooLarge)) or (
        isinstance(error, BrokerRefused) and error.code == ResponseCode.MESSAGE_ILLEGAL)
