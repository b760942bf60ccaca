"""Queues read as stored records, of a broker that reads in bulk and of one that does not."""

import pytest

from regulus.broker import request_table
from regulus.client.administration.admin import Admin
from regulus.client.administration.bulk_admin import PULL_COUNT
from regulus.client.sending.producer import Producer
from regulus.errors import BrokerRefused
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.record import message_record
from regulus.wire.codes import RequestCode

QUEUE = MessageQueue("T", "broker-a", 0)
MESSAGES = 100


@pytest.fixture(params=["bulk", "pull"])
async def filled(request, regulus_server, monkeypatch):
    """A queue of 100 messages at a broker of ours, which as `pull` knows no more requests than RocketMQ's."""
    if request.param == "pull":
        monkeypatch.delitem(request_table.HANDLERS, int(RequestCode.BULK_PULL))
    async with Admin(regulus_server.name_server_address) as admin:
        await admin.create_topic(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1))
        async with Producer(regulus_server.name_server_address, "PG") as producer:
            for number in range(MESSAGES):
                await producer.send(Message("T", b"%d" % number, f"Tag{number % 2}"), queue=QUEUE)
        while (await admin.queue_state(QUEUE)).max_offset < MESSAGES:
            pass
        yield admin, request.param


def offsets(read):
    return [message.queue_offset for message in message_record.decode_all(read.data)] if read.data else []


async def test_a_queue_is_read_from_end_to_end(filled):
    admin, kind = filled
    found, offset, reads = [], 0, 0
    while offset < MESSAGES:
        read = await admin.read_queue(QUEUE, offset, MESSAGES)
        found += offsets(read)
        offset, reads = read.next_offset, reads + 1
    assert found == list(range(MESSAGES))
    assert reads == (1 if kind == "bulk" else -(-MESSAGES // PULL_COUNT))
    assert await admin.has_bulk(QUEUE) is (kind == "bulk")


async def test_the_state_of_a_queue(filled):
    admin, kind = filled
    state = await admin.queue_state(QUEUE)
    assert (state.min_offset, state.max_offset, state.topic_epoch > 0) == (0, MESSAGES, kind == "bulk")


async def test_the_state_of_many_queues_takes_one_request(filled, monkeypatch):
    admin, kind = filled
    await admin.create_topic(TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=8))
    queues = [QUEUE._replace(queue_id=number) for number in range(8)]
    one_by_one = {queue: await admin.queue_state(queue) for queue in queues}
    asked = []
    for code, handler in dict(request_table.HANDLERS).items():
        monkeypatch.setitem(request_table.HANDLERS, code,
                            lambda request, *rest, of=handler: asked.append(request.code) or of(request, *rest))
    states = await admin.queue_states(queues)
    assert states == one_by_one
    assert states[QUEUE].max_offset == MESSAGES
    one = {"bulk": RequestCode.BULK_PULL, "pull": RequestCode.GET_TOPIC_STATS_INFO}[kind]
    assert [code for code in asked if code != RequestCode.HEART_BEAT] == [one]


async def test_tags_are_chosen_by_the_broker(filled):
    admin, _ = filled
    read = await admin.read_queue(QUEUE, 0, 10, expression="Tag1")
    assert offsets(read)[:5] == [1, 3, 5, 7, 9]


@pytest.mark.parametrize("start", [MESSAGES, MESSAGES + 50])
async def test_nothing_is_read_behind_the_end(filled, start):
    admin, _ = filled
    read = await admin.read_queue(QUEUE, start, start + 10)
    assert (read.data, read.next_offset, read.max_offset) == (b"", start, MESSAGES)


async def test_an_unknown_queue_is_refused(filled):
    admin, _ = filled
    with pytest.raises(BrokerRefused, match="illegal"):
        await admin.read_queue(QUEUE._replace(queue_id=7), 0, 10)


async def test_the_offset_of_a_group(filled):
    admin, _ = filled
    assert await admin.group_offset("billing", QUEUE) is None
    await admin.create_group(SubscriptionGroupConfig(group_name="billing"))
    await admin.set_offsets("billing", {QUEUE: 42})
    assert await admin.group_offset("billing", QUEUE) == 42


async def test_a_filter_that_the_broker_does_not_serve_is_refused(filled):
    admin, _ = filled
    with pytest.raises(BrokerRefused, match="SQL92"):
        await admin.read_queue(QUEUE, 0, 10, expression="a = 1", expression_type="SQL92")
