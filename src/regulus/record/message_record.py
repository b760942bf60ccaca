"""Write and read one message of the commit log; `layout` has the positions of its fields."""

from struct import Struct

from regulus.errors import CorruptRecord, MessageIllegal, TruncatedRecord
from regulus.model import message_properties
from regulus.model.message import MessageExt, StraightMessage
from regulus.model.message_properties import format as format_properties
from regulus.model.message_properties import parse as parse_properties
from regulus.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from regulus.model.topics import RETRY_TOPIC_SIZE_MAX, TOPIC_SIZE_MAX
from regulus.record import big_endian, layout, part_copy
from regulus.record.byte_runs import Buffer, WritableBuffer
from regulus.record.checksum import crc32

# These may become C constants in the compiled form.
_TOPIC_SIZE_V1_MAX = TOPIC_SIZE_MAX
_TOPIC_SIZE_MAX = RETRY_TOPIC_SIZE_MAX
_PROPERTIES_SIZE_MAX = message_properties.PROPERTIES_SIZE_MAX
_BORN_V6 = BORN_HOST_V6
_STORE_V6 = STORE_HOST_V6
_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
_COMPILED = not __file__.endswith(".py")

_BLANK_LAYOUT = Struct(">ii")


def record_size(message: MessageExt) -> int:
    """The size of the record that `encode` makes of `message`. Raises MessageIllegal when topic or properties are too
    long."""
    if isinstance(message, StraightMessage):
        return _size(message, body_size(message), len(message.topic_text), message.text_size)
    return _size(message, len(message.body), len(_utf8(message.topic)),
                 len(message.properties_text or _utf8(format_properties(message.properties))))


def body_size(message: MessageExt) -> int:
    """The size of the body in bytes, however the message holds it."""
    if isinstance(message, StraightMessage):
        return message.body_end - message.body_start
    return len(message.body)


def encode(message: MessageExt) -> bytes:
    """The record of `message`. Raises MessageIllegal when topic or properties are too long."""
    record = bytearray(record_size(message))
    encode_into(record, 0, message)
    return bytes(record)


def encode_into(buffer: WritableBuffer, position: int, message: MessageExt, room: int = -1) -> int:
    """Write the record of `message` at `position` and return its size; fill in `body_crc`, `store_size`, `sys_flag`.

    When the record is longer than `room`, only its size is returned and nothing is written, so that a store need not
    compute the size first. Raises MessageIllegal when topic or properties are too long. The caller has set offsets and
    store time.
    """
    return encode_view(buffer, buffer, position, message, room)


def encode_view(buffer: WritableBuffer, cells: WritableBuffer, position: int, message: MessageExt, room: int) -> int:
    """Like `encode_into`, for a caller that keeps a view: `cells` is `buffer` again, for single bytes."""
    if isinstance(message, StraightMessage):
        return _encode_straight(buffer, cells, position, message, room)
    topic = _utf8(message.topic)
    properties = message.properties_text
    properties_size = len(properties) if properties else _ascii_size(message.properties)
    if properties_size < 0:
        properties = _utf8(format_properties(message.properties))
        properties_size = len(properties)
    body = message.body
    size = _size(message, len(body), len(topic), properties_size)
    if room >= 0 and size > room:
        return size
    message.store_size = size
    message.body_crc = crc32(body) & 0x7FFFFFFF
    end = _put_head(buffer, cells, position, message, len(body), len(topic))
    buffer[end:end + len(body)] = body
    end = _put_topic(buffer, cells, end + len(body), topic)
    end = big_endian.put2(cells, end, properties_size)
    if properties:
        _copy(buffer, cells, end, properties)
    else:
        _put_ascii(cells, end, message.properties)
    return size


def _encode_straight(buffer: WritableBuffer, cells: WritableBuffer, position: int, message: StraightMessage,
                     room: int) -> int:
    """Like `encode_view`, for a message that is bytes already: they are copied from where they were read."""
    size = _size(message, message.body_end - message.body_start, len(message.topic_text), message.text_size)
    if room >= 0 and size > room:
        return size
    message.store_size = size
    checksum = crc32(message.view[message.body_start:message.body_end])
    message.body_crc = checksum & 0x7FFFFFFF
    end = _put_head(buffer, cells, position, message, message.body_end - message.body_start, len(message.topic_text))
    end = _copy_part(buffer, cells, end, message.data, message.body_start, message.body_end)
    end = _put_topic(buffer, cells, end, message.topic_text)
    end = big_endian.put2(cells, end, message.text_size)
    _copy_part(buffer, cells, end, message.text, 0, message.text_size)
    return size


def _ascii_size(properties: dict[str, str]) -> int:
    """The size of a property string that is all ASCII; -1 when it is not, or when writing it letter by letter would be
    slow."""
    if not _COMPILED:
        return -1
    size = 0
    for name, value in properties.items():
        if value:
            if not (name.isascii() and value.isascii()):
                return -1
            size += len(name) + len(value) + 2
    return size


