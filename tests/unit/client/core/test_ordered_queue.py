"""A queue in order: one call at a time, rests that are kept, locks that are respected."""

import pytest

from regulus.client.core.ordered_queue import (
    NEEDS_NO_LOCK,
    Blocked,
    Call,
    DeadLetter,
    MessagePlace,
    OrderedQueue,
    OrderRules,
    WakeAt,
    suspend_ms,
)
from regulus.client.core.owned_queue import State
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

QUEUE = MessageQueue("T", "a", 0)
LATER = 1 << 40


def messages(*offsets):
    return [MessageExt("T", b"x", {}, queue_offset=offset) for offset in offsets]


def ordered(size=1, limit=-1, locked_until=NEEDS_NO_LOCK, start=0, **options):
    rules = OrderRules(batch_size_max=size, reconsume_times_max=limit, suspend_ms=1000)
    return OrderedQueue(QUEUE, start, 0, rules, locked_until_ms=locked_until, **options)


def with_messages(*offsets, unreadable=None, **settings):
    owned = ordered(**settings)
    owned.queued(owned.pulled(messages(*offsets), offsets[-1] + 1), unreadable or {})
    return owned


def offsets_of(step):
    return [message.queue_offset for message in step.messages]


def call(owned, now=0):
    step = owned.next_step(now)
    assert isinstance(step, Call)
    return offsets_of(step)


def test_one_batch_is_called_at_a_time_and_the_next_when_it_succeeded():
    owned = with_messages(0, 1, 2, size=2)
    assert call(owned) == [0, 1]
    assert owned.state is State.CALLING
    assert owned.next_step(0) is None
    owned.call_ended(True, -1, 0)
    assert owned.to_store(0) == 2
    assert call(owned) == [2]
    owned.call_ended(True, -1, 0)
    assert owned.next_step(0) is None
    assert owned.state is State.PULLING


def test_a_failed_batch_comes_again_after_its_rest_whatever_arrives():
    owned = with_messages(0)
    call(owned)
    owned.call_ended(False, 500, 100)
    assert owned.state is State.SUSPENDED
    for now in range(100, 600, 20):
        owned.queued(owned.pulled(messages(now), now + 1), {})
        assert owned.next_step(now) == WakeAt(600)
    step = owned.next_step(600)
    assert [(each.queue_offset, each.reconsume_times) for each in step.messages] == [(0, 1)]


def test_no_call_begins_without_the_lock():
    owned = with_messages(0, 1, locked_until=100)
    assert owned.next_step(100) is None
    assert call(owned, 99) == [0]
    owned.call_ended(True, -1, 100)
    assert owned.next_step(100) is None


def test_a_lock_that_is_renewed_in_time_goes_on_and_one_that_had_lapsed_does_not():
    owned = with_messages(0, locked_until=100)
    assert owned.lock_renewed(99, 130)
    assert call(owned, 129) == [0]
    assert not owned.lock_renewed(130, 160)
    assert not owned.is_locked(131)


def test_a_lock_that_another_member_has_is_lost_at_once():
    owned = with_messages(0, locked_until=100)
    owned.lock_lost()
    assert owned.next_step(1) is None
    assert not owned.lock_renewed(2, 130)


def done_up_to(offset, start=5, stores=()):
    """A queue whose messages before this one are done; of which offsets were to be stored on the way."""
    owned = with_messages(*range(start, offset + 1), start=start)
    for each in range(start, offset):
        call(owned)
        owned.call_ended(True, -1, 0)
        if each + 1 in stores:
            assert owned.to_store(0) == each + 1
    return owned


@pytest.mark.parametrize("stored", [5, 7, 9])
def test_behind_a_lost_lock_it_goes_on_where_it_was_if_the_broker_has_an_offset_of_its_own(stored):
    """That of its begin, or one that it sent, whether that was answered or not: a broker forgets the last ones."""
    owned = done_up_to(10, stores=(7, 9))
    owned.lock_lost()
    owned.give_up()
    assert owned.goes_on_at(stored) == 10


@pytest.mark.parametrize("stored", [4, 6, 8, 10, 11])
def test_behind_a_lost_lock_another_one_s_offset_or_reset_counts(stored):
    owned = done_up_to(10, stores=(7, 9))
    assert owned.goes_on_at(stored) is None


