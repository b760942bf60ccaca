"""A second broker of a name server."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regulus.broker.config import BrokerConfig
from regulus.client.sync import Admin
from regulus.model.topics import TopicConfig
from regulus.server.assembly import BrokerServer
from regulus.testing.running_server import HOST, ServerThread, small_store
from regulus.transport.config import TransportConfig
from tests.waiting import wait_until

BOTH = ("broker-a", "broker-b")


class SecondBroker(ServerThread):
    """`broker-b`, beside the `broker-a` that has a name server with it."""

    def __init__(self, path: Path, name_server: str) -> None:
        super().__init__(path, BrokerConfig(listen_port=0, broker_name="broker-b", namesrv_addr=name_server))

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = BrokerServer(self._broker_config, small_store(self.store_path),
                              transport_config=TransportConfig(bind_address=HOST))
        await server.start()
        self.port = server.port
        self._started.set()
        await self._stopping.wait()
        await server.stop()


@contextmanager
def two_brokers(root: Path, *topics: str) -> Iterator[tuple[ServerThread, SecondBroker]]:
    """Both have the topics, with one queue each."""
    with ServerThread(root / "a") as first, SecondBroker(root / "b", first.name_server_address) as second:
        with Admin(first.name_server_address) as admin:
            wait_until(lambda: set(admin.cluster_info().broker_addr_table) == set(BOTH), "both brokers")
            for topic in topics:
                admin.create_topic(TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))
        yield first, second
