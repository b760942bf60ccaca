"""ACL 2.0: users with a secret each, and policies that say what they may do.

The checks are made in this order; the first that applies decides:

    1  the code is on authenticationWhitelist, and nothing is left to authorize    allowed, for every sender
    2  no AccessKey, an unknown or disabled user, or a wrong signature             denied
    3  authorization is off, or the code is on authorizationWhitelist              allowed
    4  the user is Super                                                           allowed
    5  for each thing that the request needs, the entry that comes first           as it says
       of the user's Custom policy; where none matches, of the Default policy      none: denied

A name without proof has no permissions: a code that is only on the first white list still needs a signature if requests
are authorized. RocketMQ trusts the name in that case.

Source: DefaultAuthenticationHandler, UserAuthorizationHandler, AclAuthorizationHandler.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from regulus.access.decision import Allowed, Denied, Need, RequestFacts, ResourceKind, Verdict
from regulus.access.policies import Decision, Policy, PolicyEntry, PolicyType, in_order
from regulus.access.signature_check import is_signed
from regulus.errors import HeaderError
from regulus.wire.acl_signature import ACCESS_KEY
from regulus.wire.codes import ResponseCode

DENIED_CODE = int(ResponseCode.NO_PERMISSION)
_SHOWN_MAX = 128        # characters of a peer's text in a remark


class UserType(Enum):
    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(Enum):
    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user; `policies` are in the order in which they were written."""

    name: str
    secret: str = field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE
    policies: tuple[Policy, ...] = ()

    @property
    def is_super(self) -> bool:
        return self.type is UserType.SUPER

    @property
    def is_enabled(self) -> bool:
        return self.status is UserStatus.ENABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Settings of access control. `cluster` is the name that entries `Cluster:name` refer to."""

    cluster: str
    authorizes: bool = True
    unauthenticated_codes: frozenset[int] = frozenset()
    unauthorized_codes: frozenset[int] = frozenset()


Ordered = Mapping[PolicyType, tuple[PolicyEntry, ...]]


class UserRules:
    """Rules of ACL 2.0. `users` by name; the mapping must not change any more. A verdict takes time proportional to the
    entries of one user."""

    def __init__(self, switches: Switches, users: Mapping[str, User]) -> None:
        self._switches = switches
        self._users = users
        self._ordered: dict[str, Ordered] = {}

    def decide(self, facts: RequestFacts) -> Verdict:
        is_authorized = self.looks_at(facts.code)
        if facts.code in self._switches.unauthenticated_codes and not is_authorized:
            return Allowed(f"code {facts.code} is on authenticationWhitelist")
        name = facts.ext.get(ACCESS_KEY, "")
        denied = self._stranger(name)
        if denied is not None:
            return denied
        if not is_signed(facts.ext, facts.body, self._users[name].secret):
            return _denied(f"the signature is not made with the secret of {name}", "check signature failed.")
        if not is_authorized:
            return Allowed(f"{name} has signed, and code {facts.code} is not authorized", name)
        try:
            needs = facts.needs()
        except KeyError:
            return _denied("no table says what the request needs", f"request code {facts.code} is not known")
        except HeaderError as error:
            return _denied("what the request needs cannot be read", str(error))
        return self.permit(name, facts.source, needs)

    def secret_of(self, user: str) -> str | None:
        found = self._users.get(user)
        return found.secret if found is not None and found.is_enabled else None

    def looks_at(self, code: int) -> bool:
        return self._switches.authorizes and code not in self._switches.unauthorized_codes

    def permit(self, user: str, source: str, needs: tuple[Need, ...]) -> Verdict:
        denied = self._stranger(user)
        if denied is not None:
            return denied
        if not self._switches.authorizes:
            return Allowed("authorizationEnabled=false: every user may do everything", user)
        if self._users[user].is_super:
            return Allowed(f"{user} is Super", user)
        rule = f"{user} is a user, and the request needs no more"
        for need in needs:
            verdict = self._permit_one(user, source, need)
            if isinstance(verdict, Denied):
                return verdict
            rule = verdict.rule
        return Allowed(rule, user)

    def _stranger(self, name: str) -> Denied | None:
        """None for a user who is known and enabled."""
        if not name:
            return _denied("the request has no AccessKey", "username cannot be null.")
        user = self._users.get(name)
        shown = name[:_SHOWN_MAX]
        if user is None:
            return _denied(f"{shown} is no user", f"User:{shown} is not found.")
        return None if user.is_enabled else _denied(f"{shown} is disabled", f"User:{shown} is disabled.")

    def _permit_one(self, user: str, source: str, need: Need) -> Verdict:
        if need.kind is ResourceKind.CLUSTER:
            need = Need(need.kind, self._switches.cluster, need.actions)
        ordered = self._in_order(user)
        for kind in PolicyType:
            for entry in ordered.get(kind, ()):
                if entry.is_of(need, source):
                    return _by_entry(user, source, need, kind, entry)
        return _forbidden(f"no policy of {user} matches", user, source, need, "no matched policies.")

    def _in_order(self, user: str) -> Ordered:
        """The user's entries, sorted when they are first needed."""
        found = self._ordered.get(user)
        if found is None:
            found = {policy.type: in_order(policy.entries) for policy in self._users[user].policies}
            self._ordered[user] = found
        return found


def _by_entry(user: str, source: str, need: Need, kind: PolicyType, entry: PolicyEntry) -> Verdict:
    rule = f"{kind.value} policy of {user}: {entry.resource} {','.join(entry.actions)} {entry.decision.value}"
    if entry.decision is Decision.ALLOW:
        return Allowed(rule)
    return _forbidden(rule, user, source, need, "the decision is deny.")


def _forbidden(rule: str, user: str, source: str, need: Need, why: str) -> Denied:
    resource = f"{need.kind.value}:{need.name}"[:_SHOWN_MAX]
    return _denied(rule, f"User:{user} has no permission to access {resource} from {source}, {why}")


def _denied(rule: str, reason: str) -> Denied:
    return Denied(rule, DENIED_CODE, reason)
