"""Finds the keys with which a task signs its requests, and its TLS settings, on the machine where the task runs.

An option has only the place, `env:NAME` or `file:/path`, so that no plan, log or checkpoint has a key. The text at that
place has both keys, on separate lines or with `;` between them, as RocketMQ's tools write them:

    accessKey: reader
    secretKey: 12345678
    tls.client.trustCertPath: /etc/regulus/ca.pem

A line that begins with `tls.` switches TLS on. The keys may be missing, and so may the lines of TLS.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from regulus.errors import ConfigError, OptionError
from regulus.transport.tls import PLAIN, TlsConfig
from regulus.wire.config_text import with_values

ENVIRONMENT_PREFIX = "env:"
FILE_PREFIX = "file:"
CREDENTIALS_SIZE_MAX = 64 << 10     # bytes; a larger file does not hold credentials
_PAIR = re.compile(r"^\s*(accessKey|secretKey|tls\.[\w.]+)\s*[:=]\s*(\S.*?)\s*$", re.MULTILINE)


class Credentials(NamedTuple):
    access_key: str
    secret_key: str
    tls: TlsConfig = PLAIN

    def __repr__(self) -> str:
        """Without the secret, so that no log shows it."""
        return f"Credentials({self.access_key!r}, ***)"


class Keyed(Protocol):
    """Options that may name keys, or the place of keys."""

    @property
    def access_key(self) -> str: ...

    @property
    def secret_key(self) -> str: ...

    @property
    def credentials(self) -> str: ...


def credentials_of(options: Keyed, environment: Mapping[str, str]) -> Credentials:
    """The keys of a read or a write, empty if it has none. Raises OptionError like `resolve`."""
    if options.access_key:
        return Credentials(options.access_key, options.secret_key)
    return resolve(options.credentials, environment)


def resolve(place: str, environment: Mapping[str, str]) -> Credentials:
    """The keys at `place`; none if it is empty. Raises OptionError that names the place, but never its content."""
    if not place:
        return Credentials("", "")
    if place.startswith(ENVIRONMENT_PREFIX):
        name = place.removeprefix(ENVIRONMENT_PREFIX)
        text = environment.get(name, "")
        if not text:
            raise OptionError(f"option 'credentials' is {place!r}, and the environment of this task has no {name}: set "
                              f"it on the executors, with --conf spark.executorEnv.{name}=... or as a secret")
    elif place.startswith(FILE_PREFIX):
        text = _read(place, Path(place.removeprefix(FILE_PREFIX)))
    else:
        raise OptionError(f"option 'credentials' must be {ENVIRONMENT_PREFIX}NAME or {FILE_PREFIX}/path")
    keys = dict(_PAIR.findall(text.replace(";", "\n")))
    tls = _tls(place, {name: value for name, value in keys.items() if name.startswith("tls.")})
    if tls.tls_enable and not {"accessKey", "secretKey"} & set(keys):
        return Credentials("", "", tls)
    missing = sorted({"accessKey", "secretKey"} - set(keys))
    if missing:
        raise OptionError(f"option 'credentials' is {place!r}, and there is no {missing[0]} in it: write "
                          "'accessKey: ...' and 'secretKey: ...', each in a line of its own")
    return Credentials(keys["accessKey"], keys["secretKey"], tls)


def _tls(place: str, values: Mapping[str, str]) -> TlsConfig:
    if not values:
        return PLAIN
    try:
        return with_values(TlsConfig(), {"tls.enable": "true", **values})
    except ConfigError as error:
        raise OptionError(f"option 'credentials' is {place!r}, and there: {error}") from error


def _read(place: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(CREDENTIALS_SIZE_MAX).decode("utf-8", "replace")
    except OSError as error:
        raise OptionError(f"option 'credentials' is {place!r}, which cannot be read on this executor "
                          f"({error.strerror}): mount the file there") from error
