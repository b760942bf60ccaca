"""The accounts of a broker or name server, in files: read at the start and whenever one has changed.

    <rocketmqHome>/conf/acl/**/*.yml|yaml   accounts; for a key that is in two files, the first file counts
    <rocketmqHome>/conf/plain_acl.yml       the last one, to which new accounts are written

A file that cannot be read stops a start. Later all accounts in force stay in force, and the log names file and line,
because half of a change is another set of permissions. For the same reason files are read only when none of them has
changed between two checks: the first half of a file may lack the DENY that is in its second half.

Source: PlainPermissionManager, AclFileWatchService.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, NamedTuple

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
"""ms between two checks of the files."""
FILES_MAX = 64
_SECRET_MODE = 0o600
_SUFFIXES = frozenset({".yml", ".yaml"})

Seen = dict[Path, tuple[int, int, int]]
"""By path: when the file was changed (ns), its size, and its identity."""


class _Contents(NamedTuple):
    """The accounts that were read, and the state of the files at that time."""

    seen: Seen
    documents: Mapping[Path, PlainAcl]
    rules: PlainRules


class _Here(Executor):
    """An executor that runs everything at once, for callers that have nothing else to do meanwhile."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except ConfigError as error:
            future.set_exception(error)
        return future


class AccessFiles:
    """The accounts. Raises ConfigError, with file and line, when they cannot be read. `inner` is an additional account.

    `reader` checks the files and reads them after the start: 5,000 accounts take a second.
    """

    def __init__(self, home: str, inner: Credentials | None, reader: Executor | None = None) -> None:
        root = Path(home).expanduser().absolute() / "conf"
        self._main = root / "plain_acl.yml"
        self._folder = root / "acl"
        self._inner = inner
        self._reader = reader or _Here()
        self._reading: Future[tuple[Seen, _Contents | None]] | None = None
        self._next_ms = 0
        self._told = ""
        self._looked = self._look()
        self._contents = self._load(self._looked, None)

    @property
    def rules(self) -> PlainRules:
        return self._contents.rules

    def tick(self, steady_ms: int) -> None:
        """Start a check in `reader`, once in LOOK_INTERVAL_MS; the cost does not depend on the files."""
        if self._reading is None and steady_ms >= self._next_ms:
            self._next_ms = steady_ms + LOOK_INTERVAL_MS
            self._reading = self._reader.submit(self._look_again, self._looked, self._contents)
        if self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            self._take(reading)

    def _take(self, reading: "Future[tuple[Seen, _Contents | None]]") -> None:
        try:
            self._looked, contents = reading.result()
        except ConfigError as error:
            if str(error) != self._told:
                _log.error("accounts stay as they were: %s", error)
            self._told = str(error)
            return
        if contents is not None:
            self._contents, self._told = contents, ""
            _log.info("accounts are read again from %s", ", ".join(map(str, contents.seen)))

    def _look_again(self, looked: Seen, contents: _Contents) -> tuple[Seen, _Contents | None]:
        """The state of the files, and their content when it is new and not being written. Raises ConfigError."""
        seen = self._look()
        if seen == contents.seen or seen != looked:
            return seen, None
        found = self._load(seen, contents)
        seen = self._look()
        return seen, found if seen == found.seen else None

    # --- AccessDocuments ---------------------------------------------------------------------------------------------

    def update_account(self, entry: AccountEntry, now_ms: int) -> None:
        if self._inner is not None and entry.access_key == self._inner.access_key:
            raise ConfigError(f"{entry.access_key} is how brokers sign (innerClientAuthenticationCredentials), and no "
                              "account of a file: take another accessKey")
        path = self._path_of(entry.access_key) or self._main
        self._save(path, self._contents.documents.get(path, PlainAcl()).with_account(entry, now_ms))

    def delete_account(self, access_key: str, now_ms: int) -> None:
        path = self._path_of(access_key)
        if path is None:
            raise ConfigError(f"there is no account {access_key}")
        self._save(path, self._contents.documents[path].without_account(access_key, now_ms))

    def update_white_addresses(self, patterns: Sequence[str], path: str | None, now_ms: int) -> None:
        """`path` comes from a peer: it must be a file whose accounts are in force."""
        target, documents = Path(path) if path else self._main, self._contents.documents
        if target != self._main and target not in documents:
            raise ConfigError(f"{target} is not a file of accounts: they are in {', '.join(map(str, documents))}")
        self._save(target, documents.get(target, PlainAcl()).with_white_addresses(patterns, now_ms))

    def versions(self) -> tuple[DataVersion, Mapping[str, DataVersion]]:
        by_path = {str(path): _version(acl) for path, acl in self._contents.documents.items()}
        return by_path.get(str(self._main), DataVersion()), by_path

    def _path_of(self, access_key: str) -> Path | None:
        return next((path for path, acl in self._contents.documents.items()
                     if any(entry.access_key == access_key for entry in acl.accounts)), None)

    def _save(self, path: Path, acl: PlainAcl) -> None:
        """Save a file. Other changes to the files since the last check are read, and kept, first."""
        if self._look() != self._contents.seen:
            self._next_ms = 0
            raise ConfigError("the files of accounts have just been changed by somebody else: ask again in a second")
        text = plain_acl.dump(acl).encode()
        if len(text) > plain_acl.DOCUMENT_SIZE_MAX:
            raise ConfigError(f"{path} would have {len(text)} bytes; {plain_acl.DOCUMENT_SIZE_MAX} are the most")
        disk.write_file(path, text, mode=_SECRET_MODE)
        self._looked = self._look()
        self._contents = self._load(self._looked, self._contents)
        self._reading = None        # it began before, and would bring back the earlier accounts

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
        """The files, in the order in which an account counts."""
        yield from sorted(path for path in self._folder.rglob("*") if path.suffix in _SUFFIXES)
        if self._main.exists():
            yield self._main

    def _load(self, seen: Seen, before: _Contents | None) -> _Contents:
        """Read all files that have changed, or none. Raises ConfigError."""
        documents = {path: before.documents[path] if before is not None and before.seen.get(path) == stamp
                     else _read(path) for path, stamp in seen.items()}
        accounts: dict[str, Account] = {}
        for path, acl in documents.items():
            for entry in acl.accounts:
                if entry.access_key in accounts:
                    _log.warning("%s: the account %s is in an earlier file, too, which counts", path,
                                 entry.access_key)
                else:
                    accounts[entry.access_key] = entry.account()
        if self._inner is not None:
            accounts[self._inner.access_key] = self._inner.account()
        if not accounts:
            _log.warning("there is no account in %s: only globalWhiteRemoteAddresses have access", self._main)
        white = WhiteAddresses([pattern for acl in documents.values() for pattern in acl.white_addresses])
        return _Contents(seen, documents, PlainRules(white, accounts))


def accounts_of(home: str, inner: str, reader: Executor | None = None) -> AccessFiles:
    """The accounts for these settings. Raises ConfigError."""
    return AccessFiles(home, parse_credentials(inner), reader)


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
