"""A topic that gets fewer queues while it is sent to, over either protocol."""

import asyncio

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.send_result import SendStatus
from regulus.client.sending.producer import Producer
from regulus.model.message import Message
from regulus.model.topics import TopicConfig
from tests.unit.client.both_protocols import PROTOCOLS, both_protocols


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_no_send_fails_when_a_topic_gets_fewer_queues(protocol, tmp_path):
    async with both_protocols(tmp_path) as both:
        await both.create_topic("T", queues=16)
        async with Producer(both.address(protocol), "PG") as producer, Admin(both.name_server) as admin:
            is_over, results = asyncio.Event(), []

            async def send():
                while not is_over.is_set():
                    results.append(await producer.send(Message("T", b"x")))

            sending = [asyncio.create_task(send()) for _ in range(8)]
            while len(results) < 100:
                await asyncio.sleep(0)
            await admin.create_topic(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2))
            seen = len(results)
            while len(results) < seen + 300 and not any(each.done() for each in sending):
                await asyncio.sleep(0)
            is_over.set()
            await asyncio.gather(*sending)
    assert {result.send_status for result in results} == {SendStatus.SEND_OK}
    if protocol == "rocketmq":      # over grpc:// the server chooses, and does not tell
        assert {result.message_queue.queue_id for result in results[-100:]} <= {0, 1}
