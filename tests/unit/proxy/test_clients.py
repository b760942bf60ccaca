"""Who is there, who can be asked, and how one that reads nothing is cut off."""

import pytest

from regulus.errors import CallRefused
from regulus.proxy.caller import Caller
from regulus.proxy.clients import COMMANDS_MAX, COMMANDS_SIZE_MAX, GAVE_WAY, Clients, Stream
from regulus.proxy.config import ProxyConfig
from regulus.wire.grpc import messages


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def called(client_id: str, user: str = "") -> Caller:
    return Caller(client_id=client_id, user=user)


async def test_producers_are_asked_in_turn_and_only_those_that_hear_us() -> None:
    clients = Clients(ProxyConfig(), Clock())
    streams = [Stream(), Stream()]
    for number, stream in enumerate(streams):
        clients.sends_to(called(f"c{number}"), "t")
        clients.opened(called(f"c{number}"), stream)
    clients.sends_to(called("deaf"), "t")
    assert {id(clients.producer_stream("t")) for _ in range(4)} == {id(each) for each in streams}
    clients.closed(("", "c0"), streams[0])
    assert {id(clients.producer_stream("t")) for _ in range(4)} == {id(streams[1])}
    clients.forget(("", "c1"))
    assert clients.producer_stream("t") is None
    assert clients.producer_topics() == ["t"]
    clients.forget(("", "deaf"))
    clients.forget(("", "c0"))
    assert clients.producer_topics() == []


@pytest.mark.parametrize("count", [10, 5_000])
async def test_whom_to_ask_costs_the_same_for_any_number_of_senders(count: int) -> None:
    clients = Clients(ProxyConfig(), Clock())
    for number in range(count):
        clients.sends_to(called(f"c{number}"), "t")
        clients.opened(called(f"c{number}"), Stream())
    looked: list[object] = []

    def may(client: object) -> bool:
        looked.append(client)
        return True

    found = {id(clients.producer_stream("t", may)) for _ in range(10)}
    assert (len(found), len(looked)) == (10, 10)
    assert clients.producer_stream("t", lambda client: looked.append(client) is not None) is None
    assert len(looked) <= 1_010


async def test_the_latest_stream_of_a_client_counts() -> None:
    clients = Clients(ProxyConfig(), Clock())
    first, second = Stream(), Stream()
    clients.sends_to(called("c"), "t")
    clients.opened(called("c"), first)
    clients.opened(called("c"), second)
    clients.closed(("", "c"), first)
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
    clients = Clients(ProxyConfig(), Clock())
    for topic in ("t", "u", "t"):
        clients.sends_to(called("c"), topic)
    clients.sends_to(called("d"), "t")
    with pytest.raises(CallRefused, match="3 topics in all"):
        clients.sends_to(called("d"), "u")
    clients.forget(("", "c"))
    clients.sends_to(called("d"), "u")


async def test_clients_and_the_topics_of_each_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regulus.proxy.clients.CLIENTS_MAX", 2)
    monkeypatch.setattr("regulus.proxy.clients.TOPICS_OF_CLIENT_MAX", 2)
    clients = Clients(ProxyConfig(), Clock())
    for topic in ("t", "u", "t"):
        clients.sends_to(called("c"), topic)
    with pytest.raises(CallRefused, match="2 topics already") as refused:
        clients.sends_to(called("c"), "v")
    assert refused.value.code == 40000
    clients.heard(called("d"))
    clients.heard(called("c"))
    with pytest.raises(CallRefused, match="2 clients are known") as refused:
        clients.heard(called("e"))
    assert refused.value.code == 42900
    clients.forget(("", "d"))
    clients.heard(called("e"))


