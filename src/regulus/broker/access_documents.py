"""What the broker's handlers ask of whoever keeps the accounts: the server has the files."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from regulus.access.plain_acl import AccountEntry
from regulus.model.topics import DataVersion


class AccessDocuments(Protocol):
    """What changes is on disk, and holds, when a call returns. All but `versions` raise ConfigError for what cannot be
    done, StoreError for what cannot be saved."""

    def update_account(self, entry: AccountEntry, now_ms: int) -> None: ...

    def delete_account(self, access_key: str, now_ms: int) -> None: ...

    def update_white_addresses(self, patterns: Sequence[str], path: str | None, now_ms: int) -> None: ...

    def versions(self) -> tuple[DataVersion, Mapping[str, DataVersion]]:
        """Of the main document, and of each by its path."""
