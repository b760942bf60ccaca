"""One message as the commit log keeps it, big-endian. `h` and `g` are 8 for an IPv4 host, 20 for IPv6.

    offset        size  field
         0           4  total_size                    of the whole record
         4           4  magic                         V1, or V2 for a topic of more than 127 bytes
         8           4  body_crc                      CRC-32 of the stored body & 0x7FFFFFFF
        12           4  queue_id
        16           4  flag                          the user's
        20           8  queue_offset                  message number in its queue
        28           8  physical_offset               where this record starts in the log
        36           4  sys_flag                      0x10: born host is IPv6, 0x20: store host is IPv6
        40           8  born_timestamp
        48           h  born_host                     address, port i4
        48 + h       8  store_timestamp
        56 + h       g  store_host                    address, port i4
        56 + h + g   4  reconsume_times
        60 + h + g   8  prepared_transaction_offset
        68 + h + g   4  body_length
        72 + h + g   n  body
                1 or 2  topic_length                  V1: one byte, V2: two
                     t  topic                         UTF-8
                     2  properties_length
                     p  properties                    UTF-8, `name 0x01 value 0x02 ...`

The end of a log file that is too short for the next record is a blank: its size (4), MAGIC_BLANK (4), anything.

Source: MessageDecoder.MESSAGE_MAGIC_CODE, MessageDecoder.BLANK_MAGIC_CODE, MessageVersion, CommitLog.calMsgLength.
"""

from struct import Struct
from zlib import crc32

from regulus.errors import CorruptRecord, MessageIllegal, TruncatedRecord
from regulus.model import message_properties, sys_flag
from regulus.model.message import MessageExt
from regulus.model.topics import RETRY_TOPIC_SIZE_MAX, TOPIC_SIZE_MAX
from regulus.record.java_hash import tags_code

MAGIC_V1 = 0xDAA320A7 - 0x100000000
MAGIC_V2 = 0xDAA320AB - 0x100000000
MAGIC_BLANK = 0xCBD43194 - 0x100000000
BLANK_SIZE_MIN = 8
FIXED_SIZE_V1 = 91
"""Bytes of a record with IPv4 hosts beside body, topic and properties; one more in V2, 12 more for an IPv6 host."""

_BLANK = Struct(">ii")
_HEAD = Struct(">iiiiiqqiq")
_LONG = Struct(">q")
_REST = Struct(">iqi")
_SHORT = Struct(">h")


class DispatchRequest:
    """What consume queues and index need of one record. `size` 0 < bytes to the next record, for a blank too.

    `keys` and `uniq_key` are empty when absent; `tags_code` is the hash of the tags, also for a delayed message, whose
    `delay_level` is above 0. `property_bytes` is the stored property string.
    """

    def __init__(self, size: int, is_blank: bool = False) -> None:
        self.size = size
        self.is_blank = is_blank
        self.topic = ""
        self.queue_id = 0
        self.queue_offset = 0
        self.physical_offset = 0
        self.store_timestamp = 0
        self.prepared_transaction_offset = 0
        self.sys_flag = 0
        self.tags_code = 0
        self.delay_level = 0
        self.keys = ""
        self.uniq_key = ""
        self.property_bytes = b""

    def properties(self) -> dict[str, str]:
        return message_properties.parse(self.property_bytes.decode("utf-8", "replace"))


def record_size(message: MessageExt) -> int:
    """Bytes that `encode` makes of `message`. Raises MessageIllegal when topic or properties are too long."""
    topic = message.topic.encode("utf-8", "replace")
    properties = message_properties.format(message.properties).encode("utf-8", "replace")
    return _size(message, topic, properties)


def encode(message: MessageExt) -> bytes:
    """One record. Raises MessageIllegal when topic or properties are too long."""
    record = bytearray(record_size(message))
    encode_into(memoryview(record), 0, message)
    return bytes(record)


