"""One taking of a queue: what counts, and what may be stored."""

from regulus.client.core.owned_queue import UNSTORED_MAX, OwnedQueue, State
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

QUEUE = MessageQueue("T", "a", 0)
LATER = 99


def messages(*offsets):
    return [MessageExt("T", b"x", {}, queue_offset=offset) for offset in offsets]


def owned_from(start, **options):
    return OwnedQueue(QUEUE, start, 0, **options)


def test_nothing_is_to_be_stored_before_something_is_done():
    owned = owned_from(5)
    assert owned.to_store(0) is None
    owned.pulled(messages(5, 6), 7)
    assert owned.to_store(0) is None


def test_the_smallest_offset_that_is_not_done_is_stored_once():
    owned = owned_from(5)
    five, six = owned.pulled(messages(5, 6), 7)
    owned.finished([six])
    assert owned.to_store(0) == 5
    owned.finished([five])
    assert owned.to_store(0) == 7
    owned.stored(7)
    assert owned.to_store(0) is None


def test_a_pull_that_finds_nothing_moves_on_only_when_nothing_is_cached():
    owned = owned_from(5)
    (five,) = owned.pulled(messages(5), 6)
    owned.pulled((), 9)
    assert owned.commit_offset == -1
    owned.finished([five])
    assert owned.commit_offset == 6
    owned.pulled((), 9)
    assert (owned.commit_offset, owned.next_offset) == (9, 9)


def test_an_offset_never_goes_back_within_a_taking():
    owned = owned_from(5)
    owned.pulled((), 9)
    again = owned.pulled(messages(3, 4), 5)
    owned.finished(again)
    assert owned.commit_offset == 9
    owned.pulled((), 5)
    assert owned.commit_offset == 9


def test_a_reset_is_stored_even_when_it_goes_back():
    owned = owned_from(3, is_reset=True)
    assert owned.to_store(0) == 3
    assert owned.next_offset == 3


def test_what_was_given_up_counts_for_nothing():
    owned = owned_from(5)
    got = owned.pulled(messages(5, 6), 7)
    owned.finished(got[:1])
    owned.give_up()
    owned.finished(got[1:])
    assert owned.state is State.GIVEN_UP
    assert owned.to_store(0) is None
    assert owned.held(got) == []
    assert owned.pulled(messages(7), 8) == []
    assert (owned.commit_offset, owned.next_offset) == (6, 7)


def test_while_it_settles_nothing_is_pulled_and_results_still_count():
    owned = owned_from(5)
    got = owned.pulled(messages(5), 6)
    owned.settle(LATER)
    assert owned.state is State.SETTLING
    assert owned.is_settled
    assert owned.pulled(messages(6), 7) == []
    owned.finished(got)
    assert owned.to_store(0) == 6


def test_a_reset_while_it_settles_is_what_the_next_owner_begins_with_whatever_ends_later():
    owned = owned_from(5)
    got = owned.pulled(messages(500, 501), 502)
    owned.finished(got[:1])
    owned.stored(501)
    owned.settle(LATER)
    owned.reset(10)
    owned.finished(got[1:])
    assert owned.to_store(0) == 10


def test_a_reset_to_what_was_stored_last_is_stored_again_as_a_later_one_may_have_been_sent_since():
    owned = owned_from(0)
    got = owned.pulled(messages(4, 5), 6)
    owned.finished(got[:1])
    owned.stored(5)
    owned.finished(got[1:])
    assert owned.to_store(0) == 6, "sent, and not answered: the broker may have it"
    owned.settle(LATER)
    owned.reset(5)
    assert owned.to_store(0) == 5


def test_many_messages_that_are_done_are_stored_before_it_is_due_and_once_only():
    owned = owned_from(5)
    got = owned.pulled(messages(*range(5, 5 + 2 * UNSTORED_MAX)), 5 + 2 * UNSTORED_MAX)
    owned.finished(got[:UNSTORED_MAX - 1])
    assert not owned.is_pressing()
    owned.finished(got[UNSTORED_MAX - 1:UNSTORED_MAX])
    assert [owned.is_pressing() for _ in range(2)] == [True, False]
    owned.finished(got[UNSTORED_MAX:-1])
    assert not owned.is_pressing()
    owned.finished(got[-1:])
    assert owned.is_pressing()
