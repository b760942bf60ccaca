"""The accounts of `plain_acl.yml`, and the words that grant permissions.

Source: PlainAccessConfig, PlainAccessResource, Permission.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag

from regulus.access.white_addresses import WhiteAddresses
from regulus.errors import ConfigError
from regulus.model.topics import RETRY_PREFIX

KEY_LENGTH_MIN = 7
"""The minimum number of characters of an access key and a secret key. Source: AclConstants.ACCESS_KEY_MIN_LENGTH."""
KEY_LENGTH_MAX = 1024


class Grant(IntFlag):
    """Permissions of an account. DENY together with others denies. Source: Permission."""

    NOTHING = 0
    DENY = 1
    PUB = 4
    SUB = 8


_WORDS = {"DENY": Grant.DENY, "PUB": Grant.PUB, "SUB": Grant.SUB, "PUB|SUB": Grant.PUB | Grant.SUB,
          "SUB|PUB": Grant.PUB | Grant.SUB}


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account; the keys of `groups` are plain names of groups."""

    access_key: str
    secret_key: str = field(repr=False)
    white_addresses: WhiteAddresses
    admin: bool = False
    default_topic: Grant = Grant.DENY
    default_group: Grant = Grant.DENY
    topics: Mapping[str, Grant] = field(default_factory=dict)
    groups: Mapping[str, Grant] = field(default_factory=dict)


def check_keys(access_key: str, secret_key: str) -> None:
    """Raises ConfigError, whose text does not show the secret."""
    for name, key in (("accessKey", access_key), ("secretKey", secret_key)):
        if not KEY_LENGTH_MIN <= len(key) <= KEY_LENGTH_MAX:
            of = f" of {access_key[:KEY_LENGTH_MAX]!r}" if name == "secretKey" else ""
            raise ConfigError(f"the {name}{of} has {len(key)} characters: write {KEY_LENGTH_MIN} to {KEY_LENGTH_MAX}")


def parse_default(word: str | None) -> Grant:
    """DENY when nothing is written. Raises ConfigError for an unknown word, which RocketMQ takes for DENY."""
    return Grant.DENY if word is None else _parse_word(word)


def parse_grants(entries: Iterable[str]) -> dict[str, Grant]:
    """Entries `name=PERM`. If a name occurs twice, both entries count, and a DENY wins. Raises ConfigError."""
    grants: dict[str, Grant] = {}
    for entry in entries:
        name, equals, word = (part.strip() for part in entry.partition("="))
        if not equals or not name or "=" in word:
            raise ConfigError(f"{entry!r} is not a permission: write name=PERM, such as topicA=SUB")
        grants[name] = grants.get(name, Grant.NOTHING) | _parse_word(word)
    return grants


def parse_group_grants(entries: Iterable[str]) -> dict[str, Grant]:
    return {name.removeprefix(RETRY_PREFIX): grant for name, grant in parse_grants(entries).items()}


def _parse_word(word: str) -> Grant:
    grant = _WORDS.get(word.strip())
    if grant is None:
        raise ConfigError(f"{word!r} is not a permission: write PUB, SUB, PUB|SUB or DENY")
    return grant
