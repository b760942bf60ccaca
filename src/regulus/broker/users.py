"""Users of ACL 2.0 and their policies, as a broker keeps them: one document, saved before a change is answered.

A change makes new rules, which apply from then on: an old secret, or what a policy allowed, is invalid at once.
Policies are deleted with their user. The brokers' own user (`innerClientAuthenticationCredentials`) comes from the
settings: it is Super, is in no document, and cannot be changed.

Source: AuthenticationMetadataManagerImpl, AuthorizationMetadataManagerImpl.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from regulus.access.credentials import Credentials, parse_codes, parse_credentials, parse_init_user
from regulus.access.policies import Policy, PolicyType, Resource, updated, without
from regulus.access.user_rules import Switches, User, UserRules, UserStatus, UserType
from regulus.access.user_words import policies_of, stored, user_of
from regulus.broker.config import BrokerConfig
from regulus.broker.settings_changes import SettingsChanges
from regulus.errors import ConfigError, HeaderError
from regulus.wire.bodies import StoredUsers
from regulus.wire.encoded_table import LatePieces

USERS_MAX = 1_000       # bounds the document, and the rules that each change makes
ENTRIES_MAX = 4_000
"""Entries of all policies together."""
NAME_LENGTH_MAX = 255
SECRET_LENGTH_MAX = 1_024

NOBODY = ("authenticationEnabled is true and there is no user: all requests are refused, "
          "even one that creates the first; set "
          "initAuthenticationUser, which a start creates")


class Users:
    """Users by name. `changes` counts changes, for saving. `rules` are the current ones."""

    def __init__(self, config: BrokerConfig, settings: SettingsChanges) -> None:
        self.is_kept = config.authentication_enabled
        self.changes = 0
        self._switches = Switches(cluster=config.broker_cluster_name, authorizes=config.authorization_enabled,
                                  unauthenticated_codes=parse_codes(config.authentication_whitelist),
                                  unauthorized_codes=parse_codes(config.authorization_whitelist))
        self._inner = parse_credentials(config.inner_client_authentication_credentials)
        self._first = parse_init_user(config.init_authentication_user)
        self._settings = settings
        self._unsaved: dict[str, int] = {}
        self._table: dict[str, User] = {}
        self._make_rules()

    def in_order(self) -> list[User]:
        """Users by name, in the order of its bytes."""
        return sorted(self._table.values(), key=lambda user: user.name.encode())

    def get(self, name: str) -> User | None:
        return self._table.get(name)

    def is_super(self, name: str) -> bool:
        """Whether the name is that of an enabled Super user, or of the brokers' own user."""
        if self._inner is not None and name == self._inner.access_key:
            return True
        user = self._table.get(name)
        return user is not None and user.is_super and user.is_enabled

    def create(self, user: User) -> None:
        """Raises ConfigError."""
        if user.name in self._table:
            raise ConfigError(f"the user {user.name} exists already: change it with updateUser")
        if len(self._table) >= USERS_MAX:
            raise ConfigError(f"there are {USERS_MAX} users already, which are the most: delete one")
        self._check(user)
        self._put(user)

    def update(self, name: str, secret: str | None, kind: UserType | None, status: UserStatus | None) -> None:
        """Change a user; what is None stays. Raises ConfigError."""
        user = self.expect(name)
        changed = replace(user, secret=secret or user.secret, type=kind or user.type, status=status or user.status)
        self._check(changed)
        self._put(changed)

    def delete(self, name: str) -> None:
        """Does nothing when there is no such user."""
        if self._table.pop(name, None) is not None:
            self._changed(name)

    def put_policies(self, name: str, policies: Iterable[Policy]) -> None:
        """Raises ConfigError."""
        user = self.expect(name)
        changed = replace(user, policies=updated(user.policies, policies))
        others = sum(_entries_of(each) for each in self._table.values() if each.name != name)
        if others + _entries_of(changed) > ENTRIES_MAX:
            raise ConfigError(f"all policies would have more than {ENTRIES_MAX} entries, which are the most: use "
                              "prefixes, such as Topic:orders*")
        self._put(changed)

    def delete_policies(self, name: str, kind: PolicyType, resource: Resource | None) -> None:
        """Delete the policies about a resource, or without one all of the user. Raises ConfigError."""
        user = self.expect(name)
        if not user.policies:
            raise ConfigError(f"the user {name} has no policies")
        self._put(replace(user, policies=without(user.policies, kind, resource) if resource is not None else ()))

    def expect(self, name: str) -> User:
        """The user. Raises ConfigError when there is none."""
        user = self._table.get(name)
        if user is None:
            raise ConfigError(f"there is no user {name[:NAME_LENGTH_MAX]}")
        return user

    def begin(self) -> None:
        """After the document is loaded: create the first user (`initAuthenticationUser`), if it does not exist."""
        if self.is_kept and self._first is not None and self._first.access_key not in self._table:
            self._put(User(name=self._first.access_key, secret=self._first.secret_key, type=UserType.SUPER))

    def warnings(self) -> list[str]:
        """A sentence if there are no users, so that all requests are refused."""
        return [NOBODY] if self.is_kept and not self._table else []

    # --- what is saved -----------------------------------------------------------------------------------------------

    def document(self) -> LatePieces:
        return _pieces(dict(self._table))

    def settings_saved(self) -> None:
        self._settings.take_saved(self._unsaved)

    def load(self, text: str) -> None:
        """Take over what was saved. Raises HeaderError."""
        self._table = parse_users(text)
        self._make_rules()

    def follow(self, text: str) -> None:
        """Take over the master's users, and drop all others. Raises HeaderError."""
        table = parse_users(text)
        if table != self._table:
            self._table = table
            self._changed(*table)

    # -----------------------------------------------------------------------------------------------------------------

    def _check(self, user: User) -> None:
        """Raises ConfigError, which does not show the secret."""
        if self._inner is not None and user.name == self._inner.access_key:
            raise ConfigError(f"{user.name} is how brokers sign (innerClientAuthenticationCredentials): take another "
                              "name")
        if not 1 <= len(user.name) <= NAME_LENGTH_MAX or not user.name.isprintable() or user.name != user.name.strip():
            raise ConfigError(f"a user's name has 1 to {NAME_LENGTH_MAX} printable characters, and no blank around it")
        if not user.secret.strip() or len(user.secret) > SECRET_LENGTH_MAX or not user.secret.isprintable():
            raise ConfigError(f"the password of {user.name} cannot be taken: write 1 to {SECRET_LENGTH_MAX} printable "
                              "characters")

    def _put(self, user: User) -> None:
        if user != self._table.get(user.name):
            self._table[user.name] = user
            self._changed(user.name)

    def _changed(self, *names: str) -> None:
        self.changes += 1
        self._settings.next(self._unsaved, *names)
        self._make_rules()

    def _make_rules(self) -> None:
        """Make the current rules; costs a copy of the table."""
        users = dict(self._table)
        if self._inner is not None:
            users[self._inner.access_key] = _inner_user(self._inner)
        self.rules = UserRules(self._switches, users)


def _inner_user(inner: Credentials) -> User:
    return User(name=inner.access_key, secret=inner.secret_key, type=UserType.SUPER)


def _entries_of(user: User) -> int:
    return sum(len(policy.entries) for policy in user.policies)


def _pieces(table: Mapping[str, User]) -> LatePieces:
    """The document, one user at a time, for a worker that encodes it."""
    yield (b'{"users":[',)
    for place, user in enumerate(table.values()):
        yield (b",\n" if place else b"\n", stored(user).encode())
    yield (b"\n]}",)


def parse_users(text: str) -> dict[str, User]:
    """The users of a document, by name. Raises HeaderError."""
    table: dict[str, User] = {}
    for each in StoredUsers.decode(text.encode()).users:
        try:
            table[each.username] = replace(user_of(each), policies=policies_of(each.policies))
        except ConfigError as error:
            raise HeaderError(f"the user {each.username} cannot be read: {error}") from error
    return table
