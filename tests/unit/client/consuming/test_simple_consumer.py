"""The simple consumer against the real broker, by both protocols."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from regulus import Message, Producer
from regulus.client import sync
from regulus.client.config import ConsumeFromWhere, SimpleConsumerConfig
from regulus.client.consuming import remoting_receiver
from regulus.client.consuming.grpc_receiver import GrpcReceiver
from regulus.client.consuming.simple_consumer import SimpleConsumer
from regulus.errors import (
    BrokerRefused,
    ClientClosed,
    ConfigError,
    ConnectFailed,
    MessageIllegal,
    NoRoute,
    ReceiptInvalid,
)
from regulus.model.message_queue import MessageQueue
from regulus.wire.grpc import messages
from tests.unit.client.both_protocols import PROTOCOLS, BothProtocols, both_protocols

FROM_FIRST = SimpleConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, await_duration=5_000)
SHORT = {"min_invisible_time_mills_for_recv": 10}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BothProtocols]:
    async with both_protocols(tmp_path, SHORT, recall_message_enable=True) as made:
        await made.create_topic("orders")
        yield made


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def send(broker: BothProtocols, *bodies: bytes, tags: str = "") -> None:
    async with Producer(broker.name_server, "senders") as producer:
        for body in bodies:
            await producer.send(Message("orders", body, tags=tags, keys="k1 k2", properties={"color": "red"}))


async def begin(consumer: SimpleConsumer) -> None:
    """A group is new at the end of its queues."""
    assert await consumer.receive(1, 10_000, await_duration_ms=0) == []


@pytest.mark.parametrize("sender", PROTOCOLS)
async def test_what_is_sent_is_received_and_done_once_it_is_acknowledged(broker: BothProtocols, protocol: str,
                                                                         sender: str) -> None:
    async with SimpleConsumer(broker.address(protocol), "kitchen", {"orders": "*"}, FROM_FIRST) as consumer:
        await begin(consumer)
        async with Producer(broker.address(sender), "senders") as producer:
            sent = await producer.send(Message("orders", b"tea", tags="hot", keys="k1 k2", properties={"color": "red"}))
        [message] = await consumer.receive(16, 30_000)
        assert (message.topic, message.body, message.message_id) == ("orders", b"tea", sent.message_id)
        assert (message.tags, message.keys, message.properties["color"]) == ("hot", "k1 k2", "red")
        assert message.delivery_attempt == 1
        await consumer.ack(message)
        with pytest.raises(ReceiptInvalid, match="acknowledged already"):
            await consumer.ack(message)
        with pytest.raises(ReceiptInvalid, match="acknowledged already"):
            await consumer.change_invisible_duration(message, 20_000)
        assert await consumer.receive(16, 30_000, await_duration_ms=100) == []


async def test_a_message_that_is_not_acknowledged_comes_again(broker: BothProtocols, protocol: str) -> None:
    async with SimpleConsumer(broker.address(protocol), "kitchen", {"orders": "*"}, FROM_FIRST) as consumer:
        await begin(consumer)
        await send(broker, b"tea")
        [message] = await consumer.receive(16, 30_000)
        first = message.receipt_handle
        await consumer.change_invisible_duration(message, 1_000)    # from now on, whatever was left
        assert message.receipt_handle != first
        changed_at = time.monotonic()
        again = []
        while not again:
            again = await consumer.receive(16, 30_000)
        assert 0.9 <= time.monotonic() - changed_at < 25
        assert [(each.body, each.topic, each.delivery_attempt) for each in again] == [(b"tea", "orders", 2)]
        with pytest.raises(ReceiptInvalid, match="invisible time"):
            await consumer.ack(message)
        await consumer.ack(again[0])


async def test_a_receipt_that_a_newer_one_replaced_acknowledges_nothing(broker: BothProtocols, protocol: str) -> None:
    async with SimpleConsumer(broker.address(protocol), "kitchen", {"orders": "*"}, FROM_FIRST) as consumer:
        await begin(consumer)
        await send(broker, b"tea")
        [message] = await consumer.receive(16, 30_000)
        first = message.receipt_handle
        await consumer.change_invisible_duration(message, 1_500)
        message.receipt_handle, newest = first, message.receipt_handle
        with suppress(ReceiptInvalid):      # the broker itself says nothing of an old one
            await consumer.ack(message)
        again = []
        while not again:
            again = await consumer.receive(16, 30_000)
        assert again[0].body == b"tea"
        assert again[0].receipt_handle != newest


async def test_what_is_changed_and_done_at_the_same_time_is_done_once(broker: BothProtocols, protocol: str) -> None:
    """Two changes of one receipt would leave two that are alive, of which an acknowledgement ends one."""
    async with SimpleConsumer(broker.address(protocol), "kitchen", {"orders": "*"}, FROM_FIRST) as consumer:
        await begin(consumer)
        await send(broker, b"tea")
        [message] = await consumer.receive(16, 30_000)
        await asyncio.gather(*(consumer.change_invisible_duration(message, 2_000) for _ in range(4)),
                             consumer.ack(message))
        with pytest.raises(ReceiptInvalid, match="acknowledged already"):
            await asyncio.gather(consumer.ack(message), consumer.ack(message))
        assert await consumer.receive(16, 30_000, await_duration_ms=4_000) == []


async def test_two_consumers_of_a_group_share_its_messages_whatever_they_speak(broker: BothProtocols) -> None:
    async with (SimpleConsumer(broker.address("grpc"), "kitchen", {"orders": "*"}, FROM_FIRST) as one,
                SimpleConsumer(broker.address("rocketmq"), "kitchen", {"orders": "*"}, FROM_FIRST) as other):
        await begin(one)
        await send(broker, *(str(number).encode() for number in range(40)))
        got: list[bytes] = []
        while len(got) < 40:
            for consumer in (one, other):
                for message in await consumer.receive(8, 30_000, await_duration_ms=100):
                    await consumer.ack(message)
                    got.append(message.body)
        assert sorted(got, key=int) == [str(number).encode() for number in range(40)]


async def test_a_filter_lets_through_what_it_names(broker: BothProtocols, protocol: str) -> None:
    async with SimpleConsumer(broker.address(protocol), "kitchen", {"orders": "hot || warm"}, FROM_FIRST) as consumer:
        await begin(consumer)
        await send(broker, b"ice", tags="cold")
        await send(broker, b"tea", tags="hot")
        [message] = await consumer.receive(16, 30_000)
        assert message.body == b"tea"


async def test_a_condition_that_is_none_is_refused_before_anything_is_received(broker: BothProtocols,
                                                                               protocol: str) -> None:
    consumer = SimpleConsumer(broker.address(protocol), "kitchen", config=FROM_FIRST)
    consumer.subscribe("orders", "a >", "SQL92")
    with pytest.raises(BrokerRefused):
        async with consumer:
            await consumer.receive(1, 10_000, await_duration_ms=0)


async def test_a_receive_that_finds_nothing_waits_as_long_as_it_is_told(broker: BothProtocols, protocol: str) -> None:
    async with SimpleConsumer(broker.address(protocol), "kitchen", {"orders": "*"}, FROM_FIRST) as consumer:
        await begin(consumer)
        waiting = asyncio.ensure_future(consumer.receive(16, 30_000, await_duration_ms=60_000))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await send(broker, b"tea")
        [message] = await asyncio.wait_for(waiting, 30)
        assert message.body == b"tea"


async def test_numbers_that_are_not_possible_are_said_so(broker: BothProtocols, protocol: str) -> None:
    async with SimpleConsumer(broker.address(protocol), "kitchen", {"orders": "*"}, FROM_FIRST) as consumer:
        for count, invisible in ((0, 30_000), (33, 30_000), (1, 9_999), (1, 12 * 3_600_000 + 1)):
            with pytest.raises(MessageIllegal, match="are possible"):
                await consumer.receive(count, invisible)
        await begin(consumer)
        await send(broker, b"tea")
        [message] = await consumer.receive(1, 10_000)
        for duration in (-1, 12 * 3_600_000 + 1):
            with pytest.raises(MessageIllegal, match="are possible"):
                await consumer.change_invisible_duration(message, duration)


async def test_a_delayed_message_comes_in_its_time_and_a_recalled_one_never(broker: BothProtocols,
                                                                            protocol: str) -> None:
    await broker.create_topic("later", "DELAY")
    async with (SimpleConsumer(broker.address(protocol), "kitchen", {"later": "*"}, FROM_FIRST) as consumer,
                Producer(broker.address(protocol), "senders") as producer):
        await begin(consumer)
        gone = await producer.send(Message("later", b"never", delay=timedelta(seconds=3)))
        begun = time.monotonic()
        await producer.send(Message("later", b"tea", delay=timedelta(seconds=2)))
        assert await producer.recall("later", gone.recall_handle) == gone.message_id
        messages = []
        while not messages:
            messages = await consumer.receive(16, 30_000)
        assert 1.9 <= time.monotonic() - begun < 30
        assert [message.body for message in messages] == [b"tea"]
        assert await consumer.receive(16, 30_000, await_duration_ms=2_500) == []


async def test_a_consumer_that_is_not_running_says_so(broker: BothProtocols, protocol: str) -> None:
    consumer = SimpleConsumer(broker.address(protocol), "kitchen", config=FROM_FIRST)
    with pytest.raises(ClientClosed, match="not running"):
        await consumer.receive()
    with pytest.raises(ConfigError, match="no subscription"):
        await consumer.start()
    consumer.subscribe("orders")
    await consumer.start()
    await consumer.start()
    await consumer.shutdown()
    await consumer.shutdown()
    with pytest.raises(ClientClosed, match="not running"):
        await consumer.receive()


async def test_nobody_at_the_address_is_said_with_the_mend() -> None:
    consumer = SimpleConsumer("grpc://127.0.0.1:1", "kitchen", {"orders": "*"})
    with pytest.raises(ConnectFailed, match="regulus up"):
        await consumer.start()


async def test_a_group_in_order_is_received_in_order_though_no_broker_could_say_so_at_the_start(
        broker: BothProtocols, monkeypatch: pytest.MonkeyPatch) -> None:
    await broker.create_group("kitchen", consume_message_orderly=True)
    asked = []

    async def nobody(instance: object, group: str, address: str) -> None:
        asked.append(address)
        raise ConnectFailed("no connection")

    with monkeypatch.context() as away:
        away.setattr(remoting_receiver, "group_config", nobody)
        consumer = SimpleConsumer(broker.address("rocketmq"), "kitchen", {"orders": "*"}, FROM_FIRST)
        await consumer.start()
        with pytest.raises(NoRoute, match="tells how group kitchen receives"):
            await consumer.receive(1, 10_000)
    assert len(asked) == 2
    await begin(consumer)
    await send(broker, b"first", b"second")
    assert [each.body for each in await consumer.receive(1, 10_000)] == [b"first"]
    assert await consumer.receive(1, 10_000, await_duration_ms=100) == []       # until the first is done
    await consumer.shutdown()


async def test_messages_of_more_than_a_frame_in_many_queues_are_all_received(broker: BothProtocols,
                                                                             protocol: str) -> None:
    """Eight queues have a message each, 17.6 MB: an answer with all of them would close the connection."""
    await broker.create_topic("large", queues=8)
    async with Producer(broker.name_server, "senders") as producer:
        body = random.Random(1).randbytes(2_200_000)        # else the producer would pack it
        queues = [MessageQueue("large", "broker-a", queue_id) for queue_id in range(8)]
        sent = {(await producer.send(Message("large", body), queue=queue)).message_id for queue in queues}
    got = set()
    async with SimpleConsumer(broker.address(protocol), "kitchen", {"large": "*"}, FROM_FIRST) as consumer:
        while len(got) < len(sent):
            for each in await consumer.receive(32, 60_000):
                assert each.reconsume_times == 0
                got.add(each.message_id)
                await consumer.ack(each)
    assert got == sent


async def test_a_receive_that_is_given_up_takes_nothing_from_others(broker: BothProtocols, protocol: str) -> None:
    async with SimpleConsumer(broker.address(protocol), "kitchen", {"orders": "*"}, FROM_FIRST) as consumer:
        await begin(consumer)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.receive(1, 600_000, await_duration_ms=20_000), 0.3)
        await send(broker, b"tea")
        async with asyncio.timeout(60):
            while not (found := await consumer.receive(1, 600_000, await_duration_ms=5_000)):
                pass
        assert [(each.body, each.reconsume_times) for each in found] == [(b"tea", 0)]


async def test_a_server_of_ours_gives_back_uncounted_what_is_changed_so_over_grpc(broker: BothProtocols) -> None:
    async with SimpleConsumer(broker.address("grpc"), "kitchen", {"orders": "*"}) as consumer:
        await begin(consumer)
        await send(broker, b"tea")
        [message] = await consumer.receive(1, 600_000)
        request = messages.ChangeInvisibleDurationRequest(receipt_handle=message.receipt_handle,
                                                          message_id=message.message_id, suspend=True)
        request.group.name, request.topic.name = "kitchen", "orders"
        request.invisible_duration.FromMilliseconds(0)
        receiver = consumer._receiver
        assert isinstance(receiver, GrpcReceiver)
        await receiver._session.call("ChangeInvisibleDuration", request, receiver._session.targets[0])
        async with asyncio.timeout(60):
            while not (found := await consumer.receive(1, 600_000, await_duration_ms=5_000)):
                pass
        assert [(each.body, each.delivery_attempt) for each in found] == [(b"tea", 1)]


@pytest.mark.parametrize("gives_up", [True, False])
@pytest.mark.parametrize("in_order", [False, True])
async def test_a_receive_that_waits_at_the_end_takes_nothing_from_others(
        broker: BothProtocols, protocol: str, gives_up: bool, in_order: bool) -> None:
    """Its connection may go on to serve others, and the broker holds the poll for them."""
    await broker.create_group("kitchen", consume_message_orderly=in_order)
    async with Producer(broker.address(protocol), "senders") as producer:
        consumer = SimpleConsumer(broker.address(protocol), "kitchen", {"orders": "*"}, FROM_FIRST)
        await consumer.start()
        await begin(consumer)
        receiving = asyncio.create_task(consumer.receive(1, 600_000, await_duration_ms=20_000))
        await asyncio.sleep(0.2)
        if gives_up:
            receiving.cancel()
            await asyncio.wait([receiving])
        await consumer.shutdown()
        async with asyncio.timeout(5):
            await asyncio.wait([receiving])
        if not gives_up:
            with pytest.raises(ClientClosed, match="shut down"):
                receiving.result()
        await producer.send(Message("orders", b"tea"))
        async with SimpleConsumer(broker.address("grpc"), "kitchen", {"orders": "*"}) as other, asyncio.timeout(30):
            while not (found := await other.receive(1, 600_000, await_duration_ms=5_000)):
                pass
        assert [(each.body, each.reconsume_times) for each in found] == [(b"tea", 0)]


@pytest.mark.parametrize("sender", PROTOCOLS)
async def test_what_is_more_urgent_is_received_first(broker: BothProtocols, protocol: str, sender: str) -> None:
    await broker.create_topic("urgent", "PRIORITY", queues=8)
    async with Producer(broker.address(sender), "senders") as producer:
        for number in (3, 0, 9, 5, 1, 8, 2, 7, 4, 6):
            await producer.send(Message("urgent", str(number).encode(), priority=number))
    async with SimpleConsumer(broker.address(protocol), "kitchen", {"urgent": "*"}, FROM_FIRST) as consumer:
        received = [await consumer.receive(1, 10_000) for _ in range(10)]
    assert [message.body for (message,) in received] == [b"9", b"8", b"7", b"6", b"5", b"4", b"3", b"2", b"1", b"0"]
    assert [message.priority for (message,) in received] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]


async def test_blocking_clients_send_and_receive_by_priority_too(broker: BothProtocols, protocol: str) -> None:
    await broker.create_topic("urgent", "PRIORITY", queues=4)

    def work() -> list[int | None]:
        with (sync.Producer(broker.address(protocol), "senders") as producer,
              sync.SimpleConsumer(broker.address(protocol), "kitchen", {"urgent": "*"}, FROM_FIRST) as consumer):
            for number in (1, 3, 0, 2):
                producer.send(Message("urgent", b"tea", priority=number))
            return [message.priority for _ in range(4) for message in consumer.receive(1, 10_000)]

    assert await asyncio.to_thread(work) == [3, 2, 1, 0]
