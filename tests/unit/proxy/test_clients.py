"""Who is there, who can be asked, and how one that reads nothing is cut off."""

from regulus.proxy.clients import COMMANDS_MAX, Clients, Stream
from regulus.proxy.config import ProxyConfig


async def test_producers_are_asked_in_turn_and_only_those_that_hear_us() -> None:
    clients = Clients(ProxyConfig())
    streams = [Stream(), Stream()]
    for number, stream in enumerate(streams):
        clients.sends_to(f"c{number}", "t", 0)
        clients.opened(f"c{number}", stream, 0)
    clients.sends_to("deaf", "t", 0)
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
    clients.sends_to("c", "t", 0)
    clients.opened("c", first, 0)
    clients.opened("c", second, 0)
    clients.closed("c", first)
    assert clients.producer_stream("t") is second


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    stream = Stream()
    assert all(stream.send(number) for number in range(COMMANDS_MAX))
    assert not stream.send(0)
    assert stream.ended.is_set()


async def test_clients_that_are_silent_are_forgotten_unless_their_stream_is_open() -> None:
    clients = Clients(ProxyConfig())
    clients.heard("silent", 0)
    clients.opened("open", Stream(), 0)
    clients.heard("late", 1)
    clients.heard("silent too", 0)
    clients.heard("silent", 5)
    assert clients.expired(120_000) == []
    assert clients.expired(120_001) == ["late", "silent too"]
