"""Our own clients for RocketMQ 5 at the real thing: 5.3.3's proxy by `grpc://`, and its broker by pop."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from clients import RunningClient
from clients5 import PYTHON5
from conftest import NewRun
from our_clients5 import LATE_S, PATIENT_MS, SIMPLE, WITHIN_S, coming, first, received, until
from real_rocketmq import RealProxy, RealRocketMQ
from toolchain import proxy_libraries

from regulus import (
    Admin,
    ConsumeContext,
    ConsumeStatus,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    ProducerConfig,
    PushConsumer,
    PushConsumerConfig,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
)
from regulus.client.config import ConsumeFromWhere, MessageRequestMode
from regulus.client.received_message import PoppedState, ReceivedMessage
from regulus.client.sending.transaction_producer import TransactionProducerConfig
from regulus.errors import ClientError, ReceiptInvalid
from regulus.model.message_properties import SHARDING_KEY
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig

pytestmark = pytest.mark.long

PROTOCOLS = ("grpc", "rocketmq")
SETTINGS = {"transactionTimeOut": "5000", "transactionCheckInterval": "6000", "transactionOpBatchInterval": "500",
            "timerWheelEnable": "true", "recallMessageEnable": "true"}
OK, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


class Real:
    """A broker, and a proxy before it."""

    def __init__(self, broker: RealRocketMQ, proxy: RealProxy) -> None:
        self.broker, self.proxy = broker, proxy
        self.name_server = broker.name_server_address

    def address(self, protocol: str) -> str:
        return f"grpc://{self.proxy.endpoint}" if protocol == "grpc" else f"rocketmq://{self.name_server}"

    async def create(self, name: str, kind: str = "NORMAL", **group: Any) -> None:
        """A topic, and a group of its name that is to begin at the end of it."""
        async with Admin(self.name_server) as admin:
            await admin.create_topic(TopicConfig(topic_name=name, attributes={"message.type": kind}))
            await admin.create_group(SubscriptionGroupConfig(group_name=name, **group))
        async with SimpleConsumer(self.address("rocketmq"), name, {name: "*"}, SIMPLE) as consumer:
            assert await received(consumer, await_duration_ms=0) == []

    def receiving(self, protocol: str, name: str) -> SimpleConsumer:
        return SimpleConsumer(self.address(protocol), name, {name: "*"}, SIMPLE)

    def producing(self, protocol: str) -> Producer:
        return Producer(self.address(protocol), "senders", ProducerConfig(send_msg_timeout=PATIENT_MS))

    def pushing(self, protocol: str, name: str, listener: Any, **settings: Any) -> PushConsumer:
        consumer = PushConsumer(self.address(protocol), name, listener, PushConsumerConfig(
            message_request_mode=MessageRequestMode.POP, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            mq_client_api_timeout=PATIENT_MS, **settings))
        consumer.subscribe(name)
        return consumer


@pytest.fixture(scope="module")
def real(new_run: NewRun) -> Iterator[Real]:
    proxy_libraries()
    with ExitStack() as stack:
        home = new_run("our-clients5")
        broker = RealRocketMQ("5.3.3", home / "broker", **SETTINGS)
        stack.callback(broker.kill)
        broker.start()
        (home / "proxy").mkdir()
        proxy = RealProxy(home / "proxy", broker.name_server_address)
        stack.callback(proxy.kill)
        proxy.start()
        yield Real(broker, proxy)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("sender", PROTOCOLS)
async def test_what_is_sent_is_received_with_all_it_carries_and_is_done_once(real: Real, protocol: str,
                                                                             sender: str) -> None:
    name = f"plain-{sender}-{protocol}"
    await real.create(name)
    sent: dict[str, str] = {}
    async with real.receiving(protocol, name) as consumer, real.producing(sender) as producer:
        for number in range(12):
            result = await producer.send(Message(name, str(number).encode() * 3_000, tags="hot", keys="k1 k2",
                                                 properties={"color": "red"}))
            sent[str(number)] = result.message_id
        got = {}
        async for message in coming(consumer, 12):
            await consumer.ack(message)
            got[message.body.decode()[:len(message.body) // 3_000]] = message
        assert {number: message.message_id for number, message in got.items()} == sent
        for message in got.values():
            assert (message.topic, message.tags, message.keys) == (name, "hot", "k1 k2")
            assert (message.properties["color"], message.delivery_attempt) == ("red", 1)
        assert await consumer.receive(16, 10_000, await_duration_ms=0) == []


async def test_a_group_of_messages_is_consumed_in_its_order_and_a_failure_holds_it(real: Real, protocol: str) -> None:
    name = f"ordered-{protocol}"
    await real.create(name, "FIFO", consume_message_orderly=True)
    got: list[tuple[str, int]] = []

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        [message] = messages
        assert isinstance(message, ReceivedMessage)
        got.append((message.body.decode(), message.delivery_attempt))
        return LATER if message.body.endswith(b"-2") and message.delivery_attempt < 3 else OK

    async with (real.producing("grpc") as producer,
                real.pushing(protocol, name, listen, consume_orderly=True, fifo_retry_interval=200) as consumer):
        for number in range(5):
            for group in ("a", "b"):
                await producer.send(Message(name, f"{group}-{number}".encode(), properties={SHARDING_KEY: group}))
        await until(lambda: consumer.message_counts()[PoppedState.COMMIT] == 10)
    for group in ("a", "b"):
        assert [each for each in got if each[0].startswith(group)] == [
            (f"{group}-{number}", attempt) for number in range(5) for attempt in ((1, 2, 3) if number == 2 else (1,))]


async def test_a_delayed_message_comes_in_its_time_and_a_recalled_one_never(real: Real, protocol: str) -> None:
    name = f"later-{protocol}"
    await real.create(name, "DELAY")
    async with real.receiving(protocol, name) as consumer, real.producing(protocol) as producer:
        gone = await producer.send(Message(name, b"never", delay=timedelta(seconds=5)))
        begun = time.monotonic()
        await producer.send(Message(name, b"tea", delay=timedelta(seconds=4)))
        assert await producer.recall(name, gone.recall_handle) == gone.message_id
        message = await first(consumer)
        assert message.body == b"tea"
        assert 3.0 <= time.monotonic() - begun < 4 + LATE_S      # RocketMQ rounds down to its precision of a second
        await consumer.ack(message)
        assert await consumer.receive(16, 10_000, await_duration_ms=4_000) == []


async def test_transactions_are_committed_rolled_back_and_asked_for(real: Real, protocol: str) -> None:
    name = f"booked-{protocol}"
    await real.create(name, "TRANSACTION")
    asked: list[bytes] = []

    def check(message: MessageExt) -> TransactionState:
        asked.append(message.body)
        return TransactionState.COMMIT

    says = {b"commit": TransactionState.COMMIT, b"rollback": TransactionState.ROLLBACK,
            b"silent": TransactionState.UNKNOWN}
    producer = TransactionProducer(real.address(protocol), f"P-{name}", check,
                                   TransactionProducerConfig(send_msg_timeout=PATIENT_MS), topics=[name])
    async with real.receiving(protocol, name) as consumer, producer:
        for body, state in says.items():
            result = await producer.send_in_transaction(Message(name, body), lambda message: says[message.body])
            assert result.state is state
        got = []
        async for message in coming(consumer, 2):
            await consumer.ack(message)
            got.append(message.body)
        assert sorted(got) == [b"commit", b"silent"]
        assert set(asked) == {b"silent"}
        assert await consumer.receive(16, 10_000, await_duration_ms=1_000) == []


async def test_a_changed_invisible_time_counts_from_the_change(real: Real, protocol: str) -> None:
    """Of 60 s, and after 2 s of it 3 s from then on; then 0 s: at once."""
    name = f"changed-{protocol}"
    await real.create(name)
    async with real.receiving(protocol, name) as consumer, real.producing(protocol) as producer:
        await producer.send(Message(name, b"tea"))
        message = await first(consumer)
        handle = message.receipt_handle
        await asyncio.sleep(2)
        for attempt, wait_ms in ((2, 3_000), (3, 0)):
            called = time.monotonic()
            await consumer.change_invisible_duration(message, wait_ms)
            answered = time.monotonic()
            assert message.receipt_handle != handle
            late = message
            message = await first(consumer)
            # RocketMQ's own timers go by whole seconds.
            assert time.monotonic() - called >= wait_ms / 1000 - 1
            assert time.monotonic() - answered < wait_ms / 1000 + LATE_S
            assert (message.body, message.delivery_attempt) == (b"tea", attempt)
            with pytest.raises(ReceiptInvalid, match="invisible time"):
                await consumer.ack(late)
            handle = message.receipt_handle
        await consumer.ack(message)
        with pytest.raises(ReceiptInvalid, match="acknowledged already"):
            await consumer.change_invisible_duration(message, 10_000)


async def test_the_server_refuses_an_ack_that_is_late(real: Real) -> None:
    """Also where the client's clock says otherwise. A broker that is asked directly says nothing of it."""
    await real.create("late")
    async with real.receiving("grpc", "late") as consumer, real.producing("grpc") as producer:
        await producer.send(Message("late", b"tea"))
        message = await first(consumer)
        await consumer.change_invisible_duration(message, 1_000)
        again = await first(consumer)
        message.invisible_until_ms += 60_000
        for deed in (consumer.ack(message), consumer.change_invisible_duration(message, 10_000)):
            with pytest.raises(ReceiptInvalid):
                await deed
        await consumer.ack(again)


