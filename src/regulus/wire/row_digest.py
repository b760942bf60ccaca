"""What tells the rows of a sink from other rows: a number that goes on over bodies, properties and flags, in order.

Writer and broker work it out each for itself, the one from what it is about to send and the other from what comes and
from what its log holds. So nothing counts that is not the same each time a row is sent, or that a broker adds.
"""

from collections.abc import Iterable
from zlib import crc32

from regulus.model import message_properties as names
from regulus.model.message import Message

NOT_COUNTED = frozenset((
    names.UNIQUE_KEY, names.SINK, names.SEQUENCE, names.SINK_DIGEST, names.MSG_REGION, names.TRACE_ON, names.CLUSTER,
    names.DELAY_TIME_LEVEL, names.REAL_TOPIC, names.REAL_QUEUE_ID))

# Under a private name this may be a typed constant in the compiled form.
_DIGEST_MASK = 0x7FFFFFFFFFFFFFFF
_SUM_MASK = 0x7FFFFFFF


def digest_on(digest: int, number: int) -> int:
    """Go on over one more number of 31 bits, in 63 bits; 0 to begin with.

    Of up to half a million rows no two that differ can change places without a change of the digest.
    """
    return (digest * 31 + number) & _DIGEST_MASK


def digest_of(messages: Iterable[Message], digest: int = 0) -> int:
    """Go on over these rows."""
    for message in messages:
        digest = row_on(digest, message, crc32(message.body) & _SUM_MASK)
    return digest


def row_on(digest: int, message: Message, body_crc: int) -> int:
    """Go on over a row; what its body's sum is, a store knows without the body."""
    counted = names.format({name: value for name, value in message.properties.items() if name not in NOT_COUNTED})
    return digest_on(digest_on(digest, body_crc), properties_sum(counted.encode("utf-8", "replace"), message.flag))


def properties_sum(counted: bytes | bytearray | memoryview, flag: int) -> int:
    """Of a row's flag and its property string, without what is not counted."""
    return crc32(counted, flag & 0xFFFFFFFF) & _SUM_MASK
