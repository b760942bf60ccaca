"""How large a request may be, looked at before it is unpacked.

Two bytes of a request can be an entry of its own, for which a hundred are allocated: what gRPC lets in would fill the
memory in one call, of somebody whose signature nobody has read yet. So bytes are for bodies, and the rest is little.
"""

from regulus.errors import CallRefused
from regulus.proxy.sending import MESSAGES_MAX
from regulus.wire.grpc.codes import Code
from regulus.wire.grpc.fields import fields

REQUEST_SIZE_MAX = 1 << 20
"""Bytes of a request; of a send, bodies not counted. 1,024 acknowledgements are 200 KiB."""
FIELDS_MAX = 34_000
"""Of all messages of a large send: 256 of them have 131 each, where a property is a field."""
_MESSAGES, _BODY = 1, 4     # numbers in SendMessageRequest and Message


def unpacked_size_max(method: str, message_size_max: int) -> int:
    """Bytes that a request may have which its client compressed: that it has more is known only when it is inflated,
    and a send has one body then, not 256."""
    return REQUEST_SIZE_MAX + (message_size_max if method == "SendMessage" else 0)


def check_size(method: str, data: bytes) -> None:
    """Raises CallRefused, DecodeError."""
    size = len(data)
    if size > REQUEST_SIZE_MAX and method == "SendMessage":
        size -= _bodies_size(data)
    if size > REQUEST_SIZE_MAX:
        raise CallRefused(Code.PAYLOAD_TOO_LARGE,
                          f"the request has {size} bytes, bodies of messages not counted; {REQUEST_SIZE_MAX} are the "
                          "most")


def _bodies_size(data: bytes) -> int:
    """Raises CallRefused, DecodeError; costs what a send may have, whatever this one has."""
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
