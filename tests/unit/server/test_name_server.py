"""A name server on its port: what it was told is kept, if not at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from regulus.broker.long_answers import LINED_MAX, LONG_ANSWERS_MAX
from regulus.errors import ClientError, StoreError
from regulus.model import permission
from regulus.model.topics import DataVersion, TopicConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.nameserver.route_table import Registration
from regulus.server import documents
from regulus.server.name_server import NameServer
from regulus.server.workers import Line
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.wire.bodies import RegisterBrokerBody, TopicConfigSerializeWrapper
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.frame_reader import FRAME_SIZE_MAX
from regulus.wire.headers import RegisterBrokerRequest, UnregisterBrokerRequest
from regulus.wire.remoting_command import ONEWAY_FLAG, RemotingCommand

HOST = "127.0.0.1"


def put(value: str, key: str = "k") -> RemotingCommand:
    return RemotingCommand.request(RequestCode.PUT_KV_CONFIG, {"namespace": "N", "key": key, "value": value})


def config(path: Path) -> NamesrvConfig:
    return NamesrvConfig(bind_address=HOST, listen_port=0, kv_config_path=str(path))


class ClosedShelf(Executor):
    """A worker that does nothing before it is opened."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []
        self._is_open = False

    def submit(self, deed: Any, /, *arguments: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def work() -> None:
            future.set_result(deed(*arguments, **named))

        self._waiting.append(work)
        if self._is_open:
            self.open()
        return future

    def open(self) -> None:
        self._is_open = True
        while self._waiting:
            self._waiting.pop(0)()

    def line(self, line: Line) -> Executor:
        return self


async def test_a_change_is_answered_when_it_is_saved_and_others_do_not_wait(tmp_path: Path) -> None:
    saved, shelf = tmp_path / "config" / "kvConfig.json", ClosedShelf()
    server = NameServer(config(saved), workers=shelf)
    await server.start()
    connection = await connect(HOST, server.port)
    answers = [asyncio.ensure_future(connection.request(put(value), 60_000)) for value in ("one", "two")]
    await asyncio.sleep(0)      # they are on their way
    get = RemotingCommand.request(RequestCode.GET_KV_CONFIG, {"namespace": "N", "key": "k"})
    assert (await connection.request(get, 60_000)).ext["value"] == "two"
    assert not any(answer.done() for answer in answers)
    assert not saved.exists()
    shelf.open()
    assert [answer.code for answer in await asyncio.gather(*answers)] == [ResponseCode.SUCCESS] * 2
    assert '"two"' in saved.read_text()
    connection.close()
    await server.stop()


async def test_a_deletion_that_is_asked_for_again_is_answered_when_it_is_saved_too(tmp_path: Path) -> None:
    shelf = ClosedShelf()
    server = NameServer(config(tmp_path / "kvConfig.json"), workers=shelf)
    await server.start()
    connection = await connect(HOST, server.port)
    changes = [put("one"), *(RemotingCommand.request(RequestCode.DELETE_KV_CONFIG, {"namespace": "N", "key": "k"})
                             for _ in range(2))]
    answers = [asyncio.ensure_future(connection.request(change, 60_000)) for change in changes]
    await asyncio.sleep(0)      # they are on their way
    get = RemotingCommand.request(RequestCode.GET_KV_CONFIG, {"namespace": "N", "key": "k"})
    assert (await connection.request(get, 60_000)).code == ResponseCode.QUERY_NOT_FOUND
    assert not any(answer.done() for answer in answers)
    shelf.open()
    assert [answer.code for answer in await asyncio.gather(*answers)] == [ResponseCode.SUCCESS] * 3
    connection.close()
    await server.stop()


async def test_a_one_way_change_is_saved_at_once(tmp_path: Path) -> None:
    saved = tmp_path / "kvConfig.json"
    server = NameServer(config(saved))
    await server.start()
    connection = await connect(HOST, server.port)
    change = put("kept")
    change.flag |= ONEWAY_FLAG
    connection.send(change)
    async with asyncio.timeout(60):
        while not saved.exists():
            await asyncio.sleep(0)
    connection.close()
    await server.stop()


async def test_a_stop_saves_what_is_not_saved_yet(tmp_path: Path) -> None:
    saved = tmp_path / "kvConfig.json"
    server = NameServer(config(saved))
    await server.start()
    server.state.kv_config.put("N", "k", "late")
    await server.stop()
    assert '"late"' in saved.read_text()


@pytest.mark.parametrize("name", ["kvConfig.json", "kv.conf", "settings", "a.b.json"])
async def test_the_file_has_the_name_that_the_setting_gives_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"configTable":{"N":{"k":"before"}}}')
    server = NameServer(config(tmp_path / name))
    await server.start()
    assert server.state.kv_config.get("N", "k") == "before"
    server.state.kv_config.put("N", "k", "after")
    await server.stop()
    assert '"after"' in (tmp_path / name).read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, f"{name}.bak"]


