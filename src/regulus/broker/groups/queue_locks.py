"""Locks of queues for consumption in order, each held by one client. A lock expires LOCK_EXPIRY_MS after its last
renewal.

Source: RebalanceLockManager.
"""

from collections.abc import Iterable

from regulus.model.message_queue import MessageQueue

LOCK_EXPIRY_MS = 60_000     # three renewals of RocketMQ's clients, which send one each 20 s
LOCKS_MAX = 1 << 20
"""Queues of all groups locked at a time. Beyond the limit a lock is refused, as if another client had it, until some
are free."""


class _Lock:
    """`channel` is the newest connection over which the client renewed it."""

    __slots__ = ("channel", "client_id", "renewed_ms")

    def __init__(self, client_id: str, renewed_ms: int, channel: int) -> None:
        self.client_id = client_id
        self.renewed_ms = renewed_ms
        self.channel = channel


class QueueLocks:
    """Locks by group and queue."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0
        self._unscanned: list[str] = []
        self._next_scan_ms = 0

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], steady_ms: int,
             channel: int) -> list[MessageQueue]:
        """Lock or renew queues; returns those that the client holds now. The others belong to another client."""
        locks = self._groups.setdefault(group, {})
        held = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None:
                if self._count >= LOCKS_MAX:
                    continue
                self._count += 1
            if lock is None or lock.client_id == client_id or steady_ms - lock.renewed_ms > LOCK_EXPIRY_MS:
                newest = channel
                if lock is not None and lock.client_id == client_id:
                    newest = max(channel, lock.channel)
                locks[queue] = _Lock(client_id, steady_ms, newest)
                held.append(queue)
        if not locks:
            del self._groups[group]
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release locks of the client; those of other clients stay."""
        locks = self._groups.get(group)
        if locks is None:
            return
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            del self._groups[group]

    def unlock_closed(self, group: str, client_id: str, channel: int) -> None:
        """Release what the client holds, now that its connection is closed. What it has renewed over a newer connection
        stays: a client that is back may renew its locks before it sends a heartbeat."""
        locks = self._groups.get(group, {})
        self.unlock(group, client_id, [queue for queue, lock in locks.items() if lock.channel <= channel])

    def is_any_held(self, group: str, steady_ms: int) -> bool:
        """Whether some client of the group consumes in order now."""
        locks = self._groups.get(group)
        return locks is not None and any(steady_ms - lock.renewed_ms <= LOCK_EXPIRY_MS for lock in locks.values())

    def tick(self, steady_ms: int) -> int:
        """Drop expired locks, those of one group at a time; returns ms until the next call."""
        if not self._unscanned:
            if steady_ms < self._next_scan_ms:
                return self._next_scan_ms - steady_ms
            self._next_scan_ms = steady_ms + LOCK_EXPIRY_MS
            self._unscanned = list(self._groups)
        if self._unscanned:
            self._forget_lapsed(self._unscanned.pop(), steady_ms)
        return 0 if self._unscanned else self._next_scan_ms - steady_ms

    def _forget_lapsed(self, group: str, steady_ms: int) -> None:
        locks = self._groups.get(group)
        if locks is None:
            return
        lapsed = [queue for queue, lock in locks.items() if steady_ms - lock.renewed_ms > LOCK_EXPIRY_MS]
        for queue in lapsed:
            del locks[queue]
        self._count -= len(lapsed)
        if not locks:
            del self._groups[group]
