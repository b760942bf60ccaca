"""The accounts of a broker or name server, in files: read at the start and whenever one has changed.

    <rocketmqHome>/conf/acl/**/*.yml|yaml   accounts; a key that stands in two files counts in the first
    <rocketmqHome>/conf/plain_acl.yml       the last one, to which new accounts are written

A file that cannot be read stops a start. Later the accounts that held go on to hold, all of them, and the log names
file and line: half of a change is another set of permissions.

Source: PlainPermissionManager, AclFileWatchService.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from regulus.access import plain_acl
from regulus.access.accounts import Account
from regulus.access.credentials import Credentials, parse_credentials
from regulus.access.plain_acl import AccountEntry, PlainAcl
from regulus.access.plain_rules import PlainRules
from regulus.access.white_addresses import WhiteAddresses
from regulus.errors import ConfigError, StoreError
from regulus.model.topics import DataVersion
from regulus.store import disk

_log = logging.getLogger(__name__)

LOOK_INTERVAL_MS = 1_000
"""Between two looks at the files."""
FILES_MAX = 64
_SECRET_MODE = 0o600
_SUFFIXES = frozenset({".yml", ".yaml"})

Seen = dict[Path, tuple[int, int, int]]
"""By path: when the file was changed (ns), its size, which file it is."""


class AccessFiles:
    """Raises ConfigError, with file and line, when the accounts cannot be read. `inner` is an account beside them."""

    def __init__(self, home: str, inner: Credentials | None) -> None:
        root = Path(home).expanduser().absolute() / "conf"
        self._main = root / "plain_acl.yml"
        self._folder = root / "acl"
        self._inner = inner
        self._next_ms = 0
        self._seen: Seen = {}
        self._told = ""
        self._documents: dict[Path, PlainAcl] = {}
        self.rules = self._load(self._look())

    def tick(self, steady_ms: int) -> None:
        """Costs as many questions to the system as there are files, once in LOOK_INTERVAL_MS."""
        if steady_ms < self._next_ms:
            return
        self._next_ms = steady_ms + LOOK_INTERVAL_MS
        try:
            seen = self._look()
            if seen == self._seen:
                return
            self.rules = self._load(seen)
        except ConfigError as error:
            if str(error) != self._told:
                _log.error("accounts stay as they were: %s", error)
            self._told = str(error)
        else:
            self._told = ""
            _log.info("accounts are read anew from %s", ", ".join(map(str, seen)))

    # --- AccessDocuments ---------------------------------------------------------------------------------------------

    def update_account(self, entry: AccountEntry, now_ms: int) -> None:
        if self._inner is not None and entry.access_key == self._inner.access_key:
            raise ConfigError(f"{entry.access_key} is how brokers sign (innerClientAuthenticationCredentials), and no "
                              "account of a file: take another accessKey")
        path = self._path_of(entry.access_key) or self._main
        self._save(path, self._documents.get(path, PlainAcl()).with_account(entry, now_ms))

    def delete_account(self, access_key: str, now_ms: int) -> None:
        path = self._path_of(access_key)
        if path is None:
            raise ConfigError(f"there is no account {access_key}")
        self._save(path, self._documents[path].without_account(access_key, now_ms))

    def update_white_addresses(self, patterns: Sequence[str], path: str | None, now_ms: int) -> None:
        """`path` comes from a peer: it must be that of a file whose accounts hold."""
        target = Path(path) if path else self._main
        if target != self._main and target not in self._documents:
            raise ConfigError(f"{target} is no file of accounts: they stand in {', '.join(map(str, self._documents))}")
        self._save(target, self._documents.get(target, PlainAcl()).with_white_addresses(patterns, now_ms))

    def versions(self) -> tuple[DataVersion, Mapping[str, DataVersion]]:
        by_path = {str(path): _version(acl) for path, acl in self._documents.items()}
        return by_path.get(str(self._main), DataVersion()), by_path

    def _path_of(self, access_key: str) -> Path | None:
        return next((path for path, acl in self._documents.items()
                     if any(entry.access_key == access_key for entry in acl.accounts)), None)

    def _save(self, path: Path, acl: PlainAcl) -> None:
        """Other changes to the files since the last look are seen, and kept, first."""
        if self._look() != self._seen:
            self._next_ms = 0
            raise ConfigError("the files of accounts have just been changed by somebody else: ask again in a second")
        text = plain_acl.dump(acl).encode()
        if len(text) > plain_acl.DOCUMENT_SIZE_MAX:
            raise ConfigError(f"{path} would have {len(text)} bytes; {plain_acl.DOCUMENT_SIZE_MAX} are the most")
        disk.write_file(path, text, mode=_SECRET_MODE)
        self.rules = self._load(self._look())

    # --- reading -----------------------------------------------------------------------------------------------------

    def _look(self) -> Seen:
        """Raises ConfigError."""
        seen: Seen = {}
        try:
            for path in self._paths():
                if len(seen) == FILES_MAX:
                    raise ConfigError(f"{self._folder} has more than {FILES_MAX} files: join some")
                facts = path.stat()
                seen[path] = facts.st_mtime_ns, facts.st_size, facts.st_ino
        except OSError as error:
            raise ConfigError(f"accounts cannot be looked at: {error.filename}: {error.strerror}") from error
        return seen

    def _paths(self) -> Iterator[Path]:
        """In the order in which an account counts."""
        yield from sorted(path for path in self._folder.rglob("*") if path.suffix in _SUFFIXES)
        if self._main.exists():
            yield self._main

    def _load(self, seen: Seen) -> PlainRules:
        """All anew, or nothing. Raises ConfigError."""
        documents = {path: _read(path) for path in seen}
        accounts: dict[str, Account] = {}
        for path, acl in documents.items():
            for entry in acl.accounts:
                if entry.access_key in accounts:
                    _log.warning("%s: the account %s stands in a file before this one, too, and counts there", path,
                                 entry.access_key)
                else:
                    accounts[entry.access_key] = entry.account()
        if self._inner is not None:
            accounts[self._inner.access_key] = self._inner.account()
        if not accounts:
            _log.warning("there is no account in %s: nobody but globalWhiteRemoteAddresses is let in", self._main)
        white = WhiteAddresses([pattern for acl in documents.values() for pattern in acl.white_addresses])
        self._documents, self._seen = documents, seen
        return PlainRules(white, accounts)


def accounts_of(home: str, inner: str) -> AccessFiles:
    """By settings. Raises ConfigError."""
    return AccessFiles(home, parse_credentials(inner))


def _read(path: Path) -> PlainAcl:
    try:
        data = disk.read_file(path)
    except StoreError as error:
        raise ConfigError(str(error)) from error
    if data is None:
        return PlainAcl()
    if len(data) > plain_acl.DOCUMENT_SIZE_MAX:
        raise ConfigError(f"{path} has {len(data)} bytes; {plain_acl.DOCUMENT_SIZE_MAX} are the most")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}:1: this is not UTF-8") from None
    return plain_acl.parse(text, str(path))


def _version(acl: PlainAcl) -> DataVersion:
    return DataVersion(timestamp=acl.timestamp, counter=acl.counter)
