"""TLS and plain text on one port, its limit, and peers that say nothing."""

import asyncio
from pathlib import Path

import grpc
import pytest

from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import ProxyServer
from regulus.transport.config import TransportConfig
from regulus.transport.tls import TlsMode
from regulus.wire.grpc import messages
from tests.certificates import make_certificate
from tests.unit.proxy.scripted_brokers import Caller, ScriptedBrokers

HEARTBEAT = messages.HeartbeatRequest(client_type=1)


async def start(brokers: ScriptedBrokers, transport: TransportConfig, connections_max: int = 100) -> ProxyServer:
    config = ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1", connections_max=connections_max)
    front = ProxyServer(config, brokers, transport)
    await front.start()
    return front


def tls(directory: Path, mode: TlsMode = TlsMode.PERMISSIVE) -> TransportConfig:
    pair = make_certificate(directory)
    return TransportConfig(tls_server_mode=mode, tls_server_cert_path=str(pair.certificate),
                           tls_server_key_path=str(pair.key))


def encrypted(port: int, directory: Path) -> Caller:
    root = make_certificate_text(directory)
    return Caller(port, grpc.aio.secure_channel(f"127.0.0.1:{port}", grpc.ssl_channel_credentials(root)))


def make_certificate_text(directory: Path) -> bytes:
    return next(directory.glob("*certificate*")).read_bytes()


async def test_one_port_takes_tls_and_plain_text(brokers: ScriptedBrokers, tmp_path: Path) -> None:
    front = await start(brokers, tls(tmp_path))
    plain, secure = Caller(front.port), encrypted(front.port, tmp_path)
    try:
        assert (await plain.call("Heartbeat", HEARTBEAT)).status.code == 20000
        assert (await secure.call("Heartbeat", HEARTBEAT)).status.code == 20000
        # Larger than the buffers on the way, in both directions.
        request = messages.SendMessageRequest()
        request.messages.add(body=bytes(5 << 20)).topic.name = "normal"
        assert (await secure.call("SendMessage", request)).status.code == 41301
    finally:
        await plain.channel.close()
        await secure.channel.close()
        await front.stop()


async def test_where_tls_is_enforced_plain_text_is_not_served(brokers: ScriptedBrokers, tmp_path: Path) -> None:
    front = await start(brokers, tls(tmp_path, TlsMode.ENFORCING))
    plain, secure = Caller(front.port), encrypted(front.port, tmp_path)
    try:
        assert (await secure.call("Heartbeat", HEARTBEAT)).status.code == 20000
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await plain.call("Heartbeat", HEARTBEAT, within_s=2)
        assert refused.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    finally:
        await plain.channel.close()
        await secure.channel.close()
        await front.stop()


async def test_more_connections_than_the_limit_are_closed_at_once(brokers: ScriptedBrokers) -> None:
    front = await start(brokers, TransportConfig(), connections_max=1)
    try:
        _, first = await asyncio.open_connection("127.0.0.1", front.port)
        await asyncio.sleep(0.05)
        reader, second = await asyncio.open_connection("127.0.0.1", front.port)
        with pytest.raises(ConnectionError):
            await reader.readexactly(1) if await reader.read(1) else _raise()
        for writer in (first, second):
            writer.close()
    finally:
        await front.stop()


def _raise() -> bytes:
    raise ConnectionError("closed")


async def test_rubbish_ends_its_own_connection_and_no_other(brokers: ScriptedBrokers) -> None:
    front = await start(brokers, TransportConfig())
    caller = Caller(front.port)
    try:
        for rubbish in (b"\x16\x03\x01rubbish", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100, b"PRI * HTTP/2.0\r\n\r\nSM"):
            reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
            writer.write(rubbish)
            writer.write_eof()
            await asyncio.wait_for(_end_of(reader), 60)
            writer.close()
        assert (await caller.call("Heartbeat", HEARTBEAT)).status.code == 20000
        async with asyncio.timeout(60):
            while len(front._server.connections) > 1 or front._server._opening:
                await asyncio.sleep(0.01)
        assert len(front._server.connections) == 1
    finally:
        await caller.channel.close()
        await front.stop()


async def _end_of(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(1024):
            pass
    except ConnectionError:
        return
