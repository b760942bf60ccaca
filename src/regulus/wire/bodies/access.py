"""Users and their policies, in requests and answers of operators: AUTH_CREATE_USER (3001) to AUTH_LIST_ACL (3010).

Source: UserInfo, AclInfo.
"""

from dataclasses import dataclass, field

from regulus.wire.json_fields import JsonBody


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo(JsonBody):
    """A user; in a change, a missing field keeps its value."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    user_type: str | None = None
    user_status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntryInfo(JsonBody):
    """One entry of a policy; `resource` is `Topic:name`, `Topic:prefix*`, `Topic:*` or `*`."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInfo(JsonBody):
    policy_type: str | None = None
    entries: list[PolicyEntryInfo] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AclInfo(JsonBody):
    """The policies of a user; `subject` is `User:name`."""

    subject: str | None = None
    policies: list[PolicyInfo] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUser(JsonBody):
    """One user in our document, with its policies, which are deleted with it."""

    username: str
    password: str = field(repr=False)
    user_type: str
    user_status: str
    policies: list[PolicyInfo] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUsers(JsonBody):
    users: list[StoredUser]
