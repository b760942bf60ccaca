"""The state of one taking of a queue. A taking is the time in which this client owns the queue without interruption.

    PULLING ── settle ──> SETTLING ── give_up ──> GIVEN_UP
       └──────────────────── give_up ──────────────┘

Every taking is an object of its own, and each call and pull refers to the object for which it was begun. A result that
arrives when the taking is GIVEN_UP is ignored, even if this client has taken the queue again. While the taking is
SETTLING nothing is begun, but results of what runs still count. A reset of a queue that is being pulled is a new
taking; a queue that is settling keeps the reset offset for its next owner. Here any number of calls may run at the same
time; `ordered_queue` adds the rules for one call at a time.

Within a taking the offset to store only grows, except by a reset, and a taking that is given up has no offset to store.
Therefore neither a late result nor a timer can undo what a reset or a later taking stored.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto

from regulus.client.core.process_queue import NOTHING_PUT, ProcessQueue
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

NOT_SETTLING = 0

UNSTORED_MAX = 1_000
"""After this many finished messages the offset is stored before it is due: a kill would deliver them all again."""


class State(Enum):
    PULLING = auto()
    CALLING = auto()
    """An ordered queue has a call under way, or messages that are being made dead letters."""
    SUSPENDED = auto()
    """An ordered queue rests after a failure."""
    SETTLING = auto()
    GIVEN_UP = auto()


class OwnedQueue:
    """`next_offset`: where the next pull begins. `is_full`: the puller waits until the cache gets smaller.
    `is_refused`: the broker refuses to read at that offset. `is_reset`: the offset was chosen by a reset, and is stored
    whatever offset the broker has.
    """

    __slots__ = ("_pressing_offset", "_stored_offset", "cache", "commit_offset", "is_full", "is_given_up",
                 "is_refused", "is_reset", "last_consume_ms", "last_pull_ms", "next_offset", "queue",
                 "settle_until_ms")

    is_ordered = False

    def __init__(self, queue: MessageQueue, start_offset: int, created_ms: int, *, is_reset: bool = False) -> None:
        """With `is_reset` the start offset is stored, whatever was stored before."""
        self.queue = queue
        self.cache = ProcessQueue()
        self.next_offset = start_offset
        self.commit_offset = start_offset if is_reset else NOTHING_PUT
        self.is_full = False
        self.is_given_up = False
        self.is_refused = False
        self.is_reset = is_reset
        self._pressing_offset = start_offset + UNSTORED_MAX
        self.settle_until_ms = NOT_SETTLING
        self.last_pull_ms = created_ms
        self.last_consume_ms = created_ms
        self._stored_offset = NOTHING_PUT

    @property
    def state(self) -> State:
        if self.is_given_up:
            return State.GIVEN_UP
        return State.PULLING if self.settle_until_ms == NOT_SETTLING else State.SETTLING

    @property
    def is_pulled(self) -> bool:
        return not self.is_given_up and self.settle_until_ms == NOT_SETTLING

    # --- messages come and are done ----------------------------------------------------------------------------------

    def pulled(self, messages: Sequence[MessageExt], next_offset: int) -> list[MessageExt]:
        """Take in the messages of a pull; the next one begins at `next_offset`. Returns the new messages, in order."""
        if not self.is_pulled:
            return []
        self.next_offset = next_offset
        self.is_refused = False
        if not messages:
            self._nothing_left(next_offset)
            return []
        return self.cache.put(messages)

    def held(self, messages: Iterable[MessageExt]) -> list[MessageExt]:
        """The given messages that are not finished yet; empty when the queue was given up."""
        return [] if self.is_given_up else [message for message in messages if self.cache.holds(message)]

    def finished(self, messages: Iterable[MessageExt]) -> None:
        """Mark these messages as finished: they were consumed or sent back, or became dead letters."""
        if self.is_given_up:
            return
        commit = self.cache.remove(messages)
        if commit > self.commit_offset:
            self.commit_offset = commit

    def call_withdrawn(self) -> None:
        """Take back a call that `next_step` returned and that will not be made; only ordered queues wait for calls."""

    def _nothing_left(self, next_offset: int) -> None:
        if self.cache.count == 0 and next_offset > self.commit_offset:
            self.commit_offset = next_offset

    # --- offsets -----------------------------------------------------------------------------------------------------

    def to_store(self, now_ms: int) -> int | None:
        """The offset to store now, None when there is none. Ask when sending it, not earlier: a reset may change it."""
        if self.is_given_up or self.commit_offset == self._stored_offset:
            return None
        return self.commit_offset

    def is_pressing(self) -> bool:
        """Whether to store the offset before it is due: True once for each UNSTORED_MAX messages, even if that store
        fails."""
        if self.commit_offset < self._pressing_offset:
            return False
        self._pressing_offset = self.commit_offset + UNSTORED_MAX
        return True

    def stored(self, offset: int) -> None:
        self._stored_offset = offset
        if offset <= self.commit_offset:    # otherwise the queue was reset while the offset was on its way
            self.is_reset = False

    def forget_stored(self) -> None:
        """Store the offset again, because the broker may have lost it."""
        self._stored_offset = NOTHING_PUT

    # --- its end -----------------------------------------------------------------------------------------------------

    def is_locked(self, now_ms: int) -> bool:
        """Whether this client alone may consume the queue; only ordered queues need that."""
        return True

    @property
    def is_settled(self) -> bool:
        """Whether nothing is under way whose end must be awaited."""
        return True

    def settle(self, until_ms: int) -> None:
        """Begin nothing more; the queue is given up when it `is_settled`, or at `until_ms`."""
        self.settle_until_ms = until_ms

    def reset(self, offset: int) -> None:
        """Reset a queue that is settling: its next owner begins at `offset`, and results of running calls are
        ignored."""
        assert not self.is_pulled, "a queue that is being pulled is taken again instead"
        self.cache = ProcessQueue()
        self.commit_offset = offset
        self._stored_offset = NOTHING_PUT
        self.is_reset = True

    def give_up(self) -> None:
        self.is_given_up = True
