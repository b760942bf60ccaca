"""Each cause is made with real servers and clients, and the diagnosis names it, alone and together with others."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from regulus.broker.config import BrokerConfig
from regulus.client.administration.admin import Admin
from regulus.client.config import ClientConfig, ConsumeFromWhere, MessageModel, MessageRequestMode, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.consuming.simple_consumer import SimpleConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.client.sending.transaction_producer import TransactionProducer, TransactionState
from regulus.diagnosis.checks import Diagnosis, diagnose
from regulus.diagnosis.facts import Question
from regulus.diagnosis.findings import Cause, Level
from regulus.diagnosis.gathering import gather
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.testing.running_server import ServerThread, small_store

TOPIC, GROUP = "Orders", "billing"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
WITHIN_S = 60.0
OK, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


async def diagnosis_of(server: Any, **question: Any) -> Diagnosis:
    named = {"group": GROUP, "topic": TOPIC, **question}
    name_server = server if isinstance(server, str) else server.name_server_address
    [facts] = await gather(name_server, ClientConfig(), Question(**named))
    return diagnose(facts)


def causes(diagnosis: Diagnosis) -> list[Cause]:
    return [each.cause for each in diagnosis.findings if each.level is not Level.NOTE]


def notes(diagnosis: Diagnosis) -> list[Cause]:
    return [each.cause for each in diagnosis.findings if each.level is Level.NOTE]


async def comes_to(server: Any, wanted: list[Cause], **question: Any) -> Diagnosis:
    """The diagnosis that names exactly these causes, in this order; what members and brokers know needs a moment."""
    until = time.monotonic() + WITHIN_S
    while True:
        found = await diagnosis_of(server, **question)
        if causes(found) == wanted:
            return found
        if time.monotonic() > until:
            raise AssertionError(found.findings)
        await asyncio.sleep(0.1)


@pytest.fixture
async def admin(regulus_server):
    async with Admin(regulus_server.name_server_address) as made:
        await made.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1))
        yield made


@pytest.fixture
async def producer(regulus_server, admin):
    async with Producer(regulus_server.name_server_address, "shop") as made:
        yield made


async def ok(messages: Any, context: Any) -> ConsumeStatus:
    return OK


async def later(messages: Any, context: Any) -> ConsumeStatus:
    return LATER


def consumer_of(server: Any, listener: Any = ok, expression: str = "*", *, topic: str = TOPIC, group: str = GROUP,
                **settings: Any) -> PushConsumer:
    config = PushConsumerConfig(**{"consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                                   "rebalance_interval": 200, "persist_consumer_offset_interval": 100, **settings})
    made = PushConsumer(server.name_server_address, group, listener, config)
    made.subscribe(topic, expression)
    return made


async def test_a_healthy_group_is_healthy(regulus_server, producer):
    async with consumer_of(regulus_server):
        await producer.send(Message(TOPIC, b"x"))
        found = await comes_to(regulus_server, [])
        assert found.is_healthy
        assert found.findings == ()
        assert found.unknown == ()
        [facts] = await gather(regulus_server.name_server_address, ClientConfig(), Question(group=GROUP))
        assert (facts.topic.name, len(facts.group.members)) == (TOPIC, 1)


async def test_no_member_is_online(regulus_server, admin, producer):
    await admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    sent = await producer.send(Message(TOPIC, b"x"))
    assert causes(await diagnosis_of(regulus_server)) == [Cause.NO_MEMBER_ONLINE]
    assert causes(await diagnosis_of(regulus_server, message_id=sent.message_id)) == [Cause.NO_MEMBER_ONLINE]
