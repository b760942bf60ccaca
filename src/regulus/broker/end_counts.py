"""What became of messages in the end, counted since the start: commits, rollbacks, dead letters, retries of pops."""

from collections.abc import Hashable
from typing import TypeVar

from regulus.wire.metrics_text import Histogram

KEYS_MAX = 50_000
"""Topics, or pairs of group and topic, in one table. Those beyond it are not counted."""
FINISH_EDGES_S = (5, 60, 600, 3600, 43_200, 86_400)
"""Source: BrokerMetricsManager, finish message latency buckets."""

_Key = TypeVar("_Key", bound=Hashable)


class EndCounts:
    """Commits and rollbacks by topic; dead letters and retries of pops by group and the topic that the message had
    first. `finished` has the seconds between the birth of a message and its commit."""

    def __init__(self) -> None:
        self.commits: dict[str, int] = {}
        self.rollbacks: dict[str, int] = {}
        self.finished: dict[str, Histogram] = {}
        self.dead_letters: dict[tuple[str, str], int] = {}
        self.pop_retries: dict[tuple[str, str], int] = {}

    def note_commit(self, topic: str, seconds: int) -> None:
        if _add(self.commits, topic):
            self.finished.setdefault(topic, Histogram(FINISH_EDGES_S)).add(seconds)

    def note_rollback(self, topic: str) -> None:
        _add(self.rollbacks, topic)

    def note_dead_letter(self, group: str, topic: str) -> None:
        _add(self.dead_letters, (group, topic))

    def note_popped_end(self, group: str, topic: str, is_dead_letter: bool) -> None:
        """The invisible time of a popped message ended without an acknowledgement."""
        _add(self.dead_letters if is_dead_letter else self.pop_retries, (group, topic))


def _add(table: dict[_Key, int], key: _Key) -> bool:
    if key not in table and len(table) >= KEYS_MAX:
        return False
    table[key] = table.get(key, 0) + 1
    return True
