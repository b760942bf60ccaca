"""What the requests need that may name thousands of things: it is looked at while they are read, a part in each step.

The door has seen to it that such a request is signed, and has read nothing of it: nobody else would be served while it
reads all that a stranger may name. Each thing is looked at as soon as it is read, and the first that its sender may not
touch ends the request, the rest unread. Nothing of it is done before all of it is looked at.
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
    """Of a body, or of what stands in its lists. Producers need nothing to say that they are there: each send names its
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
    """Looks at one part of the request after the other. Raises AccessDenied."""
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
    """Where everybody may do everything."""
