"""The JSON documents of a store, `config/<name>.json`, each with its previous content beside it as `.bak`.

A document is replaced as a whole. One that is missing, empty or cut short is read from its `.bak`. What a document says
is none of our business here: it is text that closes every bracket it opens.

Source: ConfigManager.load, MixAll.string2File.
"""

from pathlib import Path

from regulus.errors import StoreError
from regulus.store import disk

_OPENING = {"{": "}", "[": "]"}


class JsonFiles:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.warnings: list[str] = []
        """One line for each document that had to be read from its `.bak`, for the log."""

    def load(self, name: str) -> str | None:
        """The text; None when neither the document nor its `.bak` is there whole."""
        path = self._path(name)
        text = _whole_text(disk.read_file(path))
        if text is not None:
            return text
        backup = path.with_name(path.name + ".bak")
        text = _whole_text(disk.read_file(backup))
        if text is not None:
            self._warn(f"{path} is missing, empty or cut short; read {backup.name} instead")
        elif disk.exists(path) or disk.exists(backup):
            self._warn(f"{path} and {backup.name} are both damaged; starting without them")
        return text

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def save(self, name: str, text: str) -> None:
        """Raises StoreNotWritable; the document that was there is untouched then."""
        path = self._path(name)
        disk.make_directory(self._directory)
        previous = disk.read_file(path)
        # A damaged document must not push a good one out of the .bak.
        if previous is not None and _whole_text(previous) is not None:
            disk.write_file(path.with_name(path.name + ".bak"), previous)
        disk.write_file(path, text.encode())

    def _path(self, name: str) -> Path:
        if not name or "/" in name or name.startswith("."):
            raise StoreError(f"{name!r} is no name for a document of the store")
        return self._directory / f"{name}.json"


def _whole_text(data: bytes | None) -> str | None:
    if not data:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if _is_whole(text) else None


def _is_whole(text: str) -> bool:
    """Whether the text is one object or array and closes all it opens. Unquoted keys, as Java writes them, are fine."""
    expected: list[str] = []
    in_string = escaped = False
    text = text.strip()
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in _OPENING:
            expected.append(_OPENING[character])
        elif character in "}]" and (not expected or expected.pop() != character):
            return False
    return text[:1] in _OPENING and not expected and not in_string
