"""Loops that have work and get nowhere are told, once, and what is wrong is known to whoever asks."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from regulus.broker.config import BrokerConfig
from regulus.model.broker_role import BrokerRole
from regulus.server.assembly import BrokerServer
from regulus.server.health import LOOKS_MAX, Health
from regulus.testing.running_server import HOST, small_store
from regulus.transport.config import TransportConfig
from regulus.transport.connector import connect
from regulus.wire.bodies import KVTable
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand
from tests.virtual_time import in_virtual_time

NAME = "carrying things"


class Carrier:
    """A loop that carries as much as the test wants."""

    def __init__(self) -> None:
        self.carried = 0
        self.has_work = True
        self.pause_s = 0.0
        self.complaints: Sequence[str] = ()
        self.fault = ""
        self.health = Health(self._take)
        self.health.watch(NAME, lambda: self.carried, lambda: self.has_work, lambda: self.pause_s)
        self.health.watch_fault(lambda: self.fault)

    def _take(self, complaints: Sequence[str]) -> None:
        self.complaints = complaints


@in_virtual_time
async def test_a_loop_that_gets_nowhere_is_behind_until_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    carrier = Carrier()
    carrier.health.start()
    await asyncio.sleep(LOOKS_MAX - 0.5)
    assert carrier.complaints == []
    await asyncio.sleep(1)
    assert carrier.complaints == [f"{NAME} got nowhere for {LOOKS_MAX} s"]
    await asyncio.sleep(2)
    assert carrier.complaints == [f"{NAME} got nowhere for {LOOKS_MAX + 2} s"]
    carrier.carried += 1
    await asyncio.sleep(1)
    assert carrier.complaints == []
    await asyncio.sleep(LOOKS_MAX)
    assert carrier.complaints == [f"{NAME} got nowhere for {LOOKS_MAX} s"]
    carrier.health.stop()
    behind = f"{NAME} got nowhere for {LOOKS_MAX} s"
    assert caplog.messages == [behind, f"{NAME} makes progress again", behind]


@in_virtual_time
async def test_a_loop_without_work_is_not_behind() -> None:
    carrier = Carrier()
    carrier.has_work = False
    carrier.health.start()
    await asyncio.sleep(3 * LOOKS_MAX)
    assert carrier.complaints == []
    carrier.has_work = True     # now its time begins
    await asyncio.sleep(LOOKS_MAX - 1.5)
    assert carrier.complaints == []
    carrier.health.stop()


@in_virtual_time
async def test_a_loop_may_rest_as_long_as_its_settings_say() -> None:
    carrier = Carrier()
    carrier.pause_s = 30.0
    carrier.health.start()
    await asyncio.sleep(LOOKS_MAX + 59.5)
    assert carrier.complaints == []
    await asyncio.sleep(1)
    assert len(carrier.complaints) == 1
    carrier.health.stop()


@in_virtual_time
async def test_what_others_tell_is_wrong_at_once_and_as_long_as_they_do() -> None:
    carrier = Carrier()
    carrier.has_work = False
    carrier.fault = "the disk refuses"
    carrier.health.start()
    assert carrier.complaints == ["the disk refuses"]
    carrier.fault = ""
    await asyncio.sleep(1.5)
    assert carrier.complaints == []
    carrier.health.stop()
    carrier.fault = "nobody looks any more"
    await asyncio.sleep(3)
    assert carrier.complaints == []


@in_virtual_time
async def test_an_error_of_a_look_is_not_the_end_of_looking() -> None:
    errors: list[object] = []
    nothing: dict[str, int] = {}
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    carrier = Carrier()
    carrier.has_work = False
    carrier.health.start()
    carrier.health.watch("what is not there", lambda: nothing["progress"])
    await asyncio.sleep(1.5)
    assert [type(error) for error in errors] == [KeyError]
    await asyncio.sleep(1)
    assert len(errors) == 2
    carrier.health.stop()


async def runtime_info(server: BrokerServer) -> dict[str, str]:
    connection = await connect(HOST, server.port)
    answer = await connection.request(RemotingCommand.request(RequestCode.GET_BROKER_RUNTIME_INFO), 60_000)
    connection.close()
    return dict(KVTable.decode(answer.body).table)


async def test_a_broker_says_that_it_is_well_and_what_is_wrong(tmp_path: Path) -> None:
    server = BrokerServer(BrokerConfig(listen_port=0, broker_ip1=HOST), small_store(tmp_path),
                          transport_config=TransportConfig(bind_address=HOST))
    await server.start()
    assert (await runtime_info(server))["health"] == "ok"
    server.broker.complaints = ("one loop got nowhere", "another, too")
    assert (await runtime_info(server))["health"] == "one loop got nowhere; another, too"
    await server.stop()


async def stop_documents(server: BrokerServer) -> None:
    await server._keeper.stop()


async def stop_care(server: BrokerServer) -> None:
    await server._care.stop()


async def stop_retention(server: BrokerServer) -> None:
    await server._retention.stop()


async def stop_ticks(server: BrokerServer) -> None:
    server._ticks.stop()


async def stop_flushing(server: BrokerServer) -> None:
    await server._flush.stop()
    await send(server)


async def stop_dispatch(server: BrokerServer) -> None:
    server._dispatch.stop()
    await send(server)


async def send(server: BrokerServer) -> None:
    connection = await connect(HOST, server.port)
    ext = {"producerGroup": "P", "topic": "TBW102", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
           "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": ""}
    answer = await connection.request(RemotingCommand.request(RequestCode.SEND_MESSAGE, ext, b"body"), 60_000)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    connection.close()


@pytest.mark.parametrize(("stop", "name"), [
    (stop_documents, "saving documents"), (stop_care, "bringing queues and checkpoint to disk"),
    (stop_retention, "looking after old files"), (stop_ticks, "the tick of the broker"),
    (stop_flushing, "flushing the commit log"), (stop_dispatch, "making messages visible")])
async def test_each_loop_of_a_broker_is_looked_after(stop: Callable[[BrokerServer], Awaitable[None]], name: str,
                                                     tmp_path: Path) -> None:
    server = BrokerServer(BrokerConfig(listen_port=0, broker_ip1=HOST, auto_create_topic_enable=True),
                          small_store(tmp_path), transport_config=TransportConfig(bind_address=HOST))
    await server.start()
    await stop(server)
    longest_s = max(LOOKS_MAX, 2 * server.broker.config.clean_resource_interval / 1000 + LOOKS_MAX)
    for _ in range(int(longest_s) + 2):
        server._health.look()
    assert any(complaint.startswith(f"{name} got nowhere for ") for complaint in server.broker.complaints)
    await server.stop()


async def test_a_broker_whose_name_server_is_away_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as nobody:
        nobody.bind((HOST, 0))
        server = BrokerServer(BrokerConfig(listen_port=0, broker_ip1=HOST,
                                           namesrv_addr=f"{HOST}:{nobody.getsockname()[1]}"),
                              small_store(tmp_path), transport_config=TransportConfig(bind_address=HOST))
        await server.start()
        for _ in range(LOOKS_MAX + 62):
            server._health.look()
        assert any(each.startswith("registration with a name server") for each in server.broker.complaints)
        [told] = [record for record in caplog.records if record.message.startswith("registration with a name server")]
        assert told.levelno == logging.WARNING      # no fault of its own
        await server.stop()


async def test_a_slave_whose_master_is_away_says_so(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind((HOST, 0))
        server = BrokerServer(BrokerConfig(listen_port=0, broker_ip1=HOST, broker_id=1, broker_role=BrokerRole.SLAVE,
                                           namesrv_addr=f"{HOST}:{nobody.getsockname()[1]}"),
                              small_store(tmp_path), transport_config=TransportConfig(bind_address=HOST))
        await server.start()
        for _ in range(LOOKS_MAX + 1):
            server._health.look()
        assert any(each.startswith("the link to the master") for each in server.broker.complaints)
        await server.stop()


async def test_a_document_that_the_disk_refuses_is_told(tmp_path: Path) -> None:
    server = BrokerServer(BrokerConfig(listen_port=0, broker_ip1=HOST), small_store(tmp_path),
                          transport_config=TransportConfig(bind_address=HOST))
    await server.start()
    server._keeper._tell("topics", "no room")
    server._health.look()
    assert server.broker.complaints == ["the document topics is not saved: no room"]
    server._keeper._tell("topics", "")
    server._health.look()
    assert server.broker.complaints == []
    await server.stop()


async def test_queues_that_the_disk_refuses_are_told(tmp_path: Path) -> None:
    server = BrokerServer(BrokerConfig(listen_port=0, broker_ip1=HOST), small_store(tmp_path),
                          transport_config=TransportConfig(bind_address=HOST))
    await server.start()
    server._care._flush_fault.tell("no room", 1)
    server._health.look()
    assert server.broker.complaints == [
        "queues, index or what is known of them are not brought to disk: no room"]
    await server.stop()
