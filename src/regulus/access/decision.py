"""What a door knows of a request, and what it says.

A door stands before every handler of a server. A table of the room (`broker/request_table`, `nameserver/access`) says
what each request needs; the rules of this house (`plain_rules`, or users and policies) say whether its sender has it.

    facts of the request -> Rules.decide -> Allowed(rule) | Denied(rule, code, remark)

Source: AccessValidator, Resource, ResourceType, Action.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

ANY_NAME = "*"
"""The name in a need for all resources of a kind: only what is granted for all of them meets it."""
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
"""A field that clients up to 4.9.3 set after they have signed, and later ones before.

Source: MixAll.UNIQUE_MSG_QUERY_FLAG.
"""


class ResourceKind(Enum):
    """Source: ResourceType."""

    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Action(Enum):
    """Source: org.apache.rocketmq.common.action.Action."""

    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Need(NamedTuple):
    """One of `actions` on the resource. A retry topic is its group: `%RETRY%g` is never a name here."""

    kind: ResourceKind
    name: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """`source` is the peer's address without its port. `needs` reads the request, which a stranger may have written: it
    is called when the signature is known to be right, and raises HeaderError for what is no such request, KeyError for
    a code that no table has."""

    code: int
    source: str
    ext: Mapping[str, str]
    body: bytes | memoryview
    needs: Callable[[], tuple[Need, ...]]


@dataclass(frozen=True, slots=True)
class Allowed:
    """`rule` says in words for an operator what let the request in. `user` is who asked, where that was proved by a
    signature or an address; empty for nobody."""

    rule: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class Denied:
    """`rule` is for an operator; `code` and `remark` are answered, and have no secret."""

    rule: str
    code: int
    remark: str


Verdict = Allowed | Denied


class Rules(Protocol):
    """Both versions of access control: accounts of `plain_acl.yml`, and users with policies.

    They never change: whatever changes an account makes new rules. So what they said may be kept as long as they hold.
    """

    def decide(self, facts: RequestFacts) -> Verdict:
        """Of a request as it came: white lists, account, signature, then `permit`."""

    def secret_of(self, user: str) -> str | None:
        """With what a user signs whom these rules know; None for all others."""

    def looks_at(self, code: int) -> bool:
        """Whether it is asked of requests of this code what they need; else whoever comes in may do all of it."""

    def permit(self, user: str, source: str, needs: tuple[Need, ...]) -> Verdict:
        """What a user whose signature is right may do; also what `regulus acl explain` asks."""
