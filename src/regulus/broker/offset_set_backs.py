"""How often each consumer offset was set back: committed smaller than it was.

A slave may know a larger offset than its master: consumers committed it at the slave while the master was away, or the
master died before it saved it. As long as nobody has set the master's back since, the larger one is right; this number
tells the two apart.
"""

from regulus.errors import HeaderError
from regulus.wire import encoded_table, fastjson
from regulus.wire.encoded_table import EncodedTable, Pieces

_KEY = "offsetSetBacks"


class OffsetSetBacks:
    """By `topic@group` and queue id; 0 where there is none."""

    def __init__(self) -> None:
        self.table: dict[str, dict[int, int]] = {}
        self.changes = 0
        self.encoded = EncodedTable(self.table, _write)

    def of(self, key: str, queue_id: int) -> int:
        return self.table.get(key, {}).get(queue_id, 0)

    def note(self, key: str, queue_id: int) -> None:
        self.table.setdefault(key, {})[queue_id] = self.of(key, queue_id) + 1
        self._changed(key)

    def forget(self, key: str) -> None:
        if self.table.pop(key, None) is not None:
            self._changed(key)

    def _changed(self, key: str) -> None:
        self.encoded.changed[key] = None
        self.changes += 1

    def document(self) -> Pieces:
        return encoded_table.document({_KEY: self.encoded})

    def load(self, text: str) -> None:
        """Take over saved numbers, or those of a master. Raises HeaderError."""
        self.table = parse(text)
        self.encoded.replace(self.table)
        self.changes += 1


def parse(text: str) -> dict[str, dict[int, int]]:
    """Raises HeaderError."""
    value = fastjson.loads(text)
    table = value.get(_KEY) if isinstance(value, dict) else None
    try:
        return {key: {int(queue_id): int(number) for queue_id, number in queues.items()}
                for key, queues in table.items()}       # type: ignore[union-attr]
    except (AttributeError, TypeError, ValueError) as cause:
        raise HeaderError(f"the document of offsets that were set back lacks or misspells {_KEY}: {cause}") from cause


def _write(queues: dict[int, int]) -> str:
    return fastjson.dumps_pretty({str(queue_id): number for queue_id, number in sorted(queues.items())}, 2)
