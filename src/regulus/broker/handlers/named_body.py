"""Bodies by which a client or operator names things: subscriptions, queues, topics, groups.

While one is read nobody else is served; therefore it has limits, far below those of a frame.
"""

from typing import TypeVar

from regulus.errors import HeaderError
from regulus.wire import fastjson
from regulus.wire.json_fields import JsonBody
from regulus.wire.remoting_command import RemotingCommand

BODY_SIZE_MAX = 1 << 20
"""Bytes: some 5,000 subscriptions, topics or groups, 10,000 queues or more."""
OBJECTS_MAX = 16_384
"""Each takes some us, however short its text is."""
VALUES_MAX = 131_072
"""With those within objects, and lists; eight for each object, which is more than most have."""

Body = TypeVar("Body", bound=JsonBody)


def named_body(request: RemotingCommand) -> bytes:
    """The body of a request that does not take too long to read. Raises HeaderError."""
    if request.body_size > BODY_SIZE_MAX:
        raise HeaderError(f"the body of request {request.code} has {request.body_size} bytes; {BODY_SIZE_MAX} are the "
                          "most, because all others wait while it is read: name fewer things in one request")
    body = request.body
    # What stands in texts counts, too: none of these has thousands of brackets or commas.
    if body.count(b"{") > OBJECTS_MAX or body.count(b",") + body.count(b"[") > VALUES_MAX:
        raise HeaderError(f"the body of request {request.code} has more than {OBJECTS_MAX} objects or {VALUES_MAX} "
                          "values, and all others wait while it is read: name fewer things in one request")
    if fastjson.is_slow(body):
        raise HeaderError(f"the body of request {request.code} is no plain JSON and has more than {fastjson.SLOW_MAX} "
                          "objects and values, and all others wait while it is read: name fewer things in one request")
    return body


def decode_named(body: type[Body], request: RemotingCommand) -> Body:
    """The same, decoded. Raises HeaderError."""
    return body.decode(named_body(request))
