"""Whole servers over raw connections: route, send, pull, hold, offsets, registration, restart."""

import asyncio
import errno
import logging
import os
import shutil
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.long_answers import Steps
from regulus.errors import ConfigError, ConnectFailed, ConnectionLost, StoreError, StoreLocked, StoreNotWritable
from regulus.model.broker_role import BrokerRole
from regulus.model.peer import Peer
from regulus.model.store_rules import FlushDiskType
from regulus.nameserver.config import NamesrvConfig
from regulus.record import message_record
from regulus.server.assembly import BrokerServer, Regulus
from regulus.server.name_server import NameServer
from regulus.server.nameserver_link import EmbeddedLink
from regulus.server.workers import Line, ThreadWorkers
from regulus.store import disk
from regulus.store.config import MessageStoreConfig
from regulus.testing.running_server import free_port
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.transport.listener import bind
from regulus.wire.bodies import KVTable, TopicRouteData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

HOST = "127.0.0.1"
LOOPBACK = TransportConfig(bind_address=HOST)
SEND = {"a": "producers", "c": "TBW102", "d": "4", "f": "0", "g": "1700000000000", "h": "0",
        "i": "TAGS\x01red\x02", "j": "0", "k": "false", "m": "false"}


def store_config(path: Path) -> MessageStoreConfig:
    return MessageStoreConfig(store_path_root_dir=str(path), mapped_file_size_commit_log=1 << 20,
                              mapped_file_size_consume_queue=2000, max_hash_slot_num=500, max_index_num=2000)


def make_regulus(path: Path, flush: str = "ASYNC_FLUSH", **settings: Any) -> Regulus:
    return Regulus(BrokerConfig(listen_port=0, flush_disk_type=FlushDiskType(flush), **settings), store_config(path),
                   NamesrvConfig(listen_port=0, bind_address=HOST), transport_config=LOOPBACK)


@pytest.fixture
async def regulus(tmp_path: Path) -> AsyncIterator[Regulus]:
    server = make_regulus(tmp_path)
    await server.start()
    yield server
    await server.stop()


async def ask(connection: Connection, code: int, ext: dict[str, str] | None = None,
              body: bytes = b"") -> RemotingCommand:
    return await connection.request(RemotingCommand.request(code, ext, body), 60_000)


async def send(connection: Connection, body: bytes, queue_id: int = 0, topic: str = "Orders") -> RemotingCommand:
    ext = {**SEND, "b": topic, "e": str(queue_id)}
    return await ask(connection, RequestCode.SEND_MESSAGE_V2, ext, body)


async def pull(connection: Connection, queue_offset: int, queue_id: int = 0, hold_ms: int = 0,
               topic: str = "Orders") -> RemotingCommand:
    return await ask(connection, RequestCode.PULL_MESSAGE, {
        "consumerGroup": "readers", "topic": topic, "queueId": str(queue_id), "queueOffset": str(queue_offset),
        "maxMsgNums": "32", "sysFlag": "6" if hold_ms else "4", "commitOffset": "0",
        "suspendTimeoutMillis": str(hold_ms), "subscription": "*", "subVersion": "0", "expressionType": "TAG"})


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [message.body for message in message_record.decode_all(answer.body)]


