"""A master and its slaves over the loopback: whole servers, a real client."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.handlers import documents, pull_message
from regulus.client.administration.admin import Admin
from regulus.client.config import ProducerConfig
from regulus.client.send_result import SendStatus
from regulus.client.sending.producer import Producer
from regulus.errors import ClientError, ConfigError, StoreNotWritable
from regulus.model.broker_role import BrokerRole
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.metrics_config import MetricsConfig
from regulus.model.store_rules import FlushDiskType
from regulus.model.sys_flag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig, retry_topic
from regulus.nameserver.config import NamesrvConfig
from regulus.server import ha_client, master_documents
from regulus.server.assembly import BrokerServer, Regulus
from regulus.server.clock import wall_clock_ms
from regulus.server.name_server import NameServer
from regulus.server.replication import longest_wait
from regulus.store import disk
from regulus.store.config import MessageStoreConfig
from regulus.store.wanted_cut import WantedCut, WantedCutFile
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.wire import encoded_table, ha_frame
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import PopMessageRequest, UpdateConsumerOffsetRequest
from regulus.wire.headers.pull_message import PullMessageRequest
from regulus.wire.remoting_command import RemotingCommand
from regulus.wire.row_digest import digest_of
from tests.waiting import until

HOST = "127.0.0.1"
LOOPBACK = TransportConfig(bind_address=HOST)
FILE_SIZE = 1 << 16
FLUSH = (FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH)
NO_PAGE = MetricsConfig()
PAGE = MetricsConfig(metrics_exporter_type="PROM", metrics_prom_exporter_port=0)
PATIENT = ProducerConfig(send_msg_timeout=60_000)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RETRY_S", 0.05)
    monkeypatch.setattr(master_documents, "INTERVAL_S", 0.05)


def store_config(path: Path) -> MessageStoreConfig:
    return MessageStoreConfig(store_path_root_dir=str(path), mapped_file_size_commit_log=FILE_SIZE,
                              mapped_file_size_consume_queue=2000, max_hash_slot_num=500, max_index_num=2000)


class Group:
    """A name server, and the brokers of one name that are started."""

    def __init__(self, path: Path, stack: AsyncExitStack) -> None:
        self.path = path
        self.stack = stack
        self.name_server = NameServer(NamesrvConfig(listen_port=0, bind_address=HOST), LOOPBACK)
        self.running: set[BrokerServer] = set()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.name_server.port}"

    async def start(self, name: str, role: BrokerRole, metrics_config: MetricsConfig = NO_PAGE,
                    **settings: Any) -> BrokerServer:
        """A master waits for its slaves as long as a loaded machine may take, unless it is told otherwise."""
        broker_id = 0 if role is not BrokerRole.SLAVE else int(name[-1])
        config = BrokerConfig(broker_id=broker_id, listen_port=0, broker_ip1=HOST, namesrv_addr=self.address,
                              broker_role=role, register_name_server_period=50, ha_send_heartbeat_interval=100,
                              **{"slave_timeout": 30_000, **settings})
        server = BrokerServer(config, store_config(self.path / name), transport_config=LOOPBACK,
                              metrics_config=metrics_config)
        await server.start()
        self.running.add(server)
        return server

    async def stop(self, server: BrokerServer) -> None:
        self.running.discard(server)
        await server.stop()


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    async with AsyncExitStack() as stack:
        group = Group(tmp_path, stack)
        await group.name_server.start()
        yield group
        for server in tuple(group.running):
            await group.stop(server)
        await group.name_server.stop()


def is_copy(slave: BrokerServer, master: BrokerServer) -> bool:
    return slave.store.commit_log_max_offset() == master.store.commit_log_max_offset() > 0


async def send_some(group: Group, count: int, first: int = 0, size: int = 1000) -> list[SendStatus]:
    async with Producer(group.address, "PG", PATIENT) as producer:
        results = await asyncio.gather(*(producer.send(Message("Orders", f"{number}".encode().ljust(size, b"."),
                                                               keys=f"k{number}"))
                                         for number in range(first, first + count)))
    return [result.send_status for result in results]


def log_of(path: Path) -> list[tuple[str, bytes]]:
    return [(file.name, file.read_bytes()) for file in sorted((path / "commitlog").iterdir())]


async def test_a_slave_has_the_master_s_log_byte_for_byte(group: Group) -> None:
    master = await group.start("master", BrokerRole.ASYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: slave._replication.is_linked, "the slave copies")
    await send_some(group, 300)
    await until(lambda: is_copy(slave, master), "the slave has the whole log")
    await group.stop(slave)
    await send_some(group, 100, 300)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: is_copy(slave, master), "the slave has what came while it was away")
    await group.stop(master)
    await group.stop(slave)
    assert log_of(group.path / "slave1") == log_of(group.path / "master")


async def test_a_slave_is_ready_when_its_log_was_found_to_be_its_master_s(group: Group) -> None:
    await group.start("master", BrokerRole.ASYNC_MASTER)
    slave = await group.start("slave-1", BrokerRole.SLAVE, metrics_config=PAGE)
    await send_some(group, 5)
    await until(lambda: slave.store.commit_log_max_offset() > 0, "the slave copies")
    assert slave.metrics is not None
    (reasons,) = slave.metrics.reasons
    await until(lambda: not reasons(), "the slave is ready")
    slave.store.copy.ask_from()     # as at the begin of a link
    assert reasons() == ["this slave has not compared its log with its master's yet"]


async def test_topics_groups_and_offsets_come_to_the_slave(group: Group) -> None:
    master = await group.start("master", BrokerRole.ASYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    async with Admin(group.address) as admin:
        await admin.create_topic(TopicConfig(topic_name="Wide", read_queue_nums=3, write_queue_nums=3))
    master.broker.consumer_offsets.commit("billing", "Wide", 2, 17)
    offsets = slave.broker.consumer_offsets
    await until(lambda: "Wide" in slave.broker.topics and offsets.query("billing", "Wide", 2) == 17,
                "topic and offset at the slave")
    assert slave.broker.topics.get("Wide") == master.broker.topics.get("Wide")
    async with Admin(group.address) as admin:
        await admin.delete_topic("Wide")
    await until(lambda: "Wide" not in slave.broker.topics, "the topic is gone at the slave")


async def test_who_looks_while_the_master_is_away_is_answered_by_the_slave(group: Group) -> None:
    """And who changes something is told that nobody takes it."""
    master = await group.start("master", BrokerRole.ASYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    queue = MessageQueue("Orders", "broker-a", 0)

    async def looked(admin: Admin) -> list[Any]:
        stats, progress = await admin.topic_stats("Orders"), await admin.consume_stats("billing", "Orders")
        return [{each: found.max_offset for each, found in stats.items()}, await admin.groups_of_topic("Orders"),
                {each: (found.broker_offset, found.consumer_offset) for each, found in progress.offset_table.items()},
                (await admin.progress("billing")).online, "billing" in await admin.list_groups(),
                [span.message_queue for span in await admin.consume_time_span("Orders", "billing")]]

    async with Admin(group.address) as admin:
        await admin.create_group(SubscriptionGroupConfig(group_name="billing"))
        await admin.create_topic(TopicConfig(topic_name=retry_topic("billing")))
        await send_some(group, 8)
        await admin.set_offsets("billing", {queue: 1})
        await until(lambda: is_copy(slave, master)
                    and {"Orders", retry_topic("billing")} <= {*slave.broker.topics.names()}
                    and slave.broker.consumer_offsets.query("billing", "Orders", 0) == 1
                    and "billing" in slave.broker.subscription_groups, "the slave has all of it")
        before = await looked(admin)
        assert sum(before[0].values()) == 8
        await group.stop(master)
        assert await looked(admin) == before
        # Who counts, and must not count what a slave lacks as gone, asks masters alone.
        assert await admin.topic_stats("Orders", masters_only=True) == {}
        assert (await admin.consume_stats("billing", masters_only=True)).offset_table == {}
        assert (await admin.consume_stats("unseen")).offset_table == {}
        with pytest.raises(ClientError, match="no master is up, only slaves of broker-a"):
            await admin.consume_stats("unseen", masters_only=True)
        changes: list[Callable[[], Awaitable[object]]] = [
            lambda: admin.create_topic(TopicConfig(topic_name="Wide")), lambda: admin.delete_topic("Orders"),
            lambda: admin.create_group(SubscriptionGroupConfig(group_name="g")), lambda: admin.delete_group("billing"),
            lambda: admin.set_retry_limit("billing", 3),
            lambda: admin.reset_offset_by_timestamp("Orders", "billing", 0),
            lambda: admin.clone_offsets("billing", "other", "Orders")]
        for change in changes:
            with pytest.raises(ClientError, match=r"only slaves .* accept no changes: start the master"):
                await change()
        assert await looked(admin) == before
        await group.stop(slave)
        with pytest.raises(ClientError, match="no broker is registered"):
            await admin.master_addresses()


async def test_master_and_slave_tell_how_far_the_copy_is(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    master = await group.start("master", BrokerRole.SYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: slave._replication.is_linked, "the slave copies")
    await send_some(group, 20)
    end = master.store.commit_log_max_offset()
    async with Admin(group.address) as admin:
        seen = await admin.ha_status(f"{HOST}:{master.port}")
        assert (seen.master, seen.master_commit_log_max_offset, seen.in_sync_slave_nums) == (True, end, 1)
        [connection] = seen.ha_connection_info
        assert (connection.slave_ack_offset, connection.diff, connection.in_sync) == (end, 0, True)
        assert connection.transfer_from_where == end
        facts = await admin.broker_runtime_info(f"{HOST}:{master.port}")
        assert {"brokerRole": "SYNC_MASTER", "haSlaveNums": "1", "haInSyncSlaveNums": "1",
                "haBehindBytes": "0"}.items() <= facts.items()
        copy = (await admin.ha_status(f"{HOST}:{slave.port}"))
        assert (copy.master, copy.ha_connection_info, copy.ha_client_runtime_info.max_offset) == (False, [], end)
        assert copy.ha_client_runtime_info.master_addr == f"{HOST}:{master._replication.port}"
        assert abs(copy.ha_client_runtime_info.last_read_timestamp - time.time() * 1000) < 60_000
        assert (await admin.broker_runtime_info(f"{HOST}:{slave.port}"))["brokerRole"] == "SLAVE"
        monkeypatch.setattr(ha_client.HaClient, "take", lambda client, pieces: None)
        sending = asyncio.ensure_future(send_some(group, 1, 20))
        await until(lambda: master.store.commit_log_max_offset() > end, "the master has one more")
        [connection] = (await admin.ha_status(f"{HOST}:{master.port}")).ha_connection_info
        assert connection.diff == master.store.commit_log_max_offset() - end > 0
        sending.cancel()
        await asyncio.wait([sending])


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.POP_MESSAGE,
                                  RequestCode.UPDATE_AND_CREATE_TOPIC])
async def test_a_slave_refuses_what_is_the_master_s(group: Group, code: RequestCode) -> None:
    slave = await group.start("slave1", BrokerRole.SLAVE)
    connection = await connect(HOST, slave.port)
    answer = await connection.request(RemotingCommand.request(code), 60_000)
    connection.close()
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert answer.remark == "this is a slave of broker-a, which takes no messages and settings: ask its master"


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_a_sync_master_answers_when_a_slave_has_it(group: Group, flush: FlushDiskType) -> None:
    master = await group.start("master", BrokerRole.SYNC_MASTER, flush_disk_type=flush)
    assert set(await send_some(group, 3)) == {SendStatus.SLAVE_NOT_AVAILABLE}
    slave = await group.start("slave1", BrokerRole.SLAVE, flush_disk_type=flush)
    await until(lambda: is_copy(slave, master), "the slave has the whole log")
    assert set(await send_some(group, 50, 3)) == {SendStatus.SEND_OK}
    assert is_copy(slave, master)
    if flush is FlushDiskType.SYNC_FLUSH:
        assert slave.store.flushed_offset == slave.store.commit_log_max_offset()
    await group.stop(slave)
    assert set(await send_some(group, 3, 53)) == {SendStatus.SLAVE_NOT_AVAILABLE}


@pytest.mark.parametrize("is_held", [False, True])
async def test_who_pops_of_a_sync_master_without_a_slave_gets_messages_and_may_acknowledge_them(group: Group,
                                                                                               is_held: bool) -> None:
    """A refusal would have them come again, each time as a try, until they are dead letters that nobody ever saw."""
    master = await group.start("master", BrokerRole.SYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: slave._replication.is_linked, "the slave copies")
    await group.stop(slave)
    master.broker.topics.put(TopicConfig(topic_name="Orders", read_queue_nums=4, write_queue_nums=4), 0)
    connection = await connect(HOST, master.port)

    async def asked(code: RequestCode, ext: dict[str, str]) -> RemotingCommand:
        answer = await connection.request(RemotingCommand.request(code, ext), 60_000)
        assert answer.code == ResponseCode.SUCCESS, (code, answer.remark)
        return answer

    pop = PopMessageRequest(consumer_group="billing", topic="Orders", queue_id=-1, max_msg_nums=2,
                            invisible_time=30_000, poll_time=10_000 if is_held else 0, born_time=0, init_mode=0).ext()
    if not is_held:
        assert await send_some(group, 2) == [SendStatus.SLAVE_NOT_AVAILABLE] * 2
    popping = asyncio.ensure_future(asked(RequestCode.POP_MESSAGE, pop))
    if is_held:
        await until(lambda: len(master.broker.held_requests) > 0, "the pop is held")
        assert await send_some(group, 1) == [SendStatus.SLAVE_NOT_AVAILABLE]
    answer = await popping
    assert answer.body
    queue_id = answer.ext["startOffsetInfo"].split(";")[0].split(" ")[1]
    of_first = {"consumerGroup": "billing", "topic": "Orders", "queueId": queue_id, "offset": "0",
                "extraInfo": f"0 {answer.ext['popTime']} 30000 {answer.ext['reviveQid']} 0 broker-a {queue_id} 0"}
    changed = await asked(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, of_first | {"invisibleTime": "20000"})
    again = f"0 {changed.ext['popTime']} 20000 {changed.ext['reviveQid']} 0 broker-a {queue_id} 0"
    await asked(RequestCode.ACK_MESSAGE, of_first | {"extraInfo": again})
    connection.close()


async def test_slaves_are_sent_at_once_what_the_master_s_disk_has(group: Group,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else happens there meanwhile, not even a tick."""
    monkeypatch.setattr(master_documents, "INTERVAL_S", 60)
    master = await group.start("master", BrokerRole.SYNC_MASTER, flush_disk_type=FlushDiskType.SYNC_FLUSH,
                               slave_timeout=10_000)    # half of the time after which a silent link is made anew
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: slave._replication.is_linked, "the slave copies")
    await send_some(group, 1)       # makes the topic
    await until(lambda: is_copy(slave, master), "the slave has it")
    master._ticks.stop()
    for number in (1, 2, 3):
        assert await send_some(group, 1, number) == [SendStatus.SEND_OK]