def encode_into(buffer: memoryview, position: int, message: MessageExt, room: int = -1) -> int:
    """Write the record of `message` at `position` and return its size; fill in `body_crc`, `store_size`, `sys_flag`.

    With a `room` the size is returned but nothing written when the record is longer than that, so that a store need
    not ask for the size first. Raises MessageIllegal when topic or properties are too long.
    """
    topic = message.topic.encode("utf-8", "replace")
    properties = message_properties.format(message.properties).encode("utf-8", "replace")
    size = _size(message, topic, properties)
    if room >= 0 and size > room:
        return size
    body = message.body
    message.store_size = size
    message.body_crc = crc32(body) & 0x7FFFFFFF
    message.sys_flag = _sys_flag_for_hosts(message)
    is_v2 = len(topic) > TOPIC_SIZE_MAX
    head = _HEAD.pack(size, MAGIC_V2 if is_v2 else MAGIC_V1, message.body_crc, message.queue_id, message.flag,
                      message.queue_offset, message.physical_offset, message.sys_flag, message.born_timestamp)
    buffer[position:position + size] = b"".join((
        head, message.born_host, _LONG.pack(message.store_timestamp), message.store_host,
        _REST.pack(message.reconsume_times, message.prepared_transaction_offset, len(body)), body,
        _SHORT.pack(len(topic)) if is_v2 else bytes((len(topic),)), topic, _SHORT.pack(len(properties)), properties))
    return size


def _size(message: MessageExt, topic: bytes, properties: bytes) -> int:
    if len(topic) > RETRY_TOPIC_SIZE_MAX:
        raise MessageIllegal(f"topic has {len(topic)} bytes, more than {RETRY_TOPIC_SIZE_MAX}")
    if len(properties) > message_properties.PROPERTIES_SIZE_MAX:
        raise MessageIllegal(
            f"properties have {len(properties)} bytes, more than {message_properties.PROPERTIES_SIZE_MAX}")
    return (FIXED_SIZE_V1 - 16 + len(message.born_host) + len(message.store_host) + len(message.body) + len(topic)
            + (1 if len(topic) > TOPIC_SIZE_MAX else 0) + len(properties))


def _sys_flag_for_hosts(message: MessageExt) -> int:
    flag = message.sys_flag & ~(sys_flag.BORN_HOST_V6 | sys_flag.STORE_HOST_V6)
    if len(message.born_host) == 20:
        flag |= sys_flag.BORN_HOST_V6
    if len(message.store_host) == 20:
        flag |= sys_flag.STORE_HOST_V6
    return flag


def blank(room: int) -> bytes:
    """The first 8 bytes of the record that ends a log file with `room` bytes left."""
    return _BLANK.pack(room, MAGIC_BLANK)


def decode(data: bytes | memoryview, position: int = 0, read_body: bool = True) -> MessageExt:
    """The message whose record starts at `position`. Raises TruncatedRecord or CorruptRecord; CRC is not checked."""
    record = _whole_record(data, position, len(data))
    return _decode(record, position, read_body)


def _decode(record: bytes, position: int, read_body: bool) -> MessageExt:
    (size, magic, body_crc, queue_id, flag, queue_offset, physical_offset, flags,
     born_timestamp) = _HEAD.unpack_from(record, 0)
    if magic == MAGIC_BLANK:
        raise CorruptRecord("blank at the end of a log file, no message", position)
    born_end = 68 if flags & sys_flag.BORN_HOST_V6 else 56
    store_end = born_end + 8 + (20 if flags & sys_flag.STORE_HOST_V6 else 8)
    reconsume_times, prepared_transaction_offset, body_length = _REST.unpack_from(record, store_end)
    body_start = store_end + 16
    topic_start, topic_end, properties_end = _tail(record, body_start, body_length, magic, position)
    return MessageExt(
        topic=record[topic_start:topic_end].decode("utf-8", "replace"),
        body=record[body_start:body_start + body_length] if read_body else b"",
        properties=message_properties.parse(record[topic_end + 2:properties_end].decode("utf-8", "replace")),
        queue_id=queue_id, flag=flag, sys_flag=flags, born_timestamp=born_timestamp, born_host=record[48:born_end],
        store_host=record[born_end + 8:store_end], reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset, queue_offset=queue_offset,
        physical_offset=physical_offset, store_timestamp=_LONG.unpack_from(record, born_end)[0], store_size=size,
        body_crc=body_crc)


