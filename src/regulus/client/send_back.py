"""Gives failed messages back to the brokers, which bring them again from the group's retry topic.

Source: DefaultMQPushConsumerImpl.sendMessageBack.
"""

import logging

from regulus.client.client_instance import ClientInstance
from regulus.client.config import ClientConfig, ProducerConfig, PushConsumerConfig
from regulus.client.core.received import NOT_STORED
from regulus.client.core.send_back import DEAD_LETTER, UNREADABLE, retry_message
from regulus.client.group_retry_limit import GROUP_LIMIT, RetryLimit
from regulus.client.producer import Producer
from regulus.errors import ClientError, HeaderError, MessageIllegal
from regulus.model.message import MessageExt
from regulus.model.message_id import host_text
from regulus.model.message_queue import MessageQueue
from regulus.wire.codes import RequestCode
from regulus.wire.headers import ConsumerSendMsgBackRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

SEND_BACK_TIMEOUT_MS = 5000
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

    async def send_back(self, message: MessageExt, queue: MessageQueue, delay_level: int) -> bool:
        """True when a broker has the message again: the one it came from, or any other through the retry topic."""
        try:
            await self._to_its_broker(message, queue, delay_level)
            return True
        except (ClientError, HeaderError) as error:
            _log.warning("message %s of %s not sent back, sending it to the retry topic instead: %s",
                         message.message_id, queue, error)
        try:
            producer = await self._inner_producer()
            await producer.send(retry_message(message, self._group, delay_level, self._limit.anywhere()))
            return True
        except (ClientError, HeaderError, MessageIllegal) as error:
            _log.warning("message %s of %s not sent to the retry topic either: %s", message.message_id, queue, error)
            return False

    async def dead_letter(self, message: MessageExt, queue: MessageQueue) -> bool:
        """Make a dead letter of a message that was tried here often enough; True when a broker has it."""
        try:
            producer = await self._inner_producer()
            await producer.send(retry_message(message, self._group, DEAD_LETTER, GROUP_LIMIT))
            return True
        except (ClientError, HeaderError, MessageIllegal) as error:
            _log.warning("message %s of %s not made a dead letter: %s", message.message_id, queue, error)
            return False

    async def hand_on(self, message: MessageExt, queue: MessageQueue, delay_level: int, reason: str) -> bool:
        """Send a message back that cannot be read; True when a broker has it. Where its own broker does not take it,
        its bytes become a dead letter with the reason: as a retry they would be taken for a body."""
        if message.physical_offset != NOT_STORED:
            try:
                await self._to_its_broker(message, queue, delay_level)
                return True
            except (ClientError, HeaderError) as error:
                _log.warning("unreadable message at %d of %s not sent back, making a dead letter of its bytes: %s",
                             message.queue_offset, queue, error)
        message.properties[UNREADABLE] = reason
        return await self.dead_letter(message, queue)

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.shutdown()

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
            producer = Producer(self._name_server, INNER_PRODUCER_GROUP, ProducerConfig(**shared))
            self._producer = producer
            await producer.start()
        return self._producer