async def broker_connection(server: Regulus) -> Connection:
    return await connect(HOST, server.broker_server.port)


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000, 30 * 24 * 3_600_000])
async def test_a_clock_that_is_set_changes_stamps_and_nothing_that_lasts(tmp_path: Path, jump_ms: int) -> None:
    """Both parts of the process are told both times, by requests and by ticks."""
    wall_ms, steady_ms = 1_700_000_000_000, 5_000_000
    server = Regulus(BrokerConfig(listen_port=0), store_config(tmp_path),
                     NamesrvConfig(listen_port=0, bind_address=HOST), transport_config=LOOPBACK,
                     clock=lambda: wall_ms, steady_clock=lambda: steady_ms)
    await server.start()
    connection = await broker_connection(server)
    name_server = await connect(HOST, server.name_server.port)
    try:
        holding = asyncio.create_task(pull(connection, 0, hold_ms=15_000, topic="TBW102"))
        await ask(connection, RequestCode.GET_BROKER_RUNTIME_INFO)
        wall_ms += jump_ms
        steady_ms += 14_900
        await send(connection, b"stamped")
        assert (await ask(name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})).code == 0
        server.name_server.state.tick(wall_ms)
        assert (await ask(name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})).code == 0
        assert not holding.done()
        steady_ms += 100
        assert (await holding).code == ResponseCode.PULL_NOT_FOUND
        (message,) = message_record.decode_all((await pull(connection, 0)).body)
        assert message.store_timestamp == wall_ms
    finally:
        connection.close()
        name_server.close()
        await server.stop()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_what_is_sent_is_pulled(tmp_path: Path, flush: str) -> None:
    server = make_regulus(tmp_path, flush)
    await server.start()
    connection = await broker_connection(server)
    answers = await asyncio.gather(*[send(connection, b"m%d" % n) for n in range(40)])
    assert [answer.code for answer in answers] == [0] * 40
    assert [answer.ext["queueOffset"] for answer in answers] == [str(n) for n in range(40)]
    first = await pull(connection, 0)
    assert bodies(first) == [b"m%d" % n for n in range(32)]
    assert bodies(await pull(connection, int(first.ext["nextBeginOffset"]))) == [b"m%d" % n for n in range(32, 40)]
    connection.close()
    await server.stop()


async def test_with_sync_flush_a_message_is_seen_once_it_is_on_disk(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = make_regulus(tmp_path, "SYNC_FLUSH")
    await server.start()
    connection = await broker_connection(server)
    await send(connection, b"first")
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)
    sync_range = disk.sync_range

    def slowly(*arguments: Any) -> None:
        begun.release()
        go_on.acquire()
        sync_range(*arguments)

    monkeypatch.setattr(disk, "sync_range", slowly)
    holding = asyncio.create_task(pull(connection, 1, hold_ms=5000))
    second = asyncio.create_task(send(connection, b"second"))
    try:
        assert await asyncio.to_thread(begun.acquire, timeout=60)
        assert bodies(await pull(connection, 0)) == [b"first"]
        assert not second.done()
        go_on.release()
        assert (await second).code == 0
        assert bodies(await holding) == [b"second"]
        assert bodies(await pull(connection, 0)) == [b"first", b"second"]
    finally:
        # A failed test must not leave a thread that waits for ever: the process could not end.
        monkeypatch.undo()
        go_on.release(100)
    connection.close()
    await server.stop()


def at_port(path: Path, port: int, **settings: Any) -> Regulus:
    return Regulus(BrokerConfig(listen_port=port, **settings), store_config(path),
                   NamesrvConfig(listen_port=0, bind_address=HOST), transport_config=LOOPBACK)


async def test_requests_are_taken_two_ports_below_too(tmp_path: Path) -> None:
    """Where Java's clients with vipChannelEnabled send, which knows nothing of it but the route's address."""
    port = free_port((-2,))
    server = at_port(tmp_path, port)
    await server.start()
    vip = await connect(HOST, port - 2)
    assert (await send(vip, b"by the VIP port")).code == 0
    connection = await broker_connection(server)
    assert bodies(await pull(connection, 0)) == [b"by the VIP port"]
    for each in (vip, connection):
        each.close()
    await server.stop()
    with pytest.raises(ConnectFailed):
        await connect(HOST, port - 2)


@pytest.mark.parametrize("settings", [{"vip_port_enable": False}, {"broker_role": BrokerRole.ASYNC_MASTER,
                                                                   "vip_port_enable": False}])
async def test_a_key_turns_the_second_port_off(tmp_path: Path, settings: dict[str, Any]) -> None:
    port = free_port((-2, 1))
    server = at_port(tmp_path, port, **settings)
    await server.start()
    with pytest.raises(ConnectFailed):
        await connect(HOST, port - 2)
    await server.stop()


