"""The key-value configuration of a name server: namespace -> key -> value, kept as one document.

Source: KVConfigManager, KVConfigSerializeWrapper.
"""

from regulus.errors import HeaderError
from regulus.wire import fastjson
from regulus.wire.encoded_table import LatePieces

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of the ordered topics: topic -> `broker-a:4;broker-b:4`."""


class KvConfig:
    """The table; `changes` counts changes, for saving."""

    def __init__(self) -> None:
        self._table: dict[str, dict[str, str]] = {}
        self.changes = 0

    def put(self, namespace: str, key: str, value: str) -> None:
        self._table.setdefault(namespace, {})[key] = value
        self.changes += 1

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Delete a key; nothing happens if it is absent."""
        if self._table.get(namespace, {}).pop(key, None) is not None:
            self.changes += 1

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """A copy of one namespace; None when it never had a key."""
        table = self._table.get(namespace)
        return None if table is None else dict(table)

    def document(self) -> LatePieces:
        """The whole table as it is now, encoded during iteration."""
        return _written({namespace: dict(entries) for namespace, entries in self._table.items()})

    def load_document(self, text: str) -> None:
        """Raises HeaderError when the text is not such a document."""
        document = fastjson.loads(text)
        table = document.get("configTable", {}) if isinstance(document, dict) else None
        if not isinstance(table, dict) or not all(isinstance(entries, dict) for entries in table.values()):
            raise HeaderError("the key-value configuration is not an object of objects under configTable")
        self._table = {str(namespace): {str(key): str(value) for key, value in entries.items()}
                       for namespace, entries in table.items()}


def _written(table: dict[str, dict[str, str]]) -> LatePieces:
    yield (fastjson.dumps_pretty({"configTable": table}).encode("utf-8", "replace"),)
