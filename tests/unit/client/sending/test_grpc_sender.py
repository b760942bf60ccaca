"""Producers over grpc://, against the real broker."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from regulus import (
    Admin,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    ProducerConfig,
    SendStatus,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
)
from regulus.errors import BrokerRefused, ClientClosed, ClientError, ConnectFailed, MessageIllegal, NoRoute
from regulus.model.broker_role import BrokerRole
from tests.unit.client.both_protocols import BothProtocols, both_protocols

pytestmark = pytest.mark.once

QUICK_CHECKS = {"transaction_time_out": 1_000, "transaction_check_interval": 1_000}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BothProtocols]:
    async with both_protocols(tmp_path, **QUICK_CHECKS) as made:
        await made.create_topic("orders", queues=4)
        await made.create_topic("trans", "TRANSACTION")
        yield made


@pytest.fixture
async def producer(broker: BothProtocols) -> AsyncIterator[Producer]:
    async with Producer(broker.address("grpc"), "senders") as made:
        yield made


async def stored(broker: BothProtocols, topic: str = "orders") -> list[MessageExt]:
    async with Admin(broker.name_server) as admin:
        return [message for queue in await admin.queues(topic) for message in (await admin.pull(queue, 0)).messages]


async def test_a_result_names_the_place(broker: BothProtocols, producer: Producer) -> None:
    result = await producer.send(Message("orders", b"tea"))
    assert result.send_status is SendStatus.SEND_OK
    assert result.message_queue.broker_name == "broker-a"
    [message] = await stored(broker)
    assert (message.message_id, message.queue_offset) == (result.message_id, result.queue_offset)


async def test_several_messages_are_sent_at_once(broker: BothProtocols, producer: Producer) -> None:
    result = await producer.send_batch([Message("orders", str(number).encode()) for number in range(3)])
    assert len(result.message_id.split(",")) == 3
    assert sorted(message.body for message in await stored(broker)) == [b"0", b"1", b"2"]


async def test_messages_of_a_group_lie_in_one_queue_in_their_order(broker: BothProtocols, producer: Producer) -> None:
    await broker.create_topic("fifo", "FIFO", queues=4)
    for number in range(8):
        await producer.send(Message("fifo", str(number).encode(), properties={"__SHARDINGKEY": "table"}))
    messages = await stored(broker, "fifo")
    assert {message.queue_id for message in messages} == {messages[0].queue_id}
    assert [message.body for message in messages] == [str(number).encode() for number in range(8)]


async def test_many_sends_at_the_same_time(broker: BothProtocols, producer: Producer) -> None:
    results = await asyncio.gather(*(producer.send(Message("orders", str(number).encode())) for number in range(500)))
    assert len({result.message_id for result in results}) == 500
    async with Admin(broker.name_server) as admin:
        assert sum([await admin.max_offset(queue) for queue in await admin.queues("orders")]) == 500


async def test_what_the_protocol_does_not_have_is_said_in_one_sentence(producer: Producer) -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    for call in (producer.send(Message("orders", b"tea"), queue=queue),
                 producer.send(Message("orders", b"tea"), selector=lambda queues, message, argument: queues[0]),
                 producer.send_batch([Message("orders", b"tea")], queue=queue),
                 producer.send(Message("orders", b"tea", flag=1))):
        with pytest.raises(MessageIllegal, match="grpc://"):
            await call
    for call in (producer.send_oneway(Message("orders", b"tea")), producer.fetch_publish_message_queues("orders")):
        with pytest.raises(ClientError, match="grpc://"):
            await call


async def test_a_topic_that_is_not_there_is_said_with_the_mend(producer: Producer) -> None:
    with pytest.raises(NoRoute, match="regulus topic create nowhere"):
        await producer.send(Message("nowhere", b"tea"))


async def test_a_kind_that_the_topic_does_not_take_is_refused(producer: Producer) -> None:
    with pytest.raises(BrokerRefused, match="40014"):
        await producer.send(Message("trans", b"tea"))


async def test_a_handle_that_is_none_recalls_nothing(producer: Producer) -> None:
    with pytest.raises(MessageIllegal, match="handle"):
        await producer.recall("orders", "nonsense")


async def test_a_producer_that_ended_says_so(broker: BothProtocols) -> None:
    async with Producer(broker.address("grpc"), "senders") as producer:
        await producer.send(Message("orders", b"tea"))
    with pytest.raises(ClientClosed):
        await producer.send(Message("orders", b"tea"))
    async with producer:
        await producer.send(Message("orders", b"tea"))


async def test_the_second_address_counts_where_the_first_leads_to_nobody(broker: BothProtocols) -> None:
    address = broker.address("grpc").replace("grpc://", "grpc://127.0.0.1:1;")
    async with Producer(address, "senders") as producer:
        await producer.send(Message("orders", b"tea"))
    assert len(await stored(broker)) == 1


async def test_a_server_that_is_gone_is_told_by_every_attempt(broker: BothProtocols) -> None:
    async with Producer(broker.address("grpc"), "senders", ProducerConfig(send_msg_timeout=1_000)) as producer:
        await producer.send(Message("orders", b"tea"))
        await broker.server.front.stop()
        with pytest.raises(ClientError) as failed:
            await producer.send(Message("orders", b"tea"))
        assert isinstance(failed.value, ClientError)
        assert "127.0.0.1" in str(failed.value)


# --- transactions ----------------------------------------------------------------------------------------------------


async def received(broker: BothProtocols, consumer: SimpleConsumer) -> list[bytes]:
    got = await consumer.receive(16, 30_000, await_duration_ms=1_500)
    for message in got:
        await consumer.ack(message)
    return [message.body for message in got]


@pytest.fixture
async def consumer(broker: BothProtocols) -> AsyncIterator[SimpleConsumer]:
    async with SimpleConsumer(broker.address("grpc"), "kitchen", {"trans": "*"}) as made:
        assert await made.receive(1, 10_000, await_duration_ms=0) == []
        yield made


@pytest.mark.parametrize("state", [TransactionState.COMMIT, TransactionState.ROLLBACK])
async def test_a_transaction_ends_as_it_says(broker: BothProtocols, consumer: SimpleConsumer,
                                             state: TransactionState) -> None:
    async with TransactionProducer(broker.address("grpc"), "bookers") as producer:
        result = await producer.send_in_transaction(Message("trans", b"tea"), lambda message: state)
    assert result.is_ended
    assert await received(broker, consumer) == ([b"tea"] if state is TransactionState.COMMIT else [])


async def test_a_transaction_that_says_nothing_is_asked_for(broker: BothProtocols, consumer: SimpleConsumer) -> None:
    asked: list[str] = []

    async def check(message: MessageExt) -> TransactionState:
        asked.append(message.message_id)
        return TransactionState.COMMIT if len(asked) > 1 else TransactionState.UNKNOWN

    async with TransactionProducer(broker.address("grpc"), "bookers", check, topics=["trans"]) as producer:
        result = await producer.send_in_transaction(Message("trans", b"tea"), lambda message: TransactionState.UNKNOWN)
        got: list[bytes] = []
        async with asyncio.timeout(60):
            while not got:
                got = await received(broker, consumer)
    assert got == [b"tea"]
    assert asked == [result.send_result.message_id] * 2


async def test_a_half_is_ended_in_another_process_by_what_is_written_of_it(broker: BothProtocols,
                                                                           consumer: SimpleConsumer) -> None:
    async with TransactionProducer(broker.address("grpc"), "bookers") as producer:
        half = await producer.send_half(Message("trans", b"tea"), immunity_s=30)
    ids: Any = tuple(half)
    async with TransactionProducer(broker.address("grpc"), "bookers") as other:
        await other.end_transaction(type(half)(*ids), TransactionState.COMMIT)
        await other.end_transaction(type(half)(*ids), TransactionState.COMMIT)
    assert await received(broker, consumer) == [b"tea"]
    assert await received(broker, consumer) == []


async def test_what_is_stored_and_has_no_slave_is_sent_once(tmp_path: Path) -> None:
    """Its status is that of a refusal, and it has its place all the same."""
    async with both_protocols(tmp_path, broker_role=BrokerRole.SYNC_MASTER) as broker:
        await broker.create_topic("orders")
        async with Producer(broker.address("grpc"), "senders") as producer:
            one = await producer.send(Message("orders", b"tea"))
            more = await producer.send_batch([Message("orders", b"milk"), Message("orders", b"rice")])
        assert [one.send_status, more.send_status] == [SendStatus.SLAVE_NOT_AVAILABLE] * 2
        assert sorted(message.body for message in await stored(broker)) == [b"milk", b"rice", b"tea"]


async def test_nobody_at_the_address_is_said_with_the_mend() -> None:
    with pytest.raises(ConnectFailed, match="regulus up"):
        await Producer("grpc://127.0.0.1:1", "senders").start()
