"""Answers that take more than one step."""

from collections import deque
from collections.abc import Generator

import pytest

from regulus.broker.long_answers import LongAnswers
from regulus.broker.outcome import HOLD, Notice, Reply
from regulus.broker.settings_changes import SettingsChanges
from regulus.errors import HeaderError, StoreDamaged
from regulus.model.peer import Peer
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand


class Asked:
    """Requests by number, which is also their channel; the number of each step that is done."""

    def __init__(self, count_max: int = 64) -> None:
        self.notices: deque[Notice] = deque()
        self.settings = SettingsChanges()
        self.settings.is_kept = True
        self.long = LongAnswers(self.notices, self.settings, count_max)
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

    def begin(self, number: int, count: int, error: Exception | None = None, oneway: bool = False):
        request = RemotingCommand.request(20, opaque=number, oneway=oneway)
        return self.long.begin(request, Peer(number, b"", b""), self.steps(request, count, error))


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
    assert [(notice.channel, notice.command.opaque, notice.command.remark) for notice in asked.notices] == [
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


@pytest.mark.parametrize("error", [HeaderError, StoreDamaged])
def test_a_refusal_on_the_way_is_answered(error):
    asked = Asked()
    asked.begin(1, 3, error("no such thing"))
    assert asked.long.tick() is None
    assert [(notice.command.code, notice.command.remark) for notice in asked.notices] == [
        (ResponseCode.SYSTEM_ERROR, "no such thing")]


def test_a_fault_is_raised_and_its_asker_hears_of_it_too():
    asked = Asked()
    asked.begin(1, 3, ZeroDivisionError())
    asked.begin(2, 2)
    with pytest.raises(ZeroDivisionError):
        asked.long.tick()
    assert asked.notices.pop().command.code == ResponseCode.SYSTEM_ERROR
    asked.long.tick()
    assert asked.notices.pop().command.remark == "done"


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
    assert asked.notices.pop().change == 2
