"""Who is there, who can be asked, and how one that reads nothing is cut off."""

import pytest

from regulus.errors import CallRefused
from regulus.proxy.caller import Caller
from regulus.proxy.clients import COMMANDS_MAX, COMMANDS_SIZE_MAX, Clients, Stream
from regulus.proxy.config import ProxyConfig
from regulus.wire.grpc import messages


def called(client_id: str, user: str = "") -> Caller:
    return Caller(client_id=client_id, user=user)


async def test_producers_are_asked_in_turn_and_only_those_that_hear_us() -> None:
    clients = Clients(ProxyConfig())
    streams = [Stream(), Stream()]
    for number, stream in enumerate(streams):
        clients.sends_to(called(f"c{number}"), "t", 0)
        clients.opened(called(f"c{number}"), stream, 0)
    clients.sends_to(called("deaf"), "t", 0)
    assert {id(clients.producer_stream("t")) for _ in range(4)} == {id(each) for each in streams}
    clients.closed("c0", streams[0])
    assert {id(clients.producer_stream("t")) for _ in range(4)} == {id(streams[1])}
    clients.forget("c1")
    assert clients.producer_stream("t") is None
    assert clients.producer_topics() == ["t"]
    clients.forget("deaf")
    clients.forget("c0")
    assert clients.producer_topics() == []


async def test_the_latest_stream_of_a_client_counts() -> None:
    clients = Clients(ProxyConfig())
    first, second = Stream(), Stream()
    clients.sends_to(called("c"), "t", 0)
    clients.opened(called("c"), first, 0)
    clients.opened(called("c"), second, 0)
    clients.closed("c", first)
    assert clients.producer_stream("t") is second


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    stream = Stream()
    assert all(stream.send(messages.TelemetryCommand()) for _ in range(COMMANDS_MAX))
    assert not stream.send(messages.TelemetryCommand())
    assert stream.ended.is_set()
    large = messages.TelemetryCommand()
    large.recover_orphaned_transaction_command.message.body = bytes(COMMANDS_SIZE_MAX // 4)
    stream = Stream()
    assert [stream.send(large) for _ in range(6)] == [True] * 4 + [False] * 2
    stream = Stream()
    for _ in range(10):
        assert stream.send(large)
        assert await stream.next() is large


async def test_what_waits_on_a_stream_leaves_before_it_ends_and_nothing_after() -> None:
    stream = Stream()
    for _ in range(COMMANDS_MAX):
        stream.send(messages.TelemetryCommand())
    assert stream.finish()
    assert not stream.finish()
    assert not stream.send(messages.TelemetryCommand())
    for _ in range(COMMANDS_MAX):
        assert await stream.next() is not None
    assert await stream.next() is None


async def test_topics_that_clients_send_to_are_bounded_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regulus.proxy.clients.SENDERS_MAX", 3)
    clients = Clients(ProxyConfig())
    for topic in ("t", "u", "t"):
        clients.sends_to(called("c"), topic, 0)
    clients.sends_to(called("d"), "t", 0)
    with pytest.raises(CallRefused, match="3 topics in all"):
        clients.sends_to(called("d"), "u", 0)
    clients.forget("c")
    clients.sends_to(called("d"), "u", 0)


async def test_clients_that_are_silent_are_forgotten_unless_their_stream_is_open() -> None:
    clients = Clients(ProxyConfig())
    clients.heard(called("silent"), 0)
    clients.opened(called("open"), Stream(), 0)
    clients.heard(called("late"), 1)
    clients.heard(called("silent too"), 0)
    clients.heard(called("silent"), 5)
    assert clients.expired(120_000) == []
    assert clients.expired(120_001) == ["late", "silent too"]


async def test_a_client_id_belongs_to_the_user_who_brought_it_until_the_client_is_gone() -> None:
    clients = Clients(ProxyConfig())
    stream = Stream()
    clients.sends_to(called("c", "owner"), "t", 0)
    clients.opened(called("c", "owner"), stream, 0)
    for user in ("other", ""):
        with pytest.raises(CallRefused, match="another user") as refused:
            clients.opened(called("c", user), Stream(), 0)
        assert refused.value.code == 40100
        with pytest.raises(CallRefused, match="another user"):
            clients.sends_to(called("c", user), "u", 0)
    assert clients.producer_stream("t") is stream
    assert clients.producer_topics() == ["t"]
    clients.forget("c")
    clients.sends_to(called("c", "other"), "u", 0)
    assert clients.producer_topics() == ["u"]