async def test_as_many_slaves_must_have_it_as_are_asked_for(group: Group) -> None:
    master = await group.start("master", BrokerRole.SYNC_MASTER, in_sync_replicas=3)
    slaves = [await group.start("slave1", BrokerRole.SLAVE)]
    await until(lambda: slaves[0]._replication.is_linked, "the first slave copies")
    assert set(await send_some(group, 5)) == {SendStatus.SLAVE_NOT_AVAILABLE}
    slaves.append(await group.start("slave2", BrokerRole.SLAVE))
    await until(lambda: is_copy(slaves[1], master), "the second slave has the whole log")
    assert set(await send_some(group, 20, 5)) == {SendStatus.SEND_OK}
    assert all(is_copy(slave, master) for slave in slaves)


async def test_a_slave_that_does_not_answer_in_time_is_told(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    master = await group.start("master", BrokerRole.SYNC_MASTER, slave_timeout=200)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await send_some(group, 1)
    await until(lambda: is_copy(slave, master), "the slave has the whole log")
    await until(lambda: not master._durability.is_awaited, "nothing waits")
    monkeypatch.setattr(ha_client.HaClient, "take", lambda client, pieces: None)
    assert await send_some(group, 1, 1) == [SendStatus.FLUSH_SLAVE_TIMEOUT]


async def test_a_slave_without_room_copies_no_more_and_keeps_what_it_has(
        group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What its master counts as copied is there after a promotion."""
    full = 0.5
    monkeypatch.setattr(disk, "used_ratio", lambda path: full if "slave1" in str(path) else 0.5)
    master = await group.start("master", BrokerRole.SYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE, delete_when="00", clean_resource_interval=3_600_000)
    await until(lambda: slave._replication.is_linked, "the slave copies")
    assert set(await send_some(group, 100)) == {SendStatus.SEND_OK}
    await until(lambda: slave._replication.forcible_offset() == 0, "the slave knows where its master's log begins")
    files = log_of(group.path / "slave1")
    assert len(files) > 2
    full = 0.95
    await slave._retention.run_pass(wall_clock_ms())
    assert set(await send_some(group, 5, 100)) == {SendStatus.SLAVE_NOT_AVAILABLE}
    await slave._retention.run_pass(wall_clock_ms())
    assert slave.store.commit_log_min_offset() == 0
    assert log_of(group.path / "slave1") == files
    assert "is not copied: the disk of the store is 95 % full" in caplog.text
    full = 0.5
    await slave._retention.run_pass(wall_clock_ms())
    await until(lambda: is_copy(slave, master), "the slave has the whole log")
    assert set(await send_some(group, 5, 105)) == {SendStatus.SEND_OK}


async def test_what_its_master_has_deleted_a_full_slave_deletes_too(group: Group,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "used_ratio", lambda path: 0.86)
    quick = {"delete_commit_log_files_interval": 0, "clean_resource_interval": 3_600_000}
    master = await group.start("master", BrokerRole.SYNC_MASTER, **quick, ha_slave_keep_max=0)
    slave = await group.start("slave1", BrokerRole.SLAVE, **quick)
    await until(lambda: slave._replication.is_linked, "the slave copies")
    assert set(await send_some(group, 300)) == {SendStatus.SEND_OK}
    for server in (master, slave):
        await asyncio.to_thread(server.store.flush_commit_log)
    await slave._retention.run_pass(wall_clock_ms())
    assert slave.store.commit_log_min_offset() == 0
    await master._retention.run_pass(wall_clock_ms())
    begin = master.store.commit_log_min_offset()
    assert begin > 0
    await until(lambda: slave._replication.forcible_offset() == begin, "the slave hears of it")
    await slave._retention.run_pass(wall_clock_ms())
    assert slave.store.commit_log_min_offset() == begin


async def test_a_full_slave_that_has_not_heard_where_its_master_s_log_begins_deletes_nothing(
        group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that is started on a full disk while its master is down."""
    used = 0.5
    monkeypatch.setattr(disk, "used_ratio", lambda path: used)
    master = await group.start("master", BrokerRole.SYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: slave._replication.is_linked, "the slave copies")
    assert set(await send_some(group, 100)) == {SendStatus.SEND_OK}
    await group.stop(slave)
    await group.stop(master)
    used = 0.86
    slave = await group.start("slave1", BrokerRole.SLAVE, clean_resource_interval=3_600_000)
    await asyncio.to_thread(slave.store.flush_commit_log)
    files = log_of(group.path / "slave1")
    assert len(files) > 1
    await slave._retention.run_pass(wall_clock_ms())
    assert log_of(group.path / "slave1")[:len(files)] == files      # the next file may have been begun meanwhile


def test_answers_for_a_slave_or_a_disk_come_while_their_senders_still_wait() -> None:
    """With the settings that everybody has, of RocketMQ's clients and ours."""
    for sync_flush in (False, True):
        for role in (BrokerRole.SYNC_MASTER, BrokerRole.ASYNC_MASTER):
            config = BrokerConfig(broker_role=role, flush_disk_type=FLUSH[sync_flush])
            assert longest_wait(config, MessageStoreConfig()) <= ProducerConfig().send_msg_timeout - 500


def test_the_shorter_of_two_limits_holds() -> None:
    def wait(role: BrokerRole, sync_flush: bool) -> int:
        return longest_wait(BrokerConfig(broker_role=role, flush_disk_type=FLUSH[sync_flush], slave_timeout=2),
                            MessageStoreConfig(sync_flush_timeout=1))
    assert [wait(BrokerRole.SYNC_MASTER, is_sync) for is_sync in (False, True)] == [2, 1]
    assert [wait(BrokerRole.ASYNC_MASTER, is_sync) for is_sync in (False, True)] == [1, 1]


async def test_logs_that_are_no_copies_are_told_and_left_alone(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    one = await group.start("one", BrokerRole.ASYNC_MASTER)
    await send_some(group, 20)
    await group.stop(one)
    await group.start("other", BrokerRole.ASYNC_MASTER)
    await send_some(group, 5)
    (group.path / "one").rename(group.path / "slave1")
    before = log_of(group.path / "slave1")
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: "stop it and give it a copy of this broker's store" in caplog.text, "the master tells it")
    await group.stop(slave)
    assert log_of(group.path / "slave1") == before


async def test_a_log_that_is_another_one_is_not_gone_on_with(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """Its records lie at the same places."""
    for name, count in (("one", 20), ("other", 20)):
        master = await group.start(name, BrokerRole.ASYNC_MASTER)
        await send_some(group, count)
        if name == "one":
            await group.stop(master)
    (group.path / "one").rename(group.path / "slave1")
    before = log_of(group.path / "slave1")
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: "are not copies of one another: the record at" in caplog.text, "the slave tells it")
    await send_some(group, 20, 20)
    await group.stop(slave)
    assert log_of(group.path / "slave1") == before


NOT_OF_THE_LOG = {
    "AUTH_GET_ACL", "AUTH_GET_USER", "AUTH_LIST_ACL", "AUTH_LIST_USER", "CHECK_CLIENT_CONFIG", "DELETE_ACL_CONFIG",
    "GET_ALL_MESSAGE_REQUEST_MODE", "GET_ALL_PRODUCER_INFO", "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", "GET_ALL_TOPIC_CONFIG",
    "GET_BROKER_CLUSTER_ACL_INFO", "GET_BROKER_CONFIG", "GET_BROKER_HA_STATUS", "GET_BROKER_RUNTIME_INFO",
    "GET_CONSUMER_CONNECTION_LIST", "GET_CONSUMER_LIST_BY_GROUP", "GET_CONSUMER_RUNNING_INFO",
    "GET_PRODUCER_CONNECTION_LIST", "GET_SUBSCRIPTIONGROUP_CONFIG", "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
    "GET_TOPIC_CONFIG", "HEART_BEAT", "INVOKE_BROKER_TO_GET_CONSUMER_STATUS", "LITE_PULL_MESSAGE", "POLLING_INFO",
    "PULL_MESSAGE", "QUERY_ASSIGNMENT", "QUERY_SUBSCRIPTION_BY_CONSUMER", "UNREGISTER_CLIENT",
    "UPDATE_AND_CREATE_ACL_CONFIG", "UPDATE_BROKER_CONFIG", "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG",
    "VIEW_BROKER_STATS_DATA"}
"""Of all codes, RocketMQ's and ours, what a slave may answer whose log is not its master's: members, settings,
accounts."""


@pytest.mark.parametrize("counts", [(20, 20), (40, 5)], ids=["the same places", "more than the master"])
async def test_nobody_reads_a_log_that_parted_from_its_master_s(group: Group, monkeypatch: pytest.MonkeyPatch,
                                                                counts: tuple[int, int]) -> None:
    """Whoever pulls there is sent to the master; whoever asks for anything else in it is told what to do."""
    monkeypatch.setattr(pull_message, "PARTED_HOLD_MS", 50)
    for name, count in zip(("one", "other"), counts, strict=True):
        master = await group.start(name, BrokerRole.ASYNC_MASTER)
        await send_some(group, count)
        if name == "one":
            await group.stop(master)
    (group.path / "one").rename(group.path / "slave1")
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: slave.broker.parted != "", "the slave knows it")
    await until(lambda: slave.broker.parted in slave.broker.complaints, "operators see it")
    connection = await connect(HOST, slave.port)
    pull = PullMessageRequest("billing", "Orders", 0, 0, 32, PULL_SUSPEND | PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET, 3,
                              suspend_timeout_millis=15_000, subscription="*")
    answer = await connection.request(RemotingCommand.request(RequestCode.PULL_MESSAGE, pull.ext()), 60_000)
    assert (answer.code, answer.ext["suggestWhichBrokerId"], answer.ext["nextBeginOffset"],
            answer.body) == (ResponseCode.PULL_NOT_FOUND, "0", "0", b"")
    assert slave.broker.consumer_offsets.query("billing", "Orders", 0) == -1
    answered = []
    for code in RequestCode:
        answer = await connection.request(RemotingCommand.request(code), 60_000)
        if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE:
            assert "ask its master" in str(answer.remark) or (
                "must not be read from" in str(answer.remark) and "regulus store resync" in str(answer.remark))
        elif answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            answered.append(code)
    connection.close()
    assert {code.name for code in answered} == NOT_OF_THE_LOG


async def test_a_log_that_was_brought_back_is_read_again(group: Group) -> None:
    slave = await group.start("slave1", BrokerRole.SLAVE)
    slave.broker.log_compared("it differs")
    await group.start("master", BrokerRole.ASYNC_MASTER)
    await until(lambda: not slave.broker.parted, "it was found to be the master's")


async def test_a_slave_that_is_ten_files_behind_loses_none_of_them(group: Group, monkeypatch: pytest.MonkeyPatch,
                                                                   caplog: pytest.LogCaptureFixture) -> None:
    used = {"ratio": 0.5}
    monkeypatch.setattr(disk, "used_ratio", lambda path: used["ratio"])
    master = await group.start("master", BrokerRole.ASYNC_MASTER, file_reserved_time=0,
                               delete_commit_log_files_interval=0)
    await send_some(group, 700)
    files = master.store.config.commit_log_directory
    await asyncio.to_thread(master.store.flush_commit_log)
    assert len(disk.names(files)) > 11
    reader, writer = await asyncio.open_connection(HOST, master._replication.port)
    try:
        writer.write(ha_frame.encode_report(FILE_SIZE))
        await reader.readexactly(ha_frame.HEAD_SIZE)

        await master._retention._task.stop()        # one pass at a time

        async def passed() -> str:
            """The first file that is left when no more go."""
            async with asyncio.timeout(60):
                first = ""
                while first != (first := disk.names(files)[0]) or master.store.old_files.hanging is not None:
                    master.broker.is_retention_wanted = True
                    master._retention.take_orders()
                    await master._retention.run_pass(master._clock())
            return first

        assert int(await passed()) == FILE_SIZE
        told = master.broker.retention_report["slaveRetentionReport"]
        assert told == "old files wait for a slave that still needs them"
        writer.write(ha_frame.encode_report(3 * FILE_SIZE))
        await until(lambda: master._replication.copied_offset() == 3 * FILE_SIZE, "the master hears the slave")
        assert int(await passed()) == 3 * FILE_SIZE
        used["ratio"] = 0.9
        assert int(await passed()) > 3 * FILE_SIZE
        assert "old files go although a slave still needs them" in caplog.text
    finally:
        writer.close()


async def test_a_slave_deletes_what_is_expired_by_its_own_rules_and_copies_on(group: Group,
                                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "used_ratio", lambda path: 0.8 if "slave1" in str(path) else 0.5)
    master = await group.start("master", BrokerRole.SYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE, delete_commit_log_files_interval=0, file_reserved_time=0)
    await until(lambda: slave._replication.is_linked, "the slave copies")
    assert set(await send_some(group, 300)) == {SendStatus.SEND_OK}
    await asyncio.to_thread(slave.store.flush_commit_log)
    await slave._retention.run_pass(slave._clock())
    assert slave.store.commit_log_min_offset() > 0 == master.store.commit_log_min_offset()
    assert set(await send_some(group, 100, 300)) == {SendStatus.SEND_OK}
    assert is_copy(slave, master)


async def test_a_slave_on_a_full_disk_is_told_and_goes_on_with_room(group: Group, monkeypatch: pytest.MonkeyPatch,
                                                                    caplog: pytest.LogCaptureFixture) -> None:
    reserve = disk.reserve
    is_full = {"slave1": True}

    def reserved(path: Path | str, offset: int, length: int) -> None:
        if is_full.get("slave1") and "slave1" in str(path):
            raise StoreNotWritable(f"the disk of {path} is full (0 bytes free): make room there")
        reserve(path, offset, length)

    monkeypatch.setattr(disk, "reserve", reserved)
    master = await group.start("master", BrokerRole.SYNC_MASTER, slave_timeout=300)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: slave._replication.is_linked, "the slave is linked")
    assert set(await send_some(group, 2)) <= {SendStatus.FLUSH_SLAVE_TIMEOUT, SendStatus.SLAVE_NOT_AVAILABLE}
    await until(lambda: "is full (0 bytes free): make room there" in caplog.text, "the slave tells it")
    is_full.clear()
    await until(lambda: is_copy(slave, master), "the slave has the whole log")
    await until(lambda: slave._replication.is_linked, "the slave is linked again")
    async with asyncio.timeout(60):     # a busy slave may take longer than the master waits here
        while set(await send_some(group, 2, 2)) != {SendStatus.SEND_OK}:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("settings", "words", "is_linked"), [
    ({"broker_name": "broker-b"}, "this is a slave of 'broker-b'", False),
    ({"message_delay_level": "1s 2s"}, "messageDelayLevel of the master is", True)])
