"""JSON documents, in a store `config/<name>.json`, each with its previous content next to it as `.bak`.

A document is replaced as a whole; the earlier file is not copied, but renamed to `.bak`. A document that is missing,
empty or cut short is read from its `.bak`. The content is not interpreted here: a document is text that closes every
bracket it opens, after removing what people add in an editor.

Source: ConfigManager.load, MixAll.string2File.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from regulus.errors import StoreDamaged, StoreError
from regulus.store import disk

NESTING_MAX = 64
"""The maximum depth of brackets in a document; real ones have 5."""
PRIVATE = frozenset({"regulusAccess"})
"""Documents with secrets, which other users of the machine cannot read."""
_WHOLE_NAMES = frozenset({"timermetrics"})
"""Documents whose files have no suffix in RocketMQ."""
_MODE, _PRIVATE_MODE = 0o644, 0o600

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_COMMENT = re.compile(rf"({_STRING.pattern})|/\*.*?\*/|//[^\r\n]*", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_STRING.pattern})|,(?=\s*[}}\]])", re.DOTALL)
_MAY_BE_LAST = re.compile(r",\s*[}\]]")
_OTHER = re.compile(r"[^][{}\"]+")


class JsonFiles:
    """The documents in a folder; `suffix` ends the names of their files."""

    def __init__(self, directory: Path, suffix: str = ".json") -> None:
        self._directory = directory
        self._suffix = suffix
        self._whole: set[str] = set()
        """Names of the documents that are known to be whole on disk, because they were read or written so."""
        self.warnings: list[str] = []
        """One line for each document that had to be read from its `.bak`, for the log."""

    def load(self, name: str) -> str | None:
        """The text, from the `.bak` when the document is not whole; None when there is neither. Raises StoreDamaged
        when neither of the existing files is whole."""
        path = self._path(name)
        text = _whole_text(disk.read_file(path))
        if text is not None:
            self._whole.add(name)
            return text
        self._whole.discard(name)
        backup = path.with_name(path.name + ".bak")
        text = _whole_text(disk.read_file(backup))
        if text is not None:
            self._warn(f"{path} is missing or not a whole JSON document; read {backup.name} instead")
        elif disk.read_file(path) or disk.read_file(backup):
            raise StoreDamaged(f"{path} is not a whole JSON document, and there is no {backup.name} that is: bring "
                               "one of them back from a backup; or, to continue without their content, move both away")
        return text

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def save(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a document given in pieces. Raises StoreNotWritable; then the existing document is unchanged."""
        path = self._path(name)
        disk.make_directory(self._directory)
        # A damaged document must not push a good one out of the .bak.
        backup = path.with_name(path.name + ".bak") if name in self._whole else None
        mode = _PRIVATE_MODE if name in PRIVATE else _MODE
        disk.write_file(path, pieces, backup, mode)
        self._whole.add(name)

    def _path(self, name: str) -> Path:
        if not name or "/" in name or name.startswith("."):
            raise StoreError(f"{name!r} is not a name for a document of the store")
        return self._directory / (name if name in _WHOLE_NAMES else name + self._suffix)


def _whole_text(data: bytes | None) -> str | None:
    if not data:
        return None
    try:
        text = _without_what_hands_add(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return None
    return text if _is_whole(text) else None


def _without_what_hands_add(text: str) -> str:
    """The text without comments, and without commas after the last member: fastjson skips both."""
    if "//" in text or "/*" in text:
        text = _COMMENT.sub(_kept_string, text)
    if _MAY_BE_LAST.search(text):
        text = _LAST_COMMA.sub(_kept_string, text)
    return text


def _kept_string(found: re.Match[str]) -> str:
    return found[1] or ""


def _is_whole(text: str) -> bool:
    """Whether the text is one object or array and closes everything it opens. Unquoted keys, as Java writes them, are
    allowed."""
    brackets = _OTHER.sub("", _STRING.sub("", text))
    if text.lstrip()[:1] not in ("{", "["):
        return False
    for _ in range(NESTING_MAX):
        if not brackets:
            return True
        brackets = brackets.replace("{}", "").replace("[]", "")
    return not brackets
