"""TLS and plain text at one port, over real sockets and on both event loops."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from regulus.errors import ConfigError, ConnectFailed, ConnectionLost
from regulus.transport import tls
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
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
async def ports(tmp_path: Path) -> AsyncIterator[Ports]:
    async with AsyncExitStack() as stack:
        yield Ports(Authority(tmp_path), stack)


async def echo(listener: Listener, config: TransportConfig, body: bytes = b"hello") -> bytes:
    connection = await connect(HOST, listener.port, config=config)
    try:
        return (await connection.request(RemotingCommand.request(ECHO, body=body), 5000)).body
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
    with caplog.at_level(logging.WARNING), pytest.raises((ConnectFailed, ConnectionLost)):
        await echo(listener, TransportConfig(tls_enable=True, tls_client_auth_server=False))
    assert "this server has no certificate: set tls.server.certPath and tls.server.keyPath" in caplog.text
    await listener.close()


async def test_in_test_mode_a_certificate_is_made_up_that_nobody_believes_unasked() -> None:
    listener = await listen(HOST, 0, answer, lambda _: None, lambda _: None, TransportConfig(tls_test_mode_enable=True))
    assert await echo(listener, TransportConfig(tls_enable=True, tls_client_auth_server=False)) == b"hello"
    with pytest.raises(ConnectFailed, match="its certificate is not believed"):
        await echo(listener, TransportConfig(tls_enable=True))
    await listener.close()


async def test_another_authority_s_certificate_is_not_believed(ports: Ports, tmp_path: Path) -> None:
    listener = await ports.open(Authority(tmp_path / "other").issue("server"))
    with pytest.raises(ConnectFailed, match=r"its certificate is not believed .*tls.client.trustCertPath"):
        await echo(listener, ports.trusting())


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
    before = listener._tls.context
    ports.authority.issue("server")
    async with asyncio.timeout(10):
        while listener._tls.context is before:
            await asyncio.sleep(0.01)


async def test_a_handshake_that_stops_is_closed(ports: Ports, monkeypatch: pytest.MonkeyPatch,
                                                caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_S_MAX", 0.1)
    listener = await ports.open()
    reader, writer = await asyncio.open_connection(HOST, listener.port)
    writer.write(b"\x16\x03\x01\x02\x00\x01")
    async with asyncio.timeout(10):
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
    async with asyncio.timeout(10):
        await reader.read()
        while listener.connections:
            await asyncio.sleep(0.01)
    writer.close()
    assert "its TLS handshake failed" in caplog.text
    assert await echo(listener, ports.trusting()) == b"hello"


async def test_a_client_that_goes_during_its_handshake_is_forgotten(ports: Ports) -> None:
    listener = await ports.open()
    _, writer = await asyncio.open_connection(HOST, listener.port)
    writer.write(b"\x16\x03\x01\x02\x00\x01")
    await writer.drain()
    async with asyncio.timeout(10):
        while not any(each._shaking_hands for each in listener.connections):
            await asyncio.sleep(0.01)
        writer.transport.abort()
        while listener.connections:
            await asyncio.sleep(0.01)


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