async def failing(real: Real, protocol: str, name: str, **settings: Any) -> list[int]:
    """Fails with every message until there is a dead letter: the attempts that the listener saw."""
    attempts: list[int] = []

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        [message] = messages
        assert isinstance(message, ReceivedMessage)
        attempts.append(message.delivery_attempt)
        return LATER

    async with real.pushing(protocol, name, listen, **settings) as consumer:
        await until(lambda: consumer.message_counts()[PoppedState.DEAD_LETTER] == 1)
    return attempts


async def dead_letters(real: Real, group: str) -> list[bytes]:
    async with Admin(real.name_server) as admin:
        pulled = await admin.pull(MessageQueue(f"%DLQ%{group}", "broker-a", 0), 0)
        return [message.body for message in pulled.messages]


async def test_a_message_that_fails_to_the_last_is_a_dead_letter(real: Real, protocol: str) -> None:
    """RocketMQ's own client that pops delays it until it is four hours old, and drops it then."""
    name = f"dead-{protocol}"
    await real.create(name, retry_max_times=1)
    async with real.producing(protocol) as producer:
        await producer.send(Message(name, b"tea"))
    assert await failing(real, protocol, name) == [1, 2]
    assert await dead_letters(real, name) == [b"tea"]


async def test_a_message_that_came_more_often_than_allowed_is_a_dead_letter(real: Real) -> None:
    """RocketMQ's own client that pops acknowledges such a one at once, and nobody has it any more."""
    name = "too-often"
    await real.create(name)
    async with real.producing("rocketmq") as producer, real.receiving("rocketmq", name) as consumer:
        await producer.send(Message(name, b"tea"))
        for _ in range(2):
            await consumer.change_invisible_duration(await first(consumer), 0)
    assert await failing(real, "rocketmq", name, max_reconsume_times=0) == [3]
    assert await dead_letters(real, name) == [b"tea"]


