"""Requests that wait."""

import weakref
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.broker.held_requests import (
    ANY_QUEUE,
    BLOCK_SIZE_MAX,
    LINES_MAX,
    HeldPlace,
    HeldRequest,
    HeldRequests,
)
from regulus.model.message_filter import Filter
from regulus.model.peer import Peer
from regulus.model.store_result import Arrival
from regulus.wire.remoting_command import RemotingCommand


def held(channel: int = 1, topic: str = "T", queue_id: int = 0, queue_offset: int = 0, deadline_ms: int = 100,
         codes: set[int] | None = None, places: tuple[HeldPlace, ...] | None = None) -> HeldRequest:
    return HeldRequest(RemotingCommand(11), Peer(channel, b"", b""),
                       places or (HeldPlace(topic, queue_id, queue_offset),),
                       Filter(None if codes is None else frozenset(codes)), deadline_ms,
                       lambda now_ms: RemotingCommand(0))


def holding(*all_held: HeldRequest) -> HeldRequests:
    requests = HeldRequests()
    for each in all_held:
        requests.hold(each)
    return requests


def arrival(topic: str = "T", queue_id: int = 0, queue_offset: int = 0, code: int = 0) -> Arrival:
    return Arrival(topic, queue_id, queue_offset, code, 0)


def woken(requests: HeldRequests, *arrivals: Arrival) -> list[HeldRequest]:
    requests.wake(arrivals)
    return requests.take_ready(1_000_000)


def expired(requests: HeldRequests, steady_ms: int) -> list[HeldRequest]:
    requests.wake_expired(steady_ms)
    return requests.take_ready(1_000_000)


def test_an_arrival_wakes_those_who_wait_at_or_before_it():
    early, late = held(queue_offset=3), held(queue_offset=9)
    requests = holding(late, early)
    assert woken(requests, arrival(queue_offset=5)) == [early]
    assert woken(requests, arrival(queue_offset=8), arrival(queue_id=1, queue_offset=9)) == []
    assert woken(requests, arrival(queue_offset=9), arrival(queue_offset=10)) == [late]
    assert len(requests) == 0
    assert not requests.queues


def test_an_arrival_wakes_those_who_want_its_tag():
    one, other, every = held(codes={1, 2}), held(codes={3}), held()
    requests = holding(one, other, every)
    assert woken(requests, arrival(code=2)) == [every, one]
    assert woken(requests, arrival(code=1), arrival(code=4)) == []
    assert woken(requests, arrival(code=3)) == [other]


def test_who_wants_more_tags_than_there_are_lines_is_woken_by_any():
    requests = holding(held(codes=set(range(LINES_MAX + 1))))
    assert len(woken(requests, arrival(code=-5))) == 1


def test_the_first_in_line_comes_first():
    all_held = [held(channel) for channel in range(5)]
    requests = holding(*all_held)
    requests.wake([arrival()])
    assert requests.take_ready(2) == all_held[:2]
    assert requests.wait_ms(0) == 0
    assert requests.take_ready(9) == all_held[2:]


def test_a_request_at_several_places_is_woken_once():
    both = held(places=(HeldPlace("T", 0, 5), HeldPlace("T", 1, 7)))
    requests = holding(both)
    assert woken(requests, arrival(queue_id=1, queue_offset=6), arrival(queue_id=0, queue_offset=4)) == []
    assert woken(requests, arrival(queue_id=1, queue_offset=7), arrival(queue_id=0, queue_offset=5)) == [both]
    assert not requests.queues


def test_who_comes_while_others_are_ready_is_woken_too():
    """Those leave a line that stands no more; another stands at its place."""
    early, late = held(), held(channel=2)
    requests = holding(early)
    requests.wake([arrival()])
    requests.hold(late)
    assert requests.take_ready(10) == [early]
    assert woken(requests, arrival(queue_offset=1)) == [late]


def test_a_request_waits_for_a_whole_topic():
    any_queue = held(places=(HeldPlace("T", ANY_QUEUE),))
    requests = holding(any_queue, held(topic="U"))
    assert ("T", 7) in requests.queues
    assert ("U", 0) in requests.queues
    assert ("V", 0) not in requests.queues
    assert woken(requests, arrival(queue_id=3, queue_offset=0)) == [any_queue]
    assert ("T", 7) not in requests.queues


def test_all_of_a_queue_are_woken_whatever_they_wait_for():
    all_held = [held(queue_offset=9), held(codes={5})]
    requests = holding(*all_held, held(queue_id=1))
    requests.wake_queue("T", 0)
    assert requests.take_ready(9) == all_held
    requests.wake_queue("T", 0)
    assert requests.take_ready(9) == []


def test_all_of_a_queue_are_woken_while_others_of_it_are_ready():
    early, late = held(), held(queue_offset=9, codes={5})
    requests = holding(early, late)
    requests.wake([arrival()])
    requests.wake_queue("T", 0)
    assert requests.take_ready(9) == [early, late]
    assert not requests.queues


def test_a_deadline_passes_once():
    first, second = held(deadline_ms=10), held(deadline_ms=20)
    requests = holding(second, first)
    assert requests.wait_ms(0) == 10
    assert expired(requests, 9) == []
    assert expired(requests, 10) == [first]
    assert expired(requests, 10) == []
    assert requests.wait_ms(25) == 0
    assert expired(requests, 30) == [second]
    assert requests.wait_ms(30) is None


def test_a_woken_request_does_not_expire():
    requests = holding(held(deadline_ms=10))
    woken(requests, arrival())
    assert requests.wait_ms(0) is None
    assert expired(requests, 10) == []