@pytest.mark.parametrize("name", ["", "/", "..", ".kv"])
async def test_what_is_no_name_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    server = NameServer(config(tmp_path / "folder" / name) if name != "/" else config(Path("/")))
    if not name:
        (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match=r"not a name for a document|cannot be read: Is a directory"):
        await server.start()


async def test_a_configuration_that_could_not_be_saved_is_refused_and_saved_later(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "FAULT_RETRY_S", 0.01)
    saved = tmp_path / "config" / "kvConfig.json"
    server = NameServer(config(saved))
    await server.start()
    saved.parent.touch()        # a file stands where the directory must be
    connection = await connect(HOST, server.port)
    refused = await connection.request(put("kept"), 60_000)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "is not saved" in (refused.remark or "")
    saved.parent.unlink()
    async with asyncio.timeout(60):
        while (await connection.request(put("other", "l"), 60_000)).code != ResponseCode.SUCCESS:
            await asyncio.sleep(0)
    assert "kept" in saved.read_text()
    connection.close()
    await server.stop()
    again = NameServer(config(saved))
    await again.start()
    assert again.state.kv_config.namespace("N") == {"k": "kept", "l": "other"}
    await again.stop()


def registering(count: int, version: int = 1, *, address: str = "10.0.0.1:10911", queues: int = 4,
                padding: int = 0) -> RemotingCommand:
    topics = {f"T{number}": TopicConfig(topic_name=f"T{number}", read_queue_nums=queues, write_queue_nums=queues)
              for number in range(count)}
    wrapper = TopicConfigSerializeWrapper(topic_config_table=topics,
                                          data_version=DataVersion(counter=version, state_version=version))
    header = RegisterBrokerRequest(broker_name="b", broker_addr=address, cluster_name="C",
                                   ha_server_addr="10.0.0.1:10912", broker_id=0)
    return RemotingCommand.request(RequestCode.REGISTER_BROKER, header.ext(),
                                   RegisterBrokerBody(topic_config_serialize_wrapper=wrapper,
                                                      filter_server_list=["x" * padding] if padding else []).encode())


def unregistering(address: str = "10.0.0.1:10911") -> RemotingCommand:
    header = UnregisterBrokerRequest(broker_name="b", broker_addr=address, cluster_name="C", broker_id=0)
    return RemotingCommand.request(RequestCode.UNREGISTER_BROKER, header.ext())


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NameServer]:
    server = NameServer(config(tmp_path / "kvConfig.json"))
    await server.start()
    yield server
    await server.stop()


async def asked(server: NameServer, connections: list[Connection], *requests: RemotingCommand) -> list[int]:
    """What is answered to requests each of which comes before the one in front of it is done, if that takes steps; each
    over the connection of its number."""
    answers: list[asyncio.Future[RemotingCommand]] = []
    for number, request in enumerate(requests):
        waiting = len(server._long_answers)
        answers.append(asyncio.ensure_future(connections[number % len(connections)].request(request, 20_000)))
        while len(server._long_answers) == waiting and not answers[-1].done():
            await asyncio.sleep(0)
    return [answer.code for answer in await asyncio.gather(*answers)]


async def test_others_are_answered_while_a_broker_registers_very_many_topics(server: NameServer) -> None:
    broker, client = await connect(HOST, server.port), await connect(HOST, server.port)
    registered = asyncio.ensure_future(broker.request(registering(5_000), 20_000))
    answered = 0
    while not registered.done():
        await client.request(RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO), 60_000)
        answered += 1
    assert (await registered).code == ResponseCode.SUCCESS
    assert answered > 10
    assert len(server.state.routes.topics) == 5_000
    broker.close()
    client.close()


async def test_what_a_broker_says_later_counts_later(server: NameServer) -> None:
    broker = await connect(HOST, server.port)
    assert await asked(server, [broker], registering(3_000, 1, queues=4), registering(2, 2, queues=16)) == [0, 0]
    assert [server.state.routes.topics[topic]["b"].read_queue_nums for topic in ("T0", "T1", "T2")] == [16, 16, 4]
    assert server.state.routes.data_version("C", "10.0.0.1:10911") == DataVersion(counter=2, state_version=2)
    assert await asked(server, [broker], registering(3_000, 3), unregistering()) == [0, 0]
    assert (server.state.routes.brokers, server.state.routes.topics) == ({}, {})
    broker.close()


@pytest.mark.parametrize("goes", [False, True])
async def test_a_successor_takes_the_place_of_one_that_is_still_read(server: NameServer, goes: bool) -> None:
    brokers = [await connect(HOST, server.port) for _ in range(3)]
    old, new = registering(3_000, 1, address="old:1"), registering(3_000, 2, address="new:1", queues=8)
    routes = server.state.routes
    if goes:
        assert await asked(server, brokers, old, new, unregistering("new:1")) == [0, 0, 0]
        assert (routes.brokers, routes.topics) == ({}, {})
    else:
        assert await asked(server, brokers, old, new) == [0, 0]
        assert {rows["b"].read_queue_nums for rows in routes.topics.values()} == {8}
        assert routes.brokers["b"].broker_addrs == {0: "new:1"}
    for broker in brokers:
        broker.close()


