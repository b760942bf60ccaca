"""Bodies by which a client or operator names things: subscriptions, queues, topics, groups.

While one is read nobody else is served; therefore it has limits, far below those of a frame. Those that honest clients
and operators fill with thousands of things are read in steps.
"""

from collections.abc import Generator
from typing import TypeVar

from regulus.broker.listed_needs import looker
from regulus.broker.state import BrokerState
from regulus.errors import HeaderError
from regulus.model.peer import Peer
from regulus.wire import fastjson
from regulus.wire.json_fields import JsonBody, decode_in_steps
from regulus.wire.remoting_command import RemotingCommand

BODY_SIZE_MAX = 1 << 20
"""Bytes: some 5,000 subscriptions, topics or groups, 10,000 queues or more."""
OBJECTS_MAX = 2_048
"""Of what is read at once. Each takes some ten us, however short its text is."""
LISTED_MAX = 16_384
"""Of what is read in steps."""
VALUES_MAX = 131_072
"""With those within objects, and lists; eight for each object, which is more than most have."""

Body = TypeVar("Body", bound=JsonBody)


def named_body(request: RemotingCommand) -> bytes:
    """The body of a request that does not take too long to read. Raises HeaderError."""
    body = _bounded(request, OBJECTS_MAX)
    if fastjson.is_slow(body):
        raise HeaderError(f"the body of request {request.code} is no plain JSON and has more than {fastjson.SLOW_MAX} "
                          "objects and values, and all others wait while it is read: name fewer things in one request")
    return body


def decode_named(body: type[Body], request: RemotingCommand) -> Body:
    """The same, decoded. Raises HeaderError."""
    return body.decode(named_body(request))


def decode_listed(body: type[Body], request: RemotingCommand, peer: Peer,
                  broker: BrokerState) -> Generator[None, None, Body]:
    """A body that may name thousands of things, read in steps, each of which its sender may touch. Raises HeaderError
    and, at the first that he may not, AccessDenied."""
    look = looker(broker.guard, request, peer)
    decoded = yield from decode_in_steps(body, _bounded(request, LISTED_MAX), look)
    look(decoded)
    return decoded


def _bounded(request: RemotingCommand, objects_max: int) -> bytes:
    if request.body_size > BODY_SIZE_MAX:
        raise HeaderError(f"the body of request {request.code} has {request.body_size} bytes; {BODY_SIZE_MAX} are the "
                          "most, because all others wait while it is read: name fewer things in one request")
    body = request.body
    # What stands in texts counts, too: none of these has thousands of brackets or commas.
    if body.count(b"{") > objects_max or body.count(b",") + body.count(b"[") > VALUES_MAX:
        raise HeaderError(f"the body of request {request.code} has more than {objects_max} objects or {VALUES_MAX} "
                          "values, and all others wait while it is read: name fewer things in one request")
    return body
