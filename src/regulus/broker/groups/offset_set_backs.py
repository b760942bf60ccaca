"""Numbers the set-backs of consumer offsets. A set-back is a commit of a smaller offset than before.

A slave may have a larger offset than its master: consumers committed it at the slave while the master was down, or the
master died before it saved it. The larger one is right unless the master's was set back since, which this number shows.
The number is the time of the set-back in ms, or one more than the last number, so that two brokers without contact do
not give the same one.

Of a deleted group only the number of its deletion is kept, for a week. A pop contains the number that it knew, so that
popped messages of the deleted group do not go to a new one of the same name. An offset that begins after a deletion
gets the deletion's number, and is not taken for a deleted one.
"""

from typing import NamedTuple

from regulus.errors import HeaderError
from regulus.wire import encoded_table, fastjson
from regulus.wire.encoded_table import EncodedTable, Pieces

_KEY = "offsetSetBacks"
_REMOVED_KEY = "removedAt"
_GROUPS_KEY = "removedGroups"
REMOVED_KEPT_MS = 7 * 24 * 3_600_000
"""Longer than the 12 h in ms for which a popped message is invisible at most."""
REMOVED_MAX = 10_000
"""Groups whose deletion is remembered; beyond the limit the oldest are forgotten."""


class Numbers(NamedTuple):
    """The numbers as they are saved, and as slaves get them."""

    table: dict[str, dict[int, int]]
    removed_at: int
    removed: dict[str, int]

    def of(self, key: str, queue_id: int) -> int:
        return self.table.get(key, {}).get(queue_id, 0)


class OffsetSetBacks:
    """Numbers by `topic@group` and queue id; 0 without a set-back."""

    def __init__(self) -> None:
        self.table: dict[str, dict[int, int]] = {}
        self.removed_at = 0
        """Number of the last deletion; 0 before the first."""
        self.removed: dict[str, int] = {}
        """Number of the deletion of each group, the oldest first."""
        self.changes = 0
        self.last_removal = -1
        """The change that was the last deletion, so that it is saved at once."""
        self._last = 0
        self.encoded = EncodedTable(self.table, _write)

    def of(self, key: str, queue_id: int) -> int:
        return self.table.get(key, {}).get(queue_id, 0)

    def note(self, key: str, queue_id: int, now_ms: int) -> None:
        """Number a set-back."""
        self.put(key, queue_id, self._next(now_ms))

    def begin(self, key: str, queue_id: int) -> None:
        """Number an offset that did not exist before."""
        if self.removed_at:
            self.put(key, queue_id, self.removed_at)

    def put(self, key: str, queue_id: int, number: int) -> None:
        self._last = max(self._last, number)
        self.table.setdefault(key, {})[queue_id] = number
        self._changed(key)

    def forget(self, key: str) -> None:
        if self.table.pop(key, None) is not None:
            self._changed(key)

    def note_removed(self, group: str, now_ms: int) -> None:
        """Number the deletion of a group's offsets, which may begin again."""
        self.removed_at = self._next(now_ms)
        self.removed.pop(group, None)
        self.removed[group] = self.removed_at
        while len(self.removed) > REMOVED_MAX or next(iter(self.removed.values())) < now_ms - REMOVED_KEPT_MS:
            del self.removed[next(iter(self.removed))]
        self.changes += 1
        self.last_removal = self.changes

    def _next(self, now_ms: int) -> int:
        self._last = max(now_ms, self._last + 1)
        return self._last

    def _changed(self, key: str) -> None:
        self.encoded.changed[key] = None
        self.changes += 1

    def document(self) -> Pieces:
        return encoded_table.document({_REMOVED_KEY: self.removed_at, _GROUPS_KEY: self.removed, _KEY: self.encoded})

    def load(self, text: str) -> None:
        """Take over saved numbers. Raises HeaderError."""
        self.follow(parse(text))

    def follow(self, numbers: Numbers) -> None:
        self.table, self.removed_at, removed = numbers
        self.removed = dict(removed)
        self.encoded.replace(self.table)
        self._last = max(self._last, self.removed_at, *[max(queues.values(), default=0)
                                                        for queues in self.table.values()])
        self.changes += 1

    @property
    def numbers(self) -> Numbers:
        return Numbers(self.table, self.removed_at, self.removed)


def parse(text: str) -> Numbers:
    """Read a saved document. Raises HeaderError."""
    value = fastjson.loads(text)
    table = value.get(_KEY) if isinstance(value, dict) else None
    try:
        return Numbers({key: {int(queue_id): int(number) for queue_id, number in queues.items()}
                        for key, queues in table.items()},      # type: ignore[union-attr]
                       int(value.get(_REMOVED_KEY, 0)),
                       {group: int(number) for group, number in (value.get(_GROUPS_KEY) or {}).items()})
    except (AttributeError, TypeError, ValueError, OverflowError) as cause:
        raise HeaderError(f"the document of offsets that were set back lacks or misspells {_KEY}: {cause}") from cause


def _write(queues: dict[int, int]) -> str:
    return fastjson.dumps_pretty({str(queue_id): number for queue_id, number in sorted(queues.items())}, 2)