def _put_ascii(cells: WritableBuffer, position: int, properties: dict[str, str]) -> int:
    """Write the property string letter by letter, without building it first; returns the position after it."""
    for name, value in properties.items():
        if value:
            for letter in name:
                cells[position] = ord(letter)
                position += 1
            cells[position] = 1
            position += 1
            for letter in value:
                cells[position] = ord(letter)
                position += 1
            cells[position] = 2
            position += 1
    return position


def _utf8(text: str) -> bytes:
    """The text as UTF-8; an unpaired surrogate, which UTF-8 cannot express, becomes a question mark."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _put_head(buffer: WritableBuffer, cells: WritableBuffer, position: int, message: MessageExt, body_size: int,
              topic_size: int) -> int:
    """Write the fields before the body, in the order of `layout`; returns the position after them."""
    message.sys_flag = _flags_of_hosts(message)
    magic = layout.MAGIC_V2 if topic_size > _TOPIC_SIZE_V1_MAX else layout.MAGIC_V1
    # Each field begins where the one before ends: computing its position costs the interpreted form a twentieth more.
    end = big_endian.put4(cells, position, message.store_size)
    end = big_endian.put4(cells, end, magic)
    end = big_endian.put4(cells, end, message.body_crc)
    end = big_endian.put4(cells, end, message.queue_id)
    end = big_endian.put4(cells, end, message.flag)
    end = big_endian.put8(cells, end, message.queue_offset)
    end = big_endian.put8(cells, end, message.physical_offset)
    end = big_endian.put4(cells, end, message.sys_flag)
    end = big_endian.put8(cells, end, message.born_timestamp)
    end = _copy(buffer, cells, end, message.born_host)
    end = big_endian.put8(cells, end, message.store_timestamp)
    end = _copy(buffer, cells, end, message.store_host)
    end = big_endian.put4(cells, end, message.reconsume_times)
    end = big_endian.put8(cells, end, message.prepared_transaction_offset)
    return big_endian.put4(cells, end, body_size)


def _put_topic(buffer: WritableBuffer, cells: WritableBuffer, position: int, topic: bytes) -> int:
    """Write the length of the topic and the topic; returns the position after it."""
    if len(topic) > _TOPIC_SIZE_V1_MAX:
        return _copy(buffer, cells, big_endian.put2(cells, position, len(topic)), topic)
    cells[position] = len(topic)
    return _copy(buffer, cells, position + 1, topic)


def _copy(buffer: WritableBuffer, cells: WritableBuffer, position: int, data: bytes) -> int:
    """Write `data`; returns the position after it. A few bytes are faster one by one, but only in the compiled form."""
    return _copy_part(buffer, cells, position, data, 0, len(data))


def _copy_part(buffer: WritableBuffer, cells: WritableBuffer, position: int, data: bytes | bytearray, start: int,
               end: int) -> int:
    """Write data[start:end]; returns the position after it."""
    if _COMPILED:
        return part_copy.copy_part(cells, position, data, start, end)
    behind = position + end - start
    buffer[position:behind] = data[start:end]
    return behind


def _size(message: MessageExt, body_size: int, topic_size: int, properties_size: int) -> int:
    if topic_size > _TOPIC_SIZE_MAX:
        raise MessageIllegal(f"topic has {topic_size} bytes, more than {_TOPIC_SIZE_MAX}")
    if properties_size > _PROPERTIES_SIZE_MAX:
        raise MessageIllegal(f"properties have {properties_size} bytes, more than {_PROPERTIES_SIZE_MAX}")
    size = layout.FIXED_SIZE_V1 - 2 * layout.HOST_V4_SIZE + len(message.born_host) + len(message.store_host)
    return size + body_size + topic_size + properties_size + (1 if topic_size > _TOPIC_SIZE_V1_MAX else 0)


def _flags_of_hosts(message: MessageExt) -> int:
    flags = message.sys_flag & ~_HOSTS_V6
    if len(message.born_host) == layout.HOST_V6_SIZE:
        flags |= _BORN_V6
    if len(message.store_host) == layout.HOST_V6_SIZE:
        flags |= _STORE_V6
    return flags


def blank(room: int) -> bytes:
    """The first 8 bytes of the record that ends a log file with `room` bytes left."""
    return _BLANK_LAYOUT.pack(room, layout.MAGIC_BLANK)


def decode(data: Buffer, position: int = 0, read_body: bool = True) -> MessageExt:
    """The message whose record starts at `position`. Raises TruncatedRecord or CorruptRecord; CRC is not checked."""
    return _decode(data, data, position, read_body)


def decode_all(data: Buffer) -> list[MessageExt]:
    """The messages of a pull answer, whose records follow each other without gaps."""
    messages = []
    position = 0
    end = len(data)
    while position < end:
        message = _decode(data, data, position, True)
        messages.append(message)
        position += message.store_size
    return messages


def _decode(data: Buffer, view: Buffer, position: int, read_body: bool) -> MessageExt:
    size, flags, born_end, store_end, body_end, topic_start, topic_end = find_parts(view, position, len(data))
    if not topic_end:
        raise CorruptRecord("blank at the end of a log file, no message", position)
    # The bytes around the body are copied at once; the fields are cut from that copy.
    hosts_start = position + layout.BORN_HOST
    hosts = bytes(data[hosts_start:store_end])
    tail = bytes(data[topic_start:position + size])
    message = MessageExt.__new__(MessageExt)
    message.topic = tail[:topic_end - topic_start].decode("utf-8", "replace")
    message.body = bytes(data[store_end + layout.BODY:body_end]) if read_body else b""
    properties_start = topic_end - topic_start + layout.PROPERTIES_LENGTH_SIZE
    message.properties = parse_properties(tail[properties_start:].decode("utf-8", "replace"))
    message.queue_id = big_endian.int4(view, position + layout.QUEUE_ID)
    message.flag = big_endian.int4(view, position + layout.FLAG)
    message.sys_flag = flags
    message.born_timestamp = big_endian.int8(view, position + layout.BORN_TIMESTAMP)
    message.born_host = hosts[:born_end - hosts_start]
    message.store_host = hosts[born_end + layout.STORE_HOST - hosts_start:]
    message.reconsume_times = big_endian.int4(view, store_end + layout.RECONSUME_TIMES)
    message.prepared_transaction_offset = big_endian.int8(view, store_end + layout.PREPARED_TRANSACTION_OFFSET)
    message.queue_offset = big_endian.int8(view, position + layout.QUEUE_OFFSET)
    message.physical_offset = big_endian.int8(view, position + layout.PHYSICAL_OFFSET)
    message.store_timestamp = big_endian.int8(view, born_end + layout.STORE_TIMESTAMP)
    message.store_size = size
    message.body_crc = big_endian.int4(view, position + layout.BODY_CRC)
    message.properties_text = b""
    return message


def find_parts(view: Buffer, position: int, limit: int) -> tuple[int, int, int, int, int, int, int]:
    """The positions of a record's parts: its size, sys_flag, ends of born host, store host and body, start and end of
    the topic.

    All but the size are 0 for a blank. Raises CorruptRecord when there is no record at `position` or its parts do not
    fill it exactly, TruncatedRecord when it does not end before `limit`.
    """
    size = check_start(view, position, limit)
    magic = big_endian.int4(view, position + layout.MAGIC)
    if magic == layout.MAGIC_BLANK:
        return size, 0, 0, 0, 0, 0, 0
    flags = big_endian.int4(view, position + layout.SYS_FLAG)
    born_end = position + layout.BORN_HOST + (layout.HOST_V6_SIZE if flags & _BORN_V6 else layout.HOST_V4_SIZE)
    store_end = born_end + layout.STORE_HOST + (layout.HOST_V6_SIZE if flags & _STORE_V6 else layout.HOST_V4_SIZE)
    body_start = store_end + layout.BODY
    # After the body there are at least one byte of the topic's length and two of the properties' length.
    room = position + size - body_start - 3
    if room < 0:
        raise CorruptRecord(f"hosts do not fit record size {size}", position)
    body_length = big_endian.int4(view, store_end + layout.BODY_LENGTH)
    if body_length < 0 or body_length > room:
        raise CorruptRecord(f"body length {body_length} does not fit record size {size}", position)
    body_end = body_start + body_length
    if magic == layout.MAGIC_V2:
        topic_start = body_end + 2
        topic_end = topic_start + ((view[body_end] << 8) | view[body_end + 1])
    else:
        topic_start = body_end + 1
        topic_end = topic_start + view[body_end]
    properties_start = topic_end + layout.PROPERTIES_LENGTH_SIZE
    if properties_start > position + size:
        raise CorruptRecord(f"topic does not fit record size {size}", position)
    if properties_start + ((view[topic_end] << 8) | view[topic_end + 1]) != position + size:
        raise CorruptRecord(f"properties do not end with the record of {size} bytes", position)
    return size, flags, born_end, store_end, body_end, topic_start, topic_end


def check_start(view: Buffer, position: int, limit: int) -> int:
    """The size stated by the record at `position`. Raises when it is not a record, or does not end before `limit`."""
    room = limit - position
    if room < layout.BLANK_SIZE_MIN:
        raise TruncatedRecord("record cut short", position)
    size = big_endian.int4(view, position + layout.TOTAL_SIZE)
    magic = big_endian.int4(view, position + layout.MAGIC)
    if magic == layout.MAGIC_BLANK:
        if size < layout.BLANK_SIZE_MIN:
            raise CorruptRecord(f"blank of {size} bytes is too small", position)
        return size
    if magic != layout.MAGIC_V1 and magic != layout.MAGIC_V2:
        raise CorruptRecord(f"no record: magic number is {magic & 0xFFFFFFFF:#010x}", position)
    if size < layout.FIXED_SIZE_V1:
        raise CorruptRecord(f"record size {size} is too small", position)
    if size > room:
        raise TruncatedRecord(f"record of {size} bytes cut short", position)
    return size
