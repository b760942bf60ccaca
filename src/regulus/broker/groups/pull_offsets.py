"""Offsets up to which groups have pulled, which may be ahead of their commits; for statistics only, and never saved."""

NOT_PULLED = -1


class PullOffsets:
    """Offsets by `topic@group` and queue id. Indexes by topic and by group make removing one cost no more than its
    offsets."""

    def __init__(self) -> None:
        self._table: dict[str, dict[int, int]] = {}
        self._groups_of: dict[str, dict[str, None]] = {}
        self._topics_of: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._table)

    def note(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        key = f"{topic}@{group}"
        queues = self._table.get(key)
        if queues is None:
            queues = self._table[key] = {}
            self._groups_of.setdefault(topic, {})[group] = None
            self._topics_of.setdefault(group, {})[topic] = None
        queues[queue_id] = queue_offset

    def of(self, group: str, topic: str, queue_id: int) -> int:
        """NOT_PULLED when the group did not pull there since the broker started."""
        return self._table.get(f"{topic}@{group}", {}).get(queue_id, NOT_PULLED)

    def remove_group(self, group: str) -> None:
        for topic in list(self._topics_of.get(group, ())):
            self._remove(topic, group)

    def remove_topic(self, topic: str) -> None:
        for group in list(self._groups_of.get(topic, ())):
            self._remove(topic, group)

    def _remove(self, topic: str, group: str) -> None:
        del self._table[f"{topic}@{group}"]
        for table, key, other in ((self._groups_of, topic, group), (self._topics_of, group, topic)):
            del table[key][other]
            if not table[key]:
                del table[key]
