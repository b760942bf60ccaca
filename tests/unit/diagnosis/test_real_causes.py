"""Each cause is made with real servers and clients, and the diagnosis names it, alone and together with others."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from regulus.broker.config import BrokerConfig
from regulus.client.administration.admin import Admin
from regulus.client.config import ClientConfig, ConsumeFromWhere, MessageModel, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.consuming.simple_consumer import SimpleConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.client.sending.transaction_producer import TransactionProducer, TransactionState
from regulus.diagnosis import gathering, message_checks, message_search
from regulus.diagnosis.checks import Diagnosis, diagnose
from regulus.diagnosis.facts import Question
from regulus.diagnosis.findings import Cause, Level
from regulus.diagnosis.gathering import gather
from regulus.errors import ClientError
from regulus.model.broker_role import BrokerRole
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.retention_rules import ArchiveGate
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.server import ha_client, master_documents
from regulus.server.assembly import BrokerServer
from regulus.server.name_server import NameServer
from regulus.store import disk
from regulus.testing.fixtures import make_guarded_server
from regulus.testing.running_server import HOST, ServerThread, small_store
from regulus.transport.config import TransportConfig
from regulus.wire.bodies import LockBatchRequestBody
from regulus.wire.codes import RequestCode
from tests.unit.client.both_protocols import both_protocols
from tests.waiting import until

__all__ = ["make_guarded_server"]
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
            raise AssertionError([(each.cause, each.level.name, each.sentence) for each in found.findings])
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


# --- the message -----------------------------------------------------------------------------------------------------


async def test_a_message_is_delayed_by_a_level_or_until_a_time(regulus_server, producer):
    by_level = await producer.send(Message(TOPIC, b"x", properties={"DELAY": "18"}))
    timed = await producer.send(Message(TOPIC, b"x", delay=timedelta(days=1)))
    async with consumer_of(regulus_server):
        for sent, due in ((by_level, "in 119 min"), (timed, "in 23 h")):
            found = await comes_to(regulus_server, [Cause.DELIVERY_WAITING], message_id=sent.message_id)
            assert found.findings[0].sentence.endswith(f"{due}.")
            assert found.findings[0].level is Level.WAITS
        by_offset_id = await comes_to(regulus_server, [Cause.DELIVERY_WAITING],
                                      message_id=by_level.offset_message_id)
        assert by_offset_id.facts.topic.name == TOPIC


async def test_a_message_that_failed_waits_for_its_retry(regulus_server, producer):
    async with consumer_of(regulus_server, later):
        sent = await producer.send(Message(TOPIC, b"x"))
        found = await comes_to(regulus_server, [Cause.RETRY_WAITING], message_id=sent.message_id)
        assert "retry 1 of 16" in found.findings[0].sentence


async def test_a_message_that_failed_for_good_is_a_dead_letter(regulus_server, producer):
    async with consumer_of(regulus_server, later, max_reconsume_times=0):
        sent = await producer.send(Message(TOPIC, b"x"))
        found = await comes_to(regulus_server, [Cause.DEAD_LETTER], message_id=sent.message_id)
        assert f"%DLQ%{GROUP}" in found.findings[0].evidence[0]


async def test_a_message_was_consumed(regulus_server, producer):
    async with consumer_of(regulus_server):
        sent = await producer.send(Message(TOPIC, b"x", keys="k1"))
        for named in ({"message_id": sent.message_id}, {"message_id": sent.offset_message_id}, {"key": "k1"},
                      {"broker_name": "broker-a", "queue_id": 0, "queue_offset": 0}):
            await comes_to(regulus_server, [Cause.PASSED], **named)
    # The group is gone, but that is not why this message does not come.
    found = await comes_to(regulus_server, [Cause.PASSED], message_id=sent.message_id)
    assert Cause.NO_MEMBER_ONLINE in notes(found)


async def test_a_message_was_skipped_by_a_reset(regulus_server, admin, producer):
    await admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    sent = await producer.send(Message(TOPIC, b"x"))
    await admin.set_offsets(GROUP, {QUEUE: 1})
    await comes_to(regulus_server, [Cause.PASSED], message_id=sent.message_id)


@pytest.mark.parametrize("message_id", ["C0000202000000000000000000000001", "no id at all"])
async def test_a_message_was_never_stored(regulus_server, producer, message_id):
    async with consumer_of(regulus_server):
        await comes_to(regulus_server, [Cause.MESSAGE_UNKNOWN], message_id=message_id)
        await comes_to(regulus_server, [Cause.MESSAGE_UNKNOWN], broker_name="broker-a", queue_id=0, queue_offset=7)


async def test_a_message_has_expired(tmp_path):
    store = replace(small_store(tmp_path), mapped_file_size_commit_log=1 << 16)
    config = BrokerConfig(listen_port=0, file_reserved_time=0, clean_resource_interval=100,
                          delete_commit_log_files_interval=1)
    with ServerThread(tmp_path, config, store) as server:
        async with Admin(server.name_server_address) as admin, Producer(server.name_server_address, "shop") as producer:
            await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1))
            sent = await producer.send(Message(TOPIC, b"first"))
            for _ in range(50):
                await producer.send(Message(TOPIC, b"x" * 3000))
            async with consumer_of(server):
                until = time.monotonic() + WITHIN_S
                while (await admin.min_offset(QUEUE)) == 0:
                    assert time.monotonic() < until
                    await admin.delete_expired_commit_log(server.address)
                    await asyncio.sleep(0.1)
                await comes_to(server, [Cause.MESSAGE_EXPIRED], broker_name="broker-a", queue_id=0, queue_offset=0)
                await comes_to(server, [Cause.MESSAGE_EXPIRED], message_id=sent.offset_message_id)
                await comes_to(server, [Cause.MESSAGE_EXPIRED], message_id=sent.message_id)


async def test_a_transaction_is_open_rolled_back_and_committed(regulus_server, admin):
    async with TransactionProducer(regulus_server.name_server_address, "shop") as producer, consumer_of(regulus_server):
        halves = [await producer.send_half(Message(TOPIC, b"x")) for _ in range(3)]
        await comes_to(regulus_server, [Cause.TRANSACTION_OPEN], message_id=halves[0].message_id)
        await producer.end_transaction(halves[1], TransactionState.ROLLBACK)
        found = await comes_to(regulus_server, [Cause.TRANSACTION_ROLLED_BACK], message_id=halves[1].message_id)
        assert "producer group is shop" in found.findings[0].evidence[0]
        await producer.end_transaction(halves[2], TransactionState.COMMIT)
        await comes_to(regulus_server, [Cause.PASSED], message_id=halves[2].message_id)
        await comes_to(regulus_server, [Cause.TRANSACTION_OPEN], message_id=halves[0].message_id)


async def test_a_transaction_was_given_up(tmp_path):
    config = BrokerConfig(listen_port=0, transaction_check_interval=50, transaction_time_out=1, transaction_check_max=1)
    with ServerThread(tmp_path, config) as server:
        async with Admin(server.name_server_address) as admin, TransactionProducer(
                server.name_server_address, "shop") as producer:
            await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1))
            await admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
            half = await producer.send_half(Message(TOPIC, b"x"))
            async with consumer_of(server):
                await comes_to(server, [Cause.TRANSACTION_GIVEN_UP], message_id=half.message_id)


async def test_a_popped_message_is_in_flight_and_then_acknowledged(regulus_server, producer):
    async with SimpleConsumer(regulus_server.name_server_address, GROUP, {TOPIC: "*"}) as consumer:
        sent = await producer.send(Message(TOPIC, b"x"))
        messages = []
        while not messages:
            messages = await consumer.receive(1, 600_000)
        found = await comes_to(regulus_server, [Cause.IN_FLIGHT], message_id=sent.message_id)
        assert "visible again" in found.findings[0].evidence[0]
        await consumer.ack(messages[0])
        await comes_to(regulus_server, [Cause.PASSED], message_id=sent.message_id)


async def test_a_message_is_in_the_hands_of_a_listener(regulus_server, producer):
    may_end = asyncio.Event()

    async def wait(messages, context):
        await may_end.wait()
        return OK

    async with consumer_of(regulus_server, wait) as consumer:
        sent = await producer.send(Message(TOPIC, b"x"))
        found = await comes_to(regulus_server, [Cause.IN_FLIGHT, Cause.LAG], message_id=sent.message_id)
        assert consumer.client_id in found.findings[0].sentence
        may_end.set()


# --- filters ---------------------------------------------------------------------------------------------------------


async def test_a_tag_does_not_take_the_message(regulus_server, producer):
    sent = await producer.send(Message(TOPIC, b"x", "new"))
    async with consumer_of(regulus_server, expression="paid || sent"):
        found = await comes_to(regulus_server, [Cause.FILTERED_OUT, Cause.PASSED], message_id=sent.message_id)
        assert "paid || sent" in found.findings[0].sentence
        assert found.findings[0].evidence == ("Its tag is new.",)
        wanted = await producer.send(Message(TOPIC, b"x", "paid"))
        await comes_to(regulus_server, [Cause.PASSED], message_id=wanted.message_id)


async def test_a_condition_does_not_take_the_message(tmp_path):
    with ServerThread(tmp_path, BrokerConfig(listen_port=0, enable_property_filter=True)) as server:
        async with Admin(server.name_server_address) as admin, Producer(server.name_server_address, "shop") as producer:
            await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1))
            sent = await producer.send(Message(TOPIC, b"x", properties={"amount": "3"}))
            consumer = consumer_of(server, topic="other")
            consumer.subscribe(TOPIC, "amount > 5", "SQL92")
            async with consumer:
                found = await comes_to(server, [Cause.FILTERED_OUT, Cause.PASSED], message_id=sent.message_id)
                assert found.findings[0].evidence == ("It has no tag.", "amount is 3.")


# --- the group -------------------------------------------------------------------------------------------------------


async def test_a_group_is_unknown_and_a_near_name_is_shown(regulus_server, admin):
    await admin.create_group(SubscriptionGroupConfig(group_name="billings"))
    found = await diagnosis_of(regulus_server)
    assert causes(found) == [Cause.GROUP_UNKNOWN]
    assert found.findings[0].sentence.endswith("did you mean billings?")
    assert await admin.list_groups() == ["billings"]    # the question creates no group


async def test_a_group_may_not_consume(regulus_server, admin, producer):
    await admin.create_group(SubscriptionGroupConfig(group_name=GROUP, consume_enable=False))
    async with consumer_of(regulus_server):
        await producer.send(Message(TOPIC, b"x"))
        await comes_to(regulus_server, [Cause.CONSUMPTION_DISABLED])
    # Both are true, and each would be enough.
    await comes_to(regulus_server, [Cause.CONSUMPTION_DISABLED, Cause.NO_MEMBER_ONLINE])


async def test_no_member_subscribes_to_the_topic(regulus_server, admin):
    await admin.create_topic(TopicConfig(topic_name="Refunds", read_queue_nums=1, write_queue_nums=1))
    async with consumer_of(regulus_server, topic="Refunds"):
        found = await comes_to(regulus_server, [Cause.NOT_SUBSCRIBED])
        assert found.findings[0].evidence == ("They subscribe to Refunds.",)


async def test_members_subscribe_differently(regulus_server, admin):
    async with consumer_of(regulus_server, expression="a || b"), consumer_of(regulus_server, expression="c"):
        found = await comes_to(regulus_server, [Cause.SUBSCRIPTIONS_DIFFER])
        assert sorted(line.split(":")[0] for line in found.findings[0].evidence) == ["the tags a || b", "the tags c"]
    async with consumer_of(regulus_server, expression="a||b"), consumer_of(regulus_server, expression="b || a"):
        await comes_to(regulus_server, [])


async def test_services_share_a_group(regulus_server, admin):
    await admin.create_topic(TopicConfig(topic_name="Refunds", read_queue_nums=1, write_queue_nums=1))
    async with consumer_of(regulus_server), consumer_of(regulus_server, topic="Refunds"):
        await comes_to(regulus_server, [Cause.GROUP_SHARED])


async def test_a_queue_has_no_owner(regulus_server, admin):
    """With different strategies members take some queues twice, and others not at all."""
    await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4))
    first = {"client_ip": "10.0.0.1", "instance_name": "a"}
    second = {"client_ip": "10.0.0.1", "instance_name": "b", "allocate_message_queue_strategy": "AVG_BY_CIRCLE"}
    async with consumer_of(regulus_server, **first), consumer_of(regulus_server, **second):
        found = await comes_to(regulus_server, [Cause.QUEUE_NOT_OWNED])
        assert "broker-a/2" in found.findings[0].sentence


async def test_another_client_has_the_lock_of_a_queue(regulus_server, admin, producer):
    await admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    body = LockBatchRequestBody(consumer_group=GROUP, client_id="a-stranger", mq_set=[QUEUE])
    await admin._request(regulus_server.address, RequestCode.LOCK_BATCH_MQ, body=body.encode())
    async with consumer_of(regulus_server, consume_orderly=True):
        await comes_to(regulus_server, [Cause.QUEUE_NOT_LOCKED])
        await admin._request(regulus_server.address, RequestCode.UNLOCK_BATCH_MQ, body=body.encode())
        await comes_to(regulus_server, [])


async def test_a_member_whose_cache_is_full_does_not_pull(regulus_server, producer):
    may_end = asyncio.Event()

    async def wait(messages, context):
        await may_end.wait()
        return OK

    for number in range(20):
        await producer.send(Message(TOPIC, b"x", keys=str(number)))
    async with consumer_of(regulus_server, wait, pull_threshold_for_queue=2, pull_batch_size=4):
        found = await comes_to(regulus_server, [Cause.FLOW_CONTROL, Cause.LAG], key="19")
        assert "the limits are 2 messages" in found.findings[0].evidence[0]
        may_end.set()


async def test_a_queue_is_blocked_by_its_first_message(regulus_server, producer):
    await producer.send(Message(TOPIC, b"x"))

    async def suspend(messages, context):
        return ConsumeStatus.RECONSUME_LATER

    async with consumer_of(regulus_server, suspend, consume_orderly=True, suspend_current_queue_time_millis=10):
        await comes_to(regulus_server, [Cause.QUEUE_BLOCKED])


def test_a_listener_is_stuck_and_the_group_lags(simulated_regulus):
    async def scene():
        name_server = simulated_regulus.name_server_address

        async def wait(messages, context):
            await asyncio.sleep(3_000)
            return OK

        async with Admin(name_server) as admin, Producer(name_server, "shop") as producer:
            await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1))
            async with consumer_of(simulated_regulus, wait, rebalance_interval=20_000,
                                   persist_consumer_offset_interval=5_000):
                await producer.send(Message(TOPIC, b"x"))
                await asyncio.sleep(30)
                slow = await diagnosis_of(simulated_regulus)
                await asyncio.sleep(300)
                return slow, await diagnosis_of(simulated_regulus)

    slow, stuck = simulated_regulus.run(scene())
    assert causes(slow) == [Cause.LAG]
    assert causes(stuck) == [Cause.LISTENER_STUCK, Cause.LAG]
    assert "for 5 min" in stuck.findings[0].sentence


async def test_a_group_without_an_offset_is_only_a_note(regulus_server, admin, producer):
    await admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    await producer.send(Message(TOPIC, b"x"))
    assert notes(await diagnosis_of(regulus_server)) == [Cause.NO_OFFSET]


# --- the topic and its servers ---------------------------------------------------------------------------------------


async def test_a_topic_does_not_exist_and_a_near_name_is_shown(regulus_server, admin):
    async with consumer_of(regulus_server):
        found = await comes_to(regulus_server, [Cause.NO_ROUTE, Cause.NOT_SUBSCRIBED], topic="orders")
        assert found.findings[0].sentence.endswith("did you mean Orders?")


@pytest.mark.parametrize(("perm", "cause"), [(2, Cause.TOPIC_NOT_READABLE), (4, Cause.TOPIC_NOT_WRITABLE)])
async def test_a_topic_permits_no_reads_or_no_sends(regulus_server, admin, producer, perm, cause):
    sent = await producer.send(Message(TOPIC, b"x"))
    async with consumer_of(regulus_server):
        await comes_to(regulus_server, [])
        await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1, perm=perm))
        await comes_to(regulus_server, [cause])
        found = await comes_to(regulus_server, [Cause.PASSED], message_id=sent.message_id)
        assert cause in notes(found)


async def test_a_broker_permits_no_reads(regulus_server, admin, producer):
    async with consumer_of(regulus_server):
        await admin.update_broker_config(regulus_server.address, {"brokerPermission": "2"})
        found = await comes_to(regulus_server, [Cause.TOPIC_NOT_READABLE])
        assert "broker-a" in found.findings[0].sentence


async def test_sends_are_taken_away_at_the_name_servers(regulus_server, admin):
    async with consumer_of(regulus_server):
        await admin.wipe_write_permission("broker-a")
        await comes_to(regulus_server, [Cause.TOPIC_NOT_WRITABLE])


async def test_a_message_is_in_a_queue_that_is_not_read(regulus_server, admin, producer):
    await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2))
    sent = await producer.send(Message(TOPIC, b"x"), queue=QUEUE._replace(queue_id=1))
    await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=2))
    async with consumer_of(regulus_server):
        await comes_to(regulus_server, [Cause.QUEUE_NOT_READ], message_id=sent.message_id)


async def test_name_servers_disagree(regulus_server, admin, tmp_path):
    with ServerThread(tmp_path / "other") as other:
        both = f"{regulus_server.name_server_address};{other.name_server_address}"
        async with consumer_of(regulus_server):
            until = time.monotonic() + WITHIN_S
            while True:
                found = await diagnosis_of(both)
                if Cause.NAME_SERVERS_DIFFER in causes(found) or time.monotonic() > until:
                    break
        assert found.findings[0].cause is Cause.NAME_SERVERS_DIFFER
        assert any("no route" in line for line in found.findings[0].evidence)


async def test_a_name_server_is_silent(regulus_server, admin, unused_tcp_port):
    async with consumer_of(regulus_server):
        both = f"{regulus_server.name_server_address};127.0.0.1:{unused_tcp_port}"
        found = await comes_to(both, [])
        assert notes(found) == [Cause.NAME_SERVER_SILENT]


ACCOUNTS = """accounts:
- accessKey: billing
  secretKey: secret-of-billing
  admin: true
