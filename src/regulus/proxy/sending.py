"""Converts a client's message to that of a broker: checks it in RocketMQ's order, then makes its stored properties.

Source: SendMessageActivity, GrpcValidator, MessageConst.STRING_HASH_SET.
"""

import base64
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from regulus.errors import CallRefused
from regulus.model import message_properties as names
from regulus.model import sys_flag
from regulus.model.message import Message
from regulus.proxy import topic_types, transaction_id
from regulus.proxy.config import ProxyConfig
from regulus.proxy.times import ms_of
from regulus.wire import message_batch
from regulus.wire.codes import RequestCode
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code, Encoding, MessageType
from regulus.wire.headers import SendMessageRequest
from regulus.wire.remoting_command import RemotingCommand

MESSAGES_MAX = 256
"""Messages of one send; a send with more is refused."""
KEYS_MAX = 128
"""Keys of one message; a message with more is refused."""
BORN_HOST, BORN_TIMESTAMP = "__BORNHOST", "BORN_TIMESTAMP"
TRACE_CONTEXT = "TRACE_CONTEXT"
RESERVED = frozenset(re.findall(r"\S+",
    "TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET "
    "BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME UNIQ_KEY MAX_RECONSUME_TIMES "
    "CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO EXTEND_UNIQ_INFO "
    "INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE "
    "INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS "
    "TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC "
    "DLQ_ORIGIN_MESSAGE_ID __CRC32# _SYS_MSG_PRIORITY_")) | {
        names.SINK, names.SINK_DIGEST, names.SET_BACKS, names.GIVEN_BACK}
