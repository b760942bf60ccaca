"""Addresses, and servers that are not there."""

import asyncio
import socket

import pytest

from regulus.errors import ConnectFailed, ConnectRefused, HostUnknown
from regulus.transport.connection import Connection
from regulus.transport.connector import connect, split_address
from regulus.transport.listener import bind

HOST = "127.0.0.1"


@pytest.mark.parametrize(("address", "host", "port"), [
    ("127.0.0.1:9876", "127.0.0.1", 9876), (" broker.example:1 ", "broker.example", 1), ("[::1]:65535", "::1", 65535),
])
def test_an_address_has_a_host_and_a_port(address: str, host: str, port: int) -> None:
    assert split_address(address) == (host, port)


@pytest.mark.parametrize("address", ["", "localhost", ":9876", "a:b", "a:0", "a:65536", "a:-1",
                                     "a:\N{SUPERSCRIPT TWO}", "a:" + "1" * 5000, "a" * 70 + ".example:1", "a..b:1",
                                     "a\0b:1", "\ud800:1"])
def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        split_address(address)


async def test_no_server_is_a_failure_that_names_the_address() -> None:
    with bind(HOST, 0) as bound:        # nobody listens there, and nobody else is given it
        port = bound.getsockname()[1]
        with pytest.raises(ConnectFailed, match=f"{HOST}:{port}"):
            await connect(HOST, port)


@pytest.mark.parametrize(("number", "refusal"), [
    (socket.EAI_NONAME, HostUnknown), (socket.EAI_AGAIN, ConnectRefused)])
async def test_a_host_that_is_not_there_is_told_apart_from_a_resolver_that_is_away(
        monkeypatch: pytest.MonkeyPatch, number: int, refusal: type[ConnectRefused]) -> None:
    async def unresolved(*_: object, **__: object) -> None:
        raise socket.gaierror(number, "not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", unresolved)
    with pytest.raises(ConnectRefused, match="no connection to nowhere:1: not known") as raised:
        await connect("nowhere", 1)
    assert type(raised.value) is refusal


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    with bind(HOST, 0) as bound:
        bound.listen(0)
        port = bound.getsockname()[1]
        # The kernel takes as many as fit the backlog, though nobody accepts them.
        held = [await connect(HOST, port, timeout_ms=2000)]
        with pytest.raises(ConnectFailed, match="within 20 ms"):
            await fill(port, held)
        for connection in held:
            connection.abort()


async def fill(port: int, held: list[Connection]) -> None:
    for _ in range(5):
        held.append(await connect(HOST, port, timeout_ms=20))


async def test_an_unknown_host_is_a_failure() -> None:
    with pytest.raises(ConnectFailed, match=r"no\.such\.host\.invalid"):
        await connect("no.such.host.invalid", 9876)
