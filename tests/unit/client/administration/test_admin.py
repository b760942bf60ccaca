"""The admin client against a real server, and where a fault is needed against a scripted broker."""

import asyncio

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.connecting.client_instance import now_ms
from regulus.client.sending.producer import Producer
from regulus.client.unique_key import UniqueKeys
from regulus.errors import BrokerRefused, ClientError, MessageIllegal, NoRoute
from regulus.model.message import Message, MessageExt
from regulus.model.message_id import host_bytes
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.record import message_record
from regulus.wire.bodies import ResetOffsetBody
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.scripted_servers import refused, scripted_cluster


@pytest.fixture
async def admin(regulus_server):
    async with Admin(regulus_server.name_server_address) as client:
        yield client


@pytest.fixture
async def producer(regulus_server):
    async with Producer(regulus_server.name_server_address, "PG") as client:
        yield client


async def create_topic(admin, name="T", queues=1):
    await admin.create_topic(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues))


async def test_a_created_topic_can_be_used_at_once_and_changed(admin, regulus_server):
    await create_topic(admin)
    assert [row.write_queue_nums for row in (await admin.topic_route("T")).queue_datas] == [1]
    await create_topic(admin, queues=3)
    assert (await admin.topic_configs(regulus_server.address))["T"].read_queue_nums == 3
    assert len(await admin.queues("T")) == 3


async def test_names_and_clusters_are_checked(admin):
    with pytest.raises(MessageIllegal):
        await create_topic(admin, "no spaces")
    with pytest.raises(ClientError, match="known: DefaultCluster"):
        await admin.create_topic(TopicConfig(topic_name="T"), cluster="Other")


async def test_a_deleted_topic_is_gone_everywhere(admin, regulus_server):
    await create_topic(admin)
    await admin.delete_topic("T")
    assert "T" not in await admin.list_topics()
    assert "T" not in await admin.topic_configs(regulus_server.address)
    with pytest.raises(NoRoute):
        await admin.topic_route("T")


async def test_queue_offsets_by_place_and_time(admin, producer):
    await create_topic(admin)
    queue = MessageQueue("T", "broker-a", 0)
    assert await admin.earliest_store_time(queue) == -1
    for number in range(3):
        await producer.send(Message("T", b"%d" % number))
    assert (await admin.min_offset(queue), await admin.max_offset(queue)) == (0, 3)
    first = await admin.message_at(queue, 0)
    assert await admin.earliest_store_time(queue) == first.store_timestamp
    assert await admin.search_offset(queue, 0) == 0
    assert await admin.search_offset(queue, first.store_timestamp + 3_600_000) == 3
    stats = (await admin.topic_stats("T"))[queue]
    assert (stats.min_offset, stats.max_offset) == (0, 3)


async def test_a_message_is_found_by_id_unique_key_each_key_and_place(admin, producer):
    await create_topic(admin)
    sent = await producer.send(Message("T", b"x" * 5000, "A", "k1 k2"))
    await producer.send(Message("T", b"other", keys="k3"))
    found = [await admin.view_message(sent.offset_message_id), await admin.view_message(sent.message_id, "T"),
             *await admin.messages_by_unique_key("T", sent.message_id), *await admin.messages_by_key("T", "k1"),
             *await admin.messages_by_key("T", "k2"), await admin.message_at(sent.message_queue, sent.queue_offset)]
    assert [(each.message_id, each.body) for each in found] == [(sent.message_id, b"x" * 5000)] * 6
    assert await admin.messages_by_key("T", "k1 k2") == []
    with pytest.raises(ClientError):
        await admin.view_message(sent.offset_message_id[:-2] + "01")
    with pytest.raises(ClientError, match="no message at offset 2 of queue 0 of T on broker-a, which has 0 to 1"):
        await admin.message_at(sent.message_queue, 2)