async def test_who_already_has_the_second_port_is_told_of_and_stops_no_broker(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port((-2, 1))
    with bind(HOST, port - 2) as others:
        others.listen()
        server = at_port(tmp_path, port)
        await server.start()
        connection = await broker_connection(server)
        assert (await send(connection, b"all the same")).code == 0
        connection.close()
        await server.stop()
        [told] = [record.getMessage() for record in caplog.records if "vipChannelEnabled" in record.getMessage()]
        assert f"{HOST}:{port - 2}: Address already in use" in told
        # A slave of RocketMQ asks there and nowhere else.
        with pytest.raises(OSError, match=f"{port - 2}"):
            await at_port(tmp_path / "copied", port, broker_role=BrokerRole.ASYNC_MASTER).start()


async def test_a_server_that_stops_answers_what_it_took_and_takes_no_more(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    server = make_regulus(tmp_path, "SYNC_FLUSH")
    await server.start()
    connection = await broker_connection(server)
    await send(connection, b"first")
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)
    sync_range = disk.sync_range

    def slowly(*arguments: Any) -> None:
        begun.release()
        go_on.acquire()
        sync_range(*arguments)

    monkeypatch.setattr(disk, "sync_range", slowly)
    taken = asyncio.create_task(send(connection, b"taken"))
    try:
        assert await asyncio.to_thread(begun.acquire, timeout=60)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)      # it has begun
        late = [asyncio.create_task(send(connection, b"late")) for _ in range(20)]
        (reading,) = server.broker_server._listener.connections
        before = reading.active_time
        while reading.active_time == before:    # they have reached the server
            await asyncio.sleep(0)
    finally:
        monkeypatch.undo()
        go_on.release(100)
    await stopping
    assert (await taken).code == 0
    outcomes = await asyncio.gather(*late, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ConnectionLost}
    assert not [record for record in caplog.records if record.exc_info]
    again = make_regulus(tmp_path)
    await again.start()
    connection = await broker_connection(again)
    assert bodies(await pull(connection, 0)) == [b"first", b"taken"]
    connection.close()
    await again.stop()


async def test_a_held_pull_is_woken_by_a_send(regulus: Regulus) -> None:
    connection, other = await broker_connection(regulus), await broker_connection(regulus)
    await send(other, b"first")
    waiting = asyncio.create_task(pull(connection, 1, hold_ms=15_000))
    await ask(connection, RequestCode.GET_MAX_OFFSET, {"topic": "Orders", "queueId": "0"})
    assert not waiting.done()
    await send(other, b"second")
    assert bodies(await waiting) == [b"second"]
    connection.close()
    other.close()


async def test_a_held_pull_ends_without_a_message_at_its_time(regulus: Regulus) -> None:
    connection = await broker_connection(regulus)
    await send(connection, b"first")
    assert (await pull(connection, 1, hold_ms=10)).code == ResponseCode.PULL_NOT_FOUND
    connection.close()


