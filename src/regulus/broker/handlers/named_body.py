"""Reads bodies in which a client or operator names things: subscriptions, queues, topics, groups.

Reading a body blocks all other requests, so its limits are far below those of a frame. Bodies that legitimately name
thousands of things are read in steps.
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
"""Bytes of a body: some 5,000 subscriptions, topics or groups, 10,000 queues or more."""
OBJECTS_MAX = 2_048
"""Objects of a body that is read at once. Each takes some ten us, however short its text is."""
LISTED_MAX = 16_384
"""Objects of a body that is read in steps."""
VALUES_MAX = 131_072
"""Values of a body, including those within objects, and lists; eight for each object, which is more than most have."""

Body = TypeVar("Body", bound=JsonBody)


def named_body(request: RemotingCommand) -> bytes:
    """The body of a request, if reading it does not take too long. Raises HeaderError."""
    body = _bounded(request, OBJECTS_MAX)
    if fastjson.is_slow(body):
        raise HeaderError(f"the body of request {request.code} is not plain JSON and has more than {fastjson.SLOW_MAX} "
                          "objects and values, and all others wait while it is read: name fewer things in one request")
    return body


def decode_named(body: type[Body], request: RemotingCommand) -> Body:
    """The body of `named_body`, decoded. Raises HeaderError."""
    return body.decode(named_body(request))


def decode_listed(body: type[Body], request: RemotingCommand, peer: Peer,
                  broker: BrokerState) -> Generator[None, None, Body]:
    """A body that may name thousands of things, read in steps. Each thing is checked for permission.

    Raises HeaderError and, at the first thing that is not allowed, AccessDenied.
    """
    look = looker(broker.guard, request, peer)
    decoded = yield from decode_in_steps(body, _bounded(request, LISTED_MAX), look)
    look(decoded)
    return decoded


def _bounded(request: RemotingCommand, objects_max: int) -> bytes:
    if request.body_size > BODY_SIZE_MAX:
        raise HeaderError(f"the body of request {request.code} has {request.body_size} bytes; {BODY_SIZE_MAX} are the "
                          "most, because all others wait while it is read: name fewer things in one request")
    body = request.body
    # Also counts characters inside texts, which never have thousands of brackets or commas.
    if body.count(b"{") > objects_max or body.count(b",") + body.count(b"[") > VALUES_MAX:
        raise HeaderError(f"the body of request {request.code} has more than {objects_max} objects or {VALUES_MAX} "
                          "values, and all others wait while it is read: name fewer things in one request")
    return body
