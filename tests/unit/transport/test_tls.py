"""TLS and plain text at one port, over real sockets and on both event loops."""

import asyncio
import logging
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from regulus.errors import ConfigError, ConnectFailed, ConnectionLost
from regulus.transport import tls
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection, OnRequests
from regulus.transport.connector import connect
from regulus.transport.listener import Listener, listen
from regulus.transport.tls import ClientAuth, ServerTls, TlsConfig, TlsMode, client_context
from regulus.wire.remoting_command import RemotingCommand
from tests.certificates import Authority, Pair

HOST = "127.0.0.1"
ECHO, LARGE = 1, 2


def answer(connection: Connection, requests: list[RemotingCommand]) -> None:
    for request in requests:
        if request.code == LARGE:
            connection.send(request.response(0, body=[memoryview(bytes(1 << 16))] * 64))
        else:
            connection.send(request.response(0, body=request.body))


class Ports:
    """Listeners with certificates of `authority`, ended with the test."""

    def __init__(self, authority: Authority, stack: AsyncExitStack) -> None:
        self.authority = authority
        self.pair = authority.issue("server")
        self._stack = stack

    async def open(self, pair: Pair | None = None, **settings: Any) -> Listener:
        shown = pair or self.pair
        config = TransportConfig(tls_server_cert_path=str(shown.certificate), tls_server_key_path=str(shown.key),
                                 **settings)
        listener = await listen(HOST, 0, answer, lambda _: None, lambda _: None, config)
        self._stack.push_async_callback(listener.close)
        return listener

    def trusting(self, **settings: Any) -> TransportConfig:
        return TransportConfig(tls_enable=True, tls_client_trust_cert_path=str(self.authority.pair.certificate),
                               **settings)


@pytest.fixture
async def ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ports]:
    """No handshake is given up while a test waits for its end, unless it says so."""
    monkeypatch.setattr(tls, "HANDSHAKE_S_MAX", 600.0)
    async with AsyncExitStack() as stack:
        yield Ports(Authority(tmp_path), stack)


async def echo(listener: Listener, config: TransportConfig, body: bytes = b"hello") -> bytes:
    connection = await connect(HOST, listener.port, config=config)
    try:
        return (await connection.request(RemotingCommand.request(ECHO, body=body), 60_000)).body
    finally:
        connection.close()
        await connection.wait_closed()


async def test_plain_text_and_tls_are_spoken_at_one_port(ports: Ports) -> None:
    listener = await ports.open()
    bodies = await asyncio.gather(*[echo(listener, config, bytes([number]) * 300_000) for number, config in
                                    enumerate([ports.trusting(), TransportConfig()] * 4)])
    assert bodies == [bytes([number]) * 300_000 for number in range(8)]


async def test_a_handshake_may_come_byte_by_byte(ports: Ports) -> None:
    listener = await ports.open()
    context = client_context(ports.trusting())
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=HOST)
    reader, writer = await asyncio.open_connection(HOST, listener.port)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def step(do: Any) -> Any:
        while True:
            try:
                done = do()
            except ssl.SSLWantReadError:
                done = None
            for byte in outgoing.read():
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            if done is not None:
                return done
            incoming.write(await reader.read(1 << 16))

    await step(lambda: client.do_handshake() or True)
    request = RemotingCommand.request(ECHO, body=b"slow")
    client.write(request.encode())
    assert b"slow" in await step(lambda: client.read(1 << 16))
    writer.close()