async def test_a_unique_key_that_is_not_there_calls_nobody_whom_its_digits_name(admin, producer):
    await create_topic(admin)
    sent = await producer.send(Message("T", b"x"))
    assert (await admin.view_message(sent.offset_message_id, "T")).body == b"x"
    nobody = "C0000202" + sent.offset_message_id[8:]       # 192.0.2.2, which would not answer for seconds
    with pytest.raises(ClientError, match=f"^no message {nobody} in topic 'T'$") as refused_:
        await admin.view_message(nobody, "T")
    assert refused_.value.code == ResponseCode.NO_MESSAGE


async def test_all_messages_of_a_key_are_found_though_a_second_has_more_than_one_answer_takes(admin, producer):
    await create_topic(admin)
    for number in range(150):
        await producer.send(Message("T", b"%d" % number, keys="k"))
    found = await admin.messages_by_key("T", "k", max_num=150)
    assert [int(each.body) for each in found] == list(range(150))
    assert not found.cut
    newest = await admin.messages_by_key("T", "k", max_num=149)
    assert [int(each.body) for each in newest] == list(range(1, 150))
    assert newest.cut


@pytest.mark.parametrize(("count", "is_cut"), [(63, False), (64, True)])
async def test_a_broker_that_knows_no_positions_is_not_asked_for_ever(count, is_cut):
    """RocketMQ's: each query of one second gives the same newest messages."""
    host = host_bytes("127.0.0.1", 10911)
    records = b""
    for number in range(count):
        message = MessageExt("T", b"%d" % number, {"KEYS": "k", "UNIQ_KEY": f"U{number}"}, 0, 0, 0, 1, host, host)
        message.physical_offset = len(records)
        records += message_record.encode(message)
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker(
            "a", others=lambda command: command.response(ResponseCode.SUCCESS, body=records))
        async with Admin(cluster.name_server.address) as admin:
            found = await admin.messages_by_key("T", "k", max_num=500)
    assert (len(found), found.cut) == (count, is_cut)
    assert len(broker.requests_of(RequestCode.QUERY_MESSAGE)) == 2


async def test_of_keys_with_the_same_hash_only_the_wanted_one_is_found(admin, producer):
    await create_topic(admin)
    for key in ("Aa", "BB"):        # "Aa".hashCode() == "BB".hashCode() in Java
        await producer.send(Message("T", key.encode(), keys=key))
    for key in ("Aa", "BB"):
        assert [each.body for each in await admin.messages_by_key("T", key)] == [key.encode()]


async def test_a_unique_key_that_is_not_found_in_its_month_is_searched_from_the_beginning():
    key = UniqueKeys("10.0.0.1").make(now_ms())
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", others=lambda command: refused(command, ResponseCode.QUERY_NOT_FOUND))
        async with Admin(cluster.name_server.address) as admin:
            assert await admin.messages_by_unique_key("T", key) == []
    begins = [int(query.ext["beginTimestamp"]) for query in broker.requests_of(RequestCode.QUERY_MESSAGE)]
    assert len(begins) == 2
    assert begins[0] > begins[1] == 0


async def test_a_pull_tells_where_to_go_on(admin, producer):
    await create_topic(admin)
    queue = MessageQueue("T", "broker-a", 0)
    await producer.send_batch([Message("T", b"%d" % number) for number in range(5)])
    pulled = await admin.pull(queue, 0, 3)
    assert [each.body for each in pulled.messages] == [b"0", b"1", b"2"]
    assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (3, 0, 5)
    assert (await admin.pull(queue, 5)).messages == []
    assert (await admin.pull(queue, 99)).next_offset == 5
    waiting = asyncio.ensure_future(admin.pull(queue, 5, suspend_ms=10_000))
    await producer.send(Message("T", b"new"))
    assert [each.body for each in (await waiting).messages] == [b"new"]


