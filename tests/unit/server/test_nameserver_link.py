"""Registration over the network, with name servers that come and go."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.state import BrokerState
from regulus.model.broker_role import BrokerRole
from regulus.nameserver.config import NamesrvConfig
from regulus.server import nameserver_link
from regulus.server.name_server import NameServer
from regulus.server.nameserver_link import EmbeddedLink, NameserverLink
from regulus.server.registration import TOPICS_PER_REQUEST
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.transport.config import TransportConfig
from regulus.wire.remoting_command import RemotingCommand

HOST = "127.0.0.1"


async def started(port: int = 0) -> NameServer:
    server = NameServer(NamesrvConfig(listen_port=port, bind_address=HOST), TransportConfig(bind_address=HOST))
    await server.start()
    return server


@pytest.fixture
def broker(tmp_path: Path) -> BrokerState:
    return BrokerState(BrokerConfig(listen_port=10911), FileMessageStore(
        MessageStoreConfig(store_path_root_dir=str(tmp_path))), now_ms=1)


@pytest.fixture
async def name_server() -> AsyncIterator[NameServer]:
    server = await started()
    yield server
    await server.stop()


async def until_known(server: NameServer, is_known: bool = True) -> None:
    async with asyncio.timeout(25):
        while bool(server.state.routes.brokers) is not is_known:
            await asyncio.sleep(0)


async def test_a_name_server_that_is_down_holds_up_none(
        broker: BrokerState, name_server: NameServer, caplog: pytest.LogCaptureFixture) -> None:
    down = await started()
    await down.stop()
    link = NameserverLink(broker, 10911, 10912, [(HOST, down.port), (HOST, name_server.port)], lambda *master: None)
    await link.start()
    await until_known(name_server)
    await link.stop()
    assert caplog.text.count(f"name server {HOST}:{down.port} does not know this broker") == 1


async def test_a_name_server_that_comes_back_is_told_again(
        broker: BrokerState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nameserver_link, "RETRY_INTERVAL_MIN_S", 0.01)
    monkeypatch.setattr(nameserver_link, "RETRY_INTERVAL_MAX_S", 0.01)
    first = await started()
    link = NameserverLink(broker, 10911, 10912, [(HOST, first.port)], lambda *master: None)
    await link.start()
    await until_known(first)
    await first.stop()
    second = await started(first.port)
    await until_known(second)
    await link.stop()
    await second.stop()


async def test_a_fault_of_our_own_does_not_end_the_registrations(
        broker: BrokerState, name_server: NameServer, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture) -> None:
    """Such as an answer that nobody thought of: without its task a broker would be forgotten in silence."""
    monkeypatch.setattr(nameserver_link, "RETRY_INTERVAL_MAX_S", 0.01)
    link = NameserverLink(broker, 10911, 10912, [(HOST, name_server.port)], lambda *master: None)
    with monkeypatch.context() as broken:
        broken.setattr(NameserverLink, "_register", lambda self, number: 1 // 0)
        await link.start()
        async with asyncio.timeout(25):
            while "was interrupted" not in caplog.text:
                await asyncio.sleep(0)
    await until_known(name_server)
    await link.stop()


async def test_the_end_of_the_link_unregisters(broker: BrokerState, name_server: NameServer) -> None:
    link = NameserverLink(broker, 10911, 10912, [(HOST, name_server.port)], lambda *master: None)
    await link.start()
    await until_known(name_server)
    await link.stop()
    await until_known(name_server, is_known=False)


async def test_without_a_setting_the_broker_is_known_by_the_address_it_came_from(
        broker: BrokerState, name_server: NameServer) -> None:
    link = NameserverLink(broker, 10911, 10912, [(HOST, name_server.port)], lambda *master: None)
    await link.start()
    await until_known(name_server)
    assert [row.broker_addrs for row in name_server.state.routes.brokers.values()] == [{0: f"{HOST}:10911"}]
    await link.stop()


async def test_a_new_topic_is_told_at_once(broker: BrokerState, name_server: NameServer) -> None:
    link = EmbeddedLink(broker, 10911, 10912, name_server.ask)
    await link.start()
    broker.topics.create_if_absent("Fresh", 1, 5)
    link.topics_changed()
    assert "Fresh" in name_server.state.routes.topics
    await link.stop()
    link.topics_changed()       # a change of the last moment does not register again
    assert not name_server.state.routes.brokers


def link_of_many_topics(broker: BrokerState, name_server: NameServer) -> EmbeddedLink:
    """What it has to tell takes several requests."""
    for number in range(3 * TOPICS_PER_REQUEST):
        broker.topics.create_if_absent(f"T{number}", 1, 5)
    return EmbeddedLink(broker, 10911, 10912, name_server.ask)


async def test_a_topic_that_is_made_while_others_are_told_is_told_behind_them(
        broker: BrokerState, name_server: NameServer) -> None:
    link = link_of_many_topics(broker, name_server)
    starting = asyncio.ensure_future(link.start())
    await asyncio.sleep(0)
    broker.topics.create_if_absent("Fresh", 1, 5)
    link.topics_changed()
    assert "Fresh" not in name_server.state.routes.topics
    assert not starting.done()
    async with asyncio.timeout(25):
        while "Fresh" not in name_server.state.routes.topics:
            await asyncio.sleep(0)
    await starting
    await link.stop()


async def test_a_start_ends_when_the_name_server_in_this_process_knows_all(
        broker: BrokerState, name_server: NameServer) -> None:
    link = link_of_many_topics(broker, name_server)
    async with asyncio.timeout(25):
        await link.start()
    assert broker.topics.facts.keys() <= name_server.state.routes.topics.keys()
    await link.stop()


async def test_a_link_that_is_ended_while_it_starts_keeps_nobody_waiting(
        broker: BrokerState, name_server: NameServer) -> None:
    link = link_of_many_topics(broker, name_server)
    starting = asyncio.ensure_future(link.start())
    await asyncio.sleep(0)
    await link.stop()
    async with asyncio.timeout(25):
        await starting


async def test_a_fault_on_the_way_ends_the_start_and_all_is_told_anew(
        broker: BrokerState, name_server: NameServer, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture) -> None:
    for number in range(3 * TOPICS_PER_REQUEST):
        broker.topics.create_if_absent(f"T{number}", 1, 5)
    asked = 0

    def ask(request: RemotingCommand) -> RemotingCommand | None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise ZeroDivisionError
        return name_server.ask(request)

    monkeypatch.setattr(nameserver_link, "RETRY_INTERVAL_MAX_S", 0.01)
    link = EmbeddedLink(broker, 10911, 10912, ask)
    async with asyncio.timeout(25):
        await link.start()
        assert not broker.topics.facts.keys() <= name_server.state.routes.topics.keys()
        while not broker.topics.facts.keys() <= name_server.state.routes.topics.keys():
            await asyncio.sleep(0)
    assert "ZeroDivisionError" in caplog.text
    await link.stop()


async def test_a_slave_that_knows_no_master_asks_again_soon(tmp_path: Path, name_server: NameServer,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """Both may have been started in one moment; by its period it would ask half a minute later."""
    monkeypatch.setattr(nameserver_link, "RETRY_INTERVAL_MAX_S", 0.01)
    heard: asyncio.Queue[str] = asyncio.Queue()

    def state(name: str, **settings: object) -> BrokerState:
        return BrokerState(BrokerConfig(listen_port=10911, register_name_server_period=30_000,
                                         namesrv_addr=f"{HOST}:{name_server.port}", **settings),
                           FileMessageStore(MessageStoreConfig(store_path_root_dir=str(tmp_path / name))), now_ms=1)

    slave = NameserverLink(state("slave", broker_role=BrokerRole.SLAVE, broker_id=1), 10921, 10922,
                           [(HOST, name_server.port)], lambda address, ha_address: heard.put_nowait(address))
    await slave.start()
    await until_known(name_server)
    master = NameserverLink(state("master", broker_role=BrokerRole.ASYNC_MASTER), 10911, 10912,
                            [(HOST, name_server.port)], lambda *master: None)
    await master.start()
    assert await asyncio.wait_for(heard.get(), 25) == f"{HOST}:10911"
    before = slave.registrations
    for _ in range(100):
        await asyncio.sleep(0.001)
    assert slave.registrations <= before + 1        # now by its period
    await slave.stop()
    await master.stop()
