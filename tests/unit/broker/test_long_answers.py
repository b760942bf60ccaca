"""Answers that take more than one step."""

from collections import deque
from collections.abc import Generator

import pytest

from regulus.broker.long_answers import LongAnswers
from regulus.broker.outcome import HOLD, Notice, Reply
from regulus.broker.settings_changes import SettingsChanges
from regulus.errors import HeaderError, StoreDamaged, StoreNotWritable
from regulus.model.peer import Peer
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand


class Asked:
    """Requests by number, which is also their channel; the number of each step that is done."""

    def __init__(self, count_max: int = 64, lined_max: int = 64, bodies_size_max: int = 1000) -> None:
        self.notices: deque[Notice] = deque()
        self.settings = SettingsChanges()
        self.settings.is_kept = True
        self.long = LongAnswers(self.notices, self.settings, count_max, lined_max, bodies_size_max)
        self.done: list[int] = []

    def steps(self, request: RemotingCommand, count: int,
              error: Exception | None = None) -> Generator[None, None, RemotingCommand]:
        for number in range(1, count):
            self.done.append(request.opaque)
            yield
            if error is not None and number == 1:
                raise error
        self.done.append(request.opaque)
        return request.response(0, "done")

    def begin(self, number: int, count: int, error: Exception | None = None, oneway: bool = False,
              line: str | None = None, body: bytes = b"", is_deed: bool = False, channel: int = 0, user: str = ""):
        request = RemotingCommand.request(20, body=body, opaque=number, oneway=oneway)
        return self.long.begin(request, Peer(channel or number, b"", b"", user=user),
                               self.steps(request, count, error), line=line, is_deed=is_deed)

    def run(self) -> list[int]:
        """To the end; those that are answered, in their order."""
        for _ in range(100):
            if self.long.tick() is None:
                break
        return [notice.reply.answer.opaque for notice in self.notices]


def test_what_takes_one_step_is_answered_at_once():
    asked = Asked()
    outcome = asked.begin(1, 1)
    assert isinstance(outcome, Reply)
    assert outcome.answer.remark == "done"
    assert asked.long.tick() is None


def test_long_answers_take_turns():
    asked = Asked()
    assert asked.begin(1, 3) is HOLD
    assert asked.begin(2, 2) is HOLD
    assert [asked.long.tick() for _ in range(3)] == [0, 0, None]
    assert asked.done == [1, 2, 1, 2, 1]
    assert [(notice.channel, notice.reply.answer.opaque, notice.reply.answer.remark) for notice in asked.notices] == [
        (2, 2, "done"), (1, 1, "done")]


def test_one_too_many_is_refused_and_a_short_one_is_not():
    asked = Asked(count_max=1)
    asked.begin(1, 2)
    refused = asked.begin(2, 2)
    assert refused.answer.code == ResponseCode.SYSTEM_BUSY
    assert "1 long answers are under way" in refused.answer.remark
    assert asked.begin(3, 1).answer.remark == "done"
    assert len(asked.long) == 1


def test_what_a_closed_connection_asked_for_is_given_up():
    asked = Asked()
    asked.begin(1, 5)
    asked.long.drop_channel(1)
    assert asked.long.tick() is None
    assert asked.done == [1]


@pytest.mark.parametrize("error", [HeaderError, StoreDamaged, StoreNotWritable])
def test_a_refusal_on_the_way_is_answered(error):
    asked = Asked()
    asked.begin(1, 3, error("no such thing"))
    assert asked.long.tick() is None
    assert [(notice.reply.answer.code, notice.reply.answer.remark) for notice in asked.notices] == [
        (ResponseCode.SYSTEM_ERROR, "no such thing")]


@pytest.mark.parametrize("line", [None, "a"])
def test_a_fault_is_told_and_answered_to_its_own_asker_alone(line):
    asked, fault = Asked(), ZeroDivisionError()
    asked.begin(1, 3, fault, line=line)
    asked.begin(2, 2, line=line)
    assert asked.run() == [1, 2]
    assert [notice.reply.answer.code for notice in asked.notices] == [ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS]
    assert [(told.code, told.peer.channel, told.error) for told in asked.long.faults] == [(20, 1, fault)]


def test_a_fault_of_one_that_waits_does_not_concern_who_comes_when_there_is_no_room():
    asked = Asked(bodies_size_max=25)
    asked.begin(1, 3, ZeroDivisionError(), line="a", body=b"0123456789")
    asked.begin(2, 3, line="a", body=b"0123456789")
    assert asked.begin(3, 3, line="a", body=b"0123456789").answer.code == ResponseCode.SYSTEM_BUSY
    assert asked.done == [1]
    assert asked.run() == [1, 2]


def test_a_fault_of_the_first_step_is_raised_and_leaves_nothing():
    asked = Asked()

    def steps() -> Generator[None, None, RemotingCommand]:
        yield from ()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asked.long.begin(RemotingCommand.request(20), Peer(1, b"", b""), steps(), line="a")
    assert (len(asked.long), asked.long.bodies_size) == (0, 0)
    assert isinstance(asked.begin(2, 1, line="a"), Reply)