async def test_a_group_that_is_offline_is_moved_by_its_stored_offsets(admin, producer):
    await create_topic(admin)
    queue = MessageQueue("T", "broker-a", 0)
    for number in range(4):
        await producer.send(Message("T", b"%d" % number))
    await admin.create_group(SubscriptionGroupConfig(group_name="G", retry_max_times=3))
    await admin.set_offsets("G", {queue: 1})
    assert (await admin.progress("G", "T")).lag == 3
    await admin.reset_offset("G", queue, 2)
    assert (await admin.progress("G", "T")).lag == 2
    assert await admin.reset_offset_by_timestamp("T", "G", -1) == {queue: 4}
    assert (await admin.progress("G", "T")).lag == 0
    assert await admin.groups_of_topic("T") == ["G"]


async def test_where_members_are_online_at_one_broker_offsets_are_stored_at_the_other_only():
    online, offline = MessageQueue("T", "a", 0), MessageQueue("T", "b", 0)

    def with_members(command):
        body = ResetOffsetBody(offset_table={online: 3}).encode()
        return command.response(ResponseCode.SUCCESS, body=body, ext={"offset": "9"})

    def without(command):
        if command.code == RequestCode.INVOKE_BROKER_TO_RESET_OFFSET:
            return refused(command, ResponseCode.CONSUMER_NOT_ONLINE)
        return command.response(ResponseCode.SUCCESS, ext={"offset": "9"})

    async with scripted_cluster(queue_count=1) as cluster:
        a = await cluster.add_broker("a", others=with_members)
        b = await cluster.add_broker("b", others=without)
        async with Admin(cluster.name_server.address) as admin:
            assert await admin.reset_offset_by_timestamp("T", "G", -1) == {online: 3, offline: 9}
    assert a.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET) == []
    (update,) = b.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)
    assert (update.ext["bname"], update.ext["commitOffset"]) == ("b", "9")


async def test_groups_are_set_and_deleted(admin, regulus_server):
    await admin.create_group(SubscriptionGroupConfig(group_name="G", retry_max_times=3))
    assert (await admin.group_configs(regulus_server.address))["G"].retry_max_times == 3
    await admin.set_retry_limit("G", 7)
    assert (await admin.group_config("G", regulus_server.address)).retry_max_times == 7
    await admin.delete_group("G")
    assert "G" not in await admin.group_configs(regulus_server.address)
    assert await admin.consumer_connection("H") is None
    assert await admin.consumer_connection("H", broker_address=regulus_server.address) is None


async def test_brokers_tell_state_and_settings(admin, regulus_server):
    assert (await admin.master_addresses()) == [regulus_server.address]
    assert "brokerVersionDesc" in await admin.broker_runtime_info(regulus_server.address)
    assert (await admin.broker_config(regulus_server.address))["brokerName"] == "broker-a"


async def test_the_name_servers_table_is_written_and_read(admin):
    await admin.put_kv("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    assert await admin.get_kv("ORDER_TOPIC_CONFIG", "T") == "broker-a:4"
    assert await admin.kv_namespace("ORDER_TOPIC_CONFIG") == {"T": "broker-a:4"}
    await admin.delete_kv("ORDER_TOPIC_CONFIG", "T")
    with pytest.raises(BrokerRefused):
        await admin.get_kv("ORDER_TOPIC_CONFIG", "T")


async def test_who_sends_is_shown(admin, producer, regulus_server):
    await create_topic(admin)
    await producer.send(Message("T", b"x"))
    async with asyncio.timeout(60):
        while "PG" not in (await admin.producers(regulus_server.address)).data:
            await asyncio.sleep(0.005)
    (connection,) = (await admin.producer_connection("PG", "T")).connection_set
    assert (connection.client_id, connection.language) == (producer.client_id, "PYTHON")


async def test_old_files_are_ordered_to_go(admin, regulus_server):
    await admin.delete_expired_commit_log(regulus_server.address)
    await admin.clean_expired_consume_queues(regulus_server.address)
    await admin.update_broker_config(regulus_server.address, {"fileReservedTime": "24"})
    assert (await admin.broker_config(regulus_server.address))["fileReservedTime"] == "24"
    assert (await admin.broker_runtime_info(regulus_server.address))["fileReservedTime"] == "24"
