"""Any order of pulls, calls, failures, resets, hand-overs and locks, against a model of what one queue may do."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from regulus.client.core.ordered_queue import Call, DeadLetter, OrderedQueue, OrderRules, Step, WakeAt
from regulus.client.core.owned_queue import OwnedQueue, State
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

QUEUE = MessageQueue("T", "a", 0)
SUSPEND_MS = 100
TRUSTED_MS = 1000
UNREADABLE = frozenset(range(4, 4000, 7))


class OrderedTakings(RuleBasedStateMachine):
    """The broker's side is `stored`; ours a chain of takings, of which the last one may be owned."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.stored = 0
        self.owned: OrderedQueue | None = None
        self.last: OrderedQueue | None = None
        self.under_way: list[tuple[OrderedQueue, Step]] = []
        self.order = OrderRules(batch_size_max=1, reconsume_times_max=-1, suspend_ms=SUSPEND_MS)
        self.rests_until = 0
        self.head = 0
        self.failures = 0
        self.limit = -1

    @initialize(size=st.integers(1, 3), limit=st.sampled_from([-1, 0, 2]))
    def rules(self, size: int, limit: int) -> None:
        self.limit = limit
        self.order = OrderRules(batch_size_max=size, reconsume_times_max=limit, suspend_ms=SUSPEND_MS)
        self.take(0, is_reset=False)
        self.pulled(3, 0)

    def take(self, start: int, is_reset: bool) -> None:
        self.owned = self.last = OrderedQueue(QUEUE, start, self.now, self.order, after=self.last, is_reset=is_reset,
                                              locked_until_ms=self.now + TRUSTED_MS)
        self.head, self.rests_until, self.failures = start, 0, 0

    @precondition(lambda self: self.owned is None)
    @rule()
    def taken(self) -> None:
        self.take(self.stored, is_reset=False)

    @precondition(lambda self: self.owned is not None)
    @rule(offset=st.integers(0, 60))
    def reset(self, offset: int) -> None:
        assert self.owned is not None
        if self.owned.is_pulled:
            self.owned.give_up()
            self.take(offset, is_reset=True)
        else:
            self.owned.reset(offset)
            self.head = offset
        self.stored = offset    # as an operator wants it: a smaller offset may be stored from here on

    @precondition(lambda self: self.owned is not None)
    @rule(count=st.sampled_from([0, 1, 2, 4]), gap=st.integers(0, 3))
    def pulled(self, count: int, gap: int) -> None:
        owned = self.owned
        assert owned is not None
        begin = owned.next_offset
        batch = [MessageExt("T", b"x", {}, queue_offset=begin + number) for number in range(count)]
        fresh = owned.pulled(batch, begin + count + (gap if not count else 0))
        owned.queued(fresh, {offset: "bad" for offset in range(begin, begin + count) if offset in UNREADABLE})
        self.next_step()

    @rule(ms=st.integers(1, 150))
    def time_passes(self, ms: int) -> None:
        self.now += ms
        self.next_step()

    def next_step(self) -> None:
        """Asked for after every event, as the consumer does."""
        owned = self.owned
        if owned is None:
            return
        step = owned.next_step(self.now)
        if isinstance(step, WakeAt):
            assert step.at_ms == self.rests_until > self.now
        elif step is not None:
            assert not self.under_way, "two calls at once in one queue"
            assert owned.is_locked(self.now)
            assert owned.state is State.CALLING
            assert self.now >= self.rests_until, "the rest was cut short"
            offsets = [message.queue_offset for message in step.messages]
            assert offsets == sorted(set(offsets))
            assert offsets[0] >= self.head, "a message came again after it was done"
            assert owned.cache.commit_offset() == offsets[0], "a message was passed over"
            assert isinstance(step, Call) or offsets[0] in UNREADABLE
            assert isinstance(step, DeadLetter) or not UNREADABLE.intersection(offsets)
            self.under_way.append((owned, step))

    @precondition(lambda self: self.under_way)
    @rule(is_success=st.sampled_from([True, False, False]))
    def ended(self, is_success: bool) -> None:
        owned, step = self.under_way.pop()
        before = owned.commit_offset
        counts = not owned.is_given_up and bool(owned.held(step.messages))
        assert not isinstance(step, WakeAt)
        if isinstance(step, DeadLetter):
            owned.dead_lettered(step.messages if is_success else (), self.now)
        else:
            said = owned.call_ended(is_success, -1, self.now)
            if isinstance(said, DeadLetter):
                assert 0 <= self.limit == self.failures, "it was tried as often as allowed"
                assert [each.queue_offset for each in said.messages] == [each.queue_offset for each in step.messages]
                self.under_way.append((owned, said))
                return
        if not counts:
            assert owned.commit_offset == before
        elif is_success:
            self.head, self.failures = step.messages[-1].queue_offset + 1, 0
            assert owned.commit_offset >= self.head
        else:
            self.rests_until = self.now + SUSPEND_MS
            self.failures += isinstance(step, Call)
            assert owned.commit_offset <= step.messages[0].queue_offset
        self.next_step()

    @precondition(lambda self: self.owned is not None)
    @rule(is_ours=st.sampled_from([True, True, True, False]))
    def lock_asked_for(self, is_ours: bool) -> None:
        owned = self.owned
        assert owned is not None
        was_locked = owned.is_locked(self.now)
        if not is_ours:
            owned.lock_lost()
            assert not owned.is_locked(self.now)
        elif not owned.lock_renewed(self.now, self.now + TRUSTED_MS):
            assert not was_locked
            owned.give_up()
            self.owned = None
        self.next_step()

    @precondition(lambda self: self.owned is not None)
    @rule()
    def store(self) -> None:
        owned = self.owned
        assert owned is not None
        offset = owned.to_store(self.now)
        if offset is not None:
            assert owned.is_locked(self.now)
            assert offset >= self.stored, "the stored offset went back"
            self.stored = offset
            owned.stored(offset)
            assert owned.to_store(self.now) is None

    @precondition(lambda self: self.owned is not None and self.owned.is_pulled)
    @rule()
    def settle(self) -> None:
        assert self.owned is not None
        self.owned.settle(self.now + 500)

    @precondition(lambda self: self.owned is not None and not self.owned.is_pulled)
    @rule()
    def released(self) -> None:
        assert self.owned is not None
        self.store()
        self.owned.give_up()
        self.owned = None

    @invariant()
    def at_most_one_call_runs(self) -> None:
        assert len(self.under_way) <= 1
        if self.owned is not None and self.under_way:
            assert self.owned.next_step(self.now) is None


