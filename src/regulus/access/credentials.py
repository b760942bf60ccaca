"""How a broker signs its own requests, and what the settings of a door must be.

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
"""What is shown in place of a secret."""
_SECRETS = ("innerClientAuthenticationCredentials",)


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key: str
    secret_key: str = field(repr=False)

    def account(self) -> Account:
        """Brokers of one cluster may ask each other anything."""
        return Account(access_key=self.access_key, secret_key=self.secret_key, admin=True,
                       white_addresses=WhiteAddresses())


def parse_credentials(text: str) -> Credentials | None:
    """None of an empty text. Raises ConfigError, which does not show the text."""
    if not text.strip():
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or not all(isinstance(values.get(key), str) for key in ("accessKey", "secretKey")):
        raise ConfigError('innerClientAuthenticationCredentials cannot be read: write {"accessKey":"...",'
                          '"secretKey":"..."}')
    credentials = Credentials(values["accessKey"], values["secretKey"])
    try:
        check_keys(credentials.access_key, credentials.secret_key)
    except ConfigError as error:
        raise ConfigError(f"innerClientAuthenticationCredentials: {error}") from None
    return credentials


def made_credentials(chance: bytes) -> str:
    """The text of credentials that nobody could guess who does not know the chance."""
    return json.dumps({"accessKey": f"inner-{chance[:4].hex()}", "secretKey": chance[4:].hex()})


def sign_as(request: RemotingCommand, credentials: Credentials | None) -> None:
    """Nothing without credentials. All other fields are set by now."""
    if credentials is not None:
        sign(request, credentials.access_key, credentials.secret_key)


def shown_values(config: "DataclassInstance") -> dict[str, str]:
    """All settings, with no secret among them."""
    values = config_values(config)
    return values | {key: HIDDEN for key in _SECRETS if values.get(key)}


def check_access(acl_enable: bool, home: str, inner: str) -> None:
    """Raises ConfigError."""
    parse_credentials(inner)
    if acl_enable and not home:
        raise ConfigError("aclEnable=true, and rocketmqHome is empty: set it to the folder whose "
                          "conf/plain_acl.yml has the accounts")
