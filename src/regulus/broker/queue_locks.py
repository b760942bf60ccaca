"""Which client may consume which queue in order. A lock lapses LOCK_EXPIRY_MS after its last renewal.

Source: RebalanceLockManager.
"""

from collections.abc import Iterable

from regulus.model.message_queue import MessageQueue

LOCK_EXPIRY_MS = 60_000


class _Lock:
    __slots__ = ("client_id", "renewed_ms")

    def __init__(self, client_id: str, renewed_ms: int) -> None:
        self.client_id = client_id
        self.renewed_ms = renewed_ms


class QueueLocks:
    """Locks by group and queue."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._next_scan_ms = 0

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """The queues that the client holds now, granted or renewed; the others belong to another client."""
        locks = self._groups.setdefault(group, {})
        held = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None or lock.client_id == client_id or now_ms - lock.renewed_ms > LOCK_EXPIRY_MS:
                locks[queue] = _Lock(client_id, now_ms)
                held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Locks of other clients stay."""
        locks = self._groups.get(group)
        if locks is None:
            return
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
        if not locks:
            del self._groups[group]

    def is_any_held(self, group: str, now_ms: int) -> bool:
        """Whether some client of the group consumes in order now."""
        locks = self._groups.get(group)
        return locks is not None and any(now_ms - lock.renewed_ms <= LOCK_EXPIRY_MS for lock in locks.values())

    def tick(self, now_ms: int) -> int:
        """Forget lapsed locks; ms until the next look."""
        if now_ms < self._next_scan_ms:
            return self._next_scan_ms - now_ms
        self._next_scan_ms = now_ms + LOCK_EXPIRY_MS
        for group in list(self._groups):
            locks = self._groups[group]
            for queue in [q for q, lock in locks.items() if now_ms - lock.renewed_ms > LOCK_EXPIRY_MS]:
                del locks[queue]
            if not locks:
                del self._groups[group]
        return LOCK_EXPIRY_MS
