"""Applications: they send, consume and decide on transactions, and note what was promised to them and what they got."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from random import Random
from typing import Any

from regulus.client.config import (
    ConsumeFromWhere,
    MessageModel,
    ProducerConfig,
    PushConsumerConfig,
    SimpleConsumerConfig,
)
from regulus.client.connecting import client_instance
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.consuming.simple_consumer import SimpleConsumer
from regulus.client.core.queue_selector import select_by_hash
from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.client.received_message import ReceivedMessage
from regulus.client.send_result import SendResult, SendStatus
from regulus.client.sending.producer import Producer
from regulus.client.sending.transaction_producer import TransactionProducer, TransactionProducerConfig, TransactionState
from regulus.errors import RegulusError
from regulus.model.message import Message, MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.testing.simulation.cluster import Machines
from regulus.testing.simulation.history import Call, Ending, Fate, GroupFacts, SendOutcome, Sent, key_of
from regulus.testing.simulation.loop import Node

ALWAYS = 1_000
"""The number of failures of a message that never succeeds."""
INVISIBLE_MS = 10_000
"""The invisible time of messages for consumers that pop."""
_AWAIT_MS = 2_000
_RECEIVES = 2
"""Concurrent receives of such a consumer."""
_RESTART_S = 1.0
_LEFT_OVER_S = 1.0
"""How long after its end a client may still have tasks."""


class Manner(StrEnum):
    """How a listener fails."""

    LATER = "later"
    RAISES = "raises"
    FORGETS = "forgets to return"
    CANCELLED = "raises CancelledError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Temper:
    """How the listeners of all groups behave."""

    fails: float = 0.0
    """The fraction of messages that fail once or twice."""
    always_fails: float = 0.0
    manners: tuple[Manner, ...] = (Manner.LATER, Manner.RAISES)
    slow: float = 0.05
    """The fraction of calls that take up to `slow_s`."""
    slow_s: float = 3.0
    gives_up: float = 0.0
    """The fraction of receives that are cancelled before they have an answer."""
    suspends_ms: tuple[int, ...] = (-1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingPlan:
    """What one producer sends. The remaining messages are plain sends."""

    count: int = 20
    ordered: float = 0.0
    batches: float = 0.0
    transactions: float = 0.0
    oneway: float = 0.0
    timed: float = 0.0
    """The fraction of plain sends that have a delivery time, up to `timed_max_s` ahead."""
    timed_max_s: float = 20.0
    over_s: float = 15.0
    lanes: int = 3
    """Concurrent sends."""
    burst: int = 1
    """Plain sends that begin at the same moment."""
    size: int = 0
    """The size of bodies in bytes, if it is more than that of their keys."""
    numbered: bool = False
    """Whether a property has the number of each message."""
    settings: dict[str, Any] = field(default_factory=dict)


class Sender:
    """A producer and the application around it."""

    def __init__(self, machines: Machines, name: str, host: str, name_servers: str, topics: list[str],
                 plan: SendingPlan, temper: Temper, chance: Random) -> None:
        self.name = name
        self.node = Node(name, host)
        self._machines = machines
        self._history = machines.history
        self._topics = topics
        self._plan = plan
        self._temper = temper
        self._chance = chance
        self._count = 0
        self._is_up = asyncio.Event()
        self.is_done = False
        """Everything is sent."""
        settings = {"client_ip": host, "instance_name": name, **plan.settings}
        self._producer: Producer
        if plan.transactions:
            self._producer = TransactionProducer(name_servers, f"{name}-group", self._check,
                                                 TransactionProducerConfig(**settings), topics=topics)
        else:
            self._producer = Producer(name_servers, f"{name}-group", ProducerConfig(**settings))

    async def run(self) -> None:
        async with self._producer:
            self._is_up.set()
            await asyncio.gather(*(self._lane(number) for number in range(self._plan.lanes)))
            self.is_done = True
            # It answers the questions of brokers about its transactions until its end is requested.
            await asyncio.Event().wait()

    async def _lane(self, lane: int) -> None:
        plan, chance = self._plan, self._chance
        while self._count < plan.count:
            await asyncio.sleep(chance.expovariate(1 / max(0.001, plan.over_s / plan.count * plan.lanes)))
            await self._is_up.wait()
            kind = chance.random()
            if kind < plan.ordered:
                await self._send_ordered(f"{self.name}{lane}")
            elif kind < plan.ordered + plan.batches:
                await self._send_batch()
            elif kind < plan.ordered + plan.batches + plan.transactions:
                await self._send_in_transaction()
            elif kind < plan.ordered + plan.batches + plan.transactions + plan.oneway:
                await self._send_oneway()
            else:
                await asyncio.gather(*(self._send() for _ in range(plan.burst)))

    async def end_and_begin_again(self, chance: Random) -> None:
        """Restart during sends, some of which have not had their turn: accepted sends are sent first."""
        if self.is_done or not self._is_up.is_set():
            return
        self._is_up.clear()
        self._machines.trace.say(self.name, "ends")
        sends = [asyncio.create_task(self._send()) for _ in range(chance.randint(1, 400))]
        await asyncio.sleep(chance.choice((0.0, 0.0, 0.002, 0.05)))
        await self._producer.shutdown()
        if left := sum(not send.done() for send in sends):
            self._history.fault(f"{self.name} has ended, and {left} of its sends were neither stored nor told of")
        await asyncio.gather(*sends)
        await asyncio.sleep(chance.uniform(0.1, 2))
        await self._producer.start()
        self._is_up.set()

    def _new(self, topic: str = "") -> tuple[Sent, Message]:
        self._count += 1
        key = f"{self.name}-{self._count}"
        sent = Sent(key, topic or self._chance.choice(self._topics))
        self._history.sent[key] = sent
        kind = self._chance.random()
        wanted = 0
        if kind < self._temper.always_fails:
            wanted = ALWAYS
        elif kind < self._temper.always_fails + self._temper.fails:
            wanted = self._chance.choice((1, 1, 2))
        self._history.failures_wanted[key] = wanted
        properties = {"number": str(self._count)} if self._plan.numbered else {}
        return sent, Message(sent.topic, key.encode().ljust(self._plan.size), keys=key, properties=properties)

    async def _send(self) -> None:
        sent, message = self._new()
        if self._plan.timed and self._chance.random() < self._plan.timed:
            delay_ms = self._chance.randrange(200, int(self._plan.timed_max_s * 1000))
            message = Message(sent.topic, message.body, keys=sent.key, properties=message.properties,
                              delay=timedelta(milliseconds=delay_ms))
            sent.not_before_s = self._history.now() + delay_ms / 1000
        try:
            self._stored([sent], await self._producer.send(message))
        except RegulusError as error:
            self._failed(sent, error)

    async def _send_ordered(self, order: str) -> None:
        """Send to the queue that belongs to the order."""
        sent, message = self._new()
        try:
            self._stored([sent], await self._producer.send(message, selector=select_by_hash, argument=order))
        except RegulusError as error:
            self._failed(sent, error)

    async def _send_batch(self) -> None:
        first, message = self._new()
        batch = [(first, message)] + [self._new(topic=first.topic) for _ in range(self._chance.randrange(1, 4))]
        try:
            self._stored([sent for sent, _ in batch], await self._producer.send_batch([each for _, each in batch]))
        except RegulusError as error:
            self._failed(first, error)

    async def _send_oneway(self) -> None:
        sent, message = self._new()
        try:
            await self._producer.send_oneway(message)
        except RegulusError as error:
            self._failed(sent, error)

    def _stored(self, batch: list[Sent], result: SendResult) -> None:
        self._machines.trace.say(self.name, f"{','.join(sent.key for sent in batch)} {result.send_status} in "
                                 f"{_place(result.message_queue)}@{result.queue_offset}")
        for number, sent in enumerate(batch):
            sent.queue, sent.queue_offset = result.message_queue, result.queue_offset + number
            if result.send_status is SendStatus.SEND_OK:
                sent.outcome = SendOutcome.STORED
                sent.stored_s = self._history.now()

    def _failed(self, sent: Sent, error: Exception) -> None:
        self._machines.trace.say(self.name, f"{sent.key} failed: {type(error).__name__}")
        self._machines.trace.note(self.name, str(error))
        self._history.missed(f"{self.name} could not send {sent.key}: {type(error).__name__}: {error}")

    # --- transactions ------------------------------------------------------------------------------------------------

    async def _send_in_transaction(self) -> None:
        assert isinstance(self._producer, TransactionProducer)
        sent, message = self._new()
        fate = self._chance.choice((Fate.COMMIT, Fate.COMMIT, Fate.ROLLBACK))
        is_unknown = self._chance.random() < 0.4
        took_s = self._chance.choice((0.0, 0.01, 1.0))

        async def execute(_: Message) -> TransactionState:
            await asyncio.sleep(took_s)
            sent.fate = fate
            return TransactionState.UNKNOWN if is_unknown else _STATES[fate]

        try:
            result = await self._producer.send_in_transaction(message, execute)
        except RegulusError as error:
            self._failed(sent, error)
            sent.fate = Fate.ROLLBACK       # a half without a local transaction
            return
        self._stored([sent], result.send_result)
        if result.send_result.send_status is not SendStatus.SEND_OK:
            sent.fate = Fate.ROLLBACK

    async def _check(self, message: MessageExt) -> TransactionState:
        """The state of the local transaction."""
        sent = self._history.sent[key_of(message.body)]
        if sent.fate is Fate.NONE or self._chance.random() < 0.2:
            return TransactionState.UNKNOWN
        return _STATES[sent.fate]


_STATES = {Fate.COMMIT: TransactionState.COMMIT, Fate.ROLLBACK: TransactionState.ROLLBACK}


class Member:
    """A consumer and the application around it, which starts it again when it could not start."""

    def __init__(self, machines: Machines, name: str, host: str, name_servers: str, facts: GroupFacts, temper: Temper,
                 chance: Random, settings: dict[str, Any]) -> None:
        self.name = name
        self.node = Node(name, host)
        self.is_consuming = False
        self.is_passing = False
        """It will leave again, so its group cannot rely on it."""
        self.task: asyncio.Task[None] | None = None
        self._machines = machines
        self._history = machines.history
        self._name_servers = name_servers
        self._facts = facts
        self.group = facts.name
        self._temper = temper
        self._chance = chance
        self._failures = facts.failures
        model = MessageModel.BROADCASTING if facts.broadcasting else MessageModel.CLUSTERING
        values: dict[str, Any] = {
            "client_ip": host, "instance_name": name, "consume_orderly": facts.orderly, "message_model": model,
            "consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, "consume_thread_max": 3,
            "suspend_current_queue_time_millis": facts.suspend_ms, "max_reconsume_times": facts.max_reconsume_times,
            "consume_timeout": int(facts.consume_timeout_s * 1000), "rebalance_interval": 5_000,
            "offset_store_path": str(machines.home / "offsets"), **settings}
        self.config = PushConsumerConfig(**values)

    def start(self) -> None:
        self.task = self._machines.loop.create_task(self._run(), context=self.node.context)

    async def _run(self) -> None:
        while True:
            consumer = PushConsumer(self._name_servers, self._facts.name, self._listen, self.config)
            for topic in self._facts.topics:
                self._subscribe(consumer, topic)
            try:
                async with consumer:
                    self._machines.trace.say(self.name, f"has joined {self._facts.name}")
                    self.is_consuming = True
                    self._history.joined[self._facts.name, self.name] = self._history.now()
                    await asyncio.Event().wait()
            except RegulusError as error:
                self._machines.trace.say(self.name, f"could not start: {type(error).__name__}")
                self._machines.trace.note(self.name, str(error))
                self._history.missed(f"{self.name} could not start: {type(error).__name__}: {error}")
                await asyncio.sleep(_RESTART_S)
            finally:
                self.is_consuming = False

    def _subscribe(self, consumer: PushConsumer, topic: str) -> None:
        wanted = self._facts.wanted
        if wanted is None:
            consumer.subscribe(topic)
        else:
            consumer.subscribe(topic, " OR ".join([f"number = {number}" for number in wanted]), "SQL92")

    async def leave(self) -> None:
        """Stop the consumer, whatever it is doing, even starting."""
        if self.task is None or not self.node.is_alive:
            return
        self.node.is_closing = True
        self._machines.trace.say(self.name, "leaves")
        self.task.cancel()
        await asyncio.wait([self.task])
        await asyncio.sleep(_LEFT_OVER_S)
        left = [task.get_name() for task in self._machines.loop.tasks if task.node is self.node and not task.done()]
        if left:
            self._history.fault(f"{self.name} has ended, and its tasks go on: {', '.join(left)}")

    def kill(self) -> None:
        if self.node.is_alive:
            self._machines.trace.say(self.name, "is killed")
            self._machines.kill(self.node, is_silent=False)
            forget_client(self._machines, self.node)
            self.is_consuming = False

    async def _listen(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        chance, facts = self._chance, self._facts
        keys = [key_of(message.body) for message in messages]
        call = Call(facts.name, self.name, self.node, context.message_queue, keys,
                    [message.queue_offset for message in messages], messages[0].reconsume_times,
                    self._history.now())
        self._history.began(call)
        self._machines.trace.say(self.name, f"consumes {call}")
        is_slow = chance.random() < self._temper.slow
        manner = chance.choice(self._temper.manners)
        try:
            await asyncio.sleep(chance.uniform(0, self._temper.slow_s) if is_slow else chance.uniform(0, 0.01))
        except asyncio.CancelledError:
            self._end(call, Ending.CANCELLED)
            raise
        if not any(self._failures[key] < self._history.failures_wanted.get(key, 0) for key in keys):
            self._end(call, Ending.DONE)
            return ConsumeStatus.CONSUME_SUCCESS
        for key in keys:
            self._failures[key] += 1
        if facts.orderly:
            call.suspend_ms = chance.choice(self._temper.suspends_ms)
            context.suspend_current_queue_time_millis = call.suspend_ms
        self._end(call, Ending.FAILED)
        return _fail(manner)

    def _end(self, call: Call, ending: Ending) -> None:
        self._history.ended(call, ending)
        self._machines.trace.say(self.name, f"{ending} with {call}")


class PopMember(Member):
    """A consumer that receives messages with an invisible time. Failed messages are given back for another time, or
    left until theirs ends."""

    async def _run(self) -> None:
        config = SimpleConsumerConfig(client_ip=self.node.host, instance_name=self.name,
                                      consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        while True:
            consumer = SimpleConsumer(self._name_servers, self._facts.name, dict.fromkeys(self._facts.topics, "*"),
                                      config)
            try:
                async with consumer:
                    self._machines.trace.say(self.name, f"has joined {self._facts.name}")
                    self.is_consuming = True
                    self._history.joined[self._facts.name, self.name] = self._history.now()
                    await asyncio.gather(*(self._receive(consumer) for _ in range(_RECEIVES)))
            except RegulusError as error:
                self._machines.trace.say(self.name, f"could not start: {type(error).__name__}")
                self._machines.trace.note(self.name, str(error))
                await asyncio.sleep(_RESTART_S)
            finally:
                self.is_consuming = False

    async def _receive(self, consumer: SimpleConsumer) -> None:
        # One of an ordered queue at a time: messages after a failed one would come again with it.
        count = 1 if self._facts.orderly else self._facts.at_once
        while True:
            asked_s = self._history.now()
            try:
                received = await self._patiently(consumer.receive(count, INVISIBLE_MS, await_duration_ms=_AWAIT_MS))
            except RegulusError as error:
                self._machines.trace.note(self.name, f"receive failed: {error}")
                await asyncio.sleep(_RESTART_S)
                continue
            for message in received:
                await self._work(consumer, message, asked_s)

    async def _patiently(self, receiving: "Coroutine[Any, Any, list[ReceivedMessage]]") -> list[ReceivedMessage]:
        """Receive, or return nothing when it is cancelled before there is an answer."""
        if self._chance.random() >= self._temper.gives_up:
            return await receiving
        try:
            return await asyncio.wait_for(receiving, self._chance.uniform(0, _AWAIT_MS / 1000))
        except TimeoutError:
            return []

    async def _work(self, consumer: SimpleConsumer, message: ReceivedMessage, asked_s: float) -> None:
        chance, history = self._chance, self._history
        key = key_of(message.body)
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        call = Call(self._facts.name, self.name, self.node, queue, [key], [message.queue_offset],
                    message.reconsume_times, history.now(), own_until_s=asked_s + INVISIBLE_MS / 1000)
        history.began(call)
        self._machines.trace.say(self.name, f"consumes {call}")
        is_slow = chance.random() < self._temper.slow
        try:
            await asyncio.sleep(chance.uniform(0, self._temper.slow_s) if is_slow else chance.uniform(0, 0.01))
        except asyncio.CancelledError:
            self._end(call, Ending.CANCELLED)
            raise
        try:
            if self._failures[key] >= history.failures_wanted.get(key, 0):
                self._end(call, Ending.DONE)
                await consumer.ack(message)
                call.acked_s = history.now()
                return
            self._failures[key] += 1
            self._end(call, Ending.FAILED)
            if chance.random() < 0.7:
                again_ms = chance.choice((0, 500, 2_000))
                call.own_until_s = min(call.own_until_s, history.now() + again_ms / 1000)
                await consumer.change_invisible_duration(message, again_ms)
        except RegulusError as error:
            self._machines.trace.note(self.name, f"{key} is left to its time: {error}")


def _fail(manner: Manner) -> ConsumeStatus:
    if manner is Manner.RAISES:
        raise ValueError("the application cannot do that now")
    if manner is Manner.CANCELLED:
        raise asyncio.CancelledError
    forgotten: Any = None
    return forgotten if manner is Manner.FORGETS else ConsumeStatus.RECONSUME_LATER


def forget_client(machines: Machines, node: Node) -> None:
    """Forget the client of a process that died, so that no other process shares it."""
    instances = client_instance._instances.get(machines.loop, [])
    for instance in [each for each in instances if each.address == node.host]:
        instance.is_left_behind = True
        instances.remove(instance)


def _place(queue: MessageQueue) -> str:
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"

