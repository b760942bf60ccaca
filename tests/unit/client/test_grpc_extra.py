"""A client at `grpc://` without grpcio says what to install."""

import sys

import pytest

from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.consuming.simple_consumer import SimpleConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.errors import MissingExtra

ADDRESS = "grpc://127.0.0.1:1"


@pytest.fixture(autouse=True)
def without_grpcio(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = ("grpc.", "regulus.client.grpc.", "regulus.client.sending.grpc_", "regulus.client.consuming.grpc_")
    for name in [name for name in sys.modules if name.startswith(imported)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)


async def test_a_producer() -> None:
    with pytest.raises(MissingExtra, match=r"regulus-mq\[grpc\]"):
        await Producer(ADDRESS, "orders-sent").start()


async def test_a_simple_consumer() -> None:
    with pytest.raises(MissingExtra, match=r"regulus-mq\[grpc\]"):
        SimpleConsumer(ADDRESS, "billing", {"orders": "*"})


async def test_a_push_consumer() -> None:
    consumer = PushConsumer(ADDRESS, "billing", lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
    consumer.subscribe("orders")
    with pytest.raises(MissingExtra, match=r"regulus-mq\[grpc\]"):
        await consumer.start()
