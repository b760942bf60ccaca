"""Changes of accounts that handlers ask for. The server implements them, because it has the files."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from regulus.access.plain_acl import AccountEntry
from regulus.model.topics import DataVersion


class AccessDocuments(Protocol):
    """A change is on disk, and applies, when its call returns. All calls except `versions` raise ConfigError for an
    invalid change, and StoreError if it cannot be saved."""

    def update_account(self, entry: AccountEntry, now_ms: int) -> None: ...

    def delete_account(self, access_key: str, now_ms: int) -> None: ...

    def update_white_addresses(self, patterns: Sequence[str], path: str | None, now_ms: int) -> None: ...

    def versions(self) -> tuple[DataVersion, Mapping[str, DataVersion]]:
        """The version of the main document, and those of all documents by path."""