"""Properties that no application may set, and that consumers do not see among those of applications. They do see other
properties of the system, such as `__SHARDINGKEY` and `__transactionId__`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sendable:
    """A message that passed the checks."""

    message: Message
    kind: MessageType
    message_group: str
    born_timestamp: int
    sys_flag: int


def sendables(request: messages.SendMessageRequest, topic: str, topics: Sequence[str], config: ProxyConfig,
              peer: str, now_ms: int) -> list[Sendable]:
    """All messages of a send; `topics` are the full names of their topics. Raises CallRefused if one message is bad:
    then none is sent."""
    if len(request.messages) > MESSAGES_MAX:
        raise CallRefused(Code.BAD_REQUEST,
                          f"{len(request.messages)} messages in one send; {MESSAGES_MAX} are the most")
    if any(each != topic for each in topics):
        raise CallRefused(Code.MESSAGE_CORRUPTED, "the messages of one send have several topics; send each topic alone")
    return [_sendable(each, topic, config, peer, now_ms) for each in request.messages]


def _sendable(message: messages.Message, topic: str, config: ProxyConfig, peer: str, now_ms: int) -> Sendable:
    system = message.system_properties
    _check_body(message.body, config)
    _check_properties(message, config)
    if not system.message_id.strip():
        raise CallRefused(Code.ILLEGAL_MESSAGE_ID, "the message has no message_id; the client makes one")
    _check_plain(system.message_id, Code.ILLEGAL_MESSAGE_ID, "the message_id")
    stored = dict(message.user_properties)
    _set_marks(stored, system, topic)
    _set_times(stored, system, config, now_ms)
    _set_priority(stored, system)
    _set_group(stored, system, config)
    _set_origin(stored, system, peer)
    is_half = system.message_type == MessageType.TRANSACTION
    if is_half and not transaction_id.may_be_unique_key(system.message_id):
        raise CallRefused(Code.ILLEGAL_MESSAGE_ID, "the message_id of a transaction has more than 128 characters, a "
                                                   "blank or an @: no transaction id can be made of it")
    flag = (sys_flag.TRANSACTION_PREPARED if is_half else 0)
    if system.body_encoding == Encoding.GZIP:
        flag |= sys_flag.COMPRESSED
    born = ms_of(system.born_timestamp) if system.HasField("born_timestamp") else now_ms
    return Sendable(message=Message(topic, message.body, properties=stored), kind=topic_types.type_of(stored),
                    message_group=stored.get(names.SHARDING_KEY, ""), born_timestamp=born, sys_flag=flag)


# --- checks ----------------------------------------------------------------------------------------------------------


def _check_body(body: bytes, config: ProxyConfig) -> None:
    if not body and config.enable_message_body_empty_check:
        raise CallRefused(Code.MESSAGE_BODY_EMPTY, "the message has no body")
    if len(body) > config.max_message_size:
        raise CallRefused(Code.MESSAGE_BODY_TOO_LARGE,
                          f"the body has {len(body)} bytes; {config.max_message_size} are the most (maxMessageSize)")


def _check_properties(message: messages.Message, config: ProxyConfig) -> None:
    users, system = message.user_properties, message.system_properties
    if system.message_type == MessageType.LITE or system.HasField("lite_topic") or names.LITE_TOPIC in users:
        raise CallRefused(Code.ILLEGAL_LITE_TOPIC, f"the message has a lite topic: {topic_types.NO_LITE_TOPICS}")
    if len(users) > config.user_property_max_num:
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE,
                          f"{len(users)} user properties; {config.user_property_max_num} are the most")
    size = 0
    for name, value in users.items():
        if name in RESERVED:
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name} belongs to the system")
        _check_plain(name, Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "the name of a property")
        _check_plain(value, Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name}")
        size += _size(name) + _size(value)
    if system.HasField("tag"):
        _check_tag(system.tag)
        size += _size(system.tag)
    if len(system.keys) > KEYS_MAX:
        raise CallRefused(Code.ILLEGAL_MESSAGE_KEY, f"{len(system.keys)} keys; {KEYS_MAX} are the most")
    for key in system.keys:
        if not key.strip():
            raise CallRefused(Code.ILLEGAL_MESSAGE_KEY, "a key is blank")
        _check_plain(key, Code.ILLEGAL_MESSAGE_KEY, "a key")
        size += _size(key)
    if size > config.max_user_property_size:
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"properties, tag and keys have {size} bytes; "
                                                             f"{config.max_user_property_size} are the most")


def _check_tag(tag: str) -> None:
    if not tag.strip():
        raise CallRefused(Code.ILLEGAL_MESSAGE_TAG, "the tag is blank; leave it out")
    if "|" in tag:
        raise CallRefused(Code.ILLEGAL_MESSAGE_TAG, "the tag has a |, which separates tags in subscriptions")
    _check_plain(tag, Code.ILLEGAL_MESSAGE_TAG, "the tag")


def _check_plain(text: str, code: Code, what: str) -> None:
    """Raises CallRefused for a control character: in stored messages they separate the properties."""
    if not text.isprintable() and any(unicodedata.category(letter) == "Cc" for letter in text):
        raise CallRefused(code, f"{what} has a control character")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


# --- properties ------------------------------------------------------------------------------------------------------


def _set_marks(stored: dict[str, str], system: messages.SystemProperties, topic: str) -> None:
    stored[names.UNIQUE_KEY] = system.message_id
    if system.HasField("tag"):
        stored[names.TAGS] = system.tag
    if system.keys:
        stored[names.KEYS] = " ".join(system.keys)
    stored[names.PRODUCER_GROUP] = topic
    if system.HasField("trace_context"):
        _check_plain(system.trace_context, Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "the trace context")
        stored[TRACE_CONTEXT] = system.trace_context


def _set_times(stored: dict[str, str], system: messages.SystemProperties, config: ProxyConfig, now_ms: int) -> None:
    if system.message_type == MessageType.TRANSACTION:
        stored[names.TRANSACTION_PREPARED] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = ms_of(system.orphaned_transaction_recovery_duration) // 1000
            if not 0 <= seconds <= config.max_transaction_recovery_second:
                raise CallRefused(Code.BAD_REQUEST, f"the transaction is to be checked after {seconds} s; 0 to "
                                                    f"{config.max_transaction_recovery_second} s are possible")
            stored[names.CHECK_IMMUNITY_TIME] = str(seconds)
    if system.HasField("delivery_timestamp"):
        at_ms = ms_of(system.delivery_timestamp)
        if at_ms - now_ms > config.max_delay_time_mills:
            raise CallRefused(Code.ILLEGAL_DELIVERY_TIME, f"delivery in {at_ms - now_ms} ms; "
                                                          f"{config.max_delay_time_mills} ms are the most "
                                                          "(maxDelayTimeMills)")
        stored[names.TIMER_DELIVER_MS] = str(max(0, at_ms))


def _set_priority(stored: dict[str, str], system: messages.SystemProperties) -> None:
    if not system.HasField("priority"):
        return
    if system.priority < 0:
        raise CallRefused(Code.BAD_REQUEST, f"the priority is {system.priority}; 0 and more are possible")
    stored[names.PRIORITY] = str(system.priority)


def _set_group(stored: dict[str, str], system: messages.SystemProperties, config: ProxyConfig) -> None:
    if not system.HasField("message_group"):
        return
    group = system.message_group
    if not group.strip():
        raise CallRefused(Code.ILLEGAL_MESSAGE_GROUP, "the message group is blank; leave it out")
    if _size(group) >= config.max_message_group_size:
        raise CallRefused(Code.ILLEGAL_MESSAGE_GROUP, f"the message group has {_size(group)} bytes; fewer than "
                                                      f"{config.max_message_group_size} are possible")
    _check_plain(group, Code.ILLEGAL_MESSAGE_GROUP, "the message group")
    stored[names.SHARDING_KEY] = group


def _set_origin(stored: dict[str, str], system: messages.SystemProperties, peer: str) -> None:
    host = system.born_host.strip() or peer
    _check_plain(host, Code.BAD_REQUEST, "the born host")
    if host:
        stored[BORN_HOST] = host
    if system.HasField("born_timestamp"):
        stored[BORN_TIMESTAMP] = str(ms_of(system.born_timestamp))
    if system.HasField("delivery_attempt") and system.delivery_attempt > 0:
        stored[names.RECONSUME_TIME] = str(system.delivery_attempt)


# --- requests to a broker --------------------------------------------------------------------------------------------


def send_command(batch: Sequence[Sendable], broker: str, queue_id: int) -> RemotingCommand:
    """The request that sends messages to one queue. Raises CallRefused if the properties are too large to be stored,
    and MessageIllegal for a message that cannot be encoded."""
    first = batch[0]
    topic = first.message.topic
    properties = first.message.properties
    if len(properties.get(names.UNIQUE_KEY, "")) and _stored_size(first) > names.PROPERTIES_SIZE_MAX:
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE,
                          f"the properties take more than {names.PROPERTIES_SIZE_MAX} bytes where they are stored")
    is_batch = len(batch) > 1
    header = SendMessageRequest(producer_group=topic, topic=topic, queue_id=queue_id, sys_flag=first.sys_flag,
                                born_timestamp=first.born_timestamp, properties={} if is_batch else properties,
                                batch=is_batch, broker_name=broker)
    if is_batch:
        return RemotingCommand.request(RequestCode.SEND_BATCH_MESSAGE, header.ext(),
                                       message_batch.encode([each.message for each in batch]))
    return RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, header.ext(), first.message.body)


def _stored_size(sendable: Sendable) -> int:
    return len(names.format(sendable.message.properties).encode("utf-8", "replace"))


def batches(sendables: Sequence[Sendable], size_max: int) -> list[list[Sendable]]:
    """The messages of each request to a broker: batches of at most `size_max` bytes if all messages may share one, and
    otherwise one message a request."""
    if not may_share_a_batch(sendables):
        return [[each] for each in sendables]
    found: list[list[Sendable]] = []
    room = 0
    for each in sendables:
        size = message_batch.RECORD_SIZE_MIN + len(each.message.body) + _stored_size(each)
        if size > room:
            found.append([])
            room = size_max
        found[-1].append(each)
        room -= size
    return found


def may_share_a_batch(batch: Sequence[Sendable]) -> bool:
    """Whether the messages may be sent as one batch: none may be delayed, ordered, transactional or compressed."""
    return all(each.kind is MessageType.NORMAL and not each.sys_flag for each in batch)


def broker_of_recall(handle: str) -> str:
    """The broker that made a recall handle: base64 of `v1 topic broker time id`. Raises CallRefused."""
    try:
        fields = base64.urlsafe_b64decode(handle).decode().split(" ")
    except ValueError as error:
        raise CallRefused(Code.BAD_REQUEST, f"the recall handle cannot be read: {error}") from error
    if len(fields) != 5 or fields[0] != "v1":
        raise CallRefused(Code.BAD_REQUEST, "the recall handle has a format that this server does not know")
    return fields[2]
