"""Which topic of a name it is, of those that were made under the name one after the other.

A topic that is deleted and made again begins at queue offset 0; whoever remembers an offset of the one before would
read on in another topic. The number of a topic is the time of its making in ms, or one more than the last number given.
A topic that was there before there were such numbers has 0.
"""

from regulus.errors import HeaderError
from regulus.wire import encoded_table, fastjson
from regulus.wire.encoded_table import EncodedTable, Pieces

_KEY = "topicEpochs"


class TopicEpochs:
    def __init__(self) -> None:
        self.table: dict[str, int] = {}
        self.changes = 0
        self._last = 0
        self.encoded = EncodedTable(self.table, str)

    def of(self, topic: str) -> int:
        return self.table.get(topic, 0)

    def note_created(self, topic: str, now_ms: int) -> None:
        self._last = max(now_ms, self._last + 1)
        self.table[topic] = self._last
        self.encoded.changed[topic] = None
        self.changes += 1

    def note_deleted(self, topic: str) -> None:
        if self.table.pop(topic, None) is not None:
            self.encoded.changed[topic] = None
            self.changes += 1

    def document(self) -> Pieces:
        return encoded_table.document({_KEY: self.encoded})

    def load(self, text: str) -> None:
        """Take over saved numbers. Raises HeaderError."""
        self.table = _parse(text)
        self.encoded.replace(self.table)
        self._last = max(self.table.values(), default=0)

    def follow(self, text: str) -> list[str]:
        """Take over a master's numbers; which topics are others than before. Raises HeaderError."""
        table = _parse(text)
        if table == self.table:
            return []
        others = [topic for topic, epoch in table.items() if self.of(topic) != epoch]
        self.load(text)
        self.changes += 1
        return others


def _parse(text: str) -> dict[str, int]:
    value = fastjson.loads(text)
    table = value.get(_KEY) if isinstance(value, dict) else None
    if not isinstance(table, dict) or not all(type(epoch) is int for epoch in table.values()):
        raise HeaderError(f"the document of the topics' epochs has no numbers {_KEY}")
    return dict(table)
