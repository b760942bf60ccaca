"""What is held when the rules change: decided anew, in parts, and answered only when it still may be."""

from collections import deque
from types import SimpleNamespace

import pytest

from regulus.access.decision import Denied
from regulus.access.guard import Guard
from regulus.broker.held_access import DECIDED_MAX, HeldAccess
from regulus.broker.held_requests import HeldPlace, HeldRequest, HeldRequests
from regulus.broker.outcome import HOLD
from regulus.model.message import MessageExt
from regulus.model.message_filter import Filter
from regulus.model.peer import Peer
from regulus.wire.remoting_command import RemotingCommand


class World:
    """`denied` are the users who may not ask any more; `asked` who was decided again, by channel."""

    def __init__(self) -> None:
        self.held_requests, self.notices = HeldRequests(), deque()
        self.access = HeldAccess(self.held_requests, self.notices)
        self.denied: set[str] = set()
        self.asked: list[int] = []
        self.rules = SimpleNamespace()
        self.guard = Guard(lambda: self.rules, self.again, lambda request, peer, denied: None)
        self.access.tick(self.guard)

    def again(self, request: RemotingCommand, peer: Peer) -> Denied | None:
        self.asked.append(peer.channel)
        return Denied("it is so", 16, f"not {peer.user}") if peer.user in self.denied else None

    def hold(self, channel: int, user: str) -> HeldRequest:
        peer = Peer(channel, b"", b"", user=user)
        held = HeldRequest(RemotingCommand(11), peer, (HeldPlace("T", channel),), Filter(), 100,
                           lambda now_ms: RemotingCommand(0))
        self.held_requests.hold(held)
        return held

    def change(self, *denied: str) -> None:
        self.rules = SimpleNamespace()
        self.denied = set(denied)

    def told(self) -> list[tuple[int, int, str | None]]:
        told = [(notice.channel, notice.reply.answer.code, notice.reply.answer.remark) for notice in self.notices]
        self.notices.clear()
        return told


@pytest.fixture
def world() -> World:
    return World()


def test_who_may_no_longer_ask_hears_so_and_waits_no_more(world):
    world.hold(1, "alice")
    world.hold(2, "mallory")
    world.hold(3, "alice")
    assert not world.access.is_due(world.guard)
    world.change("mallory")
    assert world.access.is_due(world.guard)
    assert world.access.tick(world.guard) is None
    assert world.told() == [(2, 16, "not mallory")]
    assert len(world.held_requests) == 2
    assert not world.access.is_due(world.guard)


def test_nothing_is_decided_twice_by_the_same_rules(world):
    held = world.hold(1, "alice")
    assert world.access.tick(world.guard) is None
    assert world.access.refusal(held, world.guard) is None
    assert world.asked == []
    world.change()
    world.access.tick(world.guard)
    world.access.tick(world.guard)
    assert world.access.refusal(held, world.guard) is None
    assert world.asked == [1]


def test_many_are_decided_in_parts_and_none_is_answered_before(world):
    """The last ones are not decided yet when one of them is woken, nor are those held when nobody has looked."""
    many = [world.hold(number, "mallory") for number in range(DECIDED_MAX + 2)]
    world.change("mallory")
    assert world.access.refusal(many[-1], world.guard).code == 16
    assert world.access.tick(world.guard) == 0
    assert (len(world.told()), world.access.is_due(world.guard)) == (DECIDED_MAX, True)
    assert world.access.refusal(many[-1], world.guard).remark == "not mallory"
    assert world.access.tick(world.guard) is None
    assert len(world.told()) == 2
    assert len(world.held_requests) == 0


def test_what_is_held_by_the_new_rules_is_not_in_doubt(world):
    for number in range(DECIDED_MAX + 1):
        world.hold(number, "alice")
    world.change()
    world.access.tick(world.guard)
    new = world.hold(9_999, "alice")
    asked = len(world.asked)
    assert world.access.refusal(new, world.guard) is None
    assert len(world.asked) == asked


def test_a_change_while_the_last_one_is_looked_at_begins_anew(world):
    for number in range(DECIDED_MAX + 1):
        world.hold(number, "mallory")
    world.change()
    world.access.tick(world.guard)
    world.change("mallory")
    while world.access.tick(world.guard) is not None:
        pass
    assert len(world.told()) == DECIDED_MAX + 1


def test_one_whose_connection_has_closed_meanwhile_is_passed_by(world):
    world.hold(1, "mallory")
    world.change("mallory")
    world.held_requests.drop_channel(1)
    assert world.access.tick(world.guard) is None
    assert (world.asked, world.told()) == ([], [])


def test_one_that_leaves_while_others_are_decided_is_passed_by(world):
    for number in range(DECIDED_MAX + 1):
        world.hold(number, "mallory")
    world.change("mallory")
    assert world.access.tick(world.guard) == 0
    world.told()
    world.held_requests.drop_channel(DECIDED_MAX)
    assert world.access.tick(world.guard) is None
    assert (len(world.asked), world.told(), len(world.held_requests)) == (DECIDED_MAX, [], 0)


def test_who_may_no_longer_ask_gets_nothing_of_what_arrives_before_it_is_decided(rig):
    """A message wakes the request when the rules are others, and nobody has looked at what is held yet."""
    rig.send("TopicA")
    rig.heartbeat("CG", "TopicA")
    rules, denied = [SimpleNamespace()], []
    rig.broker.guard = Guard(lambda: rules[0], lambda request, peer: denied[0] if denied else None,
                             lambda request, peer, denied: None)
    rig.run(100)
    assert rig.pull_outcome("TopicA", queue_offset=1) is HOLD
    rules[0] = SimpleNamespace()
    denied.append(Denied("it is so", 16, "not any more"))
    rig.broker.notices.clear()
    rig.store.append(MessageExt("TopicA", b"secret", {}), rig.now_ms)
    rig.dispatch()
    rig.arrivals = rig.arrivals[-1:]
    assert [(answer.code, answer.remark) for answer in rig.arrive()] == [(16, "not any more")]
    rig.run(100)
    assert rig.notices() == []
