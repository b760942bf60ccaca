"""The document `plain_acl.yml`: read with the line of each fault, changed, and written as RocketMQ writes it.

    globalWhiteRemoteAddresses:
    - 10.10.103.*
    accounts:
    - accessKey: RocketMQ
      secretKey: 12345678
      whiteRemoteAddress: null
      admin: false
      defaultTopicPerm: DENY
      defaultGroupPerm: SUB
      topicPerms:
      - topicA=DENY
      groupPerms:
      - groupB=PUB|SUB
    dataVersion:
    - counter: 3
      timestamp: 1795219694797

Values are read as text: a secret of digits is not a number, so that it keeps its leading zeros.

Source: PlainPermissionManager.load, createAclAccessConfigMap, AclUtils.writeDataObject.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import yaml

from regulus.access.accounts import Account, check_keys, parse_default, parse_grants, parse_group_grants
from regulus.access.white_addresses import WhiteAddresses
from regulus.errors import ConfigError

DOCUMENT_SIZE_MAX = 1 << 20
"""The maximum number of bytes of one document: some 5,000 accounts."""

# Documents are read on the event loop. The C reader, which most installations have, takes a tenth of the time.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_TRUTH = {"true": True, "false": False}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountEntry:
    """An account as written in the document; None and empty values were omitted. Source: PlainAccessConfig."""

    access_key: str
    secret_key: str = field(repr=False)
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: tuple[str, ...] | None = None
    group_perms: tuple[str, ...] | None = None

    def account(self) -> Account:
        """Raises ConfigError, whose text names the cause and shows no secret."""
        check_keys(self.access_key, self.secret_key)
        return Account(
            access_key=self.access_key, secret_key=self.secret_key, admin=self.admin,
            white_addresses=WhiteAddresses([self.white_remote_address or ""]),
            default_topic=parse_default(self.default_topic_perm), default_group=parse_default(self.default_group_perm),
            topics=parse_grants(self.topic_perms or ()), groups=parse_group_grants(self.group_perms or ()))

    def changed(self, entry: "AccountEntry") -> "AccountEntry":
        """This entry with the values of `entry`; values that it omits stay."""
        given = {name: value for name in self.__slots__ if (value := getattr(entry, name)) not in (None, "")}
        if entry.white_remote_address is not None:      # empty removes it
            given["white_remote_address"] = entry.white_remote_address
        return replace(self, **given)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAcl:
    """The document; `counter` and `timestamp` (ms) are its version."""

    white_addresses: tuple[str, ...] = ()
    accounts: tuple[AccountEntry, ...] = ()
    counter: int = 0
    timestamp: int = 0

    def with_account(self, entry: AccountEntry, now_ms: int) -> "PlainAcl":
        """This document with the account changed, or added at the end. Raises ConfigError for an invalid account."""
        known = next((each for each in self.accounts if each.access_key == entry.access_key), None)
        changed = entry if known is None else known.changed(entry)
        changed.account()
        others = [each for each in self.accounts if each.access_key != entry.access_key]
        return self._next(now_ms, accounts=(*others, changed))

    def without_account(self, access_key: str, now_ms: int) -> "PlainAcl":
        return self._next(now_ms, accounts=tuple(each for each in self.accounts if each.access_key != access_key))

    def with_white_addresses(self, patterns: Iterable[str], now_ms: int) -> "PlainAcl":
        """Raises ConfigError."""
        return self._next(now_ms, white_addresses=WhiteAddresses(patterns).patterns)

    def _next(self, now_ms: int, **changes: Any) -> "PlainAcl":
        return replace(self, counter=self.counter + 1, timestamp=now_ms, **changes)


def dump(acl: PlainAcl) -> str:
    document: dict[str, Any] = {
        "globalWhiteRemoteAddresses": list(acl.white_addresses),
        "accounts": [_entry_document(entry) for entry in acl.accounts],
        "dataVersion": [{"counter": acl.counter, "timestamp": acl.timestamp}]}
    return str(yaml.dump(document, Dumper=_Dumper, default_flow_style=False, sort_keys=False, allow_unicode=True))


def _entry_document(entry: AccountEntry) -> dict[str, Any]:
    document: dict[str, Any] = {"accessKey": entry.access_key, "secretKey": entry.secret_key,
                                "whiteRemoteAddress": entry.white_remote_address or None, "admin": entry.admin}
    for key, word in (("defaultTopicPerm", entry.default_topic_perm), ("defaultGroupPerm", entry.default_group_perm)):
        if word is not None:
            document[key] = word
    for key, perms in (("topicPerms", entry.topic_perms), ("groupPerms", entry.group_perms)):
        if perms is not None:
            document[key] = list(perms)
    return document


# --- reading ---------------------------------------------------------------------------------------------------------


def parse(text: str, name: str) -> PlainAcl:
    """Parse a document. Raises ConfigError, whose text begins with name and line. An empty document has no accounts."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        # For an alias or tag the problem shows the name, which may be a secret that begins with * or !.
        problem = str(error.problem or error.context).partition("'")[0].strip()
        raise ConfigError(f"{name}:{line}: this is not YAML: {problem}; put a text with special characters in "
                          "quotes") from None
    except (yaml.YAMLError, RecursionError):
        # The exception's text quotes the input, which may contain a secret.
        raise ConfigError(f"{name}:1: this is not YAML: it has characters or depths that no document has") from None
    if node is None or _is_null(node):
        return PlainAcl()
    return _Reader(name).acl(node)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name

    def acl(self, node: yaml.Node) -> PlainAcl:
        fields = self._fields(node, {"globalWhiteRemoteAddresses", "accounts", "dataVersion"})
        addresses = fields.get("globalWhiteRemoteAddresses")
        patterns = tuple(self._text(each) or "" for each in self._items(addresses))
        if addresses is not None:
            self._at(addresses, lambda: WhiteAddresses(patterns))
        entries: dict[str, AccountEntry] = {}
        for each in self._items(fields.get("accounts")):
            entry = self._entry(each)
            if entry.access_key in entries:
                raise self._fault(each, f"the account {entry.access_key} occurs twice")
            entries[entry.access_key] = entry
        counter, timestamp = self._version(fields.get("dataVersion"))
        return PlainAcl(white_addresses=patterns, accounts=tuple(entries.values()), counter=counter,
                        timestamp=timestamp)

    def _entry(self, node: yaml.Node) -> AccountEntry:
        fields = self._fields(node, _ENTRY_KEYS)
        admin = (self._text(fields.get("admin")) or "false").lower()
        if admin not in _TRUTH:
            raise self._fault(fields["admin"], "admin is true or false")
        entry = AccountEntry(
            access_key=self._text(fields.get("accessKey")) or "", secret_key=self._text(fields.get("secretKey")) or "",
            white_remote_address=self._text(fields.get("whiteRemoteAddress")), admin=_TRUTH[admin],
            default_topic_perm=self._text(fields.get("defaultTopicPerm")),
            default_group_perm=self._text(fields.get("defaultGroupPerm")),
            topic_perms=self._perms(fields.get("topicPerms")), group_perms=self._perms(fields.get("groupPerms")))
        self._at(node, entry.account)
        return entry

    def _perms(self, node: yaml.Node | None) -> tuple[str, ...] | None:
        """Each entry is checked by itself, so that a fault is reported with its line."""
        if node is None or _is_null(node):
            return None
        found = []
        for each in self._items(node):
            text = self._text(each) or ""
            self._at(each, lambda text=text: parse_grants([text]))      # type: ignore[misc]
            found.append(text)
        return tuple(found)

    def _version(self, node: yaml.Node | None) -> tuple[int, int]:
        for each in self._items(node):
            fields = self._fields(each, {"counter", "timestamp", "stateVersion"})
            numbers = [self._text(fields.get(key)) or "0" for key in ("counter", "timestamp")]
            if not all(text.isascii() and text.isdigit() and len(text) < 20 for text in numbers):
                raise self._fault(each, "counter and timestamp are numbers")
            return int(numbers[0]), int(numbers[1])
        return 0, 0

    def _fields(self, node: yaml.Node, known: frozenset[str] | set[str]) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            raise self._fault(node, f"write keys with values here, of {', '.join(sorted(known))}")
        fields: dict[str, yaml.Node] = {}
        for key, value in node.value:
            word = key.value if isinstance(key, yaml.ScalarNode) else ""
            if word not in known:
                raise self._fault(key, f"unknown key {word[:64]!r}: known are {', '.join(sorted(known))}")
            if word in fields:
                raise self._fault(key, f"{word} occurs twice")
            fields[word] = value
        return fields

    def _items(self, node: yaml.Node | None) -> list[yaml.Node]:
        if node is None or _is_null(node):
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise self._fault(node, "write a list here, each item after a dash")
        return list(node.value)

    def _text(self, node: yaml.Node | None) -> str | None:
        if node is None or _is_null(node):
            return None
        if not isinstance(node, yaml.ScalarNode):
            raise self._fault(node, "write a single text here")
        return str(node.value)

    def _at(self, node: yaml.Node, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except ConfigError as error:
            raise self._fault(node, str(error)) from None

    def _fault(self, node: yaml.Node, text: str) -> ConfigError:
        return ConfigError(f"{self._name}:{node.start_mark.line + 1}: {text}")


_ENTRY_KEYS = frozenset({"accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm",
                         "defaultGroupPerm", "topicPerms", "groupPerms"})


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and str(node.tag) == "tag:yaml.org,2002:null"
