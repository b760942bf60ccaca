"""A taking of a queue that is consumed in order: one call at a time, and the next only after success.

    PULLING ── next_step: Call ──> CALLING ── success ──> PULLING
       ^                              ├────── failure ──> SUSPENDED ── its time is over ──> PULLING
       └── dead_lettered ── DeadLetter ┘ (too many failures, or a message that cannot be read)

`next_step` is the only place where a call begins, whether after a pull, the end of a call, a timer or a lock. It begins
none while a call runs, during the rest after a failure, without the queue's lock, or while a call of the taking before
this one still runs. Therefore a listener that never returns blocks its queue, and two calls never overlap.

Source: ConsumeMessageOrderlyService, ProcessQueue.takeMessages, ProcessQueue.makeMessageToConsumeAgain.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regulus.client.core.owned_queue import OwnedQueue, State
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

SUSPEND_MS_MIN = 10
SUSPEND_MS_MAX = 30_000
TELL_AFTER_TRIES = 3
"""The number of tries after which a blocked queue is reported; it doubles with each report."""

OURS_MAX = 64
"""Stored offsets that a taking remembers, because a killed broker may come back with one of several seconds ago."""

NEEDS_NO_LOCK = 1 << 62
"""`locked_until_ms` of a queue without a lock: in broadcasting every client consumes every queue for itself."""


class MessagePlace(NamedTuple):
    """The position and the identity of a message. The broker may have another message at that position by now, if its
    log lost its end."""

    queue_offset: int
    physical_offset: int
    store_timestamp: int
    message_id: str

    @classmethod
    def of(cls, message: MessageExt) -> "MessagePlace":
        return cls(message.queue_offset, message.physical_offset, message.store_timestamp, message.message_id)


class Call(NamedTuple):
    """Call the listener with these messages, then call `call_ended`."""

    messages: list[MessageExt]


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call `next_step` at this time."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Make dead letters of these messages, then call `dead_lettered`. `reason`: why they cannot be read; empty if the
    listener failed."""

    messages: list[MessageExt]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Report that this message blocks its queue."""

    message: MessageExt
    tries: int
    age_ms: int


Step = Call | WakeAt | DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRules:
    """`reconsume_times_max` -1 allows any number of tries."""

    batch_size_max: int
    reconsume_times_max: int
    suspend_ms: int


class OrderedQueue(OwnedQueue):
    """`is_busy`: a call runs, or messages are being made dead letters. `tries`: failures of the current batch.
    `last_done`: the last message that succeeded."""

    __slots__ = ("_after", "_blocked_since_ms", "_current", "_ours", "_rules", "_suspended_until_ms", "_tell_at",
                 "_unreadable", "_waiting", "is_busy", "last_done", "locked_until_ms", "tries")

    is_ordered = True

    def __init__(self, queue: MessageQueue, start_offset: int, created_ms: int, rules: OrderRules, *,
                 locked_until_ms: int, after: "OrderedQueue | None" = None, is_reset: bool = False) -> None:
        """`after`: the taking before this one, whose call may still run."""
        super().__init__(queue, start_offset, created_ms, is_reset=is_reset)
        self.is_busy = False
        self.tries = 0
        self.locked_until_ms = locked_until_ms
        self._ours = deque((start_offset,), OURS_MAX)
        self.last_done: MessagePlace | None = None
        self._rules = rules
        self._after = after.unfinished() if after is not None else None
        self._current: list[MessageExt] = []
        self._waiting: deque[MessageExt] = deque()
        self._unreadable: dict[int, str] = {}
        self._suspended_until_ms = 0
        self._blocked_since_ms = 0
        self._tell_at = TELL_AFTER_TRIES

    @property
    def state(self) -> State:
        if not self.is_pulled:
            return super().state
        if self.is_busy:
            return State.CALLING
        return State.SUSPENDED if self._suspended_until_ms else State.PULLING

    # --- events ------------------------------------------------------------------------------------------------------

    def queued(self, messages: Iterable[MessageExt], unreadable: Mapping[int, str]) -> None:
        """Append the new messages of a pull. `unreadable`: by queue offset, why a message cannot be read."""
        self._waiting.extend(messages)
        self._unreadable.update(unreadable)

    def next_step(self, now_ms: int) -> Step | None:
        """What to do now, if anything."""
        if self.is_busy or self.is_given_up or self.settle_until_ms or self.locked_until_ms <= now_ms:
            return None
        if self._after is not None and self._waits_for_another():
            return None
        if self._suspended_until_ms > now_ms:
            return WakeAt(self._suspended_until_ms)
        self._suspended_until_ms = 0
        batch = self._current or self._begin_next()
        if not batch:
            return None
        self.is_busy = True
        reason = self._unreadable.get(batch[0].queue_offset) if self._unreadable else None
        return Call(list(batch)) if reason is None else DeadLetter(list(batch), reason)

    def call_ended(self, is_success: bool, wished_suspend_ms: int, now_ms: int) -> DeadLetter | Blocked | None:
        """A call ended. After a failure the queue rests for `wished_suspend_ms`, or as the rules say if that is
        negative. Returns DeadLetter for messages that were tried as often as allowed."""
        self.is_busy = False
        if self.is_given_up or not self._current:
            return None
        if is_success:
            self.last_done = MessagePlace.of(self._current[-1])
            self.finished(self._current)
            self._current = []
            if self.tries:
                self._goes_on()
            return None
        if self._has_had_enough():
            self.is_busy = True
            return DeadLetter(list(self._current))
        for message in self._current:
            message.reconsume_times += 1
        return self._failed(suspend_ms(wished_suspend_ms, self._rules.suspend_ms), now_ms)

    def call_withdrawn(self) -> None:
        """Take back a call that was not begun: its messages are next again, and no try is counted."""
        self.is_busy = False

    def dead_lettered(self, taken: Sequence[MessageExt], now_ms: int) -> Blocked | None:
        """Brokers have stored the dead letters of `taken`; the rest of the batch is tried again after a rest."""
        self.is_busy = False
        if self.is_given_up or not self._current:
            return None
        self._done(taken)
        return self._failed(suspend_ms(-1, self._rules.suspend_ms), now_ms) if self._current else None

    def lock_renewed(self, asked_ms: int, until_ms: int) -> bool:
        """Extend the lock; False when it had lapsed: another member may have consumed the queue, so take it again."""
        if self.locked_until_ms <= asked_ms:
            return False
        self.locked_until_ms = until_ms
        return True

    def goes_on_at(self, stored: int) -> int | None:
        """Where the next taking begins, after this one lost its lock, when the broker has the offset `stored`.

        If this taking stored that offset, no other member consumed or reset the queue meanwhile: the broker was killed
        and has forgotten the later ones. The next taking then begins after the last message that was done here.
        Returns None when the offset is not one of ours, or when nothing was done after it.

        The caller also checks that the queue still has `last_done`, because a topic that was deleted and created again
        may begin at one of our offsets, too. Messages after `last_done` that the broker skipped because of their tags
        are read again, because others may have taken their place.
        """
        if self.last_done is None or stored not in self._ours:
            return None
        further = self.last_done.queue_offset + 1
        return further if stored < further else None

    def follow(self, before: "OrderedQueue") -> None:
        """Continue where `before` was. Its stored offsets are remembered too, because the broker may return to them."""
        self._ours.extendleft(reversed(before._ours))
        self.last_done = before.last_done

    def lock_lost(self) -> None:
        """Another member has the lock."""
        self.locked_until_ms = 0

    def reset(self, offset: int) -> None:
        super().reset(offset)
        self._current = []
        self._waiting.clear()

    # --- questions ---------------------------------------------------------------------------------------------------

    def to_store(self, now_ms: int) -> int | None:
        """Also None without the lock, because only its holder may say how far the group is. The offset is remembered as
        one of ours at once: it may reach the broker even if the answer is lost."""
        offset = super().to_store(now_ms) if self.is_locked(now_ms) else None
        if offset is not None and offset != self._ours[-1]:
            self._ours.append(offset)
        return offset

    def is_locked(self, now_ms: int) -> bool:
        return self.locked_until_ms > now_ms

    @property
    def is_settled(self) -> bool:
        """Whether no call runs, of this taking or of one before it: it must not overlap with the queue's next owner."""
        return self.unfinished() is None

    @property
    def is_blocked(self) -> bool:
        """Whether the first message was tried so often that it was reported."""
        return self.tries >= TELL_AFTER_TRIES

    def unfinished(self) -> "OrderedQueue | None":
        """The taking, this one or one before it, whose call the next taking must wait for."""
        if self.is_busy:
            return self
        return self._after if self._waits_for_another() else None

    # -----------------------------------------------------------------------------------------------------------------

    def _waits_for_another(self) -> bool:
        if self._after is not None and not self._after.is_busy:
            self._after = None
        return self._after is not None

    def _begin_next(self) -> list[MessageExt]:
        """Make the next messages the current batch; a message that cannot be read is a batch of its own."""
        waiting, unreadable = self._waiting, self._unreadable
        size = min(self._rules.batch_size_max, len(waiting))
        if size and unreadable:
            offsets = [waiting[place].queue_offset for place in range(size)]
            size = next((place for place, offset in enumerate(offsets) if offset in unreadable), size) or 1
        self._current = [waiting.popleft() for _ in range(size)]
        return self._current

    def _done(self, messages: Sequence[MessageExt]) -> None:
        self.finished(messages)
        offsets = {message.queue_offset for message in messages}
        self._current = [message for message in self._current if message.queue_offset not in offsets]
        if self._unreadable:
            for offset in offsets:
                self._unreadable.pop(offset, None)
        if not self._current:
            self._goes_on()

    def _goes_on(self) -> None:
        self.tries = 0
        self._tell_at = TELL_AFTER_TRIES

    def _failed(self, rest_ms: int, now_ms: int) -> Blocked | None:
        if not self.tries:
            self._blocked_since_ms = now_ms
        self.tries += 1
        self._suspended_until_ms = now_ms + rest_ms
        if self.tries < self._tell_at:
            return None
        self._tell_at *= 2
        return Blocked(self._current[0], self.tries, now_ms - self._blocked_since_ms)

    def _has_had_enough(self) -> bool:
        limit = self._rules.reconsume_times_max
        return limit >= 0 and any(each.reconsume_times >= limit for each in self._current)


def suspend_ms(wished_ms: int, default_ms: int) -> int:
    """How long a queue rests after a failure; a negative wish takes the default."""
    return min(max(default_ms if wished_ms < 0 else wished_ms, SUSPEND_MS_MIN), SUSPEND_MS_MAX)
