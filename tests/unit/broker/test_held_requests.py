"""Requests that wait."""

from hypothesis import given
from hypothesis import strategies as st

from regulus.broker.held_requests import FORGOTTEN_MAX, HeldRequest, HeldRequests
from regulus.model.store_result import Arrival
from regulus.wire.remoting_command import RemotingCommand


def held(channel: int = 1, topic: str = "T", queue_id: int = 0, queue_offset: int = 0, deadline_ms: int = 100,
         codes: frozenset[int] | None = None) -> HeldRequest:
    return HeldRequest(channel, topic, queue_id, queue_offset, codes, deadline_ms, lambda now_ms: RemotingCommand(0))


def arrival(topic: str = "T", queue_id: int = 0, queue_offset: int = 0, code: int = 0) -> Arrival:
    return Arrival(topic, queue_id, queue_offset, code, 0)


def test_an_arrival_wakes_those_who_wait_at_or_before_it():
    requests = HeldRequests()
    early, late = held(queue_offset=3), held(queue_offset=9)
    requests.hold(early)
    requests.hold(late)
    assert requests.woken([arrival(queue_offset=5)]) == [early]
    assert requests.woken([arrival(queue_offset=8), arrival(queue_id=1, queue_offset=9)]) == []
    assert requests.woken([arrival(queue_offset=9), arrival(queue_offset=10)]) == [late]
    assert len(requests) == 0
    assert not requests.queues


def test_a_deadline_passes_once():
    requests = HeldRequests()
    first, second = held(deadline_ms=10), held(deadline_ms=20)
    requests.hold(second)
    requests.hold(first)
    assert requests.wait_ms(0) == 10
    assert requests.expired(9) == []
    assert requests.expired(10) == [first]
    assert requests.expired(10) == []
    assert requests.wait_ms(25) == 0
    assert requests.expired(30) == [second]
    assert requests.wait_ms(30) is None


def test_a_woken_request_does_not_expire():
    requests = HeldRequests()
    requests.hold(held(deadline_ms=10))
    requests.woken([arrival()])
    assert requests.wait_ms(0) is None
    assert requests.expired(10) == []


def test_it_is_full_at_its_limit():
    requests = HeldRequests(count_max=1)
    assert not requests.is_full
    requests.hold(held())
    assert requests.is_full
    requests.drop_channel(1)
    assert not requests.is_full


def test_woken_requests_do_not_pile_up_until_their_deadlines():
    requests = HeldRequests()
    for _ in range(5 * FORGOTTEN_MAX):
        requests.hold(held(deadline_ms=15_000))
        requests.woken([arrival()])
    assert len(requests._deadlines) <= FORGOTTEN_MAX + 2


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 50)), max_size=30),
       st.lists(st.sampled_from(["wake", "expire", "drop"]), max_size=10), st.data())
def test_each_request_leaves_exactly_once(given_requests, steps, data):
    requests = HeldRequests()
    all_held = [held(channel, queue_id=queue, deadline_ms=deadline) for channel, queue, deadline in given_requests]
    for request in all_held:
        requests.hold(request)
    left: list[HeldRequest] = []
    for step in steps:
        number = data.draw(st.integers(0, 50))
        if step == "wake":
            left += requests.woken([arrival(queue_id=number % 3)])
        elif step == "expire":
            left += requests.expired(number)
        else:
            left += [r for r in all_held if not r.is_gone and r.channel == number % 3]
            requests.drop_channel(number % 3)
    left += requests.expired(1000)
    assert not requests._channels
    assert sorted(map(id, left)) == sorted(map(id, all_held))
    assert len(requests) == 0
