"""Messages on their way to a server of RocketMQ 5, and back. What gRPC has no room for is refused, not dropped.

Source: PublishingMessageImpl, MessageViewImpl of rocketmq-clients.
"""

import hashlib
import zlib
from typing import Any

from regulus.client.connecting.client_instance import now_ms
from regulus.client.received_message import ReceivedMessage
from regulus.errors import MessageIllegal
from regulus.model import message_properties as names
from regulus.model import priority, sys_flag
from regulus.model.message import Message, MessageExt
from regulus.model.message_id import host_bytes
from regulus.wire import compression
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import DigestType, Encoding, MessageType
from regulus.wire.grpc.times import get_ms, set_ms

_SYSTEM = frozenset((names.KEYS, names.TAGS, names.UNIQUE_KEY, names.SHARDING_KEY, names.TIMER_DELAY_MS,
                     names.TIMER_DELAY_SEC, names.TIMER_DELIVER_MS, names.TRANSACTION_PREPARED, names.PRODUCER_GROUP,
                     names.CHECK_IMMUNITY_TIME, names.WAIT_STORE_MSG_OK, names.PRIORITY))
BORN_HOST, TRACE_CONTEXT = "__BORNHOST", "TRACE_CONTEXT"
_DIGESTS = {DigestType.CRC32: lambda body: f"{zlib.crc32(body):X}",
            DigestType.MD5: lambda body: hashlib.md5(body, usedforsecurity=False).hexdigest().upper(),
            DigestType.SHA1: lambda body: hashlib.sha1(body, usedforsecurity=False).hexdigest().upper()}


def to_grpc(message: Message, host: str) -> Any:
    """A message that has its unique key. Raises MessageIllegal for what this protocol cannot carry."""
    properties = message.properties
    if message.flag:
        raise MessageIllegal("the message has a flag, which grpc:// does not carry; use a property")
    if properties.get(names.DELAY_TIME_LEVEL, "0") != "0":
        raise MessageIllegal("the message has a delay level, which grpc:// does not carry; give delay=, a timedelta")
    made = messages.Message(body=message.body)
    made.topic.name = message.topic
    for name, value in properties.items():
        if name not in _SYSTEM and name != names.DELAY_TIME_LEVEL:
            made.user_properties[name] = value
    system = made.system_properties
    system.message_id = properties[names.UNIQUE_KEY]
    system.body_encoding = int(Encoding.IDENTITY)
    if tag := properties.get(names.TAGS):
        system.tag = tag
    system.keys.extend(key for key in properties.get(names.KEYS, "").split(" ") if key)
    now = now_ms()
    set_ms(system.born_timestamp, now)
    system.born_host = host
    system.message_type = int(_set_kind(system, properties, now))
    return made


def _set_kind(system: Any, properties: dict[str, str], now: int) -> MessageType:
    if properties.get(names.TRANSACTION_PREPARED) == "true":
        if seconds := properties.get(names.CHECK_IMMUNITY_TIME):
            system.orphaned_transaction_recovery_duration.seconds = int(seconds)
        return MessageType.TRANSACTION
    kind = MessageType.NORMAL
    if group := properties.get(names.SHARDING_KEY):
        system.message_group = group
        kind = MessageType.FIFO
    at_ms = _deliver_at(properties, now)
    if at_ms is not None:
        set_ms(system.delivery_timestamp, max(0, at_ms))
        kind = MessageType.DELAY
    number = priority.of(properties)
    if number != priority.NONE:
        system.priority = number
        kind = MessageType.PRIORITY
    return kind


def _deliver_at(properties: dict[str, str], now: int) -> int | None:
    """In the order in which brokers look at them."""
    if (value := properties.get(names.TIMER_DELAY_SEC)) is not None:
        return now + int(value) * 1000
    if (value := properties.get(names.TIMER_DELAY_MS)) is not None:
        return now + int(value)
    value = properties.get(names.TIMER_DELIVER_MS)
    return None if value is None else int(value)


def message_of(told: Any) -> tuple[MessageExt, str]:
    """A message as it is known here, and why its body cannot be read; empty: it can."""
    system = told.system_properties
    properties = dict(told.user_properties)
    properties[names.UNIQUE_KEY] = system.message_id
    if system.HasField("tag"):
        properties[names.TAGS] = system.tag
    if system.keys:
        properties[names.KEYS] = " ".join(system.keys)
    if system.HasField("message_group"):
        properties[names.SHARDING_KEY] = system.message_group
    if system.HasField("delivery_timestamp"):
        properties[names.TIMER_DELIVER_MS] = str(get_ms(system.delivery_timestamp))
    if system.HasField("priority"):
        properties[names.PRIORITY] = str(system.priority)
    if system.HasField("trace_context"):
        properties[TRACE_CONTEXT] = system.trace_context
    if system.born_host:
        properties[BORN_HOST] = system.born_host
    if system.HasField("dead_letter_queue"):
        properties[names.DLQ_ORIGIN_TOPIC] = system.dead_letter_queue.topic
        properties[names.DLQ_ORIGIN_MESSAGE_ID] = system.dead_letter_queue.message_id
    body, unreadable = _body(told)
    made = MessageExt(
        full_name(told.topic), body, properties, queue_id=system.queue_id,
        born_timestamp=get_ms(system.born_timestamp), born_host=_host(system.born_host, "0"),
        store_host=_host(*_split(system.store_host)), reconsume_times=max(0, system.delivery_attempt - 1),
        queue_offset=system.queue_offset, store_timestamp=get_ms(system.store_timestamp))
    return made, unreadable


def received(told: Any, topic: str, broker: str, until_ms: int) -> ReceivedMessage:
    message, unreadable = message_of(told)
    made = ReceivedMessage(message, topic, broker, told.system_properties.receipt_handle, until_ms)
    made.unreadable = unreadable
    return made


def full_name(resource: Any) -> str:
    namespace = resource.resource_namespace
    return f"{namespace}%{resource.name}" if namespace else str(resource.name)


def _body(told: Any) -> tuple[bytes, str]:
    system, body = told.system_properties, bytes(told.body)
    digest = _DIGESTS.get(system.body_digest.type)
    if digest is not None and system.body_digest.checksum:
        made, given = digest(body), system.body_digest.checksum.upper()
        if made.lstrip("0") != given.lstrip("0"):
            return body, f"its checksum is {given} and should be {made}: it was damaged on its way"
    if system.body_encoding != Encoding.GZIP:
        return body, ""
    try:
        return _unpacked(body), ""
    except (MessageIllegal, zlib.error) as error:
        return body, f"it cannot be unpacked: {error}"


def _unpacked(body: bytes) -> bytes:
    if body[:2] == b"\x1f\x8b":
        unpacking = zlib.decompressobj(31)
        made = unpacking.decompress(body, compression.INFLATED_SIZE_MAX)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise MessageIllegal(f"it is torn, or unpacks to more than {compression.INFLATED_SIZE_MAX} bytes")
        return made
    return compression.decompress(body, sys_flag.COMPRESSED | sys_flag.COMPRESSION_ZLIB)


def _split(text: str) -> tuple[str, str]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), port


def _host(host: str, port: str) -> bytes:
    """As stored; an address that is none, such as a name, is left unsaid."""
    try:
        return host_bytes(host, int(port) & 0xFFFF)
    except ValueError:
        return b"\0" * 8
