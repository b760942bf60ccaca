"""Messages in the hands of push consumers, which stay invisible for as long as their consumer works and lives.

A message is popped for a minute. Before the minute is over it is made invisible for longer, and longer each time, until
it is acknowledged, its client is gone, or three hours have passed. Each renewal brings another receipt handle, while
the client goes on to give the one that it was given: what is under way is known here by that one.

Pure: `due` says what is to be renewed and the caller says what became of it. A step costs what is due, not what is
kept.

Source: ReceiptHandleProcessor, DefaultReceiptHandleManager, RetryPolicy RenewStrategyPolicy.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import count

from regulus.proxy.caller import ClientKey
from regulus.proxy.config import ProxyConfig
from regulus.proxy.receipt_handle import PlacedReceipt

EXTENSIONS_MS = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
DUE_MAX = 256
"""Renewals that one step begins, or ends for a client that left; the next step takes the others."""

Key = tuple[ClientKey, str, str]
"""Client, group and the handle that the client was given."""
_Beside = dict[Key, None]
"""What a client has in hand of one group."""


@dataclass(slots=True, kw_only=True)
class Renewed:
    """One message under way. `topic` is the one that the client consumes."""

    key: Key
    topic: str
    message_id: str
    handle: PlacedReceipt
    taken_at_ms: int
    attempts: int = 0           # deliveries of the message before this one
    renewals: int = 0
    failures: int = 0
    is_scheduled: bool = False  # among the due ones, or handed out by `due` and not begun
    beside: _Beside = field(default_factory=dict, repr=False)   # it stands in there while it is kept

    @property
    def client(self) -> ClientKey:
        return self.key[0]

    @property
    def group(self) -> str:
        return self.key[1]


class Renewals:
    def __init__(self, config: ProxyConfig) -> None:
        self._config = config
        self._ahead_ms = config.renew_ahead_time_millis + config.renew_schedule_period_millis
        self._kept: dict[Key, Renewed] = {}
        self._of_client: dict[ClientKey, dict[str, _Beside]] = {}     # by client and group
        self._left: deque[_Beside] = deque()                    # and what clients had when they left
        self._due: list[tuple[int, int, Renewed]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, renewed: Renewed) -> bool:
        """False when no more can be kept: the message becomes visible in its time. What was taken may come back."""
        if len(self._kept) >= self._config.renewals_max:
            return False
        self._kept[renewed.key] = renewed
        renewed.beside = self._of_client.setdefault(renewed.client, {}).setdefault(renewed.group, {})
        renewed.beside[renewed.key] = None
        if not renewed.is_scheduled:        # else it is among the due ones still, and would be renewed twice
            self._schedule(renewed)
        return True

    def has(self, renewed: Renewed) -> bool:
        """Whether it is this one that is renewed for its key."""
        return self._kept.get(renewed.key) is renewed

    def take(self, key: Key) -> Renewed | None:
        """What is renewed for a handle that was given, and is not any more: its client has decided."""
        renewed = self._kept.pop(key, None)
        if renewed is None:
            return None
        renewed.beside.pop(key, None)       # `take_left` has it out already
        if not renewed.beside:
            self._forget(renewed.client, renewed.group, renewed.beside)
        return renewed

    def leave(self, client: ClientKey, group: str | None = None) -> None:
        """All that a client has in hand now, or what of one group, is for `take_left`. Costs its groups."""
        groups = self._of_client.get(client, {})
        for name in list(groups) if group is None else [group]:
            beside = groups.get(name)
            if beside is not None:
                self._forget(client, name, beside)
                self._left.append(beside)

    def leave_renewed(self) -> None:
        """So is all whose first handle is worth nothing any more."""
        self._left.append({key: None for key, each in self._kept.items() if each.renewals})

    def take_left(self) -> list[Renewed]:
        """Some of what clients had when they left and have not decided on since, at most DUE_MAX. It is not renewed
        any more; none when that was all."""
        found: list[Renewed] = []
        while self._left and len(found) < DUE_MAX:
            if not self._left[0]:
                self._left.popleft()
                continue
            key, _ = self._left[0].popitem()
            renewed = self.take(key)
            if renewed is not None:
                found.append(renewed)
        return found

    def _forget(self, client: ClientKey, group: str, beside: _Beside) -> None:
        """What a client has of a group, unless it has left and has others of it by now."""
        groups = self._of_client.get(client, {})
        if groups.get(group) is beside:
            del groups[group]
            if not groups:
                del self._of_client[client]

    def due(self, now_ms: int) -> list[Renewed]:
        """Those to renew now, at most DUE_MAX: each is begun, and comes back through `renewed`, `failed` or `take`."""
        found: list[Renewed] = []
        while self._due and self._due[0][0] <= now_ms and len(found) < DUE_MAX:
            _, _, renewed = heapq.heappop(self._due)
            if self.has(renewed):
                found.append(renewed)
            else:
                renewed.is_scheduled = False
        return found

    def begin(self, renewed: Renewed) -> bool:
        """Whether one that was due still is to be renewed."""
        renewed.is_scheduled = False
        return self.has(renewed)

    def is_over(self, renewed: Renewed, now_ms: int) -> bool:
        """Whether the message was held for as long as it may be: the next time that it is due would be too late."""
        return self._left_ms(renewed, now_ms) <= self._ahead_ms

    def extension_ms(self, renewed: Renewed, now_ms: int) -> int:
        """Longer each time, and never beyond the last moment."""
        return min(EXTENSIONS_MS[min(renewed.renewals, len(EXTENSIONS_MS) - 1)], self._left_ms(renewed, now_ms))

    def _left_ms(self, renewed: Renewed, now_ms: int) -> int:
        return renewed.taken_at_ms + self._config.renew_max_time_millis - now_ms

    def renewed(self, renewed: Renewed, handle: PlacedReceipt) -> bool:
        """False when the client decided meanwhile: the new handle is then the caller's to settle."""
        if not self.has(renewed):
            return False
        renewed.handle = handle
        renewed.renewals += 1
        renewed.failures = 0
        self._schedule(renewed)
        return True

    def failed(self, renewed: Renewed, *, is_final: bool, now_ms: int) -> None:
        """A renewal that did not succeed; tried again soon unless it is the last failure that is borne."""
        renewed.failures += 1
        if not self.has(renewed):
            return
        if is_final or renewed.failures >= self._config.max_renew_retry_times:
            self.take(renewed.key)
        else:
            # Not sooner: a broker that starts again takes some seconds, in which all tries would be spent.
            self._push(now_ms + self._config.renew_schedule_period_millis, renewed)

    def _schedule(self, renewed: Renewed) -> None:
        self._push(renewed.handle.visible_at_ms - self._ahead_ms, renewed)

    def _push(self, at_ms: int, renewed: Renewed) -> None:
        if len(self._due) > 2 * len(self._kept) + DUE_MAX:
            self._sweep()
        renewed.is_scheduled = True
        heapq.heappush(self._due, (at_ms, next(self._numbers), renewed))

    def _sweep(self) -> None:
        """Most messages are acknowledged long before they are due. Costs what was added since the last time."""
        kept = []
        for entry in self._due:
            entry[2].is_scheduled = self.has(entry[2])
            if entry[2].is_scheduled:
                kept.append(entry)
        heapq.heapify(kept)
        self._due = kept
