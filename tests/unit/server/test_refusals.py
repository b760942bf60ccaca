"""Which answers count as refused, and how often they are told."""

import logging

import pytest

from regulus.model.peer import Peer
from regulus.server import refusals
from regulus.server.refusals import NO_REFUSALS, REFUSALS_INTERVAL_MS, Refusals
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

PEER = Peer(1, b"", b"", "10.0.0.5:4711")


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regulus.server.refusals")


def refuse(counter: Refusals, request_code: int, code: int, remark: str | None = "no", count: int = 1) -> None:
    request = RemotingCommand.request(request_code)
    for _ in range(count):
        counter.note(request, request.response(code, remark or ""), PEER)


def test_one_line_has_the_causes_and_the_last(caplog: pytest.LogCaptureFixture) -> None:
    counter = Refusals()
    refuse(counter, RequestCode.PULL_MESSAGE, ResponseCode.NO_PERMISSION)
    refuse(counter, RequestCode.SEND_MESSAGE_V2, ResponseCode.TOPIC_NOT_EXIST, "topic X not exist", 40)
    counter.tick(0)
    (line,) = caplog.messages
    assert line == (
        "refused: 40 SEND_MESSAGE_V2 with 17 TOPIC_NOT_EXIST, 1 PULL_MESSAGE with 16 NO_PERMISSION; the last: "
        "SEND_MESSAGE_V2 with 17 TOPIC_NOT_EXIST, of 10.0.0.5:4711: topic X not exist")


def test_there_is_at_most_one_line_a_minute_and_none_without_refusals(caplog: pytest.LogCaptureFixture) -> None:
    counter = Refusals()
    counter.tick(0)
    refuse(counter, RequestCode.PULL_MESSAGE, ResponseCode.NO_PERMISSION)
    for steady_ms in range(100, 3 * REFUSALS_INTERVAL_MS, 100):
        counter.tick(steady_ms)
        if steady_ms < REFUSALS_INTERVAL_MS:
            refuse(counter, RequestCode.PULL_MESSAGE, ResponseCode.NO_PERMISSION)
    assert [message.split(";")[0] for message in caplog.messages] == [
        "refused: 1 PULL_MESSAGE with 16 NO_PERMISSION", "refused: 599 PULL_MESSAGE with 16 NO_PERMISSION"]


@pytest.mark.parametrize("code", sorted(NO_REFUSALS))
def test_how_things_stand_is_no_refusal(code: int, caplog: pytest.LogCaptureFixture) -> None:
    counter = Refusals()
    refuse(counter, RequestCode.PULL_MESSAGE, code)
    counter.tell()
    assert caplog.messages == []


def test_invented_codes_take_no_room(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(refusals, "KINDS_MAX", 2)
    counter = Refusals()
    for code in range(90_000, 90_010):
        refuse(counter, code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    counter.tell()
    assert caplog.messages[0].startswith(
        "refused: 8 of other kinds, 1 request 90000 with 3 REQUEST_CODE_NOT_SUPPORTED, 1 request 90001 with 3 ")


def test_only_the_most_frequent_are_named(caplog: pytest.LogCaptureFixture) -> None:
    counter = Refusals()
    for code in range(7):
        refuse(counter, 90_000 + code, 5_000, count=10 - code)
    counter.tell()
    assert "6 request 90004 with 5000 and 9 more; the last: request 90006 with 5000" in caplog.text


def test_a_long_remark_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    counter = Refusals()
    refuse(counter, RequestCode.PULL_MESSAGE, ResponseCode.SYSTEM_ERROR, "x" * 100_000)
    counter.tell()
    assert len(caplog.messages[0]) < 1_000