def test_a_one_way_request_gets_no_answer():
    asked = Asked()
    asked.begin(1, 2, oneway=True)
    assert asked.long.tick() is None
    assert not asked.notices


def test_a_deed_is_done_to_its_end_though_its_asker_is_gone():
    asked = Asked()
    request = RemotingCommand.request(207, opaque=1)
    assert asked.long.begin(request, Peer(1, b"", b""), asked.steps(request, 3), is_deed=True) is HOLD
    asked.long.drop_channel(1)
    assert [asked.long.tick() for _ in range(2)] == [0, None]
    assert asked.done == [1, 1, 1]


def test_a_deed_that_is_one_too_many_is_not_begun():
    asked = Asked(count_max=1)
    asked.begin(1, 2)
    request = RemotingCommand.request(207, opaque=2)
    refused = asked.long.begin(request, Peer(2, b"", b""), asked.steps(request, 3), is_deed=True)
    assert refused.answer.code == ResponseCode.SYSTEM_BUSY
    assert asked.done == [1]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_an_answer_says_which_changes_of_any_step_must_be_saved_before_it(step):
    asked = Asked()
    request = RemotingCommand.request(207, opaque=1)

    def steps() -> Generator[None, None, RemotingCommand]:
        for number in range(1, 4):
            if number == step:
                asked.settings.next({}, "T")
            if number < 3:
                yield
        return request.response(0)

    asked.settings.next({}, "another's")
    asked.settings.awaited = 0          # as before each request
    asked.long.begin(request, Peer(1, b"", b""), steps())
    asked.long.begin(request, Peer(2, b"", b""), asked.steps(request, 9))
    asked.settings.awaited = 77         # of whoever was handled between two ticks
    while not asked.notices:
        asked.long.tick()
    assert asked.notices.pop().reply.change == 2


def test_of_a_line_only_the_first_is_worked_at():
    asked = Asked()
    for number, count in ((1, 3), (2, 1), (3, 2)):
        assert asked.begin(number, count, line="a") is HOLD
    assert isinstance(asked.begin(4, 1, line="b"), Reply)
    asked.begin(5, 2)
    assert asked.run() == [5, 1, 2, 3]
    assert [number for number in asked.done if number in (1, 2, 3)] == [1, 1, 1, 2, 3, 3]
    assert isinstance(asked.begin(6, 1, line="a"), Reply)


@pytest.mark.parametrize("bounds", [{"lined_max": 2}, {"bodies_size_max": 25}])
@pytest.mark.parametrize("is_deed", [False, True])
def test_what_has_a_line_and_no_room_is_refused_and_nobody_is_hurried(bounds, is_deed):
    asked = Asked(**bounds)
    for number in (1, 2):
        assert asked.begin(number, 3, line="a", body=b"0123456789") is HOLD
    refused = asked.begin(3, 3, line="a", body=b"0123456789", is_deed=is_deed)
    assert refused.answer.code == ResponseCode.SYSTEM_BUSY
    assert "2 long answers are under way" in refused.answer.remark
    assert asked.done == [1]
    assert asked.run() == [1, 2]
    assert asked.long.bodies_size == 0
    assert asked.begin(3, 3, line="a", body=b"0123456789") is HOLD


def test_of_a_line_of_its_own_one_step_is_done_where_others_leave_no_room():
    asked = Asked(bodies_size_max=5)
    asked.begin(1, 3, body=b"01234")
    assert asked.begin(2, 1, line="a", body=b"0").answer.remark == "done"
    assert asked.begin(3, 3, line="a", body=b"0").answer.code == ResponseCode.SYSTEM_BUSY
    assert asked.done == [1, 2, 3]
    assert asked.begin(4, 1, line="a", body=b"0", is_deed=True).answer.code == ResponseCode.SYSTEM_BUSY
    assert asked.done == [1, 2, 3]


def test_what_has_a_line_and_what_has_none_take_no_place_from_each_other():
    asked = Asked(count_max=1, lined_max=1)
    assert [asked.begin(1, 3), asked.begin(2, 3, line="a")] == [HOLD, HOLD]
    assert asked.begin(3, 3).answer.code == ResponseCode.SYSTEM_BUSY
    assert asked.begin(4, 3, line="b").answer.code == ResponseCode.SYSTEM_BUSY


@pytest.mark.parametrize("line", [None, "a"])
@pytest.mark.parametrize("bounds", [{"count_max": 4, "lined_max": 4}, {"bodies_size_max": 40}])
def test_one_connection_has_at_most_half_of_the_room(bounds, line):
    asked = Asked(**bounds)
    for number in (1, 2):
        assert asked.begin(number, 3, line=line, body=b"0123456789", channel=7) is HOLD
    refused = asked.begin(3, 3, line=line, body=b"0123456789", channel=7)
    assert refused.answer.code == ResponseCode.SYSTEM_BUSY
    assert "2 requests of this connection alone" in refused.answer.remark
    assert asked.begin(4, 3, line=line, body=b"0123456789", channel=8) is HOLD
    asked.run()
    assert asked.begin(5, 3, line=line, body=b"0123456789", channel=7) is HOLD