async def test_ours_and_the_official_one_share_a_group(real: Real, new_run: NewRun) -> None:
    name = "shared"
    await real.create(name)
    options = {"endpoint": real.proxy.endpoint, "topic": name, "group": name}
    loop = asyncio.get_running_loop()
    with RunningClient(PYTHON5, new_run("python5"), "receive", options) as other:
        await loop.run_in_executor(None, other.wait_for_start)
        got: list[str] = []
        theirs: list[str] = []
        async with (real.receiving("grpc", name) as one, real.receiving("rocketmq", name) as two,
                    real.producing("grpc") as producer):
            wanted = sorted(f"m-{number}" for number in range(60))
            for body in wanted:
                await producer.send(Message(name, body.encode()))
            end = time.monotonic() + WITHIN_S
            while len(got) + len(theirs) < len(wanted):
                assert time.monotonic() < end, (got, theirs)
                for consumer in (one, two):
                    for message in await consumer.receive(4, 60_000, await_duration_ms=500):
                        await consumer.ack(message)
                        got.append(message.body.decode())
                other.take_available()
                theirs = other.bodies()
        await loop.run_in_executor(None, other.finish)
        assert sorted(got + other.bodies()) == wanted


async def test_a_broker_that_is_restarted_under_them_loses_them_nothing(real: Real) -> None:
    got: dict[str, set[str]] = {protocol: set() for protocol in PROTOCOLS}

    def listener(protocol: str) -> Any:
        async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
            got[protocol].update(message.body.decode() for message in messages)
            return OK
        return listen

    names = {protocol: f"restarted-{protocol}" for protocol in PROTOCOLS}
    for name in names.values():
        await real.create(name)
    async with (real.pushing("grpc", names["grpc"], listener("grpc")),
                real.pushing("rocketmq", names["rocketmq"], listener("rocketmq")),
                real.producing("grpc") as one, real.producing("rocketmq") as other):
        producers = {"grpc": one, "rocketmq": other}
        sent: dict[str, set[str]] = {protocol: set() for protocol in PROTOCOLS}

        async def send(protocol: str, body: str) -> None:
            end = time.monotonic() + WITHIN_S
            while body not in sent[protocol]:
                try:
                    await producers[protocol].send(Message(names[protocol], body.encode()))
                    sent[protocol].add(body)
                except ClientError:
                    assert time.monotonic() < end
                    await asyncio.sleep(1)

        for protocol in PROTOCOLS:
            for number in range(5):
                await send(protocol, f"before-{number}")
        await asyncio.get_running_loop().run_in_executor(None, real.broker.restart)
        for protocol in PROTOCOLS:
            for number in range(5):
                await send(protocol, f"after-{number}")
        await until(lambda: got == sent)
