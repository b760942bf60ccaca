"""Words to write down what a request needs; the tables of the rooms are made of them.

A read takes the request and says all that it needs. It decodes with the same class as the handler does: two readings of
one request would be a way past the door.
"""

from collections.abc import Callable, Iterable
from typing import Any

from regulus.access.decision import ANY_NAME, Action, Need, ResourceKind
from regulus.model.topics import NEVER_CONSUMED_TOPICS, RETRY_PREFIX, TRANS_CHECK_MAX_TIME_TOPIC
from regulus.wire.ext_fields import Header
from regulus.wire.remoting_command import RemotingCommand

Read = Callable[[RemotingCommand], tuple[Need, ...]]

PUB = (Action.PUB,)
SUB = (Action.SUB,)
GET = (Action.GET,)
LIST = (Action.LIST,)
CREATE = (Action.CREATE,)
UPDATE = (Action.UPDATE,)
DELETE = (Action.DELETE,)
SUB_OR_GET = (Action.SUB, Action.GET)
SUB_OR_UPDATE = (Action.SUB, Action.UPDATE)
USE_OR_GET = (Action.PUB, Action.SUB, Action.GET)

_OF_ANY_TOPIC = NEVER_CONSUMED_TOPICS | {TRANS_CHECK_MAX_TIME_TOPIC}
"""Where messages of all topics wait for their time or for their producer's word, or were given up."""


def topic_need(topic: str, actions: tuple[Action, ...]) -> Need:
    """Of a retry topic its group is needed, whatever is done with it; where messages of all topics wait, all topics:
    whoever may read most of them would find there what was denied to him.

    Retries of pops have a topic for each topic. `%RETRY%group+topic` says whose they are. `%RETRY%group_topic`, as
    RocketMQ names them by default, is the retry topic of a group with the name `group_topic` as well, and counts as
    that.
    """
    if topic.startswith(RETRY_PREFIX):
        return group_need(topic.partition("+")[0], SUB if actions == PUB else actions)
    return Need(ResourceKind.TOPIC, ANY_NAME if topic in _OF_ANY_TOPIC else topic, actions)


def group_need(group: str, actions: tuple[Action, ...]) -> Need:
    return Need(ResourceKind.GROUP, group.removeprefix(RETRY_PREFIX), actions)


def ending_needs(topic: str) -> tuple[Need, ...]:
    """Of who ends a transaction of the topic, and of who is asked how it ended: the half message is shown to him.
    Producer groups have no rights of their own in RocketMQ, neither of accounts nor of policies."""
    return (topic_need(topic, PUB),)


def cluster(actions: tuple[Action, ...]) -> Read:
    """Something that concerns the broker as a whole."""
    needs = (Need(ResourceKind.CLUSTER, ANY_NAME, actions),)
    return lambda request: needs


def every_topic(actions: tuple[Action, ...]) -> Read:
    """What the request reads or changes may be of any topic."""
    needs = (Need(ResourceKind.TOPIC, ANY_NAME, actions),)
    return lambda request: needs


def every_group(actions: tuple[Action, ...]) -> Read:
    needs = (Need(ResourceKind.GROUP, ANY_NAME, actions),)
    return lambda request: needs


def nothing(request: RemotingCommand) -> tuple[Need, ...]:
    """A user whose signature is right, and no more."""
    return ()


def seen_in_parts(request: RemotingCommand) -> tuple[Need, ...]:
    """A user whose signature is right, as far as the door looks: what the body needs is looked at behind it, while it
    is read in steps."""
    return ()


def of_header(header: type[Header], *, topic: str = "", group: str = "", more_groups: Iterable[str] = (),
              actions: tuple[Action, ...]) -> Read:
    """The fields of the header that name a topic and groups; one that the request leaves out needs nothing."""
    groups = [name for name in (group, *more_groups) if name]

    def read(request: RemotingCommand) -> tuple[Need, ...]:
        decoded: Any = header.decode(request)
        needs = [group_need(named, actions) for named in (getattr(decoded, name) for name in groups) if named]
        named_topic = getattr(decoded, topic) if topic else None
        if named_topic:
            needs.append(topic_need(named_topic, actions))
        return tuple(needs)
    return read
