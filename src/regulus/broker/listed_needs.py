"""Permissions for requests that may name thousands of things: they are checked while the body is read, in steps.

The door has only checked that such a request is signed. It does not read the body, because a long one would block all
other requests. Each thing is checked as soon as it is read; the first one that is not allowed ends the request without
reading the rest. Nothing of the request takes effect before all of it is checked.
"""

from typing import Any

from regulus.access.decision import Need
from regulus.access.guard import Guard
from regulus.access.needs import CREATE, SUB, UPDATE, group_need, topic_need
from regulus.errors import AccessDenied
from regulus.model.message_queue import MessageQueue
from regulus.model.peer import Peer
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.wire.bodies import ConsumerData, LockBatchRequestBody, SubscriptionData, UnlockBatchRequestBody
from regulus.wire.json_fields import Look
from regulus.wire.remoting_command import RemotingCommand


def needs_of_part(part: Any) -> tuple[Need, ...]:
    """Permissions for a body, or for one member of its lists. Producers need none for a heartbeat: each send names its
    topic."""
    match part:
        case SubscriptionData() | MessageQueue():
            return (topic_need(part.topic, SUB),)
        case ConsumerData():
            return (group_need(part.group_name, SUB),)
        case LockBatchRequestBody() | UnlockBatchRequestBody():
            return (group_need(part.consumer_group, SUB),)
        case TopicConfig():
            return (topic_need(part.topic_name, CREATE),)
        case SubscriptionGroupConfig():
            return (group_need(part.group_name, UPDATE),)
    return ()


def looker(guard: Guard | None, request: RemotingCommand, peer: Peer) -> Look:
    """A function that checks one part of the request after the other. Raises AccessDenied."""
    if guard is None or not guard.rules.looks_at(request.code):
        return _look_away
    seen: set[Need] = set()

    def look(part: Any) -> None:
        for need in needs_of_part(part):
            if need in seen:
                continue
            denied = guard.denial_of_part(request, peer, need)
            if denied is not None:
                raise AccessDenied(denied.code, denied.remark)
            seen.add(need)
    return look


def _look_away(part: Any) -> None:
    """Used when every request is allowed."""
