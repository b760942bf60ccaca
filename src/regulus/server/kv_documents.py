"""The persistent state of a name server for the keeper of documents: the key-value configuration, in its own file."""

from collections.abc import Iterable
from pathlib import Path

from regulus.broker.kept_parts import KeptPart, When
from regulus.broker.settings_changes import SettingsChanges
from regulus.nameserver.kv_config import KvConfig
from regulus.store.json_file import JsonFiles


class KvDocuments:
    """The document. `warnings` has a line when the `.bak` was read instead.

    Raises StoreDamaged when what was saved is not whole any more, HeaderError when it is something else.
    """

    def __init__(self, path: Path, kv_config: KvConfig) -> None:
        self._files = JsonFiles(path.parent, suffix="")     # the file has exactly the given name
        text = self._files.load(path.name)
        self.warnings = self._files.warnings
        if text is not None:
            kv_config.load_document(text)
        self._kv_config = kv_config
        self.settings = SettingsChanges()
        self.kept_parts = (KeptPart(name=path.name, part=kv_config, when=When.AT_ONCE, load=kv_config.load_document,
                                    saved=kv_config.changes),)
        self.note_changes()

    def note_changes(self) -> bool:
        """Take over the number of changes; returns whether there were any since the last call."""
        before, self.settings.count = self.settings.count, self._kv_config.changes
        return self.settings.count != before

    def settings_saved(self, count: int) -> None:
        self.settings.saved = count

    def save_config(self, name: str, pieces: Iterable[bytes]) -> None:
        """Raises StoreNotWritable."""
        self._files.save(name, pieces)

    def flush_commit_log(self) -> int:
        raise AssertionError("nothing of a name server speaks of a log")
