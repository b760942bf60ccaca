"""A broker that is spoken to by either protocol, in this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from regulus.broker.config import BrokerConfig
from regulus.client.administration.admin import Admin
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.proxy.config import ProxyConfig
from regulus.proxy.embedded import RegulusWithFront
from regulus.server.assembly import Regulus
from regulus.testing.running_server import small_store
from regulus.transport.config import TransportConfig

HOST = "127.0.0.1"
PROTOCOLS = ("rocketmq", "grpc")
PROXY = {"grpc_client_consumer_min_long_polling_timeout_millis": 10}
"""A receive that does not wait is answered at once, not after the usual five seconds."""


class BothProtocols:
    def __init__(self, server: RegulusWithFront) -> None:
        self.server = server

    @property
    def name_server(self) -> str:
        assert self.server.regulus.name_server is not None
        return f"{HOST}:{self.server.regulus.name_server.port}"

    def address(self, protocol: str) -> str:
        return f"grpc://{HOST}:{self.server.front.port}" if protocol == "grpc" else f"rocketmq://{self.name_server}"

    async def create_topic(self, name: str, kind: str = "NORMAL", queues: int = 1) -> None:
        async with Admin(self.name_server) as admin:
            await admin.create_topic(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues,
                                                 attributes={"message.type": kind}))

    async def create_group(self, name: str, **settings: Any) -> None:
        async with Admin(self.name_server) as admin:
            await admin.create_group(SubscriptionGroupConfig(group_name=name, **settings))


@asynccontextmanager
async def both_protocols(directory: Path, proxy: dict[str, Any] | None = None, tls: dict[str, Any] | None = None,
                         log_file_size: int = 16 << 20, **settings: Any) -> AsyncIterator[BothProtocols]:
    transport = TransportConfig(bind_address=HOST, **(tls or {}))
    guarded = {name: settings[name] for name in ("acl_enable", "rocketmq_home") if name in settings}
    store = replace(small_store(directory), mapped_file_size_commit_log=log_file_size)
    regulus = Regulus(BrokerConfig(listen_port=0, **settings), store,
                      NamesrvConfig(listen_port=0, bind_address=HOST, **guarded), transport_config=transport)
    front = ProxyConfig(grpc_server_port=0, bind_address=HOST, **{**PROXY, **(proxy or {})})
    server = RegulusWithFront(regulus, front, transport)
    await server.start()
    try:
        yield BothProtocols(server)
    finally:
        await server.stop()