class ConcurrentTakings(RuleBasedStateMachine):
    """Any number of calls; results of takings that are over come in between."""

    def __init__(self) -> None:
        super().__init__()
        self.owned = OwnedQueue(QUEUE, 0, 0)
        self.stored = 0
        self.under_way: list[tuple[OwnedQueue, MessageExt]] = []
        self.unfinished: set[int] = set()
        self.end = 0

    @rule(count=st.integers(0, 4))
    def pulled(self, count: int) -> None:
        begin = self.owned.next_offset
        batch = [MessageExt("T", b"x", {}, queue_offset=begin + number) for number in range(count)]
        fresh = self.owned.pulled(batch, begin + count)
        assert fresh == batch
        self.under_way += [(self.owned, message) for message in fresh]
        self.unfinished.update(message.queue_offset for message in fresh)
        self.end = begin + count

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def finished(self, data: st.DataObject) -> None:
        owned, message = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        assert (owned is self.owned) == bool(owned.held((message,)))
        owned.finished((message,))
        if owned is self.owned:
            self.unfinished.discard(message.queue_offset)

    @rule(offset=st.integers(0, 40))
    def reset(self, offset: int) -> None:
        self.owned.give_up()
        self.owned = OwnedQueue(QUEUE, offset, 0, is_reset=True)
        self.stored, self.unfinished, self.end = offset, set(), offset

    @rule()
    def taken_over_by_another_and_back(self) -> None:
        self.store()
        self.owned.give_up()
        self.owned = OwnedQueue(QUEUE, self.stored, 0)
        self.unfinished, self.end = set(), self.stored

    @rule()
    def store(self) -> None:
        offset = self.owned.to_store(0)
        if offset is not None:
            assert offset >= self.stored
            assert offset <= min(self.unfinished, default=self.end), "an offset was stored before its message was done"
            self.stored = offset
            self.owned.stored(offset)


TestOrderedTakings = OrderedTakings.TestCase
TestConcurrentTakings = ConcurrentTakings.TestCase