async def test_a_wrong_set_up_is_told_at_the_link(group: Group, caplog: pytest.LogCaptureFixture,
                                                  monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], words: str,
                                                  is_linked: bool) -> None:
    master = await group.start("master", BrokerRole.ASYNC_MASTER)
    # Where ports are free ones, the one for slaves tells nothing of the other.
    monkeypatch.setattr(ha_client, "HA_PORT_OFFSET", master._replication.port - master.port)
    slave = await group.start("slave1", BrokerRole.SLAVE, ha_master_address=f"{HOST}:{master._replication.port}",
                              **settings)
    await until(lambda: words in caplog.text, "the slave tells it")
    await until(lambda: slave._replication.is_linked is is_linked, "whether it is linked")


async def test_a_slave_becomes_the_master(group: Group) -> None:
    master = await group.start("master", BrokerRole.SYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: slave._replication.is_linked, "the slave copies")
    statuses = await send_some(group, 100)
    assert set(statuses) == {SendStatus.SEND_OK}
    await until(lambda: "Orders" in slave.broker.topics, "the slave knows the topic")
    await group.stop(master)
    await group.stop(slave)
    (group.path / "slave1").rename(group.path / "promoted")
    promoted = await group.start("promoted", BrokerRole.ASYNC_MASTER)
    assert set(await send_some(group, 10, 100)) == {SendStatus.SEND_OK}
    ends = [promoted.store.max_offset("Orders", queue_id) for queue_id in range(8)]
    assert sum(ends) == 110
    for number in range(110):
        assert len(promoted.store.query_message("Orders", f"k{number}", 4, 0, 1 << 62).buffers) == 1
    back = await group.start("slave2", BrokerRole.SLAVE)
    await until(lambda: is_copy(back, promoted), "the next slave has the whole log")