def test_the_last_message_that_succeeded_is_known_by_its_place():
    owned = with_messages(0, 1, 2, size=2)
    assert owned.last_done is None
    call(owned)
    owned.call_ended(True, -1, 0)
    call(owned)
    owned.call_ended(False, -1, 0)
    assert owned.last_done == MessagePlace.of(messages(1)[0])


@pytest.mark.parametrize("other", [{"queue_offset": 2}, {"physical_offset": 8}, {"store_timestamp": 9},
                                   {"properties": {"UNIQ_KEY": "V"}}])
def test_a_message_that_lies_where_another_one_lay_is_another_one(other):
    there = {"queue_offset": 1, "physical_offset": 7, "store_timestamp": 8, "properties": {"UNIQ_KEY": "U"}}
    assert MessagePlace.of(MessageExt("T", b"x", **there)) == MessagePlace.of(MessageExt("T", b"y", **there))
    assert MessagePlace.of(MessageExt("T", b"x", **there)) != MessagePlace.of(MessageExt("T", b"x", **(there | other)))


def test_behind_a_lost_lock_what_the_broker_passed_over_is_looked_at_anew():
    owned = done_up_to(11, start=5)
    call(owned)
    owned.call_ended(True, -1, 0)
    owned.pulled([], 30)
    assert owned.commit_offset == 30
    assert owned.goes_on_at(5) == 12
    assert owned.to_store(0) == 30
    assert owned.goes_on_at(30) is None


def test_a_taking_that_goes_on_knows_what_the_one_before_it_stored():
    before = done_up_to(10, stores=(7, 9))
    owned = with_messages(10, 11, 12, start=10)
    owned.follow(before)
    assert [owned.goes_on_at(stored) for stored in (5, 10)] == [10, None]
    for _ in range(2):
        call(owned)
        owned.call_ended(True, -1, 0)
    assert [owned.goes_on_at(stored) for stored in (5, 7, 8, 9, 10)] == [12, 12, None, 12, 12]


def test_a_taking_that_has_done_nothing_yet_knows_the_last_message_of_the_one_before_it():
    """So that it goes on there, too, when its lock is lost at once and its broker has forgotten the last store."""
    before = done_up_to(10, stores=(7,))
    owned = ordered(start=10)
    owned.follow(before)
    owned.pulled((), 10)        # it goes on where it was, and stores that
    assert owned.goes_on_at(7) == 10
    assert owned.last_done == before.last_done == MessagePlace.of(messages(9)[0])


def test_an_offset_is_not_stored_without_the_lock():
    owned = with_messages(0, locked_until=100)
    call(owned)
    owned.call_ended(True, -1, 50)
    assert owned.to_store(99) == 1
    assert owned.to_store(100) is None


def test_a_limit_of_three_allows_four_tries_and_then_a_dead_letter():
    owned = with_messages(0, 1, limit=3)
    now = 0
    for _ in range(3):
        call(owned, now)
        assert not isinstance(owned.call_ended(False, -1, now), DeadLetter)
        now += 1000
    call(owned, now)
    dead = owned.call_ended(False, -1, now)
    assert isinstance(dead, DeadLetter)
    assert offsets_of(dead) == [0]
    assert owned.next_step(now) is None, "nothing overtakes a message on its way to the dead letters"
    owned.dead_lettered(dead.messages, now)
    assert owned.to_store(now) == 1
    assert call(owned, now) == [1]


def test_a_lost_queue_makes_no_dead_letter_and_takes_no_rest():
    lost, dying = with_messages(0, limit=0), with_messages(0, limit=0)
    call(lost)
    lost.give_up()
    assert lost.call_ended(False, -1, 0) is None
    assert lost.is_settled, "the next owner's dead letter is the only one"
    call(dying)
    dead = dying.call_ended(False, -1, 0)
    assert isinstance(dead, DeadLetter)
    dying.give_up()
    assert dying.dead_lettered((), 0) is None
    assert dying.tries == 0


