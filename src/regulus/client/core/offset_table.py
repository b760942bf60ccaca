"""What a group has consumed, as this client knows it: queue -> next offset to consume."""

from collections.abc import Iterable, Mapping

from regulus.model.message_queue import MessageQueue


class OffsetTable:
    """Remembers which offsets changed since they were last stored elsewhere."""

    def __init__(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        self._offsets: dict[MessageQueue, int] = dict(offsets or {})
        self._changed: set[MessageQueue] = set()

    def get(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Take the offset if it is larger than the known one: late results of an earlier batch never move it back."""
        known = self._offsets.get(queue)
        if known is None or offset > known:
            self._offsets[queue] = offset
            self._changed.add(queue)

    def set(self, queue: MessageQueue, offset: int) -> None:
        """Take the offset whatever it was: a reset, or what the broker says."""
        if self._offsets.get(queue) != offset:
            self._offsets[queue] = offset
            self._changed.add(queue)

    def take_changed(self, queues: Iterable[MessageQueue] | None = None) -> dict[MessageQueue, int]:
        """The changed offsets (of `queues`, or all); they count as stored from now on."""
        wanted = set(self._changed) if queues is None else self._changed.intersection(queues)
        self._changed -= wanted
        return {queue: self._offsets[queue] for queue in wanted}

    def mark_changed(self, queues: Iterable[MessageQueue]) -> None:
        """Storing these failed: they are to be stored again."""
        self._changed.update(queue for queue in queues if queue in self._offsets)

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)
        self._changed.discard(queue)

    def all(self) -> dict[MessageQueue, int]:
        return dict(self._offsets)
