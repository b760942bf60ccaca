"""Our own clients by `grpc://` with credentials: before users (ACL 2.0) at our front, in a broker and by itself, and at
RocketMQ's proxy of 5.3.3, and before accounts (ACL 1.0) at ours."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from bench5 import guard
from conftest import NewRun
from fronts5 import Front, start_guarded
from guards import BILLING, OPERATORS, refusal
from our_clients5 import LATE_S, PATIENT_MS, coming, first, until

from regulus import (
    Admin,
    ConsumeContext,
    ConsumeStatus,
    Message,
    MessageExt,
    Producer,
    ProducerConfig,
    PushConsumer,
    PushConsumerConfig,
    SimpleConsumer,
    SimpleConsumerConfig,
    TransactionProducer,
    TransactionState,
)
from regulus.client.config import ClientConfig
from regulus.client.received_message import PoppedState
from regulus.client.sending.transaction_producer import TransactionProducerConfig
from regulus.errors import BrokerRefused
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.transport.tls import TlsConfig

__all__ = ["guard"]

pytestmark = pytest.mark.long

KINDS = {"plain": "NORMAL", "changed": "NORMAL", "pushed": "NORMAL", "later": "DELAY", "booked": "TRANSACTION",
         "encrypted": "NORMAL", "read-only": "DELAY", "write-only": "NORMAL", "forbidden": "NORMAL"}
PERMISSIONS = dict.fromkeys(("plain", "changed", "pushed", "later", "booked", "encrypted"), "PUB|SUB") | {
    "read-only": "SUB", "write-only": "PUB"}
GROUPS = ("plain", "changed", "pushed", "later", "booked", "encrypted", "billing")
"""Where billing may receive. A topic has a group of its name."""
OK, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


class Guarded:
    """A front that asks who somebody is, and clients for it; they sign as billing unless told otherwise."""

    def __init__(self, front: Front, operator: str) -> None:
        self.front = front
        self.operator = {"access_key": operator, "secret_key": f"secret-of-{operator}"}
        self.address = f"grpc://{front.endpoint}"

    async def create_all(self) -> None:
        config = ClientConfig(mq_client_api_timeout=PATIENT_MS, **self.operator)
        async with Admin(self.front.name_server, config) as admin:
            for topic, kind in KINDS.items():
                await admin.create_topic(TopicConfig(topic_name=topic, attributes={"message.type": kind}))
            for group in (*GROUPS, "forbidden"):
                await admin.create_group(SubscriptionGroupConfig(group_name=group))

    def producing(self, **settings: Any) -> Producer:
        return Producer(self.address, "senders",
                        ProducerConfig(send_msg_timeout=PATIENT_MS, **{**BILLING, **settings}))

    def receiving(self, topic: str, group: str = "", **settings: Any) -> SimpleConsumer:
        config = SimpleConsumerConfig(await_duration=5_000, request_timeout=PATIENT_MS, **{**BILLING, **settings})
        return SimpleConsumer(self.address, group or topic, {topic: "*"}, config)

    def pushing(self, topic: str, listener: Any, group: str = "", **settings: Any) -> PushConsumer:
        consumer = PushConsumer(self.address, group or topic, listener, PushConsumerConfig(
            mq_client_api_timeout=PATIENT_MS, **{**BILLING, **settings}))
        consumer.subscribe(topic)
        return consumer

    def booking(self, topic: str, check: Callable[[MessageExt], TransactionState], **settings: Any
                ) -> TransactionProducer:
        config = TransactionProducerConfig(send_msg_timeout=PATIENT_MS, **{**BILLING, **settings})
        return TransactionProducer(self.address, "bookers", check, config, topics=[topic])


@pytest.fixture(scope="module")
def guarded(guard: tuple[str, str], new_run: NewRun) -> Iterator[Guarded]:
    with ExitStack() as stack:
        home = new_run(f"our-clients5-{'-'.join(guard)}")
        front, _ = start_guarded(*guard, stack, home, PERMISSIONS, GROUPS)
        made = Guarded(front, OPERATORS[guard[0]])
        asyncio.run(made.create_all())
        yield made


async def test_what_is_sent_is_received_and_acknowledged(guarded: Guarded) -> None:
    async with guarded.producing() as producer, guarded.receiving("plain") as consumer:
        sent = {(await producer.send(Message("plain", body))).message_id: body for body in (b"tea", b"milk", b"rum")}
        got = {}
        async for message in coming(consumer, 3):
            await consumer.ack(message)
            got[message.message_id] = message.body
        assert got == sent
        assert await consumer.receive(16, 10_000, await_duration_ms=0) == []


async def test_a_changed_invisible_time_counts(guarded: Guarded) -> None:
    """Of 60 s: none of it is left."""
    async with guarded.producing() as producer, guarded.receiving("changed") as consumer:
        await producer.send(Message("changed", b"tea"))
        begun = time.monotonic()
        await consumer.change_invisible_duration(await first(consumer), 0)
        message = await first(consumer)
        assert time.monotonic() - begun < 2 * LATE_S
        assert (message.body, message.delivery_attempt) == (b"tea", 2)
        await consumer.ack(message)


async def test_a_push_consumer_gets_what_is_sent_and_what_failed_once_more(guarded: Guarded) -> None:
    got: list[tuple[bytes, int]] = []

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        [message] = messages
        got.append((message.body, message.delivery_attempt))
        return LATER if got == [(message.body, 1)] else OK

    async with guarded.producing() as producer, guarded.pushing("pushed", listen) as consumer:
        await producer.send(Message("pushed", b"tea"))
        await until(lambda: consumer.message_counts()[PoppedState.COMMIT] == 1)
    assert got == [(b"tea", 1), (b"tea", 2)]


async def test_a_transaction_is_committed_rolled_back_and_asked_for(guarded: Guarded) -> None:
    asked: set[bytes] = set()

    def check(message: MessageExt) -> TransactionState:
        asked.add(message.body)
        return TransactionState.COMMIT

    says = {b"commit": TransactionState.COMMIT, b"rollback": TransactionState.ROLLBACK,
            b"silent": TransactionState.UNKNOWN}
    async with guarded.receiving("booked") as consumer, guarded.booking("booked", check) as producer:
        for body in says:
            await producer.send_in_transaction(Message("booked", body), lambda message: says[message.body])
        got = []
        async for message in coming(consumer, 2):
            await consumer.ack(message)
            got.append(message.body)
    assert sorted(got) == [b"commit", b"silent"]
    assert asked == {b"silent"}


async def test_what_was_taken_back_never_comes(guarded: Guarded) -> None:
    async with guarded.producing() as producer, guarded.receiving("later") as consumer:
        gone = await producer.send(Message("later", b"never", delay=timedelta(seconds=4)))
        await producer.send(Message("later", b"tea", delay=timedelta(seconds=4)))
        assert await producer.recall("later", gone.recall_handle) == gone.message_id
        message = await first(consumer)
        assert message.body == b"tea"
        await consumer.ack(message)
        assert await consumer.receive(16, 10_000, await_duration_ms=3_000) == []


async def test_credentials_go_over_tls(guard: tuple[str, str], guarded: Guarded) -> None:
    tls = TlsConfig(tls_enable=True, tls_client_trust_cert_path=str(guarded.front.authority))
    async with guarded.producing(tls=tls) as producer, guarded.receiving("encrypted", tls=tls) as consumer:
        await producer.send(Message("encrypted", b"tea"))
        message = await first(consumer)
        assert message.body == b"tea"
        await consumer.ack(message)
    with pytest.raises(BrokerRefused) as refused:
        await _send(guarded, "encrypted", {"tls": tls, "secret_key": "another-secret"})
    assert str(refused.value).endswith(f"answered 40100: {refusal(guard, 'the secret', 'encrypted')}")


# --- who may not -----------------------------------------------------------------------------------------------------


async def _send(guarded: Guarded, topic: str, signs: Mapping[str, Any]) -> None:
    async with guarded.producing(**signs) as producer:
        await producer.send(Message(topic, b"refused"))


async def _book(guarded: Guarded, topic: str, signs: Mapping[str, Any]) -> None:
    async with guarded.booking(topic, lambda message: TransactionState.COMMIT, **signs) as producer:
        await producer.send_in_transaction(Message(topic, b"refused"), lambda message: TransactionState.COMMIT)


async def _receive(guarded: Guarded, topic: str, signs: Mapping[str, Any], group: str = "billing") -> None:
    async with guarded.receiving(topic, group, **signs) as consumer:
        await consumer.receive(1, 10_000, await_duration_ms=0)


async def _receive_as_others(guarded: Guarded, topic: str, signs: Mapping[str, Any]) -> None:
    await _receive(guarded, topic, signs, group="forbidden")


async def _push(guarded: Guarded, topic: str, signs: Mapping[str, Any]) -> None:
    async with guarded.pushing(topic, lambda messages, context: OK, "billing", **signs):
        await asyncio.sleep(10)


async def _take_back(guarded: Guarded, topic: str, signs: Mapping[str, Any]) -> None:
    """What the operator sent."""
    async with guarded.producing(**guarded.operator) as operator, guarded.producing(**signs) as producer:
        sent = await operator.send(Message(topic, b"stays", delay=timedelta(hours=1)))
        await producer.recall(topic, sent.recall_handle)


class Try(NamedTuple):
    deed: Callable[[Guarded, str, Mapping[str, Any]], Awaitable[None]]
    topic: str
    wants: str
    signs: Mapping[str, Any] = BILLING


ANOTHER_SECRET = {**BILLING, "secret_key": "another-secret"}
UNKNOWN_KEY = {**BILLING, "access_key": "nobody"}
NO_KEY = {"access_key": "", "secret_key": ""}
TRIES = (
    *(Try(deed, "plain", "the secret", ANOTHER_SECRET) for deed in (_send, _book, _receive, _push)),
    *(Try(deed, "plain", "a known key", UNKNOWN_KEY) for deed in (_send, _receive)),
    *(Try(deed, "plain", "a key", NO_KEY) for deed in (_send, _receive)),
    *(Try(deed, "read-only", "the topic") for deed in (_send, _book, _take_back)),
    *(Try(deed, "write-only", "the topic") for deed in (_receive, _push)),
    *(Try(deed, "forbidden", "the topic") for deed in (_send, _receive)),
    Try(_receive_as_others, "plain", "the group"),
)


@pytest.mark.parametrize("each", TRIES, ids=lambda each: f"{each.deed.__name__}-{each.topic}-for-want-of-{each.wants}")
async def test_who_may_not_is_refused_in_one_sentence_that_says_why(guard: tuple[str, str], guarded: Guarded,
                                                                    each: Try) -> None:
    with pytest.raises(BrokerRefused) as refused:
        await each.deed(guarded, each.topic, each.signs)
    why = refusal(guard, each.wants, "forbidden" if each.wants == "the group" else each.topic)
    assert str(refused.value) == f"{guarded.front.endpoint} answered 40100: {why}"