class Sealed:
    """A client whose TLS is done by the test: what it says leaves when the test likes, and it reads when that likes."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=HOST)

    @classmethod
    async def connected(cls, ports: Ports, listener: Listener) -> "Sealed":
        client = cls(client_context(ports.trusting()))
        await client._loop.sock_connect(client.socket, (HOST, listener.port))
        while True:
            try:
                client._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await client.say(client._outgoing.read())
                client._incoming.write(await client._loop.sock_recv(client.socket, 1 << 16))
        await client.say(client._outgoing.read())
        return client

    def seal(self, *frames: bytes, ends: bool = False) -> bytes:
        for each in frames:
            self._tls.write(each)
        if ends:
            with suppress(ssl.SSLWantReadError):
                self._tls.unwrap()
        return self._outgoing.read()

    async def say(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.socket, data)

    async def read(self) -> bytes:
        return await self._loop.sock_recv(self.socket, 1 << 16)


def request(code: int, size: int) -> bytes:
    return bytes(RemotingCommand.request(code, body=bytes(size)).encode())


async def become(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


async def open_port(ports: Ports, on_requests: OnRequests) -> Listener:
    config = TransportConfig(tls_server_cert_path=str(ports.pair.certificate), tls_server_key_path=str(ports.pair.key))
    return await listen(HOST, 0, on_requests, lambda _: None, lambda _: None, config)


async def count_sizes(ports: Ports, taken: list[int]) -> Listener:
    """A port that notes how large the bodies of requests are, and answers none."""
    return await open_port(ports, lambda _, requests: taken.extend(len(each.body) for each in requests))


async def test_what_a_client_sent_before_it_closed_is_taken(ports: Ports) -> None:
    """Though more of it comes at once than one turn reads, and its end with it: what is one-way is not sent again."""
    taken = list[int]()
    listener = await count_sizes(ports, taken)
    client = await Sealed.connected(ports, listener)
    await client.say(client.seal(*[request(ECHO, 100_000)] * 20, ends=True))
    client.socket.shutdown(socket.SHUT_WR)
    await become(lambda: not listener.connections)
    assert taken == [100_000] * 20
    client.socket.close()
    await listener.close()


async def test_what_a_client_sent_before_it_closed_is_taken_though_its_frame_waited_for_room(ports: Ports) -> None:
    taken = list[int]()
    listener = await count_sizes(ports, taken)
    client = await Sealed.connected(ports, listener)
    listener._unfinished.keep(TransportConfig().large_frames_size_max)
    sealed = client.seal(*[request(ECHO, 70_000)] * 3, ends=True)
    await client.say(sealed[:20_000])
    await become(lambda: listener._unfinished.small_size)
    await client.say(sealed[20_000:])
    client.socket.shutdown(socket.SHUT_WR)
    await asyncio.sleep(0.05)       # in which the end could be heeded too early
    listener._unfinished.keep(0)
    await become(lambda: not listener.connections)
    assert taken == [70_000] * 3
    client.socket.close()
    await listener.close()


async def test_a_connection_that_is_not_read_is_closed_at_once(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "SHUTDOWN_S_MAX", 3600)
    listener = await count_sizes(ports, [])
    client = await connect(HOST, listener.port, config=ports.trusting())
    listener._unfinished.keep(TransportConfig().large_frames_size_max)
    client.write(request(ECHO, 100_000)[:70_000])
    await become(lambda: listener._unfinished.small_size)
    [server] = listener.connections
    server.close()
    await become(lambda: not listener.connections)
    await listener.close()


async def test_a_client_that_reads_no_answers_is_not_read_whatever_tls_holds_of_it(ports: Ports) -> None:
    """TLS stops reading for itself, too, and would not do so again before it has handed out almost all."""
    def answer_much(connection: Connection, _: object = None) -> None:
        """The first is more than the kernel takes, the second waits in TLS."""
        for size in (24 << 20, 2 << 20):
            connection.send(RemotingCommand.request(ECHO, body=bytes(size)))

    listener = await open_port(ports, answer_much)
    client = await Sealed.connected(ports, listener)
    [server] = listener.connections
    first = client.seal(request(ECHO, 700_000))
    await client.say(first[:560_000])
    await become(lambda: server._reader.buffered > 540_000)
    answer_much(server)
    await become(lambda: server._drained is not None)
    await client.say(first[560_000:] + client.seal(request(ECHO, 350_000)))
    await asyncio.sleep(0.05)       # in which TLS takes of it what it may
    while listener._unfinished.large_size:
        await client.read()
    await become(lambda: server._drained is not None)
    sent, more = 0, client.seal(*[request(ECHO, 1 << 20)] * 64)
    with suppress(TimeoutError):
        while sent < len(more):
            async with asyncio.timeout(0.3):
                await client.say(more[sent:sent + (1 << 20)])
            sent += 1 << 20
    assert sent < 32 << 20
    client.socket.close()


async def test_long_answers_come_whole_to_a_slow_reader(ports: Ports) -> None:
    """And no more of them wait in memory than may; the reader is read again when it has caught up."""
    listener = await ports.open(write_buffer_high=1 << 20, write_buffer_low=1 << 16)
    connection = await connect(HOST, listener.port, config=ports.trusting())
    answers = await asyncio.gather(*[connection.request(RemotingCommand.request(LARGE), 10_000) for _ in range(8)])
    assert [len(each.body) for each in answers] == [64 << 16] * 8
    connection.close()


@pytest.mark.parametrize(("mode", "client", "words"), [
    (TlsMode.DISABLED, "tls", "tls.server.mode is disabled here"),
    (TlsMode.ENFORCING, "plain", "this port TLS only (tls.server.mode=enforcing)")])
async def test_whoever_speaks_what_the_port_does_not_is_told_and_no_other(
        ports: Ports, caplog: pytest.LogCaptureFixture, mode: TlsMode, client: str, words: str) -> None:
    listener = await ports.open(tls_server_mode=mode)
    wrong, right = ports.trusting(), TransportConfig()
    if client == "plain":
        wrong, right = right, wrong
    with caplog.at_level(logging.WARNING), pytest.raises((ConnectFailed, ConnectionLost)):
        await echo(listener, wrong)
    assert words in caplog.text
    assert await echo(listener, right) == b"hello"


async def test_a_server_without_a_certificate_says_so(caplog: pytest.LogCaptureFixture) -> None:
    listener = await listen(HOST, 0, answer, lambda _: None, lambda _: None, TransportConfig())
    told = r"^no TLS with 127\.0\.0\.1:\d+: it closed the connection; does that port speak TLS, and want a certificate "
    with caplog.at_level(logging.WARNING), pytest.raises(ConnectFailed, match=told):
        await echo(listener, TransportConfig(tls_enable=True, tls_client_auth_server=False))
    assert "this server has no certificate: set tls.server.certPath and tls.server.keyPath" in caplog.text
    await listener.close()


async def test_in_test_mode_a_certificate_is_made_up_that_nobody_believes_unasked() -> None:
    listener = await listen(HOST, 0, answer, lambda _: None, lambda _: None, TransportConfig(tls_test_mode_enable=True))
    assert await echo(listener, TransportConfig(tls_enable=True, tls_client_auth_server=False)) == b"hello"
    with pytest.raises(ConnectFailed, match="its certificate is not believed"):
        await echo(listener, TransportConfig(tls_enable=True))
    await listener.close()


def test_one_is_made_up_where_no_disk_may_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`regulus up` makes one up unasked, also in a container that may write to its store alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert ServerTls(TransportConfig(tls_test_mode_enable=True)).context is not None


async def test_another_authority_s_certificate_is_not_believed(ports: Ports, tmp_path: Path) -> None:
    listener = await ports.open(Authority(tmp_path / "other").issue("server"))
    with pytest.raises(ConnectFailed, match=r"its certificate is not believed .*tls.client.trustCertPath"):
        await echo(listener, ports.trusting())


async def test_the_server_says_what_a_client_may_have_had_against_its_certificate(
        ports: Ports, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    listener = await ports.open(Authority(tmp_path / "other").issue("server"))
    with pytest.raises(ConnectFailed):
        await echo(listener, ports.trusting())
    async with asyncio.timeout(60):
        while "its TLS handshake failed: the client closed it; perhaps it does not believe" not in caplog.text:
            await asyncio.sleep(0.01)


async def test_an_expired_certificate_is_not_believed(ports: Ports) -> None:
    listener = await ports.open(ports.authority.issue("old", days=-1))
    with pytest.raises(ConnectFailed, match="certificate has expired"):
        await echo(listener, ports.trusting())


async def test_a_certificate_of_another_address_counts_only_where_that_is_allowed(ports: Ports) -> None:
    listener = await ports.open(ports.authority.issue("elsewhere", "10.0.0.1"))
    with pytest.raises(ConnectFailed, match="checkHost=false"):
        await echo(listener, ports.trusting())
    assert await echo(listener, ports.trusting(tls_client_check_host=False)) == b"hello"


@pytest.mark.parametrize("settings", [{"tls_server_need_client_auth": ClientAuth.REQUIRE},
                                      {"tls_server_auth_client": True}])
async def test_clients_are_asked_for_certificates(ports: Ports, tmp_path: Path, settings: dict[str, Any]) -> None:
    listener = await ports.open(tls_server_trust_cert_path=str(ports.authority.pair.certificate), **settings)
    own, others = ports.authority.issue("client"), Authority(tmp_path / "other").issue("client")

    def of(pair: Pair) -> TransportConfig:
        return ports.trusting(tls_client_cert_path=str(pair.certificate), tls_client_key_path=str(pair.key))

    assert await echo(listener, of(own)) == b"hello"
    for config in (ports.trusting(), of(others)):
        with pytest.raises((ConnectFailed, ConnectionLost)):
            await echo(listener, config)


async def test_a_certificate_that_is_asked_for_and_not_required_may_be_missing(ports: Ports) -> None:
    listener = await ports.open(tls_server_need_client_auth=ClientAuth.OPTIONAL,
                                tls_server_trust_cert_path=str(ports.authority.pair.certificate))
    assert await echo(listener, ports.trusting()) == b"hello"


async def test_a_certificate_that_is_asked_for_and_not_required_must_be_believed(ports: Ports, tmp_path: Path) -> None:
    listener = await ports.open(tls_server_need_client_auth=ClientAuth.OPTIONAL,
                                tls_server_trust_cert_path=str(ports.authority.pair.certificate))
    other = Authority(tmp_path / "other").issue("client")
    with pytest.raises((ConnectFailed, ConnectionLost)):
        await echo(listener, ports.trusting(tls_client_cert_path=str(other.certificate),
                                            tls_client_key_path=str(other.key)))


async def test_a_new_certificate_is_shown_without_a_restart_and_a_broken_one_is_not(
        ports: Ports, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = Authority(tmp_path / "other")
    listener = await ports.open()
    old = ports.trusting()
    connected = await connect(HOST, listener.port, config=old)
    new = TransportConfig(tls_enable=True, tls_client_trust_cert_path=str(other.pair.certificate))
    key = ports.pair.key.read_bytes()
    issued = other.issue("new")
    issued.key.replace(ports.pair.key)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            listener._tls.look()
    assert caplog.text.count("cannot be used, and the old one stays") == 1
    assert await echo(listener, old) == b"hello"
    issued.certificate.replace(ports.pair.certificate)
    listener._tls.look()
    assert await echo(listener, new) == b"hello"
    with pytest.raises(ConnectFailed):
        await echo(listener, old)
    assert (await connected.request(RemotingCommand.request(ECHO, body=b"on"), 1000)).body == b"on"
    connected.close()
    assert key != ports.pair.key.read_bytes()


async def test_the_files_are_looked_at_again_and_again(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "LOOK_S", 0.01)
    listener = await ports.open()
    for _ in range(2):
        before = listener._tls.context
        ports.authority.issue("server")
        async with asyncio.timeout(60):
            while listener._tls.context is before:
                await asyncio.sleep(0.01)


async def test_the_files_are_looked_at_no_more_behind_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "LOOK_S", 0.01)
    authority = Authority(tmp_path)
    pair = authority.issue("server")
    server = ServerTls(TlsConfig(tls_server_cert_path=str(pair.certificate), tls_server_key_path=str(pair.key)))
    server.start()
    server.stop()
    before = server.context
    authority.issue("server")
    await asyncio.sleep(0.05)
    assert server.context is before


async def test_a_handshake_that_stops_is_closed(ports: Ports, monkeypatch: pytest.MonkeyPatch,
                                                caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_S_MAX", 0.1)
    listener = await ports.open()
    reader, writer = await asyncio.open_connection(HOST, listener.port)
    writer.write(b"\x16\x03\x01\x02\x00\x01")
    async with asyncio.timeout(60):
        assert await reader.read() == b""
        while listener.connections:
            await asyncio.sleep(0.01)
    assert "its TLS handshake failed" in caplog.text
    writer.close()


@pytest.mark.parametrize("garbage", [b"\x16" * 400, b"\x16\x03\x01\x00\x05hello"])
async def test_bytes_that_are_no_handshake_close_their_connection(ports: Ports, garbage: bytes,
                                                                  caplog: pytest.LogCaptureFixture) -> None:
    listener = await ports.open()
    reader, writer = await asyncio.open_connection(HOST, listener.port)
    with caplog.at_level(logging.WARNING):
        writer.write(garbage)
        writer.write_eof()
    async with asyncio.timeout(60):
        await reader.read()
        while listener.connections:
            await asyncio.sleep(0.01)
    writer.close()
    assert "its TLS handshake failed" in caplog.text
    assert await echo(listener, ports.trusting()) == b"hello"


async def test_of_many_that_fail_at_once_the_log_has_a_few_and_their_number(
        ports: Ports, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """One line for each would let a scanner of ports fill the disk."""
    monkeypatch.setattr(tls, "TOLD_S", 3600)
    listener = await ports.open()
    for _ in range(20):
        reader, writer = await asyncio.open_connection(HOST, listener.port)
        writer.write(b"\x16\x03\x01\x00\x05hello")
        writer.write_eof()
        await reader.read()
        writer.close()
    assert await echo(listener, ports.trusting()) == b"hello"
    assert caplog.text.count("its TLS handshake failed") == 1
    await listener.close()
    told = [record.getMessage() for record in caplog.records if record.name == tls.__name__]
    assert [line.count("its TLS handshake failed") for line in told] == [1, 5]
    assert told[1].endswith(" and 14 more")


async def test_a_quiet_port_tells_the_next_one_at_once(ports: Ports, monkeypatch: pytest.MonkeyPatch,
                                                       caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tls, "TOLD_S", 0.01)
    shown = (await ports.open())._tls
    for number in range(1, 4):
        shown.refused("10.0.0.1:1", "it failed")
        shown.refused("10.0.0.1:2", "it failed, too")
        async with asyncio.timeout(60):
            while shown._telling is not None:
                await asyncio.sleep(0.001)
        assert [record.getMessage() for record in caplog.records] == [
            "connections closed: 10.0.0.1:1: it failed", "connections closed: 10.0.0.1:2: it failed, too"] * number


async def test_a_client_that_goes_during_its_handshake_is_forgotten(ports: Ports) -> None:
    listener = await ports.open()
    _, writer = await asyncio.open_connection(HOST, listener.port)
    writer.write(b"\x16\x03\x01\x02\x00\x01")
    await writer.drain()
    async with asyncio.timeout(60):
        while not any(each._shaking_hands for each in listener.connections):
            await asyncio.sleep(0.01)
        writer.transport.abort()
        while listener.connections:
            await asyncio.sleep(0.01)


class Hearing(asyncio.Protocol):
    """What a protocol is told of its connection."""

    def __init__(self) -> None:
        self.lost = 0

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost += 1


async def test_a_connection_that_was_closed_before_its_handshake_comes_to_nothing(ports: Ports) -> None:
    context = (await ports.open())._tls.context
    assert context is not None
    behind, made = Hearing(), list[asyncio.Transport]()
    made_here = asyncio.get_running_loop().create_future()

    class Told(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made_here.set_result(transport)

    server = await asyncio.get_running_loop().create_server(Told, HOST, 0)
    _, writer = await asyncio.open_connection(HOST, server.sockets[0].getsockname()[1])
    transport = await made_here
    transport.pause_reading()
    transport.abort()
    async with asyncio.timeout(60):
        with pytest.raises(OSError):
            await tls.take_over(transport, behind, context, b"\x16", made.append)
    assert (made, behind.lost) == ([], 0)
    writer.close()
    server.close()


async def test_what_is_lost_as_its_handshake_ends_comes_to_nothing(ports: Ports, monkeypatch: pytest.MonkeyPatch,
                                                                   caplog: pytest.LogCaptureFixture) -> None:
    """Else nobody would tell its owner, who would keep it for ever."""

    class Lost(tls._EarlyData):
        def __init__(self) -> None:
            super().__init__()
            self.is_lost = True

    listener = await ports.open()
    monkeypatch.setattr(tls, "_EarlyData", Lost)
    with pytest.raises((ConnectFailed, ConnectionLost)):
        await echo(listener, ports.trusting())
    async with asyncio.timeout(60):
        while listener.connections:
            await asyncio.sleep(0.01)
    assert "closed during the handshake" in caplog.text


def test_an_end_that_was_on_its_way_when_the_owner_came_is_told_to_it() -> None:
    early, owner = tls._EarlyData(), Hearing()
    early.connection_lost(None)
    assert early.is_lost
    early = tls._EarlyData()
    early.owner = owner
    early.connection_lost(None)
    assert owner.lost == 1


async def test_whoever_takes_over_a_connection_hears_of_an_end_that_was_on_its_way(
        ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    port = (await ports.open())._tls
    behind, early, ended = Hearing(), list[tls._EarlyData](), list[tls.TlsDoor]()

    class Kept(tls._EarlyData):
        def __init__(self) -> None:
            super().__init__()
            early.append(self)

    monkeypatch.setattr(tls, "_EarlyData", Kept)
    server = await asyncio.get_running_loop().create_server(
        lambda: tls.TlsDoor(port, behind, lambda _: True, ended.append), HOST, 0)
    _, writer = await asyncio.open_connection(
        HOST, server.sockets[0].getsockname()[1], ssl=client_context(ports.trusting()), server_hostname=HOST)
    async with asyncio.timeout(60):
        while not ended:
            await asyncio.sleep(0.01)
    early[0].connection_lost(None)
    assert behind.lost == 1
    writer.close()
    server.close()


@pytest.mark.parametrize("is_welcome", [True, False])
async def test_a_door_tells_that_its_handshake_is_over_and_closes_what_came_to_nothing(
        ports: Ports, is_welcome: bool) -> None:
    """Else it would be counted for ever."""
    port = (await ports.open())._tls
    behind, ended = Hearing(), list[tls.TlsDoor]()
    server = await asyncio.get_running_loop().create_server(
        lambda: tls.TlsDoor(port, behind, lambda _: is_welcome, ended.append), HOST, 0)
    reader, writer = await asyncio.open_connection(HOST, server.sockets[0].getsockname()[1])
    async with asyncio.timeout(60):
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            await reader.read()
        while not ended:
            await asyncio.sleep(0.01)
    assert (len(ended), behind.lost) == (1, 0)
    writer.close()
    server.close()


async def test_a_door_loses_nothing_of_a_client_that_speaks_at_once(ports: Ports) -> None:
    port = (await ports.open())._tls

    class Greeting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            cast(asyncio.Transport, transport).write(b"welcome")
            transport.close()

    ended = list[tls.TlsDoor]()
    server = await asyncio.get_running_loop().create_server(
        lambda: tls.TlsDoor(port, Greeting(), lambda _: True, ended.append), HOST, 0)
    async with asyncio.timeout(60):
        for _ in range(5):
            reader, writer = await asyncio.open_connection(
                HOST, server.sockets[0].getsockname()[1], ssl=client_context(ports.trusting()), server_hostname=HOST)
            assert await reader.read() == b"welcome"
            writer.close()
        while len(ended) < 5:
            await asyncio.sleep(0.01)
    server.close()


async def test_what_was_answered_leaves_before_a_stop(ports: Ports) -> None:
    listener = await ports.open()
    connection = await connect(HOST, listener.port, config=ports.trusting())
    await connection.request(RemotingCommand.request(ECHO), 1000)
    [served] = listener.connections
    request = asyncio.ensure_future(connection.request(RemotingCommand.request(ECHO, body=b"last"), 1000))
    received = asyncio.Event()
    served._on_requests = lambda it, requests: (answer(it, requests), received.set())   # type: ignore[assignment]
    await received.wait()
    await listener.close()
    assert (await request).body == b"last"


async def test_nothing_older_than_tls_1_2_is_spoken(ports: Ports) -> None:
    listener = await ports.open()
    context = client_context(ports.trusting())
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ConnectFailed, match="no TLS with"):
        await connect(HOST, listener.port, tls=context)


def test_what_the_library_would_allow_is_limited_at_both_ends(tmp_path: Path) -> None:
    """Most systems forbid old versions by themselves; that must not be what we rely on."""
    pair = Authority(tmp_path).issue("server")
    server = ServerTls(TlsConfig(tls_server_cert_path=str(pair.certificate), tls_server_key_path=str(pair.key))).context
    assert server is not None
    for context in (server, client_context(TlsConfig(tls_enable=True))):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.options & ssl.OP_NO_COMPRESSION


def test_whose_certificates_count_is_read_anew_too(tmp_path: Path) -> None:
    """Else a client whose authority was taken away goes on to be let in."""
    authority = Authority(tmp_path / "one")
    pair, trusted = authority.issue("server"), tmp_path / "trusted.pem"
    trusted.write_bytes(authority.pair.certificate.read_bytes())
    server = ServerTls(TlsConfig(tls_server_cert_path=str(pair.certificate), tls_server_key_path=str(pair.key),
                                 tls_server_auth_client=True, tls_server_trust_cert_path=str(trusted)))
    before = server.context
    trusted.write_bytes(Authority(tmp_path / "two").pair.certificate.read_bytes() + b"\n")
    server.look()
    assert server.context is not before


@pytest.mark.parametrize("what", ["another file", "another size", "another time"])
def test_a_certificate_is_read_anew_once_whatever_tells_that_it_changed(
        tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    """Tools replace files, or write into them, and may give them the old time."""
    authority = Authority(tmp_path / "one")
    pair = authority.issue("server")
    server = ServerTls(TlsConfig(tls_server_cert_path=str(pair.certificate), tls_server_key_path=str(pair.key)))
    before = server.context
    is_as_it_was = pair.certificate.stat()
    text = pair.certificate.read_bytes()
    if what == "another file":
        (tmp_path / "new.pem").write_bytes(text)
        (tmp_path / "new.pem").replace(pair.certificate)
    elif what == "another size":
        pair.certificate.write_bytes(text + b"\n")
    else:
        pair.certificate.write_bytes(text)
    changed_ns = 1 if what == "another time" else 0
    os.utime(pair.certificate, ns=(is_as_it_was.st_atime_ns, is_as_it_was.st_mtime_ns + changed_ns))
    with caplog.at_level(logging.INFO):
        server.look()
        assert server.context is not before
        for _ in range(2):
            server.look()
    assert caplog.text.count("was read again") == 1


def test_a_certificate_whose_file_is_away_stays_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server")
    server = ServerTls(TlsConfig(tls_server_cert_path=str(pair.certificate), tls_server_key_path=str(pair.key)))
    before = server.context
    pair.certificate.unlink()
    server.look()
    assert server.context is before
    assert "the old one stays" in caplog.text
    authority.issue("server")
    server.look()
    assert server.context is not before


def test_without_a_file_of_its_own_a_client_believes_whom_the_system_does(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path).pair.certificate))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    context = client_context(TlsConfig(tls_enable=True))
    assert [dict(field[0] for field in each["subject"]) for each in context.get_ca_certs()] == [
        {"commonName": "regulus tests"}]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_a_key_with_a_password(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("server", password="open sesame")

    def load(password: str) -> ServerTls:
        return ServerTls(TlsConfig(tls_server_cert_path=str(pair.certificate), tls_server_key_path=str(pair.key),
                                   tls_server_key_password=password))

    assert load("open sesame").context is not None
    with pytest.raises(ConfigError, match=r"tls.server.certPath: .*server.pem and .* with the password"):
        load("wrong")
    with pytest.raises(ConfigError):
        load("")


def test_passwords_are_not_shown() -> None:
    config = TransportConfig(tls_server_key_password="open sesame", tls_client_key_password="open sesame")
    assert "sesame" not in repr(config)


@pytest.mark.parametrize(("settings", "words"), [
    ({"tls_server_cert_path": "a.pem"}, "tls.server.certPath and tls.server.keyPath belong together"),
    ({"tls_client_key_path": "a.pem"}, "tls.client.certPath and tls.client.keyPath belong together"),
    ({"tls_test_mode_enable": True, "tls_server_auth_client": True}, "tls.server.trustCertPath"),
    ({"tls_server_mode": TlsMode.ENFORCING}, "this server has no certificate"),
    ({"tls_server_auth_client": True, "tls_server_trust_cert_path": "a.pem"}, "this server has no certificate"),
    ({"tls_ha_enable": True}, "this server has no certificate"),
    ({"tls_ha_enable": True, "tls_test_mode_enable": True, "tls_server_mode": TlsMode.DISABLED}, "change one of them"),
])
def test_settings_that_cannot_hold_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TlsConfig(**settings)


@pytest.mark.parametrize(("end", "use"), [("client", client_context), ("server", ServerTls)])
def test_a_file_without_certificates_is_named(tmp_path: Path, end: str, use: Callable[[TlsConfig], object]) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    path = str(tmp_path / "ca.pem")
    config = TlsConfig(tls_test_mode_enable=True, tls_server_auth_client=True, tls_server_trust_cert_path=path,
                       tls_client_trust_cert_path=path)
    with pytest.raises(ConfigError, match=rf"tls.{end}.trustCertPath: .*ca.pem has no certificates"):
        use(config)
