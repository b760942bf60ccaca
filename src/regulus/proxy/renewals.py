"""Decides when the invisible time of messages is renewed that push consumers are working on.

A message is popped for a minute. Before the minute ends, its invisible time is extended, and by more each time, until
it is acknowledged, its client is gone, or three hours have passed. Each renewal brings a new receipt handle, but the
client knows only the first one, so messages are found here by that.

This module does no I/O: `due` returns the messages to renew, and the caller reports the results. A step costs as much
as is due, not as much as is kept.

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
"""Invisible time of the first renewal, the second, and so on; the last one is repeated."""
DUE_MAX = 256
"""Messages that one step renews, and that it releases for clients that left. The next step takes the others."""

Key = tuple[ClientKey, str, str]
"""The client, its group, and the receipt handle that the client got with the message."""
_Beside = dict[Key, None]
"""The keys of all messages that one client holds of one group."""


@dataclass(slots=True, kw_only=True)
class Renewed:
    """One message that a client works on. `topic` is the one that the client consumes."""

    key: Key
    topic: str
    message_id: str
    handle: PlacedReceipt
    taken_at_ms: int
    attempts: int = 0           # deliveries of the message before this one
    renewals: int = 0
    failures: int = 0
    is_scheduled: bool = False  # has an entry in `_due`, or was returned by `due` and not begun
    beside: _Beside = field(default_factory=dict, repr=False)   # contains its key while it is kept

    @property
    def client(self) -> ClientKey:
        return self.key[0]

    @property
    def group(self) -> str:
        return self.key[1]


class Renewals:
    """All messages whose invisible time is renewed, and when each is due."""

    def __init__(self, config: ProxyConfig) -> None:
        self._config = config
        self._ahead_ms = config.renew_ahead_time_millis + config.renew_schedule_period_millis
        self._kept: dict[Key, Renewed] = {}
        self._of_client: dict[ClientKey, dict[str, _Beside]] = {}     # by client and group
        self._left: deque[_Beside] = deque()                    # messages of clients that left
        self._due: list[tuple[int, int, Renewed]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, renewed: Renewed) -> bool:
        """Keep a message invisible from now on. False at the limit (renewalsMax).

        A message that was taken out with `take` may be added again."""
        if len(self._kept) >= self._config.renewals_max:
            return False
        self._kept[renewed.key] = renewed
        renewed.beside = self._of_client.setdefault(renewed.client, {}).setdefault(renewed.group, {})
        renewed.beside[renewed.key] = None
        if not renewed.is_scheduled:        # otherwise it still has an entry, and would be renewed twice
            self._schedule(renewed)
        return True

    def has(self, renewed: Renewed) -> bool:
        """Whether this object, and not a later one, is kept under its key."""
        return self._kept.get(renewed.key) is renewed

    def take(self, key: Key) -> Renewed | None:
        """Stop the renewal of a message and return it; None if it was not renewed. Called when its client has decided
        on it."""
        renewed = self._kept.pop(key, None)
        if renewed is None:
            return None
        renewed.beside.pop(key, None)       # `take_left` has already removed it
        if not renewed.beside:
            self._forget(renewed.client, renewed.group, renewed.beside)
        return renewed

    def leave(self, client: ClientKey, group: str | None = None) -> None:
        """Have `take_left` return all messages that a client holds now, or those of one group. Costs its number of
        groups."""
        groups = self._of_client.get(client, {})
        for name in list(groups) if group is None else [group]:
            beside = groups.get(name)
            if beside is not None:
                self._forget(client, name, beside)
                self._left.append(beside)

    def leave_renewed(self) -> None:
        """Have `take_left` return all messages that were renewed, so that the handles of their clients are invalid."""
        self._left.append({key: None for key, each in self._kept.items() if each.renewals})

    def take_left(self) -> list[Renewed]:
        """At most DUE_MAX messages of clients that left; none when there are no more.

        They are not renewed any more. Messages on which a client decided after it left are not among them."""
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
        """Forget the messages that a client held of a group, unless it has left and got others since."""
        groups = self._of_client.get(client, {})
        if groups.get(group) is beside:
            del groups[group]
            if not groups:
                del self._of_client[client]

    def due(self, now_ms: int) -> list[Renewed]:
        """The messages to renew now, at most DUE_MAX. The caller calls `begin` for each, and then `renewed`, `failed`
        or `take`."""
        found: list[Renewed] = []
        while self._due and self._due[0][0] <= now_ms and len(found) < DUE_MAX:
            _, _, renewed = heapq.heappop(self._due)
            if self.has(renewed):
                found.append(renewed)
            else:
                renewed.is_scheduled = False
        return found

    def begin(self, renewed: Renewed) -> bool:
        """Whether a message that `due` returned is still to be renewed."""
        renewed.is_scheduled = False
        return self.has(renewed)

    def is_over(self, renewed: Renewed, now_ms: int) -> bool:
        """Whether the message may not be renewed again: its time would end after renewMaxTimeMillis."""
        return self._left_ms(renewed, now_ms) <= self._ahead_ms

    def extension_ms(self, renewed: Renewed, now_ms: int) -> int:
        """The next invisible time in ms: longer after each renewal, but never beyond renewMaxTimeMillis."""
        return min(EXTENSIONS_MS[min(renewed.renewals, len(EXTENSIONS_MS) - 1)], self._left_ms(renewed, now_ms))

    def _left_ms(self, renewed: Renewed, now_ms: int) -> int:
        return renewed.taken_at_ms + self._config.renew_max_time_millis - now_ms

    def renewed(self, renewed: Renewed, handle: PlacedReceipt) -> bool:
        """Keep the new handle and schedule the next renewal. False if the client decided meanwhile: the caller must
        release the new handle then."""
        if not self.has(renewed):
            return False
        renewed.handle = handle
        renewed.renewals += 1
        renewed.failures = 0
        self._schedule(renewed)
        return True

    def failed(self, renewed: Renewed, *, is_final: bool, now_ms: int) -> None:
        """Try again after renewSchedulePeriodMillis. Give the message up after a final failure, or after too many in a
        row (maxRenewRetryTimes)."""
        renewed.failures += 1
        if not self.has(renewed):
            return
        if is_final or renewed.failures >= self._config.max_renew_retry_times:
            self.take(renewed.key)
        else:
            # Not sooner: a broker takes some seconds to restart, in which all attempts would be used up.
            self._push(now_ms + self._config.renew_schedule_period_millis, renewed)

    def _schedule(self, renewed: Renewed) -> None:
        self._push(renewed.handle.visible_at_ms - self._ahead_ms, renewed)

    def _push(self, at_ms: int, renewed: Renewed) -> None:
        if len(self._due) > 2 * len(self._kept) + DUE_MAX:
            self._sweep()
        renewed.is_scheduled = True
        heapq.heappush(self._due, (at_ms, next(self._numbers), renewed))

    def _sweep(self) -> None:
        """Remove the entries of acknowledged messages: most are acknowledged long before they are due. Costs as much as
        was added since the last call."""
        kept = []
        for entry in self._due:
            entry[2].is_scheduled = self.has(entry[2])
            if entry[2].is_scheduled:
                kept.append(entry)
        heapq.heapify(kept)
        self._due = kept
