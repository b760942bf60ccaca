"""A push consumer that pops, against the real broker, by both protocols."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from regulus import ConsumeContext, ConsumeStatus, Message, MessageExt, Producer, PushConsumer, PushConsumerConfig
from regulus.client.config import ConsumeFromWhere, MessageModel, MessageRequestMode
from regulus.client.connecting.client_instance import steady_ms
from regulus.client.consuming.popped_consumption import PoppedConsumption
from regulus.client.consuming.receiver import Receive, ReceiveRules
from regulus.client.consuming.simple_consumer import SimpleConsumer
from regulus.client.core.consume_statistics import TopicStatistics
from regulus.client.received_message import PoppedState, ReceivedMessage
from regulus.errors import BrokerRefused, ClientClosed, ConfigError
from regulus.wire.bodies import SubscriptionData
from tests.unit.client.both_protocols import PROTOCOLS, BothProtocols, both_protocols
from tests.waiting import until

pytestmark = pytest.mark.once

OK, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BothProtocols]:
    async with both_protocols(tmp_path) as made:
        await made.create_topic("orders")
        yield made


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def config(**settings: Any) -> PushConsumerConfig:
    return PushConsumerConfig(**{"message_request_mode": MessageRequestMode.POP, "broker_suspend_max_time": 5_000,
                                 "consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **settings})


async def begin_group(broker: BothProtocols, group: str = "kitchen", topic: str = "orders") -> None:
    """A group that is new begins at the end of its queues."""
    async with SimpleConsumer(broker.address("rocketmq"), group, {topic: "*"}) as consumer:
        assert await consumer.receive(1, 10_000, await_duration_ms=0) == []


async def send(broker: BothProtocols, *bodies: str, group: str = "") -> None:
    async with Producer(broker.name_server, "senders") as producer:
        for body in bodies:
            await producer.send(Message("orders", body.encode(), properties={"__SHARDINGKEY": group} if group else {}))


class Listener:
    """Answers what `says` does of a message, and notes what it was called with."""

    def __init__(self, says: Callable[[ReceivedMessage], ConsumeStatus] = lambda message: OK,
                 takes_s: float = 0) -> None:
        self.got: list[tuple[str, int, float]] = []
        self.at_once = self.at_once_max = 0
        self._says = says
        self._takes_s = takes_s

    async def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        [message] = messages
        assert isinstance(message, ReceivedMessage)
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        self.got.append((message.body.decode(), message.delivery_attempt, time.monotonic()))
        try:
            if self._takes_s:
                await asyncio.sleep(self._takes_s)
            return self._says(message)
        finally:
            self.at_once -= 1

    @property
    def bodies(self) -> list[str]:
        return [body for body, _, _ in self.got]


def consumer_of(broker: BothProtocols, protocol: str, listener: Any, **settings: Any) -> PushConsumer:
    made = PushConsumer(broker.address(protocol), "kitchen", listener, config(**settings))
    made.subscribe("orders")
    return made


async def test_messages_come_and_are_done(broker: BothProtocols, protocol: str) -> None:
    await begin_group(broker)
    listener = Listener()
    async with consumer_of(broker, protocol, listener) as consumer:
        await send(broker, *map(str, range(50)))
        await until(lambda: consumer.message_counts()[PoppedState.COMMIT] == 50)
        assert sorted(listener.bodies, key=int) == list(map(str, range(50)))
        assert consumer.message_counts() == {PoppedState.READY: 0, PoppedState.INFLIGHT: 0, PoppedState.COMMIT: 50,
                                             PoppedState.RETRY: 0, PoppedState.DEAD_LETTER: 0}
        assert consumer.running_info().properties["PROP_POPPED_COMMIT"] == "50"
    with pytest.raises(ClientClosed):
        consumer.message_counts()


async def test_a_message_that_fails_comes_again_after_its_delay(broker: BothProtocols, protocol: str) -> None:
    await begin_group(broker)
    listener = Listener(lambda message: OK if message.delivery_attempt == 2 else LATER)
    async with consumer_of(broker, protocol, listener) as consumer:
        await send(broker, "tea")
        await until(lambda: consumer.message_counts()[PoppedState.COMMIT] == 1)
    assert [(body, attempt) for body, attempt, _ in listener.got] == [("tea", 1), ("tea", 2)]
    waited = listener.got[1][2] - listener.got[0][2]
    step = 1.0 if protocol == "grpc" else 10.0      # the first of each ladder
    assert step <= waited < 50      # when it were visible again if nothing had been told of it


async def test_after_the_last_delivery_it_is_a_dead_letter(broker: BothProtocols, protocol: str) -> None:
    await broker.create_group("kitchen", retry_max_times=0)
    await begin_group(broker)
    listener = Listener(lambda message: LATER)
    async with consumer_of(broker, protocol, listener) as consumer:
        await send(broker, "tea")
        await until(lambda: consumer.message_counts()[PoppedState.DEAD_LETTER] == 1)
    assert listener.bodies == ["tea"]
    [letter] = await dead_letters(broker)
    assert letter.body == b"tea"
    # The protocol of gRPC has no field for it.
    assert letter.properties.get("CAUSE_1") == ("RECONSUME_LATER" if protocol == "rocketmq" else None)


async def dead_letters(broker: BothProtocols) -> list[MessageExt]:
    from regulus import Admin, MessageQueue

    async with Admin(broker.name_server) as admin:
        pulled = await admin.pull(MessageQueue("%DLQ%kitchen", "broker-a", 0), 0)
        return list(pulled.messages)


async def test_a_listener_may_make_a_dead_letter_at_once(broker: BothProtocols, protocol: str) -> None:
    await begin_group(broker)

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        context.delay_level_when_next_consume = -1
        return LATER

    async with consumer_of(broker, protocol, listen) as consumer:
        await send(broker, "tea")
        await until(lambda: consumer.message_counts()[PoppedState.DEAD_LETTER] == 1)
    assert [message.body for message in await dead_letters(broker)] == [b"tea"]


async def test_what_takes_longer_than_the_consume_timeout_is_another_ones(broker: BothProtocols,
                                                                          protocol: str) -> None:
    """Also what only waited in the cache for so long."""
    await begin_group(broker)
    slow = Listener(takes_s=600)
    async with consumer_of(broker, protocol, slow, consume_timeout=2_000, consume_thread_max=1,
                           await_termination_millis_when_shutdown=1) as consumer:
        await send(broker, "first", "second")
        await until(lambda: consumer.message_counts()[PoppedState.RETRY] == 2)
        assert slow.bodies == ["first"]
        consumer.suspend()
        other = Listener()
        async with consumer_of(broker, protocol, other):
            await until(lambda: len(other.got) == 2)
        assert sorted(other.bodies) == ["first", "second"]
        assert consumer.message_counts()[PoppedState.COMMIT] == 0


async def test_a_message_in_work_stays_invisible_beyond_its_invisible_time(broker: BothProtocols,
                                                                           protocol: str) -> None:
    await begin_group(broker)
    slow = Listener(takes_s=13)
    async with consumer_of(broker, protocol, slow, pop_invisible_time=10_000) as consumer:
        await send(broker, "tea")
        await until(lambda: consumer.message_counts()[PoppedState.COMMIT] == 1)
        await asyncio.sleep(2)
    assert slow.bodies == ["tea"]


async def test_no_more_is_received_than_the_cache_has_room_for(broker: BothProtocols, protocol: str) -> None:
    await begin_group(broker)
    opened = asyncio.Event()

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        await opened.wait()
        return OK

    async with consumer_of(broker, protocol, listen, max_cache_message_count=5, consume_thread_max=2) as consumer:
        await send(broker, *map(str, range(20)))
        await until(lambda: consumer.message_counts()[PoppedState.READY] == 3)
        await asyncio.sleep(0.3)
        counts = consumer.message_counts()
        assert (counts[PoppedState.READY], counts[PoppedState.INFLIGHT]) == (3, 2)
        opened.set()
        await until(lambda: consumer.message_counts()[PoppedState.COMMIT] == 20)


async def test_what_is_left_at_the_end_is_soon_another_ones(broker: BothProtocols, protocol: str) -> None:
    await begin_group(broker)
    slow = Listener(takes_s=30)
    async with consumer_of(broker, protocol, slow, consume_thread_max=1, await_termination_millis_when_shutdown=100):
        await send(broker, "first", "second")
        await until(lambda: len(slow.got) == 1)
        await asyncio.sleep(0.2)
    other = Listener()
    async with consumer_of(broker, protocol, other):
        await until(lambda: len(other.got) == 2, within_s=30)   # half of its invisible time
    assert sorted(other.bodies) == ["first", "second"]


async def test_in_order_one_after_the_other_and_a_failure_holds_the_queue(broker: BothProtocols,
                                                                          protocol: str) -> None:
    await broker.create_group("kitchen", consume_message_orderly=True)
    await begin_group(broker)
    failures = iter([LATER, LATER])
    listener = Listener(lambda message: next(failures, OK) if message.body == b"1" else OK, takes_s=0.01)
    async with consumer_of(broker, protocol, listener, consume_orderly=True, fifo_retry_interval=300) as consumer:
        await send(broker, *map(str, range(6)), group="table")
        await until(lambda: consumer.message_counts()[PoppedState.COMMIT] == 6)
    assert listener.bodies == ["0", "1", "1", "1", "2", "3", "4", "5"]
    assert [attempt for body, attempt, _ in listener.got if body == "1"] == [1, 2, 3]
    assert listener.at_once_max == 1
    times = [at for body, _, at in listener.got if body == "1"]
    assert all(0.29 <= later - earlier < 30 for earlier, later in pairwise(times))


async def test_in_order_the_last_failure_makes_a_dead_letter_and_the_queue_goes_on(broker: BothProtocols,
                                                                                  protocol: str) -> None:
    await broker.create_group("kitchen", consume_message_orderly=True, retry_max_times=1)
    await begin_group(broker)
    listener = Listener(lambda message: LATER if message.body == b"0" else OK)
    async with consumer_of(broker, protocol, listener, consume_orderly=True, fifo_retry_interval=50) as consumer:
        await send(broker, "0", "1", group="table")
        await until(lambda: consumer.message_counts()[PoppedState.COMMIT] == 1)
    assert listener.bodies == ["0", "0", "1"]
    assert [message.body for message in await dead_letters(broker)] == [b"0"]


async def test_suspended_it_receives_nothing(broker: BothProtocols, protocol: str) -> None:
    await begin_group(broker)
    listener = Listener()
    consumer = consumer_of(broker, protocol, listener)
    consumer.suspend()
    async with consumer:
        await send(broker, "tea")
        await asyncio.sleep(0.5)
        assert listener.got == []
        consumer.resume()
        await until(lambda: listener.bodies == ["tea"])


async def test_topics_are_added_and_left_while_it_runs(broker: BothProtocols, protocol: str) -> None:
    await broker.create_topic("drinks")
    await begin_group(broker)
    await begin_group(broker, topic="drinks")
    listener = Listener()
    async with consumer_of(broker, protocol, listener) as consumer, Producer(broker.name_server, "senders") as producer:
        consumer.subscribe("drinks")
        await producer.send(Message("drinks", b"tea"))
        await until(lambda: listener.bodies == ["tea"])
        consumer.unsubscribe("orders")
        await asyncio.sleep(0.2)
        await send(broker, "nobody's")
        await asyncio.sleep(0.5)
        assert listener.bodies == ["tea"]


async def test_another_expression_takes_effect_while_a_receive_waits(broker: BothProtocols, protocol: str) -> None:
    await begin_group(broker)
    listener = Listener()
    consumer = PushConsumer(broker.address(protocol), "kitchen", listener, config(
        broker_suspend_max_time=60_000, consumer_timeout_when_suspend=90_000))
    consumer.subscribe("orders", "tea")
    async with consumer, Producer(broker.name_server, "senders") as producer:
        await producer.send(Message("orders", b"green", tags="tea"))
        await until(lambda: listener.bodies == ["green"])
        consumer.subscribe("orders", "coffee")
        # A message that comes before the server has the new expression is passed over by the receive with the old one.
        async with asyncio.timeout(30):
            while "black" not in listener.bodies:
                await producer.send(Message("orders", b"black", tags="coffee"))
                await asyncio.sleep(0.05)


def test_popping_and_broadcasting_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="BROADCASTING"):
        config(message_model=MessageModel.BROADCASTING)
    with pytest.raises(ConfigError, match="BROADCASTING"):
        PushConsumer("grpc://127.0.0.1:8081", "kitchen", Listener(),
                     PushConsumerConfig(message_model=MessageModel.BROADCASTING))


# --- a receiver whose answers a test writes --------------------------------------------------------------------------


class ScriptedReceiver:
    """Hands out one message; `refuses`: it takes no word of how that ended."""

    def __init__(self, *, prolongs: bool, refuses: bool = False) -> None:
        self.prolongs, self.refuses = prolongs, refuses
        self.consume_directly = None
        self.client_id = "scripted"
        self.rules = ReceiveRules(False, 16, (1_000,))
        self.told: list[str] = []
        self.opened = asyncio.Event()
        self.receives = 0

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def subscriptions_changed(self) -> None: ...

    async def brokers(self, topic: str) -> list[str]:
        return ["a"]

    async def receive(self, asked: Receive) -> list[ReceivedMessage]:
        self.receives += 1
        if self.receives > 1:
            await asyncio.Event().wait()
        made = MessageExt("orders", b"tea", {})
        return [ReceivedMessage(made, "orders", "a", "handle", steady_ms() + asked.invisible_ms)]

    async def ack(self, message: ReceivedMessage) -> None:
        await self.opened.wait()
        self.told.append("ack")
        if self.refuses:
            raise BrokerRefused(16, "nobody may", "a")

    async def change_invisible(self, message: ReceivedMessage, invisible_ms: int) -> None:
        self.told.append("change")

    async def dead_letter(self, message: ReceivedMessage, deliveries_max: int) -> None:
        self.told.append("dead letter")


def consumption_of(receiver: ScriptedReceiver, listener: Any = None, **settings: Any) -> PoppedConsumption:
    statistics = TopicStatistics()
    subscriptions = {"orders": SubscriptionData.compile("orders", "*", 0)}
    return PoppedConsumption("kitchen", listener or Listener(), config(**settings), receiver, subscriptions,
                             lambda topic: statistics, lambda: False)


async def test_a_server_that_takes_no_word_is_told_until_the_consume_timeout_and_not_for_ever() -> None:
    receiver = ScriptedReceiver(prolongs=True, refuses=True)
    receiver.opened.set()
    consumption = consumption_of(receiver, consume_timeout=1_500)
    consumption.start()
    await until(lambda: bool(receiver.told))
    assert consumption.counts()[PoppedState.INFLIGHT] == 1
    await until(lambda: consumption.counts()[PoppedState.INFLIGHT] == 0)
    assert consumption.counts()[PoppedState.COMMIT] == 0
    await consumption.finish(0)
    await consumption.close()
    assert set(receiver.told) == {"ack"}


async def test_each_change_of_a_subscription_begins_another_receive() -> None:
    """Also when the topic was left and subscribed again while brokers were looked up."""
    class Waiting(ScriptedReceiver):
        def __init__(self) -> None:
            super().__init__(prolongs=True)
            self.under_way: list[str] = []
            self.lookups = 0
            self.may_look = asyncio.Event()
            self.may_look.set()

        async def brokers(self, topic: str) -> list[str]:
            self.lookups += 1
            await self.may_look.wait()
            return ["a"]

        async def receive(self, asked: Receive) -> list[ReceivedMessage]:
            self.under_way.append(asked.subscription.sub_string)
            try:
                await asyncio.Event().wait()
            finally:
                self.under_way.remove(asked.subscription.sub_string)
            return []

    receiver = Waiting()
    consumption = consumption_of(receiver)
    subscriptions = consumption._subscriptions
    assert isinstance(subscriptions, dict)
    consumption.start()
    await until(lambda: receiver.under_way == ["*"])
    subscriptions["orders"] = SubscriptionData.compile("orders", "tea", 1)
    consumption.assign_soon()
    await until(lambda: receiver.under_way == ["tea"])
    receiver.may_look.clear()
    looked = receiver.lookups
    consumption.assign_soon()
    await until(lambda: receiver.lookups > looked)
    del subscriptions["orders"]
    consumption.assign_soon()
    await asyncio.sleep(0)
    subscriptions["orders"] = SubscriptionData.compile("orders", "tea", 2)
    consumption.assign_soon()
    receiver.may_look.set()
    await until(lambda: receiver.lookups > looked + 1 and receiver.under_way == ["tea"])
    await consumption.finish(0)
    await consumption.close()
    assert receiver.under_way == []


async def test_what_is_acknowledged_is_prolonged_no_more() -> None:
    """A change that waited for the acknowledgement would bring the message once more."""
    receiver = ScriptedReceiver(prolongs=False)
    consumption = consumption_of(receiver)
    consumption.start()
    await until(lambda: any(each.telling.locked() for each in consumption._under_way))
    [popped] = consumption._under_way
    prolonging = asyncio.ensure_future(consumption._prolong(popped))
    await asyncio.sleep(0)
    receiver.opened.set()
    await prolonging
    assert receiver.told == ["ack"]
    await consumption.finish(0)
    await consumption.close()


@pytest.mark.parametrize(("failed", "ack_index", "again"), [([1], 2, [1]), ([0], 1, [0, 2]), ([], -2, [0, 1, 2])])
async def test_messages_that_a_listener_names_come_again_wherever_they_stand(failed: list[int], ack_index: int,
                                                                             again: list[int]) -> None:
    class ByName(ScriptedReceiver):
        async def ack(self, message: ReceivedMessage) -> None:
            self.told.append(f"done {message.queue_offset}")

        async def change_invisible(self, message: ReceivedMessage, invisible_ms: int) -> None:
            self.told.append(f"again {message.queue_offset}")

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        context.failed_indexes, context.ack_index = failed, ack_index
        return OK

    receiver = ByName(prolongs=True)
    consumption = consumption_of(receiver, listen, consume_message_batch_max_size=3)
    messages = [ReceivedMessage(MessageExt("orders", b"tea", {}), "orders", "a", "handle", steady_ms() + 60_000)
                for _ in range(3)]
    for place, message in enumerate(messages):
        message.queue_offset = place
    consumption._received(messages)
    await until(lambda: len(receiver.told) == 3)
    assert sorted(receiver.told) == sorted(f"{'again' if place in again else 'done'} {place}" for place in range(3))
    await consumption.finish(0)
    await consumption.close()
