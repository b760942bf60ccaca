"""The vocabulary in which the tables of brokers and name servers say what a request needs.

A `Read` takes the request and returns all its needs. It decodes with the same class as the handler: two ways to read
one request would allow bypassing the check.
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
"""Topics that hold messages of all topics: those that wait for a time or for a decision of their producer, and those
given up."""


def topic_need(topic: str, actions: tuple[Action, ...]) -> Need:
    """The need for an action on a topic.

    For a retry topic it is its group, whatever the action. For a topic that holds messages of all topics it is all
    topics: a user who may read most of them could otherwise read there what is denied to him.

    Retries of pops have a retry topic for each topic. `%RETRY%group+topic` names its owner. `%RETRY%group_topic`,
    RocketMQ's default name, is also the retry topic of a group named `group_topic`, and is treated as such.
    """
    if topic.startswith(RETRY_PREFIX):
        return group_need(topic.partition("+")[0], SUB if actions == PUB else actions)
    return Need(ResourceKind.TOPIC, ANY_NAME if topic in _OF_ANY_TOPIC else topic, actions)


def group_need(group: str, actions: tuple[Action, ...]) -> Need:
    return Need(ResourceKind.GROUP, group.removeprefix(RETRY_PREFIX), actions)


def ending_needs(topic: str) -> tuple[Need, ...]:
    """The needs to end a transaction of the topic, and to be asked how one ended, which shows the half message.
    Producer groups have no permissions of their own in RocketMQ, neither in accounts nor in policies."""
    return (topic_need(topic, PUB),)


def cluster(actions: tuple[Action, ...]) -> Read:
    """Access to the broker as a whole."""
    needs = (Need(ResourceKind.CLUSTER, ANY_NAME, actions),)
    return lambda request: needs


def every_topic(actions: tuple[Action, ...]) -> Read:
    """Access to all topics, because the request may read or change any of them."""
    needs = (Need(ResourceKind.TOPIC, ANY_NAME, actions),)
    return lambda request: needs


def every_group(actions: tuple[Action, ...]) -> Read:
    needs = (Need(ResourceKind.GROUP, ANY_NAME, actions),)
    return lambda request: needs


def nothing(request: RemotingCommand) -> tuple[Need, ...]:
    """No need besides a valid signature."""
    return ()


def seen_in_parts(request: RemotingCommand) -> tuple[Need, ...]:
    """No need besides a valid signature at the first check: the needs of the body are checked later, while it is read
    in steps."""
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
