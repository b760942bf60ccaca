"""The digest of the rows of a sink: one number, continued over bodies, properties and flags, in order.

Writer and broker compute it independently, the writer from what it is about to send, the broker from what it receives
and from its log. The digest therefore excludes everything that changes when a row is sent again, and everything that a
broker adds.
"""

from collections.abc import Iterable
from zlib import crc32

from regulus.model import message_properties as names
from regulus.model.message import Message

NOT_COUNTED = frozenset((
    names.UNIQUE_KEY, names.SINK, names.SEQUENCE, names.SINK_DIGEST, names.MSG_REGION, names.TRACE_ON, names.CLUSTER,
    names.DELAY_TIME_LEVEL, names.REAL_TOPIC, names.REAL_QUEUE_ID))

# A private name allows this to be a typed constant in the compiled form.
_DIGEST_MASK = 0x7FFFFFFFFFFFFFFF
_SUM_MASK = 0x7FFFFFFF


def digest_on(digest: int, number: int) -> int:
    """Continue a digest over one more number of 31 bits, in 63 bits; begin with 0.

    Among up to half a million rows, no two different ones can be exchanged without changing the digest.
    """
    return (digest * 31 + number) & _DIGEST_MASK


def digest_of(messages: Iterable[Message], digest: int = 0) -> int:
    """Continue a digest over these rows."""
    for message in messages:
        digest = row_on(digest, message, crc32(message.body) & _SUM_MASK)
    return digest


def row_on(digest: int, message: Message, body_crc: int) -> int:
    """Continue a digest over one row. `body_crc` is passed because a store knows it without the body."""
    counted = names.format({name: value for name, value in message.properties.items() if name not in NOT_COUNTED})
    return digest_on(digest_on(digest, body_crc), properties_sum(counted.encode("utf-8", "replace"), message.flag))


def properties_sum(counted: bytes | bytearray | memoryview, flag: int) -> int:
    """The checksum of a row's flag and its property string, without the properties that are excluded."""
    return crc32(counted, flag & 0xFFFFFFFF) & _SUM_MASK
