"""A front before scripted brokers."""

from collections.abc import AsyncIterator

import pytest

from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import ProxyServer
from regulus.transport.config import TransportConfig
from tests.unit.proxy.scripted_brokers import Caller, ScriptedBrokers

TOPICS: dict[str, str | None] = {"normal": "NORMAL", "fifo": "FIFO", "delay": "DELAY", "trans": "TRANSACTION",
                                 "any": None}


@pytest.fixture
def brokers() -> ScriptedBrokers:
    return ScriptedBrokers(dict(TOPICS))


@pytest.fixture
async def front(brokers: ScriptedBrokers) -> AsyncIterator[ProxyServer]:
    server = ProxyServer(ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1"), brokers, TransportConfig())
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def caller(front: ProxyServer) -> AsyncIterator[Caller]:
    made = Caller(front.port)
    yield made
    await made.channel.close()