async def test_the_user_with_the_most_clients_gives_way_to_one_with_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one user would keep all others out with ids that he makes up."""
    monkeypatch.setattr("regulus.proxy.clients.CLIENTS_MAX", 6)
    clients = Clients(ProxyConfig(), Clock())
    stream = Stream()
    for number in range(6):
        clients.heard(called(f"m{number}", "mallory"))
    clients.opened(called("m1", "mallory"), stream)
    clients.heard(called("m0", "mallory"))
    with pytest.raises(CallRefused, match="6 clients are known"):
        clients.heard(called("m6", "mallory"))
    clients.heard(called("a0", "alice"))
    assert not clients.knows(("mallory", "m2"))         # heard of longest ago
    clients.heard(called("a1", "alice"))
    clients.heard(called("m1", "mallory"))
    clients.heard(called("b0", "bob"))
    assert [clients.knows(("mallory", f"m{number}")) for number in range(6)] == [True, True, False, False, False, True]
    assert stream.is_open
    with pytest.raises(CallRefused, match="6 clients are known"):
        clients.heard(called("a2", "alice"))            # she would have as many as he has now
    clients.heard(called("b1", "bob"))
    assert [clients.knows((user, key)) for user, key in (("alice", "a0"), ("alice", "a1"), ("bob", "b0"))] == [True] * 3
    with pytest.raises(CallRefused, match="6 clients are known"):
        clients.heard(called("b2", "bob"))              # nobody has more than he would have
    with pytest.raises(CallRefused, match="6 clients are known"):
        clients.heard(called("m2", "mallory"))
    assert len(clients) == 6
    ((kind, told),) = clients.happenings.take().items()
    assert kind == GAVE_WAY
    assert "m2 of mallory" in str(told)


async def test_whose_client_gives_way_hears_it_on_his_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regulus.proxy.clients.CLIENTS_MAX", 2)
    clients = Clients(ProxyConfig(), Clock())
    stream = Stream()
    clients.opened(called("m0", "mallory"), stream)
    clients.heard(called("m1", "mallory"))
    clients.heard(called("a0", "alice"))
    assert stream.refusal is not None
    assert stream.refusal.code == 42900


async def test_the_user_with_the_most_topics_gives_way_to_one_with_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regulus.proxy.clients.SENDERS_MAX", 4)
    clients = Clients(ProxyConfig(), Clock())
    clients.heard(called("m0", "mallory"))
    for topic in ("t", "u"):
        clients.sends_to(called("m1", "mallory"), topic)
        clients.sends_to(called("m2", "mallory"), topic)
    clients.heard(called("m1", "mallory"))
    clients.forget(("mallory", "m2"))
    for topic in ("t", "u"):
        clients.sends_to(called("m3", "mallory"), topic)
    clients.heard(called("m1", "mallory"))
    clients.sends_to(called("a", "alice"), "t")
    # Who sends to nothing stays, and so does who was heard of last.
    assert [clients.knows(("mallory", f"m{number}")) for number in (0, 1, 3)] == [True, True, False]
    clients.sends_to(called("a", "alice"), "u")
    with pytest.raises(CallRefused, match="4 topics in all"):
        clients.sends_to(called("a", "alice"), "v")


async def test_clients_that_are_silent_are_forgotten_unless_their_stream_is_open() -> None:
    clock = Clock()
    clients = Clients(ProxyConfig(), clock)
    clients.heard(called("silent"))
    clients.opened(called("open"), Stream())
    clock.now_ms = 1
    clients.heard(called("late"))
    clients.heard(called("silent too"))
    clock.now_ms = 5
    clients.heard(called("silent"))
    clock.now_ms = 120_000
    assert clients.expired() == []
    clock.now_ms = 120_001
    assert clients.expired() == [("", "late"), ("", "silent too")]


async def test_each_user_has_client_ids_of_his_own() -> None:
    """Whoever gives another's id, before him or after him, reaches nothing of his and keeps him out of nothing."""
    clients = Clients(ProxyConfig(), Clock())
    streams = {user: Stream() for user in ("mallory", "owner", "")}
    for user, stream in streams.items():
        clients.sends_to(called("c", user), f"topic of {user}")
        clients.opened(called("c", user), stream)
    for user, stream in streams.items():
        assert clients.producer_stream(f"topic of {user}") is stream
    assert clients.forget(("mallory", "c"))
    assert not clients.forget(("mallory", "c"))
    assert (clients.knows(("mallory", "c")), clients.knows(("owner", "c")), len(clients)) == (False, True, 2)
    assert clients.producer_topics() == ["topic of owner", "topic of "]
