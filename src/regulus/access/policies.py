"""Policies of ACL 2.0: their entries, and which entry decides.

    resource         matches
    Topic:orders     this one
    Topic:ord*       each topic whose name begins so
    Topic:*          each topic
    *                everything

`Group`, `Cluster` and `Namespace` work alike. Among the entries that match resource, action and address, the first in
this order decides: one name, then the longer prefix, then all of a kind, then `*`; a Deny comes before an Allow.

Where a request may touch any topic (or group), only an entry for all of them allows it, and a Deny of any single one
denies it, because it might be the one touched.

Source: Resource.of, Resource.isMatch, PolicyEntry, AclAuthorizationHandler, IPAddressUtils.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from regulus.access.decision import ANY_NAME, Action, Need, ResourceKind
from regulus.errors import ConfigError

NAME_LENGTH_MAX = 255
"""The maximum number of characters in a resource's name."""
SOURCES_MAX = 64
"""The maximum number of addresses in one entry."""
ALL_ACTIONS = "All"
_SHOWN_MAX = 128
_STAR = "*"


class Decision(Enum):
    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    """The kind of a policy; Default entries count only if no Custom entry matches."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


class Pattern(IntEnum):
    """The kind of a name pattern; a lower value decides before a higher one."""

    LITERAL = 0
    PREFIXED = 1
    ANY = 2


class Resource(NamedTuple):
    """A resource pattern; a `kind` of None matches everything."""

    kind: ResourceKind | None
    pattern: Pattern
    name: str

    def __str__(self) -> str:
        return _STAR if self.kind is None else f"{self.kind.value}:{self.name}{_STAR if self.pattern else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """One entry. `actions` are names, among them `All`; empty `sources` match every address."""

    resource: Resource
    actions: tuple[str, ...]
    sources: tuple[str, ...] = ()
    decision: Decision

    def is_of(self, need: Need, source: str) -> bool:
        """Whether this entry applies to a need of a request from `source`."""
        return (_is_of_resource(self.resource, need, self.decision)
                and (ALL_ACTIONS in self.actions or any(action.value in self.actions for action in need.actions))
                and (not self.sources or any(_covers(each, source) for each in self.sources)))


@dataclass(frozen=True, slots=True)
class Policy:
    type: PolicyType
    entries: tuple[PolicyEntry, ...]


def in_order(entries: Iterable[PolicyEntry]) -> tuple[PolicyEntry, ...]:
    """The entries sorted so that the first that matches decides."""
    return tuple(sorted(entries, key=_rank))


def _rank(entry: PolicyEntry) -> tuple[bool, int, int, bool]:
    resource = entry.resource
    return resource.kind is None, resource.pattern, -len(resource.name), entry.decision is Decision.ALLOW


def _is_of_resource(resource: Resource, need: Need, decision: Decision) -> bool:
    if resource.kind is None:
        return True
    if resource.kind is not need.kind:
        return False
    if need.name == ANY_NAME:
        return resource.pattern is Pattern.ANY or decision is Decision.DENY
    if resource.pattern is Pattern.LITERAL:
        return need.name == resource.name
    return need.name.startswith(resource.name)


# --- what operators write --------------------------------------------------------------------------------------------


def parse_resource(text: str) -> Resource:
    """Raises ConfigError."""
    if text == _STAR:
        return Resource(None, Pattern.ANY, "")
    word, _, name = text.partition(":")
    kind = next((kind for kind in ResourceKind if kind.value.lower() == word.lower()), None)
    if kind is None or not name:
        raise ConfigError(f"{text[:_SHOWN_MAX]!r} is not a resource: write Topic:name, Topic:prefix*, Topic:* or *, of "
                          f"{', '.join(kind.value for kind in ResourceKind)}")
    plain = name.removesuffix(_STAR)
    if _STAR in plain or len(plain) > NAME_LENGTH_MAX or not plain.isprintable():
        raise ConfigError(f"{text[:_SHOWN_MAX]!r} is not a resource: a * must be at the end, and a name has "
                          f"{NAME_LENGTH_MAX} printable characters at most")
    pattern = Pattern.LITERAL if plain == name else Pattern.PREFIXED if plain else Pattern.ANY
    return Resource(kind, pattern, plain)


def parse_entry(resource: str | None, actions: Iterable[str] | None, sources: Iterable[str] | None,
                decision: str | None) -> PolicyEntry:
    """Raises ConfigError."""
    named = tuple(dict.fromkeys(_parse_action(word) for word in actions or ()))
    if not named:
        raise ConfigError(f"the policy entry of {(resource or '')[:_SHOWN_MAX]!r} has no actions: write All, Pub, Sub "
                          "...")
    from_there = tuple(dict.fromkeys(sources or ()))
    if len(from_there) > SOURCES_MAX:
        raise ConfigError(f"a policy entry has {len(from_there)} addresses; {SOURCES_MAX} are the most: name a network")
    for each in from_there:
        _parse_source(each)
    decided = next((each for each in Decision if each.value.lower() == (decision or "").lower()), None)
    if decided is None:
        raise ConfigError(f"{(decision or '')[:_SHOWN_MAX]!r} is not a decision: write Allow or Deny")
    return PolicyEntry(resource=parse_resource(resource or ""), actions=named, sources=from_there, decision=decided)


def parse_policy_type(word: str | None) -> PolicyType:
    """Custom, when nothing is written. Raises ConfigError."""
    if not word:
        return PolicyType.CUSTOM
    found = next((each for each in PolicyType if each.value.lower() == word.lower()), None)
    if found is None:
        raise ConfigError(f"{word[:_SHOWN_MAX]!r} is not a policy type: write Custom or Default")
    return found


def _parse_action(word: str) -> str:
    names = [ALL_ACTIONS, *(action.value for action in Action)]
    found = next((name for name in names if name.lower() == word.strip().lower()), None)
    if found is None:
        raise ConfigError(f"{word[:_SHOWN_MAX]!r} is not an action: write {', '.join(names)}")
    return found


@lru_cache(maxsize=4096)
def _parse_source(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise ConfigError(f"{text[:_SHOWN_MAX]!r} is not an address: write 10.0.0.1 or 10.0.0.0/24, or IPv6 "
                          "alike") from None


def _covers(pattern: str, source: str) -> bool:
    try:
        address: IPv4Address | IPv6Address = ip_address(source.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address in _parse_source(pattern)


def updated(policies: tuple[Policy, ...], changes: Iterable[Policy]) -> tuple[Policy, ...]:
    """The policies after a change: an entry replaces the one with its resource, or is added."""
    entries = {policy.type: {entry.resource: entry for entry in policy.entries} for policy in policies}
    for change in changes:
        entries.setdefault(change.type, {}).update({entry.resource: entry for entry in change.entries})
    return tuple(Policy(kind, tuple(by_resource.values())) for kind, by_resource in entries.items())


def without(policies: tuple[Policy, ...], kind: PolicyType, resource: Resource) -> tuple[Policy, ...]:
    """The policies without that resource; a policy without entries is dropped."""
    left = (Policy(each.type, tuple(entry for entry in each.entries if each.type is not kind
                                    or entry.resource != resource)) for each in policies)
    return tuple(policy for policy in left if policy.entries)
