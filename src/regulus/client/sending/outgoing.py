"""A message or a batch that is ready to be sent: everything that is the same in all attempts of a send."""

from collections.abc import Sequence

from regulus.client.config import CompressType, ProducerConfig
from regulus.client.core.batching import waits
from regulus.client.send_result import STATUS_OF_CODE, SendResult
from regulus.client.unique_key import UniqueKeys
from regulus.errors import MessageIllegal
from regulus.model import message_properties as names
from regulus.model import sys_flag as flags
from regulus.model.java_numbers import INT_MAX
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import is_retry_topic
from regulus.wire import compression, message_batch
from regulus.wire.codes import RequestCode
from regulus.wire.headers import SendMessageRequest, SendMessageResponse
from regulus.wire.headers.send_message import MAX_RECONSUME_TIMES_ABSENT
from regulus.wire.remoting_command import RemotingCommand

_COMPRESSION_BITS = {
    CompressType.ZLIB: flags.COMPRESSION_ZLIB,
    CompressType.LZ4: flags.COMPRESSION_LZ4,
    CompressType.ZSTD: flags.COMPRESSION_ZSTD,
}
_BATCH_WAITS_NOT = {names.WAIT_STORE_MSG_OK: "false"}
_SEND_MESSAGE_V2 = int(RequestCode.SEND_MESSAGE_V2)
_SEND_BATCH_MESSAGE = int(RequestCode.SEND_BATCH_MESSAGE)


class Outgoing:
    """Create it with `single` or `batch`. Each attempt encodes a new command, for the queue that was chosen for it."""

    __slots__ = ("_body", "_code", "_header", "message_id", "topic")

    def __init__(self, code: int, header: SendMessageRequest, body: bytes, message_id: str) -> None:
        self.topic = header.topic
        self.message_id = message_id
        self._code = code
        self._header = header
        self._body = body

    @staticmethod
    def single(message: Message, group: str, config: ProducerConfig, unique_keys: UniqueKeys,
               now_ms: int) -> "Outgoing":
        """Gives the message its unique key, unless it has one from an earlier send; the body is left as it is."""
        message_id = unique_keys.give(message, now_ms)
        properties = message.properties
        body = message.body
        sys_flag = 0
        if len(body) >= config.compress_msg_body_over_howmuch:
            bits = _COMPRESSION_BITS[config.compress_type]
            packed = compression.compress(body, bits, config.compress_level)
            if len(packed) < len(body):     # a body that does not shrink grows, and may then be too large
                body = packed
                sys_flag = flags.COMPRESSED | bits
        if properties.get(names.TRANSACTION_PREPARED) == "true":
            sys_flag |= flags.TRANSACTION_PREPARED
        header = SendMessageRequest(group, message.topic, config.create_topic_key, config.default_topic_queue_nums, -1,
                                    sys_flag, now_ms, message.flag, properties)
        if is_retry_topic(message.topic):
            _carry_retry_count(header)
        return Outgoing(_SEND_MESSAGE_V2, header, body, message_id)

    @staticmethod
    def batch(messages: Sequence[Message], group: str, config: ProducerConfig, unique_keys: UniqueKeys,
              now_ms: int) -> "Outgoing":
        """Gives each message its unique key. Batches are never compressed."""
        message_ids = [unique_keys.give(message, now_ms) for message in messages]
        properties = {} if waits(messages[0]) else dict(_BATCH_WAITS_NOT)
        header = SendMessageRequest(group, messages[0].topic, config.create_topic_key, config.default_topic_queue_nums,
                                    -1, 0, now_ms, 0, properties, batch=True)
        return Outgoing(_SEND_BATCH_MESSAGE, header, message_batch.encode(messages),
                        ",".join(message_ids))

    def command(self, queue: MessageQueue, oneway: bool = False) -> RemotingCommand:
        header = self._header
        header.queue_id = queue.queue_id
        header.broker_name = queue.broker_name
        return RemotingCommand.request(self._code, header.ext(), self._body, oneway)

    def result(self, answer: RemotingCommand, queue: MessageQueue) -> SendResult | None:
        """The result in an answer; None when it is a refusal. Raises HeaderError."""
        status = STATUS_OF_CODE.get(answer.code)
        if status is None:
            return None
        stored = SendMessageResponse.decode(answer)
        if stored.queue_id != queue.queue_id:
            queue = MessageQueue(queue.topic, queue.broker_name, stored.queue_id)
        return SendResult(status, self.message_id, queue, stored.queue_offset, stored.msg_id,
                          stored.transaction_id or "", stored.recall_handle or "")


def _carry_retry_count(header: SendMessageRequest) -> None:
    """Move the retry count and limit of a message to a retry topic from its properties into the header, where brokers
    expect them. Raises MessageIllegal."""
    properties = dict(header.properties)
    header.reconsume_times = _number(properties, names.RECONSUME_TIME, 0)
    header.max_reconsume_times = _number(properties, names.MAX_RECONSUME_TIMES, MAX_RECONSUME_TIMES_ABSENT)
    header.properties = properties


def _number(properties: dict[str, str], name: str, default: int) -> int:
    text = properties.pop(name, None)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = INT_MAX + 1
    if not -INT_MAX - 1 <= number <= INT_MAX:
        raise MessageIllegal(f"property {name} of a message to a retry topic is {text[:20]!r}; it must be a whole "
                             f"number of 32 bits")
    return number
