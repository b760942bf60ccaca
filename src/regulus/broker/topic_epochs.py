"""Numbers topics, to distinguish those that were created under the same name one after the other.

A topic that is deleted and created again begins at queue offset 0; a remembered offset of the earlier one would be used
in another topic. The number of a topic is the time of its creation in ms, or one more than the last number. A topic
from before there were numbers has 0.

The names of topics that were deleted and not created again are kept as well, so that messages that wait for such a
topic are dropped. A topic that is merely unknown, because its document was lost or has not reached a slave, is not
among them.
"""

from regulus.errors import HeaderError
from regulus.wire import encoded_table, fastjson
from regulus.wire.encoded_table import EncodedTable, Pieces

_KEY = "topicEpochs"
_DELETED_KEY = "deletedTopics"
DELETED_MAX = 4_096
"""Names of deleted topics. Beyond the limit the oldest is forgotten, and a message that waits for it creates its
queue."""


class TopicEpochs:
    def __init__(self) -> None:
        self.table: dict[str, int] = {}
        self._deleted: dict[str, int] = {}      # by name, numbered in the order of deletion
        self.changes = 0
        self._last = 0
        self.encoded = EncodedTable(self.table, str)
        self.encoded_deleted = EncodedTable(self._deleted, str)

    def of(self, topic: str) -> int:
        return self.table.get(topic, 0)

    def is_deleted(self, topic: str) -> bool:
        return topic in self._deleted

    def deleted_names(self) -> list[str]:
        return list(self._deleted)

    def note_created(self, topic: str, now_ms: int) -> None:
        if self._deleted.pop(topic, None) is not None:
            self.encoded_deleted.changed[topic] = None
        self._last = max(now_ms, self._last + 1)
        self.table[topic] = self._last
        self.encoded.changed[topic] = None
        self.changes += 1

    def note_deleted(self, topic: str) -> None:
        if self.table.pop(topic, None) is not None:
            self.encoded.changed[topic] = None
        self._deleted.pop(topic, None)
        self._deleted[topic] = 1 + next(reversed(self._deleted.values()), 0)
        self.encoded_deleted.changed[topic] = None
        if len(self._deleted) > DELETED_MAX:
            first = next(iter(self._deleted))
            del self._deleted[first]
            self.encoded_deleted.changed[first] = None
        self.changes += 1

    def document(self) -> Pieces:
        return encoded_table.document({_DELETED_KEY: self.encoded_deleted, _KEY: self.encoded})

    def load(self, text: str) -> None:
        """Take over saved numbers. Raises HeaderError."""
        self.table, self._deleted = _parse(text)
        self.encoded.replace(self.table)
        self.encoded_deleted.replace(self._deleted)
        self._last = max(self.table.values(), default=0)

    def follow(self, text: str) -> list[str]:
        """Take over a master's numbers; returns the topics whose number differs from before. Raises HeaderError."""
        table, deleted = _parse(text)
        if (table, deleted) == (self.table, self._deleted):
            return []
        others = [topic for topic, epoch in table.items() if self.of(topic) != epoch]
        self.load(text)
        self.changes += 1
        return others


def _parse(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """The numbers, and the deleted topics."""
    value = fastjson.loads(text)
    if not isinstance(value, dict):
        raise HeaderError("the document of the topics' epochs is not a JSON object")
    deleted = _numbers(value.get(_DELETED_KEY), _DELETED_KEY)
    return _numbers(value.get(_KEY), _KEY), dict(sorted(deleted.items(), key=lambda item: item[1]))


def _numbers(table: object, key: str) -> dict[str, int]:
    if not isinstance(table, dict) or not all(type(epoch) is int for epoch in table.values()):
        raise HeaderError(f"the document of the topics' epochs has no numbers {key}")
    return dict(table)
