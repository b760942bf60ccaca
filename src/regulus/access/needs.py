"""Words to write down what a request needs; the tables of the rooms are made of them.

A read takes the request and says all that it needs. It decodes with the same class as the handler does: two readings of
one request would be a way past the door.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from regulus.access.decision import ANY_NAME, Action, Need, ResourceKind
from regulus.model.topics import NEVER_CONSUMED_TOPICS, RETRY_PREFIX, TRANS_CHECK_MAX_TIME_TOPIC
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


class HeaderClass(Protocol):
    """A class that reads the ext fields of a request."""

    def decode(self, command: RemotingCommand, /) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The fields of a header that name a topic and groups; one that a request leaves out needs nothing."""

    topic: str = ""
    groups: tuple[str, ...] = ()
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a header needs, once it is decoded."""

    needs: Callable[[Any], tuple[Need, ...]]


def reading(needs: Names | Decoded | Read, header: HeaderClass | None) -> Read:
    """The read that these needs are, of requests with this header. Raises ValueError for needs of a header where there
    is none, and for names of nothing: such a request would be open to everybody."""
    if not isinstance(needs, Names | Decoded):
        return needs
    if header is None or (
            isinstance(needs, Names) and not (needs.actions and (needs.topic or needs.groups))):
        raise ValueError(f"{needs} names nothing of the header {header}")
    decode, of_decoded = header.decode, needs.needs if isinstance(needs, Decoded) else _named(needs)
    return lambda request: of_decoded(decode(request))


def _named(names: Names) -> Callable[[Any], tuple[Need, ...]]:
    actions = names.actions

    def needs_of_names(decoded: Any) -> tuple[Need, ...]:
        needs = [group_need(named, actions) for named in (getattr(decoded, name) for name in names.groups) if named]
        topic = getattr(decoded, names.topic) if names.topic else None
        if topic:
            needs.append(topic_need(topic, actions))
        return tuple(needs)
    return needs_of_names
