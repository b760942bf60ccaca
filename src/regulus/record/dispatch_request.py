"""What consume queues and index need to know of one record, from the message just stored or from the stored bytes.

Dispatching must keep up with writing, so only the four properties that matter are looked for, and nothing is made of
the others.

Source: CommitLog.checkMessageAndReturnSize, DispatchRequest; see layout.
"""

from regulus.errors import CorruptRecord
from regulus.model.java_hash import java_hash, java_hash_of
from regulus.model.message import MessageExt, StraightMessage
from regulus.model.message_properties import INNER_NUM, number
from regulus.model.message_properties import parse as parse_properties
from regulus.model.sys_flag import INNER_BATCH
from regulus.record import big_endian, layout
from regulus.record.batch_unit import COUNT_MAX
from regulus.record.byte_runs import Buffer
from regulus.record.checksum import crc32
from regulus.record.index_entry import key_hash_on
from regulus.record.message_record import find_parts

_INNER_BATCH = INNER_BATCH


class DispatchRequest:
    """What consume queues and index need to know of one record. `size` leads to the next record, also for a blank.

    `keys` and `uniq_key` are empty when absent. `uniq_hash` is the index hash of the unique key if it was computed from
    bytes instead of from `uniq_key`; otherwise -1. `keys_hash` likewise, for keys that are a single word. `tags_code`
    is the hash of the tags even for a delayed message, whose `delay_level` is above 0: the store knows the delivery
    time. `tail` is the stored record from the topic's name on, and `properties_start` the position in it where the
    properties begin; it is empty when the request was made from a message. `message_count` is more than 1 only for an
    inner batch.
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
        self.message_count = 1
        self.tags_code = 0
        self.delay_level = 0
        self.keys = ""
        self.uniq_key = ""
        self.uniq_hash = -1
        self.keys_hash = -1
        self.tail = b""
        self.properties_start = 0

    def properties(self) -> dict[str, str]:
        """All properties, parsed again at each call."""
        return parse_properties(self.tail[self.properties_start:].decode("utf-8", "replace"))

    def __repr__(self) -> str:
        return (f"DispatchRequest(topic={self.topic!r}, queue_id={self.queue_id}, queue_offset={self.queue_offset}, "
                f"physical_offset={self.physical_offset}, size={self.size}, is_blank={self.is_blank})")


def inner_count(properties: dict[str, str]) -> int:
    """The number of messages that an inner batch states; 1 if it states none, as RocketMQ assumes."""
    count = number(properties.get(INNER_NUM))
    return count if 0 < count <= COUNT_MAX else 1


def request_of(message: MessageExt) -> DispatchRequest:
    """Make from `message` the request that `request_at` reads from its stored record, but without `properties()`."""
    request = DispatchRequest.__new__(DispatchRequest)
    request.size = message.store_size
    request.is_blank = False
    request.topic = message.topic
    request.queue_id = message.queue_id
    request.queue_offset = message.queue_offset
    request.physical_offset = message.physical_offset
    request.store_timestamp = message.store_timestamp
    request.prepared_transaction_offset = message.prepared_transaction_offset
    request.sys_flag = message.sys_flag
    request.message_count = 1
    request.uniq_key = ""
    request.uniq_hash = -1
    request.keys_hash = -1
    request.tail = b""
    request.properties_start = 0
    if isinstance(message, StraightMessage):
        _take_straight(request, message)
    else:
        _take_properties(request, message.properties)
        if message.sys_flag & _INNER_BATCH:
            request.message_count = inner_count(message.properties)
    return request


def _take_straight(request: DispatchRequest, message: StraightMessage) -> None:
    """Set what the properties of a straight message say; it never has a delay."""
    text = message.text
    request.delay_level = 0
    request.tags_code = java_hash_of(text, message.tags_start, message.tags_end)
    request.keys = ""
    if _is_word(text, message.keys_start, message.keys_end):
        request.keys_hash = key_hash_on(message.topic_text, text, message.keys_start, message.keys_end)
    elif message.keys_start < message.keys_end:
        request.keys = text[message.keys_start:message.keys_end].decode()
    request.uniq_hash = key_hash_on(message.topic_text, text, message.unique_key_start, message.unique_key_end)


def _is_word(text: bytearray, start: int, end: int) -> bool:
    """Whether text[start:end] is one or more ASCII characters without a space."""
    for position in range(start, end):
        if not ord(" ") < text[position] <= ord("~"):
            return False
    return start < end


def _take_properties(request: DispatchRequest, properties: dict[str, str]) -> None:
    tags = properties.get("TAGS")
    request.tags_code = java_hash(tags) if tags else 0
    request.keys = properties.get("KEYS") or ""
    request.uniq_key = properties.get("UNIQ_KEY") or ""
    level = properties.get("DELAY")
    request.delay_level = int(level) if level and level.isdigit() and level.isascii() and len(level) < 10 else 0


def request_at(data: Buffer, position: int, limit: int, check_crc: bool) -> DispatchRequest:
    """The dispatch request for the record at `position`; the data ends at `limit`.

    Raises TruncatedRecord when the record extends past `limit`, and CorruptRecord when there is no record. Compiled
    callers that walk many records pass the same object twice to `request_in_view`.
    """
    return request_in_view(data, data, position, limit, check_crc)


def request_in_view(data: Buffer, view: Buffer, position: int, limit: int, check_crc: bool) -> DispatchRequest:
    """Like `request_at`; `view` is `data` again, held as a typed memoryview by a compiled caller."""
    size, flags, born_end, store_end, body_end, topic_start, topic_end = find_parts(view, position, limit)
    if not topic_end:
        return DispatchRequest(size, True)
    end = position + size
    if check_crc and (crc32(data[store_end + layout.BODY:body_end]) & 0x7FFFFFFF
                      != big_endian.int4(view, position + layout.BODY_CRC)):
        raise CorruptRecord("body and its checksum differ", position)
    properties_start = topic_end + layout.PROPERTIES_LENGTH_SIZE
    # The checksum covers only the body. Properties are text; a page that never reached the disk shows as zeros in them.
    if check_crc and properties_start < end and view[end - 1] == 0:
        raise CorruptRecord("properties end in zeros", position)
    tail = bytes(data[topic_start:end])
    request = DispatchRequest.__new__(DispatchRequest)
    request.size = size
    request.is_blank = False
    request.topic = tail[:topic_end - topic_start].decode("utf-8", "replace")
    request.queue_id = big_endian.int4(view, position + layout.QUEUE_ID)
    request.queue_offset = big_endian.int8(view, position + layout.QUEUE_OFFSET)
    request.physical_offset = big_endian.int8(view, position + layout.PHYSICAL_OFFSET)
    request.store_timestamp = big_endian.int8(view, born_end + layout.STORE_TIMESTAMP)
    request.prepared_transaction_offset = big_endian.int8(view, store_end + layout.PREPARED_TRANSACTION_OFFSET)
    request.sys_flag = flags
    request.message_count = 1
    request.tags_code = 0
    request.delay_level = 0
    request.keys = ""
    request.uniq_key = ""
    request.uniq_hash = -1
    request.keys_hash = -1
    request.tail = tail
    request.properties_start = properties_start - topic_start
    _read_dispatch_properties(request, tail, request.properties_start, end - topic_start)
    if flags & _INNER_BATCH:
        request.message_count = inner_count(request.properties())
    return request


def _read_dispatch_properties(request: DispatchRequest, tail: bytes, start: int, size: int) -> None:
    """Set the values of the properties TAGS, KEYS, UNIQ_KEY and DELAY, without making a dict of all properties."""
    while start < size:
        separator = -1
        end = start
        while end < size and tail[end] != 2:
            if separator < 0 and tail[end] == 1:
                separator = end
            end += 1
        if start < separator < end - 1:
            _take_property(request, tail, start, separator, end)
        start = end + 1


def _take_property(request: DispatchRequest, tail: bytes, start: int, separator: int, end: int) -> None:
    # Most properties are not among the four: their length or first letter shows it.
    size = separator - start
    letter = tail[start]
    if size == 4 and letter == 84 and _is_name(tail, start, b"TAGS", size):
        request.tags_code = java_hash(tail[separator + 1:end].decode("utf-8", "replace"))
    elif size == 4 and letter == 75 and _is_name(tail, start, b"KEYS", size):
        request.keys = tail[separator + 1:end].decode("utf-8", "replace")
    elif size == 8 and letter == 85 and _is_name(tail, start, b"UNIQ_KEY", size):
        request.uniq_key = tail[separator + 1:end].decode("utf-8", "replace")
    elif size == 5 and letter == 68 and _is_name(tail, start, b"DELAY", size):
        level = tail[separator + 1:end]
        request.delay_level = int(level) if level.isdigit() and len(level) < 10 else 0


def _is_name(tail: bytes, start: int, name: bytes, size: int) -> bool:
    for index in range(size):  # noqa: SIM110 - a loop becomes C, a generator does not
        if tail[start + index] != name[index]:
            return False
    return True
