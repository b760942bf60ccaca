"""The body of SEND_BATCH_MESSAGE: records back to back.

    size   field
       4   size of the record, itself included
       4   magic, 0
       4   body CRC, 0
       4   flag
    4 + n  body
    2 + n  properties, name 0x01 value 0x02 ...

Source: MessageDecoder.encodeMessages, MessageDecoder.decodeMessages.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from regulus.errors import HeaderError, MessageIllegal
from regulus.model import message_properties
from regulus.model.message import Message
from regulus.model.message_properties import parse as parse_properties

_FRONT = Struct(">iiiii")
_SHORT = Struct(">h")
_RECORD_SIZE_MIN = 22
# Under a private name this may be a typed constant in the compiled form.
_SIZE_MIN = _RECORD_SIZE_MIN


class BatchedMessage(NamedTuple):
    flag: int
    body: bytes
    properties: dict[str, str]


def encode(messages: Sequence[Message]) -> bytes:
    """Raises MessageIllegal when a message's properties are too long."""
    parts: list[bytes] = []
    for message in messages:
        properties = message_properties.format(message.properties).encode("utf-8", "replace")
        if len(properties) > message_properties.PROPERTIES_SIZE_MAX:
            raise MessageIllegal(f"properties of {len(properties)} bytes; "
                                 f"{message_properties.PROPERTIES_SIZE_MAX} are the most")
        size = _RECORD_SIZE_MIN + len(message.body) + len(properties)
        parts += (_FRONT.pack(size, 0, 0, message.flag, len(message.body)), message.body,
                  _SHORT.pack(len(properties)), properties)
    return b"".join(parts)


def decode(body: bytes) -> list[BatchedMessage]:
    """Raises HeaderError when the body is not whole records."""
    messages: list[BatchedMessage] = []
    position = 0
    while position < len(body):
        position = _decode_one(body, position, messages)
    return messages


def _decode_one(data: bytes, start: int, messages: list[BatchedMessage]) -> int:
    """Add the message whose record begins at `start`; where the next one begins."""
    if len(data) - start < _SIZE_MIN:
        raise HeaderError(f"batch is cut short at {start}")
    octets = data
    size = _int(octets, start)
    end = start + size
    if size < _SIZE_MIN or end > len(data):
        raise HeaderError(f"batch record of {size} bytes at {start} does not fit")
    body_size = _int(octets, start + 16)
    body_start = start + 20
    properties_start = body_start + body_size + 2
    if body_size < 0 or properties_start > end:
        raise HeaderError(f"batch record's body of {body_size} bytes at {start} does not fit")
    properties_end = properties_start + _short(octets, properties_start - 2)
    if not properties_start <= properties_end <= end:
        raise HeaderError(f"batch record's properties at {start} do not fit")
    try:
        text = data[properties_start:properties_end].decode()
    except UnicodeDecodeError as cause:
        raise HeaderError(f"batch record's properties at {start} are no UTF-8") from cause
    flag = _int(octets, start + 12)
    messages.append(BatchedMessage(flag, data[body_start:properties_start - 2], parse_properties(text)))
    return end


def _int(octets: bytes, position: int) -> int:
    value = octets[position]
    value = value << 8 | octets[position + 1]
    value = value << 8 | octets[position + 2]
    value = value << 8 | octets[position + 3]
    return value - 0x100000000 if value & 0x80000000 else value


def _short(octets: bytes, position: int) -> int:
    value = octets[position] << 8 | octets[position + 1]
    return value - 0x10000 if value & 0x8000 else value
