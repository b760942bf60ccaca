"""ACL 1.0: accounts with a secret each, and what they may do with topics and groups.

The checks are made in this order; the first that applies decides:

    1  the address is on the global white list            allowed, whatever it is
    2  no AccessKey, or one without an account            denied
    3  the address is on the account's white list         allowed, whatever it is
    4  the signature is wrong                             denied
    5  each thing that the request needs, see `permit`

What a request needs is looked up in the account; a name that is not listed has the default of its kind:

    need                       met by
    PUB on the trace topic     any account
    PUB or SUB on a name       an entry or default that has it; a DENY wins
    GET on a name              an entry or default of PUB or SUB
    GET, LIST of the cluster   any account
    LIST of topics or groups   any account
    all topics, all groups     admin
    create, update, delete     admin

An admin needs no entries. An admin that has entries is limited to them and the defaults, as in RocketMQ.

Source: PlainPermissionManager.validate, checkPerm.
"""

from collections.abc import Mapping

from regulus.access.accounts import Account, Grant
from regulus.access.decision import ANY_NAME, Action, Allowed, Denied, Need, RequestFacts, ResourceKind, Verdict
from regulus.access.signature_check import is_signed
from regulus.access.white_addresses import WhiteAddresses
from regulus.errors import HeaderError
from regulus.model.topics import TRACE_TOPIC
from regulus.wire.acl_signature import ACCESS_KEY, DENIAL
from regulus.wire.codes import ResponseCode

DENIED_CODE = int(ResponseCode.SYSTEM_ERROR)
"""The response code of RocketMQ 4.9."""
_SHOWN_MAX = 128        # characters of a peer's text in a remark

_USES = {Action.PUB: Grant.PUB, Action.SUB: Grant.SUB, Action.GET: Grant.PUB | Grant.SUB}
_LOOKS = frozenset((Action.GET, Action.LIST))


class PlainRules:
    """Rules of ACL 1.0; the keys of `accounts` are access keys."""

    def __init__(self, white_addresses: WhiteAddresses, accounts: Mapping[str, Account]) -> None:
        self._white_addresses = white_addresses
        self._accounts = accounts

    def decide(self, facts: RequestFacts) -> Verdict:
        if self._white_addresses.matches(facts.source):
            return Allowed(f"{facts.source} is one of globalWhiteRemoteAddresses")
        access_key = facts.ext.get(ACCESS_KEY)
        if access_key is None:
            return _denied("the request has no AccessKey", "No accessKey is configured")
        account = self._accounts.get(access_key)
        if account is None:
            return _no_account(access_key)
        if account.white_addresses.matches(facts.source):
            return Allowed(f"{facts.source} is a whiteRemoteAddress of {access_key}", access_key)
        if not is_signed(facts.ext, facts.body, account.secret_key):
            return _denied(f"the signature is not made with the secret of {access_key}",
                           f"Check signature failed for accessKey={access_key}")
        try:
            needs = facts.needs()
        except KeyError:
            return _denied("no table says what the request needs", f"request code {facts.code} is not known")
        except HeaderError as error:
            return _denied("what the request needs cannot be read", str(error))
        return _permit(account, needs)

    def secret_of(self, user: str) -> str | None:
        account = self._accounts.get(user)
        return None if account is None else account.secret_key

    def looks_at(self, code: int) -> bool:
        return True

    def permit(self, user: str, source: str, needs: tuple[Need, ...]) -> Verdict:
        """Also applies the white lists, which come first."""
        if self._white_addresses.matches(source):
            return Allowed(f"{source} is one of globalWhiteRemoteAddresses")
        account = self._accounts.get(user)
        if account is None:
            return _no_account(user)
        if account.white_addresses.matches(source):
            return Allowed(f"{source} is a whiteRemoteAddress of {user}", user)
        return _permit(account, needs)


def _permit(account: Account, needs: tuple[Need, ...]) -> Verdict:
    rule = f"{account.access_key} has an account, and the request needs no more"
    for need in needs:
        verdict = _permit_one(account, need)
        if isinstance(verdict, Denied):
            return verdict
        rule = verdict.rule
    return Allowed(rule, account.access_key)


def _permit_one(account: Account, need: Need) -> Verdict:
    if need.kind is ResourceKind.TOPIC and need.name == TRACE_TOPIC and Action.PUB in need.actions:
        return Allowed("any account may send to the trace topic")
    wanted = Grant.NOTHING
    for action in need.actions:
        wanted |= _USES.get(action, Grant.NOTHING)
    if need.name != ANY_NAME and wanted and need.kind in (ResourceKind.TOPIC, ResourceKind.GROUP):
        return _by_grant(account, need, wanted)
    if (need.kind is ResourceKind.CLUSTER and not _LOOKS.isdisjoint(need.actions)) or Action.LIST in need.actions:
        return Allowed("any account may look at the cluster")
    if account.admin:
        return Allowed(f"{account.access_key} is admin")
    return _denied(f"{account.access_key} is not admin",
                   f"Need admin permission for {_named(need)}, but accessKey={account.access_key} is not")


def _by_grant(account: Account, need: Need, wanted: Grant) -> Verdict:
    is_topic = need.kind is ResourceKind.TOPIC
    entries, default = (account.topics, account.default_topic) if is_topic else (account.groups, account.default_group)
    if account.admin and not account.topics and not account.groups:
        return Allowed(f"{account.access_key} is admin, and has no entries of its own")
    grant = entries.get(need.name)
    kind = "topic" if is_topic else "group"
    rule = f"{kind}Perms {need.name}" if grant is not None else f"default{kind.capitalize()}Perm"
    granted = default if grant is None else grant
    rule = f"{rule}={_word(granted)} of {account.access_key}"
    if not granted & Grant.DENY and granted & wanted:
        return Allowed(rule)
    return _denied(rule, f"No default permission for {_named(need)}")


def _word(grant: Grant) -> str:
    return "|".join([each.name or "" for each in Grant if each in grant]) or "NOTHING"


def _named(need: Need) -> str:
    return f"{need.kind.value.lower()}:{need.name}"[:_SHOWN_MAX]


def _no_account(access_key: str) -> Denied:
    return _denied(f"{access_key[:_SHOWN_MAX]} has no account", f"No acl config for {access_key[:_SHOWN_MAX]}")


def _denied(rule: str, reason: str) -> Denied:
    return Denied(rule, DENIED_CODE, DENIAL + reason)