def test_a_connection_that_closes_gives_back_its_room():
    asked = Asked(lined_max=2, bodies_size_max=20)
    asked.begin(1, 3, line="a", body=b"0123456789")
    asked.begin(2, 3, line="a", body=b"0123456789")
    asked.long.drop_channel(2)
    assert asked.long.bodies_size == 10
    assert asked.begin(3, 3, line="a", body=b"0123456789") is HOLD
    assert asked.run() == [1, 3]


def test_at_the_end_deeds_are_done_behind_those_before_them_and_nothing_else_is():
    asked = Asked()
    asked.begin(1, 5)
    asked.begin(2, 3, line="a")
    asked.begin(3, 3, line="a", is_deed=True)
    asked.begin(4, 3, line="a")
    asked.begin(5, 2, is_deed=True)
    while asked.long.end_deed():
        pass
    assert [notice.reply.answer.opaque for notice in asked.notices] == [2, 3, 5]
    assert asked.done.count(1) == 1
    assert len(asked.long) == 2


def test_one_that_is_larger_than_all_may_be_is_begun_when_it_is_alone():
    asked = Asked(bodies_size_max=5)
    assert asked.begin(1, 2, line="a", body=b"0123456789") is HOLD
    assert asked.run() == [1]


def test_the_next_of_a_line_has_its_turn_when_the_first_is_given_up():
    asked = Asked()
    for number in (1, 2, 1, 3):
        asked.begin(number, 2, line="a")
    asked.begin(1, 2, line="a", is_deed=True)
    asked.long.drop_channel(1)
    assert asked.run() == [2, 3, 1]
    assert len(asked.long) == 0
    assert isinstance(asked.begin(4, 1, line="a"), Reply)


# --- users who ask much ----------------------------------------------------------------------------------------------


def refused(asked: Asked) -> list[int]:
    answers = [notice.reply.answer for notice in asked.notices]
    return [answer.opaque for answer in answers if answer.code == ResponseCode.SYSTEM_BUSY]


@pytest.mark.parametrize("line", [None, "its own"])
def test_who_has_the_most_gives_way_to_who_has_less(line):
    """Over many connections of his; what came last of him goes first."""
    asked = Asked(count_max=4, lined_max=4)
    for number in range(1, 5):
        assert asked.begin(number, 3, line=line and f"{line} {number}", user="mallory") is HOLD
    assert asked.begin(5, 3, line=line and f"{line} 5", user="alice") is HOLD
    assert refused(asked) == [4]
    assert asked.begin(6, 3, line=line and f"{line} 6", user="mallory").answer.code == ResponseCode.SYSTEM_BUSY
    assert asked.begin(7, 3, line=line and f"{line} 7", user="alice") is HOLD
    assert asked.begin(8, 3, line=line and f"{line} 8", user="alice").answer.code == ResponseCode.SYSTEM_BUSY
    assert sorted(asked.run()) == [1, 2, 3, 4, 5, 7]
    assert refused(asked) == [4, 3]


def test_long_bodies_give_way_as_many_as_are_needed():
    asked = Asked(bodies_size_max=100)
    for number in range(1, 10):
        asked.begin(number, 2, line=f"{number}", body=b"0123456789", user="mallory")
    assert asked.begin(20, 2, line="alice", body=b"x" * 35, user="alice") is HOLD
    assert refused(asked) == [9, 8, 7]
    assert asked.long.bodies_size == 95


def test_a_deed_that_is_begun_does_not_give_way_and_one_that_waits_does():
    asked = Asked(lined_max=4)
    for number in (1, 2):
        assert asked.begin(number, 3, line="settings", is_deed=True, user="mallory") is HOLD
    for number in (3, 4):
        assert asked.begin(number, 3, line=f"{number}", is_deed=True, user="mallory") is HOLD
    assert asked.begin(5, 3, line="settings", is_deed=True, user="alice") is HOLD
    assert refused(asked) == [2]
    assert asked.begin(6, 3, line="settings", is_deed=True, user="alice").answer.code == ResponseCode.SYSTEM_BUSY
    assert sorted(asked.run()) == [1, 2, 3, 4, 5]


def test_what_is_answered_at_once_takes_nobodys_place():
    asked = Asked(count_max=2)
    for number in (1, 2):
        asked.begin(number, 3, user="mallory")
    assert asked.begin(3, 1, user="alice").answer.remark == "done"
    assert refused(asked) == []


def test_who_wants_no_answer_hears_none_when_he_gives_way():
    asked = Asked(count_max=3)
    for number in (1, 2, 3):
        asked.begin(number, 3, user="mallory", oneway=True)
    assert asked.begin(4, 3, user="alice") is HOLD
    assert not asked.notices
    assert len(asked.long) == 3


def test_who_has_no_line_gives_way_to_none_that_has_one():
    """They are counted apart."""
    asked = Asked(count_max=4, lined_max=3)
    for number in (1, 2, 3):
        asked.begin(number, 3, line=f"{number}", user="mallory")
    asked.begin(4, 3, user="mallory")
    assert asked.begin(5, 3, line="5", user="alice") is HOLD
    assert refused(asked) == [3]