def test_what_is_ready_is_forgotten_with_its_connection():
    requests = holding(held(1), held(2))
    requests.wake([arrival()])
    requests.drop_channel(1)
    assert [each.channel for each in requests.take_ready(9)] == [2]
    assert len(requests) == 0


def test_it_is_full_at_its_limit():
    requests = HeldRequests(count_max=1)
    assert not requests.is_full
    requests.hold(held())
    assert requests.is_full
    requests.drop_channel(1)
    assert not requests.is_full


def test_woken_requests_do_not_pile_up_until_their_deadlines():
    requests = HeldRequests()
    for _ in range(10):
        requests.hold(held(deadline_ms=15_000))
        woken(requests, arrival())
    assert len(requests._deadlines) == 0
    assert requests.wait_ms(0) is None


def test_who_left_does_not_pile_up_in_other_lines():
    requests = holding(held(codes={2}))
    for _ in range(10):
        requests.hold(held(codes={1, 2}))
        woken(requests, arrival(code=1))
    assert len(requests._places["T", 0][2]) == 1


@pytest.fixture
def touched() -> list[str]:
    """What was asked of the watched requests."""
    return []


@pytest.fixture
def watched(touched) -> Callable[..., HeldRequest]:
    """Makes a request that says when anybody looks at it."""
    class Watched(HeldRequest):
        __slots__ = ()

        def __getattribute__(self, name: str) -> object:
            touched.append(name)
            return super().__getattribute__(name)

    def make(channel: int, queue_offset: int, message_filter: Filter) -> HeldRequest:
        return Watched(RemotingCommand(11), Peer(channel, b"", b""), (HeldPlace("T", 0, queue_offset),), message_filter,
                       100, lambda now_ms: RemotingCommand(0))
    return make


@pytest.mark.parametrize("count", [100, 200])
def test_an_arrival_does_not_look_at_those_it_does_not_wake(count, watched, touched):
    requests = HeldRequests()
    for channel in range(count):
        requests.hold(watched(channel, 0, Filter(frozenset({1}))))
        requests.hold(watched(channel, 9, Filter()))
    touched.clear()
    requests.wake([arrival(code=2, queue_offset=8)] * 10)
    assert requests.take_ready(9) == []
    assert touched == []
    requests.drop_channel(0)
    assert len(touched) <= 20


@pytest.mark.parametrize("leave", ["expire", "close"])
def test_who_leaves_is_not_looked_for_among_the_others(leave, watched, touched):
    requests = HeldRequests()
    for channel in range(200):
        requests.hold(watched(channel, 0, Filter()))
    if leave == "expire":
        requests.wake_expired(100)
    for channel in range(200):
        touched.clear()
        requests.drop_channel(channel) if leave == "close" else requests.take_ready(1)
        requests.wait_ms(0)
        assert len(touched) <= 20
    assert len(requests) == 0


def test_who_is_left_in_a_line_is_woken_at_his_offset():
    chance = Random(1)
    for count in (200, 4 * BLOCK_SIZE_MAX):
        offsets = chance.sample(range(5 * count), count)
        gone = [held(1, queue_offset=offset) for offset in offsets[:count - 20]]
        left = [held(2, queue_offset=offset) for offset in offsets[count - 20:]]
        everyone = gone + left
        chance.shuffle(everyone)
        requests = holding(*everyone)
        requests.drop_channel(1)
        for request in sorted(left, key=lambda request: request.places[0].queue_offset):
            assert woken(requests, arrival(queue_offset=request.places[0].queue_offset)) == [request]


TAGS = st.sampled_from([None, {0}, {0, 1}])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 50), TAGS), max_size=30),
       st.lists(st.sampled_from(["wake", "expire", "drop", "take"]), max_size=10), st.data())
def test_each_request_leaves_exactly_once(given_requests, steps, data):
    all_held = [held(channel, deadline_ms=deadline, codes=codes, places=(HeldPlace("T", queue), HeldPlace("T", 7)))
                for channel, queue, deadline, codes in given_requests]
    requests = holding(*all_held)
    left: list[HeldRequest] = []
    for step in steps:
        number = data.draw(st.integers(0, 50))
        if step == "wake":
            requests.wake([arrival(queue_id=number % 3, code=number % 2)])
        elif step == "expire":
            requests.wake_expired(number)
        elif step == "take":
            left += requests.take_ready(number % 4)
        else:
            left += [r for r in all_held if not r.is_gone and r.channel == number % 3]
            requests.drop_channel(number % 3)
    left += requests.take_ready(1000)
    left += expired(requests, 1000)
    assert not requests._channels
    assert sorted(map(id, left)) == sorted(map(id, all_held))
    assert len(requests) == 0
    assert not requests.queues


def test_a_request_is_let_go_when_it_is_answered_and_when_its_connection_closes():
    class Request:
        """Something that can be watched."""

        def resume(self, now_ms: int) -> RemotingCommand:
            return RemotingCommand(now_ms)

    def hold(channel: int) -> weakref.ref:
        request = Request()
        requests.hold(HeldRequest(RemotingCommand(11), Peer(channel, b"", b""), (HeldPlace("T", 0),), Filter(), 100,
                                  request.resume))
        return weakref.ref(request)

    requests = holding(held(channel=9, codes={7}))
    answered, dropped = hold(1), hold(2)
    requests.drop_channel(2)
    assert [each.answer(5).code for each in woken(requests, arrival())] == [5]
    assert answered() is None
    assert dropped() is None
