import asyncio
from typing import cast

import pytest

from regulus.model.peer import Peer
from regulus.server.watchdog import Watchdog
from regulus.transport.connection import Connection
from regulus.wire.remoting_command import RemotingCommand


class Client:
    peer = Peer(1, b"", b"", "10.0.0.5:4000")


def watchdog(*seconds: float) -> Watchdog:
    return Watchdog(iter(seconds).__next__)


def test_a_step_that_took_long_is_named(caplog: pytest.LogCaptureFixture) -> None:
    step = watchdog(1.0, 1.25).watched("tick of the broker", lambda now_ms: now_ms + 1)
    assert step(41) == 42
    assert caplog.messages == ["the event loop did nothing else for 250 ms: tick of the broker"]


def test_a_short_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    watchdog(1.0, 1.09).watched("tick", asyncio.Event)()
    assert caplog.messages == []


def test_one_that_fails_is_named_too(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ZeroDivisionError):
        watchdog(1.0, 2.0).watched("division", lambda: 1 // 0)()
    assert "division" in caplog.text


def test_requests_are_named_by_their_codes_and_who_sent_them(caplog: pytest.LogCaptureFixture) -> None:
    requests = [RemotingCommand.request(code) for code in (34, 310, 310)]
    watchdog(0.0, 0.5).watched_requests(lambda connection, requests: None)(cast(Connection, Client()), requests)
    assert caplog.messages == [
        "the event loop did nothing else for 500 ms: 2 requests 310, 1 request 34 of 10.0.0.5:4000"]
