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

_FRONT = Struct(">iiiii")
_SHORT = Struct(">h")
_RECORD_SIZE_MIN = 22


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
    messages = []
    position = 0
    while position < len(body):
        message, position = _decode_one(body, position)
        messages.append(message)
    return messages


def _decode_one(data: bytes, start: int) -> tuple[BatchedMessage, int]:
    if len(data) - start < _RECORD_SIZE_MIN:
        raise HeaderError(f"batch is cut short at {start}")
    size, _, _, flag, body_size = _FRONT.unpack_from(data, start)
    end = start + size
    if size < _RECORD_SIZE_MIN or end > len(data):
        raise HeaderError(f"batch record of {size} bytes at {start} does not fit")
    body_start = start + _FRONT.size
    properties_start = body_start + body_size + 2
    if body_size < 0 or properties_start > end:
        raise HeaderError(f"batch record's body of {body_size} bytes at {start} does not fit")
    properties_end = properties_start + _SHORT.unpack_from(data, properties_start - 2)[0]
    if not properties_start <= properties_end <= end:
        raise HeaderError(f"batch record's properties at {start} do not fit")
    try:
        text = data[properties_start:properties_end].decode()
    except UnicodeDecodeError as cause:
        raise HeaderError(f"batch record's properties at {start} are no UTF-8") from cause
    body = data[body_start:properties_start - 2]
    return BatchedMessage(flag, body, message_properties.parse(text)), end