async def test_what_an_operator_does_meanwhile_is_done_to_all_of_a_registration(server: NameServer) -> None:
    broker, operator = await connect(HOST, server.port), await connect(HOST, server.port)
    wipe = RemotingCommand.request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "b"})
    delete = RemotingCommand.request(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T7"})
    assert await asked(server, [broker, operator, operator], registering(3_000), wipe, delete) == [0, 0, 0]
    assert {rows["b"].perm for rows in server.state.routes.topics.values()} == {permission.READ}
    assert len(server.state.routes.topics) == 2_999
    broker.close()
    operator.close()


async def test_a_broker_that_goes_while_it_registers_leaves_nothing_behind(server: NameServer) -> None:
    broker, other = await connect(HOST, server.port), await connect(HOST, server.port)
    answer = asyncio.ensure_future(broker.request(registering(3_000), 20_000))
    await asyncio.sleep(0)
    behind = asyncio.ensure_future(other.request(registering(2, address="new:1"), 20_000))
    await asyncio.sleep(0)
    broker.close()
    assert (await behind).code == ResponseCode.SUCCESS
    assert sorted(server.state.routes.topics) == ["T0", "T1"]
    await asyncio.wait([answer])
    assert isinstance(answer.exception(), ClientError)
    other.close()


async def test_the_broker_in_this_process_waits_for_nobody(server: NameServer) -> None:
    """Though a peer registers the same address, with more topics than one step takes."""
    peer = await connect(HOST, server.port)
    answer = asyncio.ensure_future(peer.request(registering(3_000), 20_000))
    asked = 0
    while not answer.done():
        own = server.ask(registering(2, 2))
        assert own is not None
        assert own.code == ResponseCode.SUCCESS
        asked += 1
        await asyncio.sleep(0)
    assert (await answer).code == ResponseCode.SUCCESS
    assert asked > 10
    peer.close()


async def test_many_brokers_that_register_at_once_are_all_taken(server: NameServer) -> None:
    """As after a start of the name server."""
    broker = await connect(HOST, server.port)
    requests = [registering(300, address=f"10.0.0.{number}:10911") for number in range(LONG_ANSWERS_MAX + 6)]
    assert set(await asked(server, [broker], *requests)) == {ResponseCode.SUCCESS}
    broker.close()


async def test_registrations_without_room_wait_in_their_sockets_and_are_all_taken(tmp_path: Path) -> None:
    """Those that were refused would come again all at the same moment, and the same ones might find no room again."""
    limits = TransportConfig(large_frames_size_max=FRAME_SIZE_MAX + 4)
    server = NameServer(config(tmp_path / "kvConfig.json"), limits)
    await server.start()
    requests = [registering(1_000, address=f"10.0.0.{number}:10911", padding=6 << 20) for number in range(5)]
    brokers = [await connect(HOST, server.port) for _ in requests]
    answers = [asyncio.ensure_future(broker.request(request, 60_000))
               for broker, request in zip(brokers, requests, strict=True)]
    kept = []
    while not all(answer.done() for answer in answers):
        kept.append(server._long_answers.bodies_size)
        await asyncio.sleep(0)
    assert [answer.result().code for answer in answers] == [ResponseCode.SUCCESS] * 5
    assert max(kept) <= FRAME_SIZE_MAX + 4
    for broker in brokers:
        broker.close()
    await server.stop()
    assert server._unfinished.kept_size == 0


async def test_one_connection_does_not_fill_the_line_for_the_others(server: NameServer) -> None:
    greedy, broker = await connect(HOST, server.port), await connect(HOST, server.port)
    answers = [asyncio.ensure_future(greedy.request(request, 20_000))
               for request in (registering(3_000), *[unregistering("gone:1")] * LINED_MAX)]
    while len(server._long_answers) < LINED_MAX // 2:
        await asyncio.sleep(0)
    (code,) = await asked(server, [broker], registering(2, address="new:1"))
    codes = [answer.code for answer in await asyncio.gather(*answers)]
    assert code == ResponseCode.SUCCESS
    assert codes == [ResponseCode.SUCCESS] * (LINED_MAX // 2) + [ResponseCode.SYSTEM_BUSY] * (LINED_MAX // 2 + 1)
    greedy.close()
    broker.close()


async def test_a_registration_that_fails_is_told_and_holds_up_nobody(
        server: NameServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    register = server.state.routes.register

    def failing(registration: Registration, *arguments: Any) -> Any:
        if registration.broker_addr == "bad:1":
            raise ZeroDivisionError
        return register(registration, *arguments)

    monkeypatch.setattr(server.state.routes, "register", failing)
    bad, good = await connect(HOST, server.port), await connect(HOST, server.port)
    codes = await asked(server, [bad, good], registering(3_000, address="bad:1"), registering(3_000, address="good:1"))
    assert codes == [ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS]
    (told,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert told.message.startswith(f"request {int(RequestCode.REGISTER_BROKER)} of {HOST}:")
    assert told.exc_info is not None
    assert told.exc_info[0] is ZeroDivisionError
    bad.close()
    good.close()
