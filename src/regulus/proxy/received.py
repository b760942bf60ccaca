"""Converts a stored message to the message that a RocketMQ 5 client reads. Source: GrpcConverter.buildMessage."""

import hashlib

from regulus.errors import MessageIllegal
from regulus.model import message_properties as names
from regulus.model import priority, sys_flag
from regulus.model.message import MessageExt
from regulus.model.message_id import host_address, host_text, offset_message_id
from regulus.proxy import topic_types
from regulus.proxy.sending import BORN_HOST, RESERVED, TRACE_CONTEXT
from regulus.wire import compression
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import DigestType, Encoding, MessageType
from regulus.wire.grpc.times import set_ms

_ATTEMPT_MAX = 0x7FFFFFFF
"""Largest number of the field `delivery_attempt`, an int32."""


def message_id(message: MessageExt) -> str:
    return message.message_id or offset_message_id(message.store_host, message.physical_offset)


def to_message(message: MessageExt, topic: str, body_size_max: int, receipt_handle: str | None = None,
               kind: MessageType | None = None) -> messages.Message:
    """Convert a message. `topic` is the one that the client consumes, even if the message was in a retry topic.

    A compressed body that would become larger than `body_size_max` bytes stays compressed: no sender could have sent
    it. `kind`: the type of the message; None reads it from its properties."""
    namespace, name = split_name(topic)
    body, encoding = _body(message, body_size_max)
    made = messages.Message(body=body)
    made.topic.resource_namespace, made.topic.name = namespace, name
    is_of_sink = names.SINK in message.properties      # otherwise SEQ is a property of the application
    for key, value in message.properties.items():
        if key not in RESERVED and not (is_of_sink and key == names.SEQUENCE):
            made.user_properties[_valid(key)] = _valid(value)
    system = made.system_properties
    system.message_id = _valid(message_id(message))
    system.body_digest.type = int(DigestType.MD5)
    system.body_digest.checksum = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = int(encoding)
    system.message_type = int(kind or topic_types.type_of(message.properties))
    _set_marks(system, message.properties)
    _set_place(system, message)
    if receipt_handle is not None:
        system.receipt_handle = receipt_handle
    return made


def split_name(topic: str) -> tuple[str, str]:
    """The namespace and the name of `namespace%name`. Names that begin with `%`, such as retry topics, have none."""
    if topic.startswith("%"):
        return "", topic
    namespace, percent, name = topic.partition("%")
    return (namespace, name) if percent else ("", topic)


def _body(message: MessageExt, size_max: int) -> tuple[bytes, Encoding]:
    """The body and its encoding. Bodies are decompressed here, because clients differ in what they can decompress. One
    that cannot be decompressed is passed on as it is."""
    if not message.sys_flag & sys_flag.COMPRESSED:
        return message.body, Encoding.IDENTITY
    try:
        flags = message.sys_flag
        if message.body[:2] == b"\x1f\x8b":     # gzip: compressed by a client of RocketMQ 5
            return message.body, Encoding.GZIP
        if not flags & sys_flag.COMPRESSION_MASK:
            flags |= sys_flag.COMPRESSION_ZLIB
        return compression.decompress(message.body, flags, size_max), Encoding.IDENTITY
    except MessageIllegal:
        return message.body, Encoding.GZIP


def _set_marks(system: messages.SystemProperties, properties: dict[str, str]) -> None:
    if tag := properties.get(names.TAGS):
        system.tag = _valid(tag)
    system.keys.extend([_valid(key) for key in properties.get(names.KEYS, "").split(" ") if key])
    if group := properties.get(names.SHARDING_KEY):
        system.message_group = _valid(group)
    number = priority.of(properties)
    if number != priority.NONE:
        system.priority = number
    if context := properties.get(TRACE_CONTEXT):
        system.trace_context = _valid(context)
    at_ms = properties.get(names.TIMER_DELIVER_MS, "")
    if at_ms.isdecimal() and len(at_ms) <= 15:
        set_ms(system.delivery_timestamp, int(at_ms))
    origin, origin_id = properties.get(names.DLQ_ORIGIN_TOPIC), properties.get(names.DLQ_ORIGIN_MESSAGE_ID)
    if origin and origin_id:
        system.dead_letter_queue.topic, system.dead_letter_queue.message_id = _valid(origin), _valid(origin_id)


def _set_place(system: messages.SystemProperties, message: MessageExt) -> None:
    set_ms(system.born_timestamp, message.born_timestamp)
    system.born_host = _valid(message.properties.get(BORN_HOST, "")) or host_address(message.born_host)[0]
    set_ms(system.store_timestamp, message.store_timestamp)
    system.store_host = host_text(message.store_host)
    system.queue_id = message.queue_id
    system.queue_offset = message.queue_offset
    system.delivery_attempt = min(max(0, message.reconsume_times) + 1, _ATTEMPT_MAX)   # a sender can write any number


def _valid(text: str) -> str:
    """The text without lone surrogates, which protobuf refuses and a stored property may contain."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
