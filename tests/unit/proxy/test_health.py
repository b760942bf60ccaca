"""grpc.health.v1 as a client of another make asks for it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from regulus.proxy import health
from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import ProxyServer
from regulus.proxy.standalone import standalone
from regulus.transport.config import TransportConfig
from regulus.wire.grpc.health_messages import HealthCheckRequest, HealthCheckResponse, HealthListResponse
from tests.unit.proxy.scripted_brokers import ScriptedBrokers

SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
MESSAGING = "apache.rocketmq.v2.MessagingService"


class Asker:
    """With no header at all: nobody signs such a question."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")

    async def check(self, service: str = "") -> int:
        call = self.channel.unary_unary("/grpc.health.v1.Health/Check",
                                        request_serializer=lambda each: each.SerializeToString(),
                                        response_deserializer=HealthCheckResponse.FromString)
        return int((await call(HealthCheckRequest(service=service), timeout=20)).status)

    async def raw(self, data: bytes, **more: Any) -> bytes:
        return bytes(await self.channel.unary_unary("/grpc.health.v1.Health/Check")(data, timeout=20, **more))

    def watch(self, service: str = "") -> Any:
        call = self.channel.unary_stream("/grpc.health.v1.Health/Watch",
                                         request_serializer=lambda each: each.SerializeToString(),
                                         response_deserializer=HealthCheckResponse.FromString)
        return call(HealthCheckRequest(service=service), timeout=20)


@pytest.fixture
async def asker(front: ProxyServer) -> AsyncIterator[Asker]:
    made = Asker(front.port)
    yield made
    await made.channel.close()


async def test_a_front_serves_as_long_as_there_is_a_broker(asker: Asker, brokers: ScriptedBrokers) -> None:
    for is_ready, status in ((True, SERVING), (False, NOT_SERVING), (True, SERVING)):
        brokers.ready = is_ready
        assert [await asker.check(), await asker.check(MESSAGING)] == [status] * 2
        listing = asker.channel.unary_unary("/grpc.health.v1.Health/List",
                                            response_deserializer=HealthListResponse.FromString)
        told = await listing(b"", timeout=20)
        assert {name: each.status for name, each in told.statuses.items()} == {"": status, MESSAGING: status}


async def test_a_service_that_is_none_is_not_found(asker: Asker) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await asker.check("apache.rocketmq.v2.Messaging")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    watch = asker.watch("nothing")
    assert (await watch.read()).status == SERVICE_UNKNOWN
    watch.cancel()


async def test_who_watches_hears_each_change_once(asker: Asker, brokers: ScriptedBrokers, front: ProxyServer) -> None:
    watches = [asker.watch(), asker.watch(MESSAGING), asker.watch("nothing")]
    told = [[(await each.read()).status] for each in watches]
    for is_ready in (False, False, True):
        brokers.ready = is_ready
        front._health.look()
        await asyncio.sleep(0)
    for each, heard in zip(watches[:2], told, strict=False):
        heard += [(await each.read()).status, (await each.read()).status]
    assert told == [[SERVING, NOT_SERVING, SERVING]] * 2 + [[SERVICE_UNKNOWN]]
    for each in watches:
        each.cancel()


async def test_a_change_is_heard_without_a_question(asker: Asker, brokers: ScriptedBrokers) -> None:
    watch = asker.watch()
    assert (await watch.read()).status == SERVING
    brokers.ready = False
    assert (await watch.read()).status == NOT_SERVING
    watch.cancel()


async def test_a_new_watch_hears_what_is_so_now(asker: Asker, brokers: ScriptedBrokers) -> None:
    assert await asker.check() == SERVING
    brokers.ready = False
    watch = asker.watch()
    assert (await watch.read()).status == NOT_SERVING
    watch.cancel()


async def test_a_front_that_stops_serves_no_more(asker: Asker, front: ProxyServer) -> None:
    """For those who ask while what is under way there ends."""
    assert await asker.check() == SERVING
    front._health.stop()
    assert [await asker.check(), await asker.check(MESSAGING)] == [NOT_SERVING] * 2


async def test_a_front_that_stops_says_so_and_ends_the_watches(brokers: ScriptedBrokers) -> None:
    front = ProxyServer(ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1"), brokers, TransportConfig())
    await front.start()
    asker = Asker(front.port)
    watches = [asker.watch(), asker.watch("nothing")]
    assert [(await each.read()).status for each in watches] == [SERVING, SERVICE_UNKNOWN]
    await front.stop()
    assert (await watches[0].read()).status == NOT_SERVING
    for each in watches:
        assert await each.read() is grpc.aio.EOF
    assert front._health._watches == 0
    await asker.channel.close()


async def test_watches_have_a_limit(asker: Asker, front: ProxyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "WATCHES_MAX", 1)
    first = asker.watch()
    assert (await first.read()).status == SERVING
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await asker.watch().read()
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await asker.check() == SERVING
    first.cancel()
    async with asyncio.timeout(20):
        while front._health._watches:
            await asyncio.sleep(0.01)
    again = asker.watch()
    assert (await again.read()).status == SERVING
    again.cancel()


@pytest.mark.parametrize(("data", "code"), [
    (b"\x0a\x81\x20" + b"s" * 4_097, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (b"\x0a\x05ab", grpc.StatusCode.INVALID_ARGUMENT)])
async def test_what_is_no_small_question_is_refused(asker: Asker, data: bytes, code: grpc.StatusCode) -> None:
    for more in ({}, {"compression": grpc.Compression.Gzip}):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await asker.raw(data, **more)
        assert refused.value.code() is code


async def test_nobody_has_to_sign_for_it(guarded: ProxyServer) -> None:
    """As reflection of RocketMQ's proxy is there for all: what a load balancer asks stands in no account."""
    asker = Asker(guarded.port)
    assert await asker.check() == SERVING
    await asker.channel.close()


async def test_a_front_whose_name_server_is_silent_does_not_serve() -> None:
    front = standalone(ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1", namesrv_addr="127.0.0.1:1"),
                       TransportConfig())
    await front.start()
    asker = Asker(front.port)
    assert await asker.check() == NOT_SERVING
    await asker.channel.close()
    await front.stop()