def decode_all(data: bytes | memoryview) -> list[MessageExt]:
    """The messages of records that lie one behind the other, as a pull answer has them."""
    messages = []
    position = 0
    while position < len(data):
        message = decode(data, position)
        messages.append(message)
        position += message.store_size
    return messages


def dispatch_request(data: bytes | memoryview, position: int, limit: int, check_crc: bool) -> DispatchRequest:
    """What to dispatch of the record at `position`; bytes from `limit` on are not there.

    Raises TruncatedRecord when the record is longer than that, CorruptRecord when it is none. `data` as `bytes` is
    the fastest: walk a log in pieces of some hundred KiB.
    """
    record = _whole_record(data, position, limit)
    (size, magic, body_crc, queue_id, _, queue_offset, physical_offset, flags, _) = _HEAD.unpack_from(
        record.ljust(_HEAD.size, b"\0"), 0)
    if magic == MAGIC_BLANK:
        return DispatchRequest(size, True)
    born_end = 68 if flags & sys_flag.BORN_HOST_V6 else 56
    store_end = born_end + 8 + (20 if flags & sys_flag.STORE_HOST_V6 else 8)
    _, prepared_transaction_offset, body_length = _REST.unpack_from(record, store_end)
    body_start = store_end + 16
    topic_start, topic_end, properties_end = _tail(record, body_start, body_length, magic, position)
    if check_crc and crc32(record[body_start:body_start + body_length]) & 0x7FFFFFFF != body_crc:
        raise CorruptRecord("body and its checksum differ", position)
    request = DispatchRequest(size)
    request.topic = record[topic_start:topic_end].decode("utf-8", "replace")
    request.queue_id = queue_id
    request.queue_offset = queue_offset
    request.physical_offset = physical_offset
    request.store_timestamp = _LONG.unpack_from(record, born_end)[0]
    request.prepared_transaction_offset = prepared_transaction_offset
    request.sys_flag = flags
    request.property_bytes = record[topic_end + 2:properties_end]
    properties = request.properties()
    request.tags_code = tags_code(properties.get(message_properties.TAGS))
    request.keys = properties.get(message_properties.KEYS, "")
    request.uniq_key = properties.get(message_properties.UNIQUE_KEY, "")
    level = properties.get(message_properties.DELAY_TIME_LEVEL, "")
    request.delay_level = int(level) if level.isdecimal() else 0
    return request


def _whole_record(data: bytes | memoryview, position: int, limit: int) -> bytes:
    """The bytes of the record at `position`; of a blank only size and magic."""
    if limit - position < BLANK_SIZE_MIN:
        raise TruncatedRecord("record cut short", position)
    size, magic = _BLANK.unpack_from(data, position)
    if magic == MAGIC_BLANK:
        return bytes(data[position:position + BLANK_SIZE_MIN])
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        raise CorruptRecord(f"no record: magic number is {magic & 0xFFFFFFFF:#x}", position)
    if size < FIXED_SIZE_V1:
        raise CorruptRecord(f"record size {size} is too small", position)
    if size > limit - position:
        raise TruncatedRecord("record cut short", position)
    return bytes(data[position:position + size])


def _tail(record: bytes, body_start: int, body_length: int, magic: int, position: int) -> tuple[int, int, int]:
    """Start and end of the topic and end of the properties. Raises CorruptRecord when they do not add up."""
    size = len(record)
    topic_at = body_start + body_length
    if body_length < 0 or topic_at + 3 > size:
        raise CorruptRecord(f"body length {body_length} does not fit record size {size}", position)
    if magic == MAGIC_V2:
        topic_start = topic_at + 2
        topic_end = topic_start + _SHORT.unpack_from(record, topic_at)[0]
    else:
        topic_start = topic_at + 1
        topic_end = topic_start + record[topic_at]
    if topic_end < topic_start or topic_end + 2 > size:
        raise CorruptRecord(f"topic does not fit record size {size}", position)
    properties_end = topic_end + 2 + _SHORT.unpack_from(record, topic_end)[0]
    if properties_end != size:
        raise CorruptRecord(f"properties do not end with the record of size {size}", position)
    return topic_start, topic_end, properties_end