"""


async def test_access_is_denied_and_a_guarded_group_has_no_member(make_guarded_server):
    server = make_guarded_server(ACCOUNTS)
    signed = ClientConfig(access_key="billing", secret_key="secret-of-billing")
    async with Admin(server.name_server_address, signed) as admin:
        await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1))
        await admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    [facts] = await gather(server.name_server_address, signed, Question(group=GROUP, topic=TOPIC))
    found = diagnose(facts)
    assert causes(found) == [Cause.NO_MEMBER_ONLINE]
    assert Cause.ACCESS_MAY_REFUSE in notes(found)
    assert causes(await diagnosis_of(server)) == [Cause.ACCESS_DENIED]


# --- brokers ---------------------------------------------------------------------------------------------------------


class Cluster:
    """A name server, and brokers on the loop of the test."""

    def __init__(self, path: Path, stack: AsyncExitStack) -> None:
        self.running: set[BrokerServer] = set()
        self._path = path
        self._stack = stack
        self._transport = TransportConfig(bind_address=HOST)
        self._name_server = NameServer(NamesrvConfig(listen_port=0, bind_address=HOST), self._transport)

    @property
    def name_server_address(self) -> str:
        return f"{HOST}:{self._name_server.port}"

    async def start(self) -> None:
        await self._name_server.start()
        self._stack.push_async_callback(self._name_server.stop)

    async def stop(self, server: BrokerServer) -> None:
        self.running.discard(server)
        await server.stop()

    async def broker(self, folder: str, **settings: Any) -> BrokerServer:
        config = BrokerConfig(**{"listen_port": 0, "broker_ip1": HOST, "namesrv_addr": self.name_server_address,
                                 "register_name_server_period": 50, "ha_send_heartbeat_interval": 100, **settings})
        store = replace(small_store(self._path / folder), mapped_file_size_commit_log=1 << 16)
        server = BrokerServer(config, store, transport_config=self._transport)
        await server.start()
        self.running.add(server)
        async with Admin(self.name_server_address) as admin:
            while config.broker_id not in await _ids(admin, config.broker_name):
                await asyncio.sleep(0.01)
        return server


async def _ids(admin: Admin, broker_name: str) -> list[int]:
    """The ids that are registered with the name server."""
    data = (await admin.cluster_info()).broker_addr_table.get(broker_name)
    return list(data.broker_addrs) if data is not None else []


@pytest.fixture
async def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(ha_client, "RETRY_S", 0.05)
    monkeypatch.setattr(master_documents, "INTERVAL_S", 0.05)
    async with AsyncExitStack() as stack:
        made = Cluster(tmp_path, stack)
        await made.start()
        yield made
        for server in tuple(made.running):
            await made.stop(server)


async def create_topic(name_server: str, queues: int = 1) -> None:
    async with Admin(name_server) as admin:
        await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=queues, write_queue_nums=queues))
        await admin.create_group(SubscriptionGroupConfig(group_name=GROUP))


async def test_a_broker_cannot_be_reached_at_the_address_that_it_gives(cluster):
    await cluster.broker("a")
    await create_topic(cluster.name_server_address)
    lost = await cluster.broker("b", broker_name="broker-b", broker_ip1="127.0.0.2")
    lost.broker.topics.create_if_absent(TOPIC, 1, 0)
    found = await comes_to(cluster, [Cause.BROKER_SILENT, Cause.NO_MEMBER_ONLINE])
    assert "broker-b (127.0.0.2:" in found.findings[0].sentence


async def test_a_master_is_away_and_its_slave_delivers_nothing(cluster, monkeypatch):
    monkeypatch.setattr(message_checks, "OVERDUE_AFTER_MS", 0)
    master = await cluster.broker("a", broker_role=BrokerRole.ASYNC_MASTER)
    slave = await cluster.broker("s", broker_role=BrokerRole.SLAVE, broker_id=1)
    await create_topic(cluster.name_server_address)
    async with Producer(cluster.name_server_address, "shop") as producer:
        sent = await producer.send(Message(TOPIC, b"x", properties={"DELAY": "2"}))
    await until(lambda: slave.store.commit_log_max_offset() == master.store.commit_log_max_offset())
    await until(lambda: TOPIC in slave.broker.topics and slave.broker.subscription_groups.get(GROUP) is not None)
    await cluster.stop(master)
    await comes_to(cluster, [Cause.MASTER_AWAY, Cause.NO_MEMBER_ONLINE])
    await comes_to(cluster, [Cause.MASTER_AWAY, Cause.NO_MEMBER_ONLINE, Cause.DELIVERY_OVERDUE],
                   message_id=sent.message_id)


async def test_a_slave_that_is_read_does_not_have_the_message(cluster):
    await cluster.broker("a", broker_role=BrokerRole.ASYNC_MASTER, slave_read_enable=True)
    await create_topic(cluster.name_server_address)
    async with Producer(cluster.name_server_address, "shop") as producer, consumer_of(cluster, wait_forever):
        sent = await producer.send(Message(TOPIC, b"x"))
        await comes_to(cluster, [Cause.IN_FLIGHT, Cause.LAG], message_id=sent.message_id)
        await cluster.broker("s", broker_role=BrokerRole.SLAVE, broker_id=1, ha_master_address="127.0.0.2:1")
        await comes_to(cluster, [Cause.IN_FLIGHT, Cause.SLAVE_BEHIND, Cause.LAG], message_id=sent.message_id)


async def wait_forever(messages, context):
    await asyncio.Event().wait()


async def test_a_disk_is_full_and_a_message_was_not_stored(cluster, monkeypatch):
    await cluster.broker("a", clean_resource_interval=50)
    await create_topic(cluster.name_server_address)
    async with Producer(cluster.name_server_address, "shop") as producer, consumer_of(cluster):
        sent = await producer.send(Message(TOPIC, b"x"))
        await comes_to(cluster, [])
        monkeypatch.setattr(disk, "used_ratio", lambda path: 0.95)
        await comes_to(cluster, [Cause.DISK_FULL])
        await comes_to(cluster, [Cause.MESSAGE_UNKNOWN, Cause.DISK_FULL], message_id="never-stored")
        found = await comes_to(cluster, [Cause.PASSED], message_id=sent.message_id)
        assert Cause.DISK_FULL in notes(found)


async def test_files_wait_for_an_archive(cluster, monkeypatch):
    await cluster.broker("a", clean_resource_interval=50, file_reserved_time=0, archive_gate=ArchiveGate.on,
                         archive_identity="0" * 32)
    await create_topic(cluster.name_server_address)
    async with Producer(cluster.name_server_address, "shop") as producer, consumer_of(cluster):
        for _ in range(50):
            await producer.send(Message(TOPIC, b"x" * 3000))
        monkeypatch.setattr(disk, "used_ratio", lambda path: 0.88)
        found = await comes_to(cluster, [Cause.ARCHIVE_GATE])
        assert "archive" in found.findings[0].evidence[0]


async def test_a_broker_is_ill(cluster):
    server = await cluster.broker("a")
    await create_topic(cluster.name_server_address)
    async with consumer_of(cluster):
        await comes_to(cluster, [])
        server._health.watch_fault(lambda: "the dispatch loop got nowhere for 20 s")
        found = await comes_to(cluster, [Cause.STORE_ILL])
        assert found.findings[0].evidence == ("the dispatch loop got nowhere for 20 s.",)


# --- members of other kinds ------------------------------------------------------------------------------------------


async def test_members_over_grpc_that_receive_messages_count(tmp_path):
    """Brokers do not list them, and count what the group receives."""
    async with both_protocols(tmp_path) as broker:
        await broker.create_topic(TOPIC)
        await broker.create_group(GROUP)
        consumer = PushConsumer(broker.address("grpc"), GROUP, ok)
        consumer.subscribe(TOPIC)
        async with consumer, Producer(broker.name_server, "shop") as producer:
            deadline = time.monotonic() + WITHIN_S
            while True:
                await producer.send(Message(TOPIC, b"x"))
                found = await diagnosis_of(broker.name_server)
                if found.is_healthy:
                    break
                assert causes(found) == [Cause.NO_MEMBER_ONLINE]
                assert time.monotonic() < deadline
                await asyncio.sleep(0.1)
            assert notes(found) == [Cause.NO_MEMBER_ONLINE]


async def test_a_group_that_broadcasts_is_healthy_though_its_offsets_are_not_at_the_broker(regulus_server, producer):
    seen = asyncio.Event()

    async def note(messages, context):
        seen.set()
        return OK

    async with consumer_of(regulus_server, note, message_model=MessageModel.BROADCASTING):
        sent = await producer.send(Message(TOPIC, b"x"))
        await asyncio.wait_for(seen.wait(), WITHIN_S)
        found = await comes_to(regulus_server, [], message_id=sent.message_id)
        assert found.is_healthy


async def test_two_causes_are_both_named(regulus_server, admin, producer):
    """The group has no member now, and the message is not due either: the first one is the one to look at."""
    await admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    sent = await producer.send(Message(TOPIC, b"x", delay=timedelta(days=1)))
    await comes_to(regulus_server, [Cause.NO_MEMBER_ONLINE, Cause.DELIVERY_WAITING], message_id=sent.message_id)


async def test_a_message_went_to_a_member_that_subscribes_differently(regulus_server, producer):
    sent = await producer.send(Message(TOPIC, b"x", "a"))
    async with consumer_of(regulus_server, expression="a"), consumer_of(regulus_server, expression="b"):
        await comes_to(regulus_server, [Cause.SUBSCRIPTIONS_DIFFER, Cause.PASSED], message_id=sent.message_id)


async def test_all_groups_of_a_topic_are_asked_when_none_is_named(regulus_server, admin, producer):
    await producer.send(Message(TOPIC, b"x"))
    async with consumer_of(regulus_server), consumer_of(regulus_server, group="shipping"):
        await comes_to(regulus_server, [])
        await comes_to(regulus_server, [], group="shipping")
        every = await gather(regulus_server.name_server_address, ClientConfig(), Question(topic=TOPIC))
        assert [each.group.name for each in every] == [GROUP, "shipping"]
    with pytest.raises(ClientError, match="name the group"):
        await gather(regulus_server.name_server_address, ClientConfig(), Question(topic="nothing"))
    with pytest.raises(ClientError, match="name the group, or the topic"):
        await gather(regulus_server.name_server_address, ClientConfig(), Question(message_id="x"))


async def test_a_retry_of_another_group_is_not_this_groups(regulus_server, producer):
    async with consumer_of(regulus_server), consumer_of(regulus_server, later, group="shipping"):
        sent = await producer.send(Message(TOPIC, b"x"))
        await comes_to(regulus_server, [Cause.RETRY_WAITING], group="shipping", message_id=sent.message_id)
        await comes_to(regulus_server, [Cause.PASSED], message_id=sent.message_id)


async def test_what_is_beyond_a_limit_is_said(regulus_server, admin, monkeypatch):
    monkeypatch.setattr(gathering, "QUEUES_MAX", 2)
    await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4))
    async with consumer_of(regulus_server):
        found = await comes_to(regulus_server, [])
        assert [each.what for each in found.unknown] == [f"further queues of topic {TOPIC}"]


async def test_where_too_many_records_lie_between_nothing_is_claimed(regulus_server, admin, producer, monkeypatch):
    monkeypatch.setattr(message_search, "RECORDS_READ_MAX", 1)
    async with TransactionProducer(regulus_server.name_server_address, "shop") as transactions, consumer_of(
            regulus_server):
        halves = [await transactions.send_half(Message(TOPIC, b"x")) for _ in range(2)]
        await transactions.end_transaction(halves[1], TransactionState.ROLLBACK)
        found = await comes_to(regulus_server, [Cause.TRANSACTION_OPEN], message_id=halves[0].message_id)
        assert "is not known" in found.findings[0].sentence
        sent = await producer.send(Message(TOPIC, b"x"))
        for _ in range(2):
            await producer.send(Message(TOPIC, b"x", delay=timedelta(days=1)))
        found = await comes_to(regulus_server, [Cause.PASSED], message_id=sent.message_id)
        assert [each.what for each in found.unknown] == [f"whether a member of {GROUP} popped the message earlier"]