def test_a_dead_letter_that_no_broker_takes_stays_in_its_place_and_those_taken_leave_it():
    owned = with_messages(0, 1, 2, size=2, limit=0)
    call(owned)
    dead = owned.call_ended(False, -1, 0)
    owned.dead_lettered(dead.messages[:1], 0)
    assert owned.to_store(0) == 1
    assert owned.next_step(999) == WakeAt(1000)
    assert call(owned, 1000) == [1]


def test_minus_one_allows_any_number_of_tries():
    owned = with_messages(0)
    for number in range(50):
        call(owned, number * 1000)
        assert not isinstance(owned.call_ended(False, -1, number * 1000), DeadLetter)


def test_a_blocked_queue_is_told_after_three_tries_and_then_at_growing_distances():
    owned = with_messages(0, 1)
    told = []
    for number in range(30):
        call(owned, number * 1000)
        said = owned.call_ended(False, -1, number * 1000)
        if isinstance(said, Blocked):
            told.append((said.message.queue_offset, said.tries, said.age_ms))
    assert told == [(0, 3, 2000), (0, 6, 5000), (0, 12, 11_000), (0, 24, 23_000)]
    assert owned.is_blocked
    call(owned, 30_000)
    owned.call_ended(True, -1, 30_000)
    assert not owned.is_blocked


def test_a_message_that_cannot_be_read_is_a_dead_letter_in_its_turn():
    owned = with_messages(0, 1, 2, 3, size=3, unreadable={1: "no zlib stream"})
    assert call(owned) == [0]
    owned.call_ended(True, -1, 0)
    bad = owned.next_step(0)
    assert isinstance(bad, DeadLetter)
    assert (offsets_of(bad), bad.reason) == ([1], "no zlib stream")
    owned.dead_lettered((), 0)
    assert owned.next_step(1) == WakeAt(1000)
    bad = owned.next_step(1000)
    assert isinstance(bad, DeadLetter)
    owned.dead_lettered(bad.messages, 1000)
    assert call(owned, 1000) == [2, 3]


def test_a_queue_that_settles_begins_nothing_and_waits_for_its_call():
    owned = with_messages(0, 1)
    call(owned)
    owned.settle(LATER)
    assert not owned.is_settled
    owned.call_ended(True, -1, 0)
    assert owned.is_settled
    assert owned.next_step(0) is None
    assert owned.to_store(0) == 1


def test_a_reset_while_a_call_runs_lets_its_result_count_for_nothing():
    owned = with_messages(500, 501)
    call(owned)
    owned.settle(LATER)
    owned.reset(10)
    owned.call_ended(True, -1, 0)
    assert owned.is_settled
    assert owned.to_store(0) == 10


def test_a_reset_while_a_call_runs_lets_its_failure_make_no_dead_letters():
    owned = with_messages(500, 501, limit=0)
    call(owned)
    owned.settle(LATER)
    owned.reset(10)
    assert owned.call_ended(False, -1, 0) is None
    assert owned.is_settled


def test_the_next_taking_calls_only_after_the_call_of_the_one_before_ended():
    old = with_messages(0)
    call(old)
    old.give_up()
    fresh = with_messages(0, after=old)
    newest = with_messages(0, after=fresh)
    fresh.give_up()
    assert newest.next_step(0) is None
    assert newest.unfinished() is old
    old.call_ended(True, -1, 0)
    assert old.commit_offset == -1, "the late result counts for nothing"
    assert call(newest) == [0]


def test_a_taking_is_settled_only_after_the_call_of_the_one_before_ended():
    old = with_messages(0)
    call(old)
    old.give_up()
    fresh = with_messages(0, after=old)
    fresh.settle(LATER)
    assert not fresh.is_settled
    old.call_ended(True, -1, 0)
    assert fresh.is_settled


@pytest.mark.parametrize(("wished", "pause"), [(-1, 1000), (1, 10), (60_000, 30_000), (500, 500)])
def test_rests_are_between_10_ms_and_30_s(wished, pause):
    assert suspend_ms(wished, 1000) == pause


def test_a_taking_is_not_settled_while_a_call_of_one_before_it_runs():
    first = with_messages(0)
    call(first)
    second = ordered(after=first)
    third = ordered(after=second)
    third.settle(10)
    assert not second.is_settled
    assert not third.is_settled
    first.call_ended(True, -1, 0)
    assert second.is_settled
    assert third.is_settled