async def test_a_new_topic_has_a_route_as_soon_as_its_send_is_answered(regulus: Regulus) -> None:
    connection = await broker_connection(regulus)
    await send(connection, b"first", topic="Fresh")
    names = await connect(HOST, regulus.name_server.port)
    answer = await ask(names, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Fresh"})
    assert answer.code == 0
    route = TopicRouteData.decode(answer.body)
    assert [broker.broker_addrs for broker in route.broker_datas] == [{0: f"{HOST}:{regulus.broker_server.port}"}]
    names.close()
    connection.close()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_messages_topics_and_offsets_outlive_a_restart(tmp_path: Path, flush: str) -> None:
    server = make_regulus(tmp_path, flush)
    await server.start()
    connection = await broker_connection(server)
    for n in range(10):
        await send(connection, b"m%d" % n)
    assert len(bodies(await pull(connection, 0))) == 10
    offset = {"consumerGroup": "readers", "topic": "Orders", "queueId": "0"}
    assert (await ask(connection, RequestCode.UPDATE_CONSUMER_OFFSET, {**offset, "commitOffset": "7"})).code == 0
    connection.close()
    await server.stop()
    assert not (tmp_path / "abort").exists()

    server = make_regulus(tmp_path, flush)
    await server.start()
    connection = await broker_connection(server)
    assert (await ask(connection, RequestCode.QUERY_CONSUMER_OFFSET, offset)).ext["offset"] == "7"
    assert bodies(await pull(connection, 7)) == [b"m7", b"m8", b"m9"]
    assert (await send(connection, b"m10")).ext["queueOffset"] == "10"
    connection.close()
    await server.stop()


async def test_the_marks_of_sinks_have_a_document_before_the_first_send(regulus: Regulus) -> None:
    """Else a broker that is killed soon would not know that there may be marks in its log."""
    document = regulus.broker_server.store.config.root / "config" / "regulusSinkMarks.json"
    assert '"logOffset"' in document.read_text()


async def test_a_broker_registers_with_the_name_servers_it_is_told(tmp_path: Path) -> None:
    name_servers = [NameServer(NamesrvConfig(listen_port=0, bind_address=HOST), LOOPBACK) for _ in range(2)]
    for name_server in name_servers:
        await name_server.start()
    addresses = ";".join(f"{HOST}:{name_server.port}" for name_server in name_servers)
    broker = BrokerServer(BrokerConfig(listen_port=0, namesrv_addr=addresses), store_config(tmp_path),
                          transport_config=LOOPBACK)
    await broker.start()
    connection = await connect(HOST, broker.port)
    await send(connection, b"first", topic="Fresh")
    for name_server in name_servers:
        names = await connect(HOST, name_server.port)
        route = await route_of(names, "Fresh")
        assert route.broker_datas[0].broker_addrs == {0: f"{HOST}:{broker.port}"}
        names.close()
    connection.close()
    await broker.stop()
    for name_server in name_servers:
        names = await connect(HOST, name_server.port)
        answer = await ask(names, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Fresh"})
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        names.close()
        await name_server.stop()


async def route_of(names: Connection, topic: str) -> TopicRouteData:
    """The route, once the registration has come; it is on its way."""
    async with asyncio.timeout(25):
        while True:
            answer = await ask(names, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            if answer.code == 0:
                return TopicRouteData.decode(answer.body)


async def test_a_store_in_use_is_refused_and_the_ports_are_given_back(regulus: Regulus, tmp_path: Path) -> None:
    second = make_regulus(tmp_path)
    with pytest.raises(StoreLocked):
        await second.start()
    connection = await broker_connection(regulus)
    assert (await send(connection, b"on")).code == 0
    connection.close()


def test_an_address_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="namesrvAddr: 'localhost' is not an address"):
        BrokerServer(BrokerConfig(namesrv_addr="127.0.0.1:9876;localhost"), store_config(tmp_path))


async def test_a_taken_port_is_refused_before_the_store_is_touched(regulus: Regulus, tmp_path: Path) -> None:
    path = tmp_path / "other"
    broker = BrokerServer(BrokerConfig(listen_port=regulus.broker_server.port), store_config(path),
                          transport_config=LOOPBACK)
    with pytest.raises(OSError, match=r"127\.0\.0\.1:\d+: Address already in use"):
        await broker.start()
    assert not path.exists()


async def test_a_port_that_is_taken_at_the_last_moment_leaves_nothing_behind(tmp_path: Path) -> None:
    other = bind(HOST, 0)       # two may have the address until one of them listens

    class LateWorkers(ThreadWorkers):
        def line(self, line: Line) -> Executor:
            other.listen()
            return super().line(line)

    before = asyncio.all_tasks()
    broker = BrokerServer(BrokerConfig(listen_port=other.getsockname()[1]), store_config(tmp_path),
                          transport_config=LOOPBACK, workers=LateWorkers())
    with pytest.raises(OSError, match="ddress already in use"):
        await broker.start()
    other.close()
    assert asyncio.all_tasks() == before
    assert not (tmp_path / "abort").exists()    # the store was closed


async def test_a_name_server_is_not_reached_before_it_knows_the_broker_beside_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom it told that there is no such topic would believe it."""
    first = make_regulus(tmp_path)
    await first.start()
    connection = await broker_connection(first)
    assert (await send(connection, b"one")).code == 0
    connection.close()
    await first.stop()
    start, register, refused = BrokerServer.start, EmbeddedLink.start, []

    async def try_it() -> None:
        with pytest.raises(ConnectFailed):
            await connect(HOST, second.name_server.port)
        refused.append(True)

    async def late_start(server: BrokerServer) -> None:
        await try_it()
        await start(server)

    async def late_registration(link: EmbeddedLink) -> None:
        await try_it()
        await register(link)

    monkeypatch.setattr(BrokerServer, "start", late_start)
    monkeypatch.setattr(EmbeddedLink, "start", late_registration)
    second = make_regulus(tmp_path)
    await second.start()
    names = await connect(HOST, second.name_server.port)
    assert (await ask(names, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Orders"})).code == 0
    assert len(refused) == 2
    names.close()
    await second.stop()


async def test_a_name_server_whose_port_is_taken_at_the_last_moment_ends_the_broker_too(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = bind(HOST, 0)       # two may have the address until one of them listens
    start = BrokerServer.start

    async def late_start(server: BrokerServer) -> None:
        await start(server)
        other.listen()

    monkeypatch.setattr(BrokerServer, "start", late_start)
    before = asyncio.all_tasks()
    server = Regulus(BrokerConfig(listen_port=0), store_config(tmp_path),
                     NamesrvConfig(listen_port=other.getsockname()[1], bind_address=HOST), transport_config=LOOPBACK)
    with pytest.raises(OSError, match="ddress already in use"):
        await server.start()
    other.close()
    assert asyncio.all_tasks() == before
    assert not (tmp_path / "abort").exists()


class OwnWorkers:
    """Does the work itself, at once, as a simulation does; `lines` is what was asked for. Ended, it does no more."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.is_ended = False

    def line(self, line: Line) -> Executor:
        return _OwnLine(self, line)

    def shutdown(self) -> None:
        self.is_ended = True


class _OwnLine(Executor):
    def __init__(self, workers: OwnWorkers, line: Line) -> None:
        self._workers = workers
        self._line = line

    def submit(self, deed: Any, /, *arguments: Any, **named: Any) -> "Future[Any]":
        assert not self._workers.is_ended
        self._workers.lines.append(self._line)
        future: Future[Any] = Future()
        try:
            future.set_result(deed(*arguments, **named))
        except StoreError as error:
            future.set_exception(error)
        return future


async def test_all_work_beside_the_loop_is_done_by_the_workers_that_are_handed_in(tmp_path: Path) -> None:
    workers = OwnWorkers()
    threads = threading.active_count()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(f"globalWhiteRemoteAddresses: [{HOST}]\n")
    config = BrokerConfig(listen_port=0, flush_disk_type=FlushDiskType.SYNC_FLUSH, acl_enable=True,
                          rocketmq_home=str(tmp_path))
    server = Regulus(config, store_config(tmp_path),
                     NamesrvConfig(listen_port=0, bind_address=HOST), transport_config=LOOPBACK, workers=workers)
    await server.start()
    connection = await broker_connection(server)
    assert (await send(connection, b"first", topic="Fresh")).code == ResponseCode.SUCCESS
    assert '"Fresh":{' in (tmp_path / "config" / "topics.json").read_text()
    assert threading.active_count() == threads
    connection.close()
    await server.stop()
    assert set(workers.lines) == set(Line)
    assert workers.is_ended


# --- old files -------------------------------------------------------------------------------------------------------


async def fill_files(connection: Connection, count: int) -> list[bytes]:
    """Messages for a few files of the log."""
    sent = [b"%d" % number + bytes(100_000) for number in range(count)]
    for body in sent:
        assert (await send(connection, body)).code == ResponseCode.SUCCESS
    return sent


def log_files(server: Regulus) -> list[Path]:
    return sorted(server.broker_server.store.config.commit_log_directory.iterdir())


async def test_an_operator_lets_old_files_go(regulus: Regulus) -> None:
    connection = await broker_connection(regulus)
    sent = await fill_files(connection, 45)
    before = log_files(regulus)
    for file in before[:3]:
        os.utime(file, (0, 0))
    while int((await ask(connection, RequestCode.GET_LOG_STATE)).ext["flushedPhysicalOffset"]) < 3 << 20:
        await asyncio.sleep(0.01)
    assert (await ask(connection, RequestCode.DELETE_EXPIRED_COMMITLOG)).code == ResponseCode.SUCCESS
    first = 0
    while first == 0 or log_files(regulus)[0] != before[3]:
        await asyncio.sleep(0.01)
        answer = await ask(connection, RequestCode.GET_MIN_OFFSET, {"topic": "Orders", "queueId": "0"})
        first = int(answer.ext["offset"])
    answer = await pull(connection, 0)
    assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, str(first))
    assert bodies(await pull(connection, first))[0] == sent[first]
    info = KVTable.decode((await ask(connection, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
    assert (info["commitLogMinOffset"], info["deletedCommitLogFiles"]) == (str(3 << 20), "3")


async def test_a_full_disk_refuses_sends_and_nothing_else(regulus: Regulus, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = await broker_connection(regulus)
    await send(connection, b"before")
    monkeypatch.setattr(disk, "used_ratio", lambda path: 0.97)
    await regulus.broker_server._retention.run_pass(0)
    refused = await send(connection, b"refused")
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert refused.remark is not None
    assert "97 %" in refused.remark
    assert bodies(await pull(connection, 0)) == [b"before"]
    monkeypatch.setattr(disk, "used_ratio", lambda path: 0.5)
    await regulus.broker_server._retention.run_pass(0)
    assert (await send(connection, b"after")).code == ResponseCode.SUCCESS


def no_room(*arguments: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_stop_on_a_full_disk_says_what_became_of_the_store(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = make_regulus(tmp_path)
    await server.start()
    connection = await broker_connection(server)
    assert (await send(connection, b"first")).code == ResponseCode.SUCCESS
    connection.close()
    with monkeypatch.context() as full:
        full.setattr(disk, "_write_all", no_room)
        with pytest.raises(StoreNotWritable, match="could not be closed as it should: the disk of .* is full .*: make "
                                                   r"room there\. The next start checks its log as after a kill$"):
            await server.stop()
    again = make_regulus(tmp_path)
    await again.start()
    assert "crash: log 0 to" in caplog.text
    connection = await broker_connection(again)
    assert bodies(await pull(connection, 0)) == [b"first"]
    connection.close()
    await again.stop()


async def test_retention_is_shown_and_changed_while_the_broker_runs(regulus: Regulus) -> None:
    connection = await broker_connection(regulus)
    text = (await ask(connection, RequestCode.GET_BROKER_CONFIG)).body.decode()
    assert {"fileReservedTime=72", "deleteWhen=04", "archiveGate=off"} <= set(text.splitlines())
    answer = await ask(connection, RequestCode.UPDATE_BROKER_CONFIG, None, b"fileReservedTime=48\narchiveGate=on\n")
    assert answer.code == ResponseCode.SUCCESS
    assert (await ask(connection, RequestCode.GET_LOG_STATE)).ext["archiveGate"] == "on"
    info = KVTable.decode((await ask(connection, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
    assert (info["fileReservedTime"], info["archiveGate"], info["diskFull"]) == ("48", "on", "false")


async def test_documents_that_were_removed_are_missed_with_what_follows(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = make_regulus(tmp_path)
    await server.start()
    connection = await broker_connection(server)
    assert (await send(connection, b"first")).code == ResponseCode.SUCCESS
    connection.close()
    await server.stop()
    assert "the log has messages" not in caplog.text
    shutil.rmtree(server.broker_server.store.config.root / "config")
    again = make_regulus(tmp_path)
    await again.start()
    (told,) = [record for record in caplog.records if "the log has messages" in record.message]
    assert told.levelno == logging.WARNING
    assert ("has no topics.json nor subscriptionGroup.json nor consumerOffset.json nor delayOffset.json: a topic is "
            "unknown until it is made anew" in told.message)
    assert "Groups begin where a new one does" in told.message
    await again.stop()
    caplog.clear()
    third = make_regulus(tmp_path)
    await third.start()
    assert "the log has messages" not in caplog.text
    await third.stop()


async def test_a_start_tells_of_messages_that_wait_at_a_delay_level_no_more(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = make_regulus(tmp_path)
    await server.start()
    connection = await broker_connection(server)
    delayed = {**SEND, "b": "Orders", "e": "0", "i": "DELAY\x0118\x02"}
    assert (await ask(connection, RequestCode.SEND_MESSAGE_V2, delayed, b"later")).code == ResponseCode.SUCCESS
    connection.close()
    await server.stop()
    assert "wait at delay level" not in caplog.text
    again = make_regulus(tmp_path, message_delay_level="1s 5s")
    await again.start()
    assert "messages wait at delay level 18 (1 of them), and messageDelayLevel has only 2" in caplog.text
    await again.stop()


async def test_a_deletion_that_has_begun_is_done_and_answered_before_the_end(tmp_path: Path) -> None:
    """Else the retry topics of its groups would stay for ever: what knew of them went in the first step."""
    server = make_regulus(tmp_path)
    await server.start()
    connection = await broker_connection(server)
    await send(connection, b"first")
    broker = server.broker_server.broker
    retries = [f"%RETRY%group{number}_Orders" for number in range(50)]
    for number, retry in enumerate(retries):
        broker.topics.create_if_absent(retry, 1, 0)
        broker.consumer_offsets.commit(f"group{number}", "Orders", 0, 1)
    deletion = asyncio.create_task(ask(connection, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"}))
    while not len(broker.long_answers):
        await asyncio.sleep(0)
    await server.stop()
    assert (await deletion).code == ResponseCode.SUCCESS
    again = make_regulus(tmp_path)
    await again.start()
    assert not set(again.broker_server.broker.topics.table) & {"Orders", *retries}
    await again.stop()


async def test_a_registration_that_takes_all_room_leaves_large_messages_theirs(regulus: Regulus) -> None:
    """It waits for what the name server has to do, which may take far longer than the timeout of a send."""
    def never_done() -> Steps:
        while True:
            yield

    registration = RemotingCommand.request(RequestCode.REGISTER_BROKER, body=bytes(LOOPBACK.large_frames_size_max))
    regulus.name_server._long_answers.begin(registration, Peer(0, b"", b""), never_done(), line="routes")
    regulus.name_server._settle(0)
    broker = await broker_connection(regulus)
    answer = await send(broker, b"x" * (700 << 10))
    assert answer.code == ResponseCode.SUCCESS


async def test_a_timer_file_that_is_damaged_is_told_and_costs_no_message(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = make_regulus(tmp_path)
    await server.start()
    connection = await broker_connection(server)
    timed = {**SEND, "b": "Orders", "e": "0", "i": "UNIQ_KEY\x01K\x02TIMER_DELAY_SEC\x011\x02"}
    await ask(connection, RequestCode.SEND_MESSAGE_V2, timed, b"timed")
    async with asyncio.timeout(30):
        while not (tmp_path / "timerwheel").exists():
            await asyncio.sleep(0.01)
    connection.close()
    await server.stop()
    (tmp_path / "timerwheel").unlink()
    server = make_regulus(tmp_path)
    await server.start()
    connection = await broker_connection(server)
    assert bodies(await pull(connection, 0, hold_ms=4_000)) == [b"timed"]
    connection.close()
    await server.stop()
    assert [message for message in caplog.messages if message.startswith(
        "messages with a time of their own are entered again from the log") and "timerwheel is not there" in message]
