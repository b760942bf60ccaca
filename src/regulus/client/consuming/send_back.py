"""Gives failed messages back to the brokers, which bring them again from the group's retry topic.

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
from regulus.model.message import Message, MessageExt
from regulus.model.message_id import host_text
from regulus.model.message_properties import ORIGIN_MESSAGE_ID
from regulus.model.message_queue import MessageQueue
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import ConsumerSendMsgBackRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

SEND_BACK_TIMEOUT_MS = 5000

LETTER_WAIT_MS = 10_000
"""How long a broker that is busy, or is started anew, is asked for a dead letter that nobody else can make whole."""

LETTER_PAUSE_FIRST_MS = 100
LETTER_PAUSE_MAX_MS = 2_000
"""Between two questions; each pause is twice as long as the one before."""

BODY_SIZE_MAX = 0x7FFFFFFF
"""It came through a broker, packed, whatever producers may send by default."""

IsOurs = Callable[[], bool]
"""Whether the message's queue is still consumed here. A queue that is being given up waits for nothing."""

INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"


class SendBack:
    """`limit`: says what each request carries."""

    def __init__(self, instance: ClientInstance, name_server: str, group: str, config: PushConsumerConfig,
                 limit: RetryLimit) -> None:
        self._instance = instance
        self._name_server = name_server
        self._group = group
        self._config = config
        self._limit = limit
        self._producer: Producer | None = None
        self._away: set[str] = set()

    async def send_back(self, message: MessageExt, queue: MessageQueue, delay_level: int, is_ours: IsOurs) -> bool:
        """True when a broker has the message again: the one it came from, or any other through the retry topic."""
        if not is_of_inner_batch(message) and await self._taken_by_its_broker(message, queue, delay_level):
            return True
        limit = self._limit.anywhere()
        retry = retry_message(message, self._group, delay_level, limit)
        refusal = await self._to_the_retry_topic(retry, message, queue)
        if refusal and message.reconsume_times >= self._limit.own:
            return await self.dead_letter(message, queue, is_ours)
        return refusal is None

    async def _taken_by_its_broker(self, message: MessageExt, queue: MessageQueue, delay_level: int) -> bool:
        try:
            await self._to_its_broker(message, queue, delay_level)
            if queue.broker_name in self._away:
                self._away.discard(queue.broker_name)
                _log.info("broker %s takes back what listeners of %s failed on again", queue.broker_name, self._group)
            return True
        except (ClientError, HeaderError) as error:
            if _is_away(error):
                self._tell_away(queue.broker_name, error)
            else:
                _log.warning("message %s of %s not sent back, sending it to the retry topic instead: %s",
                             message.message_id, queue, error)
            return False

    async def dead_letter(self, message: MessageExt, queue: MessageQueue, is_ours: IsOurs) -> bool:
        """Make a dead letter of a message that was tried here often enough; True when a broker has it. What comes with
        a dead letter may not fit in a message that just did: then its broker makes it, or something is left out."""
        letter = retry_message(message, self._group, DEAD_LETTER, GROUP_LIMIT)
        refusal = await self._to_the_retry_topic(letter, message, queue)
        if not refusal:
            return refusal is None
        if message.physical_offset != NOT_STORED and not is_of_inner_batch(message):
            if await self._made_by_its_broker(message, queue, is_ours):
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
            if not said:
                return said is None
        return False

    async def _made_by_its_broker(self, message: MessageExt, queue: MessageQueue, is_ours: IsOurs) -> bool:
        """Whether it made the dead letter. It alone has the message, so it is asked again before anything is left out:
        only an answer that says so is for good. What is not ours any more its next owner has, who asks himself."""
        until_ms = steady_ms() + LETTER_WAIT_MS
        pause_ms = LETTER_PAUSE_FIRST_MS
        while True:
            try:
                await self._to_its_broker(message, queue, DEAD_LETTER)
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
        """Send a message back that cannot be read; True when a broker has it. Where its own broker does not take it,
        its bytes become a dead letter with the reason: as a retry they would be taken for a body."""
        if message.physical_offset != NOT_STORED and not is_inner_batch(message):
            try:
                await self._to_its_broker(message, queue, delay_level)
                return True
            except (ClientError, HeaderError) as error:
                _log.warning("unreadable message at %d of %s not sent back, making a dead letter of its bytes: %s",
                             message.queue_offset, queue, error)
        message.properties[UNREADABLE] = reason
        return await self.dead_letter(message, queue, is_ours)

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.shutdown()

    def _tell_away(self, broker_name: str, error: RegulusError) -> None:
        """Once as long as it lasts, whatever the number of messages."""
        _log.log(logging.INFO if broker_name in self._away else logging.WARNING,
                 "broker %s is away (%s): what listeners of %s fail on meanwhile is kept here, and offered to the "
                 "retry topic until a broker takes it", broker_name, error, self._group)
        self._away.add(broker_name)

    async def _to_the_retry_topic(self, copy: Message, message: MessageExt, queue: MessageQueue) -> str | None:
        """None when a broker has the copy; why it never will, as it is; empty when that may be otherwise later."""
        try:
            producer = await self._inner_producer()
            await producer.send(copy)
            return None
        except (ClientError, HeaderError, MessageIllegal) as error:
            _log.log(logging.INFO if _is_away(error) and self._away else logging.WARNING,
                     "message %s of %s not sent to %s: %s", message.message_id, queue, copy.topic, error)
            return str(error) if _is_for_good(error) else ""

    async def _to_its_broker(self, message: MessageExt, queue: MessageQueue, delay_level: int) -> None:
        limit = self._limit.at(queue.broker_name)
        header = ConsumerSendMsgBackRequest(
            offset=message.physical_offset, group=self._group, delay_level=delay_level, origin_topic=message.topic,
            origin_msg_id=message.message_id or None, unit_mode=False, broker_name=queue.broker_name,
            max_reconsume_times=None if limit == GROUP_LIMIT else limit)
        route = await self._instance.route(queue.topic)
        address = route.master(queue.broker_name) or host_text(message.store_host)
        await self._instance.request(address, RemotingCommand.request(RequestCode.CONSUMER_SEND_MSG_BACK, header.ext()),
                                     SEND_BACK_TIMEOUT_MS)

    async def _inner_producer(self) -> Producer:
        if self._producer is None:
            shared = {key: getattr(self._config, key) for key in ClientConfig.__dataclass_fields__}
            producer = Producer(self._name_server, INNER_PRODUCER_GROUP, ProducerConfig(
                **shared, max_message_size=BODY_SIZE_MAX))
            self._producer = producer
            await producer.start()
        return self._producer


def _is_away(error: RegulusError) -> bool:
    """Whether nobody answered, as when a broker was killed or is started anew."""
    if isinstance(error, SendFailed):
        return error.cause is not None and _is_away(error.cause)
    return isinstance(error, (ConnectFailed, ConnectionLost, RequestTimeout, NoNameServer, NoRoute))


def _is_for_good(error: RegulusError) -> bool:
    """Whether the message as it is will never be taken."""
    return isinstance(error, (MessageIllegal, RequestTooLarge)) or (
        isinstance(error, BrokerRefused) and error.code == ResponseCode.MESSAGE_ILLEGAL)
