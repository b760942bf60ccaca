"""A front before scripted brokers."""

from collections.abc import AsyncIterator

import pytest

from regulus.access.accounts import Account, Grant
from regulus.access.plain_rules import PlainRules
from regulus.access.white_addresses import WhiteAddresses
from regulus.proxy.access import CallAccess
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
async def guarded(brokers: ScriptedBrokers) -> AsyncIterator[ProxyServer]:
    """A front of three accounts, whose names and secrets are the same: see `signed_by`."""
    granted = {"sender": ("trans", Grant.PUB), "stranger": ("normal", Grant.PUB), "consumer": ("normal", Grant.SUB)}
    accounts = {name: Account(access_key=name, secret_key=name, white_addresses=WhiteAddresses(),
                              topics={topic: grant}, groups={"g": grant})
                for name, (topic, grant) in granted.items()}
    rules = PlainRules(WhiteAddresses(), accounts)
    server = ProxyServer(ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1"), brokers, TransportConfig(),
                         CallAccess(lambda: rules))
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def caller(front: ProxyServer) -> AsyncIterator[Caller]:
    made = Caller(front.port)
    yield made
    await made.channel.close()
