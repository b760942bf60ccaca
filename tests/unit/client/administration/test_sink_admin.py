"""Asking brokers for the marks of a sink."""

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.administration.sink_admin import SinkMark, sink_marks_of
from regulus.client.sending.producer import Producer
from regulus.errors import HeaderError
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue


async def test_the_marks_of_a_sink_are_read(regulus_server):
    async with Producer(regulus_server.name_server_address, "PG") as producer, \
            Admin(regulus_server.name_server_address) as admin:
        queue = MessageQueue("T", "broker-a", 1)
        await producer.send(Message("T", b"x", properties={"SINK": "S/4", "SEQ": "7/0"}), queue=queue)
        marks = await admin.sink_marks(regulus_server.address, "S")
    offset = marks["S/4"].physical_offset
    assert marks == {"S/4": SinkMark(batch=7, row=0, topic="T", queue_id=1, queue_offset=0, physical_offset=offset)}


@pytest.mark.parametrize("body", [b"[]", b'{"S/0":{}}', b'{"S/0":{"seq":"x"}}'])
def test_an_answer_that_is_none_is_told(body):
    with pytest.raises(HeaderError, match="sink marks"):
        sink_marks_of(body)
