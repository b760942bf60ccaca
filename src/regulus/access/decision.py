"""What an access check knows of a request, and its verdict.

Each server checks access before any handler. A table of the package (`broker/request_table`, `nameserver/access`)
says what each request needs; the rules (`plain_rules`, or users and policies) say whether its sender has it.

    facts of the request -> Rules.decide -> Allowed(rule) | Denied(rule, code, remark)

Source: AccessValidator, Resource, ResourceType, Action.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

ANY_NAME = "*"
"""The name in a need for all resources of a kind: only a grant for all of them meets it."""
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
"""A field that clients up to 4.9.3 set after signing, and later ones before signing.

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
    """The sender needs one of `actions` on the resource. A retry topic is represented by its group: `%RETRY%g` is never
    a name here."""

    kind: ResourceKind
    name: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """The facts on which a verdict rests.

    `source` is the peer's address without its port. `needs` reads the request, which may come from a stranger: it is
    called only after the signature has been verified. It raises HeaderError for a malformed request, and KeyError for a
    code in no table.
    """

    code: int
    source: str
    ext: Mapping[str, str]
    body: bytes | memoryview
    needs: Callable[[], tuple[Need, ...]]


@dataclass(frozen=True, slots=True)
class Allowed:
    """The request may be handled. `rule` says for an operator what allowed it. `user` is the sender, if a signature or
    an address proved it; empty for an anonymous one."""

    rule: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class Denied:
    """The request is refused. `rule` is for an operator; `code` and `remark` are sent to the client and contain no
    secret."""

    rule: str
    code: int
    remark: str


Verdict = Allowed | Denied


class Rules(Protocol):
    """Both versions of access control: accounts of `plain_acl.yml`, and users with policies.

    Rules are immutable: each change of an account makes new rules. A verdict may therefore be cached as long as its
    rules are in force.
    """

    def decide(self, facts: RequestFacts) -> Verdict:
        """The verdict on a request: by white lists, account and signature, then by `permit`."""

    def secret_of(self, user: str) -> str | None:
        """The secret with which a user signs, if these rules know the user; otherwise None."""

    def looks_at(self, code: int) -> bool:
        """Whether requests of this code are checked for what they need; otherwise each authenticated sender may send
        them."""

    def permit(self, user: str, source: str, needs: tuple[Need, ...]) -> Verdict:
        """What an authenticated user may do; `regulus acl explain` calls it too."""