def rounds_from(slave: BrokerServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether the slave has asked its master for everything three times more."""
    documents = slave._replication._documents
    assert documents is not None
    ask, asked = documents._ask, []

    async def count(address: str) -> dict[str, str]:
        asked.append(address)
        return await ask(address)

    monkeypatch.setattr(documents, "_ask", count)
    return lambda: len(asked) > 3


@pytest.mark.parametrize("makes_groups", [True, False])
async def test_a_group_that_began_at_a_slave_goes_on_at_the_master(
        group: Group, monkeypatch: pytest.MonkeyPatch, *, makes_groups: bool) -> None:
    """Where groups do not make themselves, its members have to wait until an operator makes it."""
    monkeypatch.setattr(master_documents, "INTERVAL_S", 0.05)
    settings = {"auto_create_subscription_group": makes_groups}
    master = await group.start("master", BrokerRole.ASYNC_MASTER, **settings)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await send_some(group, 100)
    await until(lambda: is_copy(slave, master) and "Orders" in slave.broker.topics, "the slave has the whole log")
    await group.stop(master)
    slave.broker.subscription_groups.find("fresh", int(time.time() * 1000))
    connection = await connect(HOST, slave.port)
    header = UpdateConsumerOffsetRequest(consumer_group="fresh", topic="Orders", queue_id=0, commit_offset=9)
    command = RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, header.ext())
    assert (await connection.request(command, 60_000)).code == ResponseCode.SUCCESS
    connection.close()
    master = await group.start("master", BrokerRole.ASYNC_MASTER, **settings)
    if not makes_groups:
        await until(lambda: slave._replication.is_copy and "fresh" not in slave.broker.subscription_groups,
                    "the slave has its master's groups")
        await until(rounds_from(slave, monkeypatch), "some rounds more")
        assert "fresh" not in master.broker.subscription_groups
        master.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="fresh"), int(time.time() * 1000))
    await until(lambda: master.broker.consumer_offsets.query("fresh", "Orders", 0) == 9, "the master knows the offset")
    await until(lambda: "fresh" in slave.broker.subscription_groups, "the slave has the group again")
    async with Admin(group.address) as admin:
        await admin.delete_group("fresh")
    await until(lambda: "fresh" not in slave.broker.subscription_groups, "the group is gone at the slave")
    assert slave.broker.consumer_offsets.query("fresh", "Orders", 0) == -1
    await until(rounds_from(slave, monkeypatch), "some rounds more")
    assert "fresh" not in master.broker.subscription_groups


@pytest.mark.parametrize("is_asking", [False, True])
async def test_what_groups_committed_at_a_slave_is_known_to_the_master_when_it_is_back(
        group: Group, monkeypatch: pytest.MonkeyPatch, *, is_asking: bool) -> None:
    """A topic may be made while the slave asks for one document after the other."""
    master = await group.start("master", BrokerRole.ASYNC_MASTER)

    async def begin() -> None:
        await send_some(group, 100)
        master.broker.subscription_groups.find("billing", int(time.time() * 1000))
        for queue_id in (0, 1):
            master.broker.consumer_offsets.commit("billing", "Orders", queue_id, 5)

    ask_for_own = master_documents.MasterDocuments._ask_for_own

    async def ask_and_begin(documents: master_documents.MasterDocuments, connection: Connection) -> Any:
        answer = await ask_for_own(documents, connection)
        monkeypatch.setattr(master_documents.MasterDocuments, "_ask_for_own", ask_for_own)
        await begin()
        return answer

    if is_asking:
        monkeypatch.setattr(master_documents.MasterDocuments, "_ask_for_own", ask_and_begin)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    if not is_asking:
        await begin()
    offsets = slave.broker.consumer_offsets
    await until(lambda: "Orders" in slave.broker.topics and "billing" in slave.broker.subscription_groups
                and offsets.query("billing", "Orders", 1) == 5, "topic, group and offsets at the slave")
    await until(lambda: is_copy(slave, master), "the slave has the whole log")
    await group.stop(master)
    connection = await connect(HOST, slave.port)
    for queue_id in (0, 2):
        header = UpdateConsumerOffsetRequest(consumer_group="billing", topic="Orders", queue_id=queue_id,
                                             commit_offset=9)
        command = RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, header.ext())
        assert (await connection.request(command, 60_000)).code == ResponseCode.SUCCESS
    connection.close()
    master = await group.start("master", BrokerRole.ASYNC_MASTER)
    here = master.broker.consumer_offsets
    await until(lambda: [here.query("billing", "Orders", queue_id) for queue_id in range(3)] == [9, 5, 9],
                "the master knows what was committed at the slave")
    here.assign_reset("billing", "Orders", 0, 2)
    await until(lambda: offsets.query("billing", "Orders", 0) == 2, "the reset at the slave")
    assert [offsets.query("billing", "Orders", queue_id) for queue_id in range(3)] == [2, 5, 9]


async def test_what_was_consumed_of_an_old_master_s_own_log_is_not_taken_for_the_new_one_s(group: Group) -> None:
    """Both logs have messages at the same places in the queues, and a group consumed only those that are lost."""
    old = await group.start("old", BrokerRole.ASYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    now_ms = int(time.time() * 1000)
    old.broker.subscription_groups.find("billing", now_ms)
    await send_some(group, 40)
    old.broker.consumer_offsets.commit("billing", "Orders", 0, 2)
    await until(lambda: is_copy(slave, old) and "billing" in slave.broker.subscription_groups
                and slave.broker.consumer_offsets.query("billing", "Orders", 0) == 2, "the slave has all of it")
    await group.stop(slave)
    parting = old.store.commit_log_max_offset()
    await send_some(group, 40, 40)
    old.broker.consumer_offsets.commit("billing", "Orders", 0, old.store.max_offset("Orders", 0))
    await group.stop(old)
    (group.path / "slave1").rename(group.path / "promoted")
    promoted = await group.start("promoted", BrokerRole.ASYNC_MASTER)
    await send_some(group, 60, 80)
    (group.path / "old").rename(group.path / "slave2")

    async def come_back() -> BrokerServer:
        """Until it has heard of the new master's topics, with which offsets come."""
        back = await group.start("slave2", BrokerRole.SLAVE)
        topic = f"Mark{len(promoted.broker.topics.table)}"
        async with Admin(group.address) as admin:
            await admin.create_topic(TopicConfig(topic_name=topic))
        await until(lambda: topic in back.broker.topics, "a round of documents")
        return back

    back = await come_back()
    assert promoted.broker.consumer_offsets.query("billing", "Orders", 0) == 2
    await group.stop(back)
    config = store_config(group.path / "slave2")
    WantedCutFile(config.root, config.commit_log_directory).save(
        WantedCut(begin=parting, end=parting + 1, records=1, reason="the logs part there"))
    back = await come_back()
    await until(lambda: is_copy(back, promoted), "the old master has the new one's log")
    await until(lambda: back.broker.consumer_offsets.query("billing", "Orders", 0) == 2, "the offset of both")
    assert promoted.broker.consumer_offsets.query("billing", "Orders", 0) == 2


def row(number: int, digest: int) -> Message:
    properties = {"SINK": "S/0", "SEQ": f"1/{number}", "SINK_DIGEST": str(digest)}
    return Message("Orders", b"row", properties=properties)


async def test_a_promoted_slave_goes_on_with_all_that_the_master_noted(group: Group) -> None:
    master = await group.start("master", BrokerRole.SYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: slave._replication.is_linked, "the slave copies")
    async with Producer(group.address, "PG", PATIENT) as producer:
        first = await producer.send(row(0, 0))
        await until(lambda: slave.broker.sink_marks.mark_of("S/0") is not None, "the mark at the slave")
        broker = master.broker
        broker.archived_offset.advance(100, 1 << 62)
        epoch = broker.topics.epochs.of("Orders")
        await until(lambda: slave.broker.archived_offset.physical_offset == 100
                    and slave.broker.topics.epochs.of("Orders") == epoch > 0, "what else the master noted")
        assert slave._replication._documents is not None
        await slave._replication._documents.stop()
        second = await producer.send(row(1, digest_of([row(0, 0)])))    # which no document of the slave has
        assert {first.send_status, second.send_status} == {SendStatus.SEND_OK}
    marks = broker.sink_marks.of_sink("S")
    await group.stop(master)
    await group.stop(slave)
    (group.path / "slave1").rename(group.path / "promoted")
    promoted = await group.start("promoted", BrokerRole.ASYNC_MASTER)
    assert promoted.broker.sink_marks.of_sink("S") == marks
    assert promoted.broker.archived_offset.physical_offset == 100
    assert promoted.broker.topics.epochs.of("Orders") == epoch


async def test_a_slave_goes_on_without_what_is_popped_in_order_where_that_is_too_much(
        group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(documents, "DOCUMENT_SIZE_MAX", 10_000)
    master = await group.start("master", BrokerRole.ASYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await send_some(group, 1)
    orders, theirs = master.broker.pop_orders, slave.broker.pop_orders
    await until(lambda: theirs.changes == 1, "the slave knows that there is nothing")
    for queue_id in range(500):
        orders.begin("Orders", "billing", queue_id, [0], None, 30_000, 1)
    master.broker.consumer_offsets.commit("billing", "Orders", 2, 1)
    await until(lambda: slave.broker.consumer_offsets.query("billing", "Orders", 2) == 1, "the offset at the slave")
    await until(lambda: "popped in order is not known as" in caplog.text, "what the slave lacks")
    assert theirs.changes == 1
    orders.remove("Orders", "billing")
    orders.begin("Orders", "billing", 0, [0], None, 30_000, 1)
    await until(lambda: theirs.changes == 2, "what is popped in order at the slave")
    assert encoded_table.text(theirs.document()) == encoded_table.text(orders.document())
    assert caplog.text.count("popped in order is not known as") == 1


async def test_a_topic_that_the_log_speaks_of_is_asked_for_at_once(group: Group,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_documents, "INTERVAL_S", 60.0)
    await group.start("master", BrokerRole.ASYNC_MASTER)
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: slave._replication.is_linked, "the slave copies")
    await send_some(group, 1)
    await until(lambda: "Orders" in slave.broker.topics, "the slave knows the topic")


def test_roles_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for settings, words in (({"broker_role": "SLAVE", "namesrv_addr": "h:1"}, "write 1 or more"),
                            ({"broker_id": 1}, "brokerRole is not SLAVE"),
                            ({"broker_role": "SLAVE", "broker_id": 1}, "namesrvAddr is empty"),
                            ({"broker_role": "LEADER"}, "write ASYNC_MASTER or SYNC_MASTER or SLAVE")):
        with pytest.raises(ConfigError, match=words):
            BrokerConfig(**settings)    # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a name server in the same process"):
        Regulus(BrokerConfig(broker_role=BrokerRole.SLAVE, broker_id=1, namesrv_addr="h:1"), store_config(tmp_path),
                NamesrvConfig())
