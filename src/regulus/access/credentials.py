"""How a broker signs its own requests, and the checks of access settings.

Source: AuthConfig.innerClientAuthenticationCredentials, SessionCredentials.
"""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regulus.access.accounts import Account, check_keys
from regulus.access.white_addresses import WhiteAddresses
from regulus.errors import ConfigError
from regulus.wire.acl_signature import sign
from regulus.wire.config_text import config_values
from regulus.wire.remoting_command import RemotingCommand

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

HIDDEN = "******"
"""Shown in place of a secret."""
_SECRETS = ("innerClientAuthenticationCredentials", "initAuthenticationUser")


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key: str
    secret_key: str = field(repr=False)

    def account(self) -> Account:
        """An account without limits: brokers of one cluster may send each other any request."""
        return Account(access_key=self.access_key, secret_key=self.secret_key, admin=True,
                       white_addresses=WhiteAddresses())


def parse_credentials(text: str) -> Credentials | None:
    """The value of `innerClientAuthenticationCredentials`; None for an empty text. Raises ConfigError, whose text does
    not show the input."""
    credentials = _pair(text, "innerClientAuthenticationCredentials", "accessKey", "secretKey")
    if credentials is not None:
        try:
            check_keys(credentials.access_key, credentials.secret_key)
        except ConfigError as error:
            raise ConfigError(f"innerClientAuthenticationCredentials: {error}") from None
    return credentials


def parse_init_user(text: str) -> Credentials | None:
    """The value of `initAuthenticationUser`; None for an empty text. Raises ConfigError, whose text does not show the
    input."""
    user = _pair(text, "initAuthenticationUser", "username", "password")
    if user is not None and not (user.access_key.strip() and user.secret_key.strip()):
        raise ConfigError("initAuthenticationUser has an empty username or password")
    return user


def _pair(text: str, setting: str, access: str, secret: str) -> Credentials | None:
    if not text.strip():
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or not all(isinstance(values.get(key), str) for key in (access, secret)):
        raise ConfigError(f'{setting} cannot be read: write {{"{access}":"...","{secret}":"..."}}')
    return Credentials(values[access], values[secret])


def parse_codes(text: str) -> frozenset[int]:
    """Request codes separated by commas. Raises ConfigError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    wrong = [word for word in words if not word.isdecimal()]
    if wrong:
        raise ConfigError(f"{wrong[0]!r} on a white list is not a request code: write numbers with commas between them")
    return frozenset(map(int, words))


def made_credentials(chance: bytes) -> str:
    """The text of new credentials, which cannot be guessed without knowing `chance`."""
    return json.dumps({"accessKey": f"inner-{chance[:4].hex()}", "secretKey": chance[4:].hex()})


def sign_as(request: RemotingCommand, credentials: Credentials | None) -> None:
    """Sign a request; does nothing without credentials. All other fields must be set before."""
    if credentials is not None:
        sign(request, credentials.access_key, credentials.secret_key)


def shown_values(config: "DataclassInstance") -> dict[str, str]:
    """All settings, with the secrets hidden."""
    values = config_values(config)
    return values | {key: HIDDEN for key in _SECRETS if values.get(key)}


def check_access(acl_enable: bool, home: str, inner: str) -> None:
    """Raises ConfigError for settings of ACL 1.0 that contradict each other."""
    parse_credentials(inner)
    if acl_enable and not home:
        raise ConfigError("aclEnable=true, and rocketmqHome is empty: set it to the folder whose "
                          "conf/plain_acl.yml has the accounts")


def check_users(authenticates: bool, authorizes: bool, acl_enable: bool, init_user: str, *white_lists: str) -> None:
    """Raises ConfigError for settings of ACL 2.0 that contradict each other."""
    parse_init_user(init_user)
    for white_list in white_lists:
        parse_codes(white_list)
    if authenticates and acl_enable:
        raise ConfigError("aclEnable and authenticationEnabled are both true: requests are checked by accounts or by "
                          "users, set one of them")
    if authorizes and not authenticates:
        raise ConfigError("authorizationEnabled=true without authenticationEnabled=true would believe any name: set "
                          "both")
