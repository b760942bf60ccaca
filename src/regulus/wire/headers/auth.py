"""Users and policies of 5.x: codes 3001 to 3010.

Source: CreateUserRequestHeader, UpdateUserRequestHeader, DeleteUserRequestHeader, GetUserRequestHeader,
ListUsersRequestHeader, CreateAclRequestHeader, UpdateAclRequestHeader, DeleteAclRequestHeader, GetAclRequestHeader,
ListAclsRequestHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header


@dataclass(frozen=True, slots=True)
class AuthUserRequest(Header):
    """Header of create, update, delete and get."""

    username: str


@dataclass(frozen=True, slots=True)
class AuthListUserRequest(Header):
    """List users; `filter` is a part of the name."""

    filter: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthAclRequest(Header):
    """Header of create, update, delete and get; only a deletion names policy and resource."""

    subject: str
    policy_type: str | None = None
    resource: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthListAclRequest(Header):
    subject_filter: str | None = None
    resource_filter: str | None = None
