"""Bodies by which a client or operator names things: subscriptions, queues, topics, groups.

While one is read nobody else is served; therefore it has a limit, far below that of a frame.
"""

from typing import TypeVar

from regulus.errors import HeaderError
from regulus.wire.json_fields import JsonBody
from regulus.wire.remoting_command import RemotingCommand

BODY_SIZE_MAX = 1 << 20
"""Bytes: some 5,000 subscriptions, topics or groups, 10,000 queues or more."""

Body = TypeVar("Body", bound=JsonBody)


def named_body(request: RemotingCommand) -> bytes:
    """The body of a request that is not too long. Raises HeaderError."""
    if request.body_size > BODY_SIZE_MAX:
        raise HeaderError(f"the body of request {request.code} has {request.body_size} bytes; {BODY_SIZE_MAX} are the "
                          "most, because all others wait while it is read: name fewer things in one request")
    return request.body


def decode_named(body: type[Body], request: RemotingCommand) -> Body:
    """The same, decoded. Raises HeaderError."""
    return body.decode(named_body(request))
