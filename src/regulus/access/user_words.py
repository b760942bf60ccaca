"""Convert users and policies from the words of operators and documents, and back.

Source: UserConverter, AclConverter.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TypeVar

from regulus.access.policies import Policy, PolicyEntry, parse_entry, parse_policy_type
from regulus.access.user_rules import User, UserStatus, UserType
from regulus.errors import ConfigError
from regulus.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, StoredUser, UserInfo

SUBJECT_PREFIX = "User:"
_SHOWN_MAX = 128

E = TypeVar("E", bound=Enum)


def parse_subject(text: str) -> str:
    """The name of the user. Raises ConfigError."""
    kind, _, name = text.partition(":")
    if kind.lower() + ":" != SUBJECT_PREFIX.lower() or not name:
        raise ConfigError(f"{text[:_SHOWN_MAX]!r} is not a subject: write User:name")
    return name


def parse_type(word: str | None) -> UserType | None:
    """None when nothing is written. Raises ConfigError."""
    return _parse(UserType, word, "Super or Normal")


def parse_status(word: str | None) -> UserStatus | None:
    return _parse(UserStatus, word, "enable or disable")


def _parse(kind: type[E], word: str | None, known: str) -> E | None:
    if not word:
        return None
    found = next((each for each in kind if each.value.lower() == word.lower()), None)
    if found is None:
        raise ConfigError(f"{word[:_SHOWN_MAX]!r} is not a {kind.__name__}: write {known}")
    return found


def user_of(info: UserInfo | StoredUser) -> User:
    """Normal and enabled, unless something else is written. Raises ConfigError."""
    return User(name=info.username or "", secret=info.password or "",
                type=parse_type(info.user_type) or UserType.NORMAL,
                status=parse_status(info.user_status) or UserStatus.ENABLE)


def user_info(user: User, *, with_secret: bool) -> UserInfo:
    return UserInfo(username=user.name, password=user.secret if with_secret else None, user_type=user.type.value,
                    user_status=user.status.value)


def policies_of(infos: Iterable[PolicyInfo]) -> tuple[Policy, ...]:
    """Raises ConfigError, also for a policy without entries."""
    policies = []
    for info in infos:
        entries = tuple(parse_entry(entry.resource, entry.actions, entry.source_ips, entry.decision)
                        for entry in info.entries or ())
        if not entries:
            raise ConfigError("a policy has no entries: name a resource")
        policies.append(Policy(parse_policy_type(info.policy_type), entries))
    return tuple(policies)


def policy_infos(policies: Sequence[Policy], resource_part: str = "") -> list[PolicyInfo]:
    """The policies with entries whose resource contains `resource_part`."""
    infos = []
    for policy in policies:
        entries = [_entry_info(entry) for entry in policy.entries if resource_part in str(entry.resource)]
        if entries:
            infos.append(PolicyInfo(policy_type=policy.type.value, entries=entries))
    return infos


def _entry_info(entry: PolicyEntry) -> PolicyEntryInfo:
    return PolicyEntryInfo(resource=str(entry.resource), actions=list(entry.actions),
                           source_ips=list(entry.sources) or None, decision=entry.decision.value)


def acl_info(user: User, resource_part: str = "") -> AclInfo:
    return AclInfo(subject=SUBJECT_PREFIX + user.name, policies=policy_infos(user.policies, resource_part))


def stored(user: User) -> StoredUser:
    return StoredUser(username=user.name, password=user.secret, user_type=user.type.value,
                      user_status=user.status.value, policies=policy_infos(user.policies))
