"""Limits of the size of requests, checked before a request is parsed.

Two bytes of a request can be an entry for which protobuf allocates a hundred. A request as large as gRPC accepts could
fill the memory before its signature is checked. So only bodies of messages may be large.
"""

from regulus.errors import CallRefused
from regulus.proxy.sending import MESSAGES_MAX
from regulus.wire.grpc.codes import Code
from regulus.wire.grpc.fields import fields

REQUEST_SIZE_MAX = 1 << 20
"""Bytes of a request; in a send, bodies of messages do not count. 1,024 acknowledgements take 200 KiB."""
FIELDS_MAX = 34_000
"""Fields of all messages of a send that is larger than that: 256 messages may have 131 each. A property is a field."""
_MESSAGES, _BODY = 1, 4     # numbers in SendMessageRequest and Message


def unpacked_size_max(method: str, message_size_max: int) -> int:
    """Bytes that a compressed request may have when it is decompressed. A compressed send has room for one body of the
    largest size, not for 256, because its size is known only after it is decompressed."""
    return REQUEST_SIZE_MAX + (message_size_max if method == "SendMessage" else 0)


def check_size(method: str, data: bytes) -> None:
    """Raises CallRefused for a request that is too large, DecodeError for a malformed one."""
    size = len(data)
    if size > REQUEST_SIZE_MAX and method == "SendMessage":
        size -= _bodies_size(data)
    if size > REQUEST_SIZE_MAX:
        raise CallRefused(Code.PAYLOAD_TOO_LARGE,
                          f"the request has {size} bytes, bodies of messages not counted; {REQUEST_SIZE_MAX} are the "
                          "most")


def _bodies_size(data: bytes) -> int:
    """Bytes of all bodies of a send. Raises CallRefused for too many messages or fields, so that its cost is bounded;
    DecodeError for a malformed request."""
    bodies = seen = 0
    for count, message in enumerate(fields(data), 1):
        if count > MESSAGES_MAX:
            raise CallRefused(Code.BAD_REQUEST, f"one send has more than {MESSAGES_MAX} messages")
        if message.number != _MESSAGES:
            continue
        for field in fields(data, message.start, message.end):
            seen += 1
            if seen > FIELDS_MAX:
                raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE,
                                  f"the messages of one send have more than {FIELDS_MAX} fields and properties")
            if field.number == _BODY:
                bodies += field.end - field.start
    return bodies
