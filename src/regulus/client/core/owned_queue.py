"""One taking of a queue: all that is known of it, and what is to be done next.

    PULLING ── settle ──> SETTLING ── give_up ──> GIVEN_UP
       └──────────────────── give_up ──────────────┘

Every taking is an object of its own, and what is under way for it carries the object: a result that comes when the
taking is GIVEN_UP counts for nothing, whoever has the queue by then. While it is SETTLING nothing is begun, but what
runs still counts. A reset of a queue that is pulled is a new taking; one that is settling keeps the offset for its next
owner. Here any number of calls may run at the same time; `ordered_queue` adds what one at a time needs.

The offset to store only grows within a taking, unless a reset says so, and a taking that is given up has none. So
neither a late result nor a timer can undo what a reset or a later taking stored.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto

from regulus.client.core.process_queue import NOTHING_PUT, ProcessQueue
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

NOT_SETTLING = 0

UNSTORED_MAX = 1_000
"""So many messages that are done are worth a store of their own: a kill would bring them again."""


class State(Enum):
    PULLING = auto()
    CALLING = auto()
    """An ordered queue has a call under way, or a dead letter."""
    SUSPENDED = auto()
    """An ordered queue rests after a failure."""
    SETTLING = auto()
    GIVEN_UP = auto()


class OwnedQueue:
    """`next_offset`: what the next pull asks for. `is_full`: its puller waits until the cache gets smaller.
    `is_refused`: its broker refuses what lies there. `is_reset`: its offset is wanted, and stored whatever the broker
    has.
    """

    __slots__ = ("_pressing_offset", "_stored_offset", "cache", "commit_offset", "is_full", "is_given_up",
                 "is_refused", "is_reset", "last_consume_ms", "last_pull_ms", "next_offset", "queue",
                 "settle_until_ms")

    is_ordered = False

    def __init__(self, queue: MessageQueue, start_offset: int, created_ms: int, *, is_reset: bool = False) -> None:
        """With `is_reset` the start offset is to be stored, whatever was stored before."""
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
        """A pull brought these, and the next one begins at `next_offset`. Those that are new, in order."""
        if not self.is_pulled:
            return []
        self.next_offset = next_offset
        self.is_refused = False
        if not messages:
            self._nothing_left(next_offset)
            return []
        return self.cache.put(messages)

    def held(self, messages: Iterable[MessageExt]) -> list[MessageExt]:
        """Those of the messages that are not done yet; none when the queue was given up."""
        return [] if self.is_given_up else [message for message in messages if self.cache.holds(message)]

    def finished(self, messages: Iterable[MessageExt]) -> None:
        """These are done: consumed, sent back or dead letters."""
        if self.is_given_up:
            return
        commit = self.cache.remove(messages)
        if commit > self.commit_offset:
            self.commit_offset = commit

    def call_withdrawn(self) -> None:
        """A call that `next_step` gave does not come; only ordered queues wait for its end."""

    def _nothing_left(self, next_offset: int) -> None:
        if self.cache.count == 0 and next_offset > self.commit_offset:
            self.commit_offset = next_offset

    # --- offsets -----------------------------------------------------------------------------------------------------

    def to_store(self, now_ms: int) -> int | None:
        """The offset that is to be stored now, None when there is none. Ask when it is sent, not before."""
        if self.is_given_up or self.commit_offset == self._stored_offset:
            return None
        return self.commit_offset

    def is_pressing(self) -> bool:
        """Whether to store before it is due; once for so many messages, whatever becomes of that store."""
        if self.commit_offset < self._pressing_offset:
            return False
        self._pressing_offset = self.commit_offset + UNSTORED_MAX
        return True

    def stored(self, offset: int) -> None:
        self._stored_offset = offset
        if offset <= self.commit_offset:    # else it was reset while that was on its way
            self.is_reset = False

    def forget_stored(self) -> None:
        """What was stored may be there no more: it is to be stored again."""
        self._stored_offset = NOTHING_PUT

    # --- its end -----------------------------------------------------------------------------------------------------

    def is_locked(self, now_ms: int) -> bool:
        """Whether nobody else may consume the queue; only ordered queues need that."""
        return True

    @property
    def is_settled(self) -> bool:
        """Nothing is under way whose end is worth waiting for."""
        return True

    def settle(self, until_ms: int) -> None:
        """Begin nothing more; the queue is given up when it `is_settled`, or at that time."""
        self.settle_until_ms = until_ms

    def reset(self, offset: int) -> None:
        """While it settles: the next owner begins there, and what runs counts for nothing."""
        assert not self.is_pulled, "a queue that is pulled is taken anew"
        self.cache = ProcessQueue()
        self.commit_offset = offset
        self._stored_offset = NOTHING_PUT
        self.is_reset = True

    def give_up(self) -> None:
        self.is_given_up = True
