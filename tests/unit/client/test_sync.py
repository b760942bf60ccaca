"""The blocking clients against a real server; also the blocking form of what Admin does."""

import inspect
import threading

import pytest

from regulus.client import sync
from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.connecting.client_instance import GroupMember
from regulus.client.consuming.consumption import OwningConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.shared_loop import Owing
from regulus.client.sync import Admin, Producer, PushConsumer
from regulus.errors import BrokerRefused, MessageIllegal, NoRoute
from regulus.model.message import Message
from regulus.model.topics import TopicConfig
from tests.blocking_clients import FACES, TARGET, Writer


def test_send_consume_and_look(regulus_server):
    address = regulus_server.name_server_address
    bodies, done = set(), threading.Event()

    def listen(messages, context):
        bodies.update(message.body for message in messages)
        if len(bodies) == 9:
            done.set()
        return ConsumeStatus.CONSUME_SUCCESS

    with Admin(address) as admin:
        admin.create_topic(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2))
        with Producer(address, "PG") as producer:
            queue = producer.fetch_publish_message_queues("T")[1]
            assert producer.send(Message("T", b"0"), queue=queue).message_queue == queue
            futures = [producer.send_async(Message("T", b"%d" % number)) for number in range(1, 5)]
            assert len({future.result(60).message_id for future in futures}) == 4
            producer.send_batch([Message("T", b"%d" % number) for number in range(5, 8)])
            producer.send_oneway(Message("T", b"8"))
            with pytest.raises(MessageIllegal):
                producer.send(Message("T", b""))
        consumer = PushConsumer(address, "CG", listen, PushConsumerConfig(
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
        consumer.subscribe("T")
        with consumer:
            assert done.wait(60)
            assert len(consumer.assigned_queues()) == 3
            consumer.suspend()
            consumer.resume()
        assert admin.progress("CG").lag == 0
        assert sum(offset.max_offset for offset in admin.topic_stats("T").values()) == 9
        with pytest.raises(NoRoute):
            admin.topic_route("Unknown")


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_each_public_coroutine_has_a_blocking_twin(face):
    blocking = getattr(sync, face.__name__)
    hidden = {name for protocol in (GroupMember, OwningConsumer, Owing) for name in dir(protocol)}
    names = [name for name, method in inspect.getmembers(face, inspect.iscoroutinefunction)
             if not name.startswith("_") and name not in hidden]
    assert {"start", "shutdown"} < set(names)
    for name in names:
        twin = getattr(blocking, name)
        assert not inspect.iscoroutinefunction(twin)
        assert inspect.signature(twin) == inspect.signature(getattr(face, name)), name
    assert inspect.signature(blocking) == inspect.signature(face)


def test_the_blocking_clients_are_those_of_the_asyncio_ones_as_they_are_now():
    assert TARGET.read_text() == Writer().write(), "run: python -m tests.blocking_clients"


def test_what_only_admins_of_late_have(regulus_server):
    with Admin(regulus_server.name_server_address) as admin, Producer(regulus_server.name_server_address, "PG"):
        broker = admin.master_addresses()[0]
        assert admin.producers(broker).data == {}
        with pytest.raises(BrokerRefused):
            admin.broker_stats(broker, "TOPIC_PUT_NUMS", "NoSuchTopic")
