"""Brokers elsewhere: how they are found, and what holds while name servers do not answer."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from regulus.errors import CallRefused
from regulus.proxy import cluster_brokers
from regulus.proxy.brokers import NAME_SERVER
from regulus.proxy.cluster_brokers import ClusterBrokers
from regulus.proxy.config import ProxyConfig
from regulus.wire.codes import RequestCode
from regulus.wire.grpc.codes import Code
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client.scripted_servers import ScriptedCluster, closed_address, scripted_cluster

LOOK = RequestCode.GET_BROKER_CLUSTER_INFO


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster() as made:
        await made.add_broker("a")
        yield made


@pytest.fixture
async def brokers(cluster: ScriptedCluster) -> AsyncIterator[ClusterBrokers]:
    made = ClusterBrokers(ProxyConfig(namesrv_addr=cluster.name_server.address))
    yield made
    await made.stop()


async def ask(brokers: ClusterBrokers, broker: str, size: int = 0) -> int:
    command = RemotingCommand.request(RequestCode.HEART_BEAT, body=bytes(size))
    return (await brokers.ask(broker, command, 20_000)).code


async def test_a_name_server_that_does_not_answer_holds_up_nobody_whose_broker_is_known(
        cluster: ScriptedCluster, brokers: ClusterBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await ask(brokers, "a") == 0
    monkeypatch.setattr(cluster_brokers, "ADDRESSES_AGE_MAX_S", 0.0)
    monkeypatch.setattr(cluster_brokers, "LOOK_S_MIN", 0.0)
    monkeypatch.setattr(cluster_brokers, "_ASK_TIMEOUT_MS", 60_000)
    cluster.name_server.script = lambda command: None
    begun = asyncio.get_running_loop().time()
    for _ in range(20):
        assert await ask(brokers, "a") == 0
    assert asyncio.get_running_loop().time() - begun < 30
    assert len(cluster.name_server.requests_of(LOOK)) == 2       # one under way for all
    await cluster.name_server.stop()
    assert await ask(brokers, "a") == 0


async def test_all_that_ask_for_a_broker_that_is_not_known_wait_for_one_look(cluster: ScriptedCluster,
                                                                             brokers: ClusterBrokers) -> None:
    assert await asyncio.gather(*[ask(brokers, "a") for _ in range(50)]) == [0] * 50
    for _ in range(3):
        with pytest.raises(CallRefused) as refused:
            await ask(brokers, "made up")
        assert refused.value.code == Code.PROXY_TIMEOUT
    assert len(cluster.name_server.requests_of(LOOK)) == 1


async def test_without_a_name_server_a_broker_that_is_not_known_is_no_clients_fault(cluster: ScriptedCluster,
                                                                                    brokers: ClusterBrokers) -> None:
    await cluster.name_server.stop()
    with pytest.raises(CallRefused) as refused:
        await ask(brokers, "a")
    assert refused.value.code == Code.INTERNAL_SERVER_ERROR
    with pytest.raises(CallRefused) as refused:
        await ask(brokers, NAME_SERVER)
    assert refused.value.code == Code.INTERNAL_SERVER_ERROR


async def test_that_no_name_server_answers_is_told_before_anybody_asks(caplog: pytest.LogCaptureFixture) -> None:
    address = closed_address()
    made = ClusterBrokers(ProxyConfig(namesrv_addr=address))
    try:
        await made.start()
        async with asyncio.timeout(60):
            while not caplog.messages:
                await asyncio.sleep(0.01)
        (told,) = caplog.messages
        assert told.startswith("the brokers cannot be looked up now: no name server answers: "
                               f"no connection to {address}: ")
    finally:
        await made.stop()


async def test_a_master_that_moves_is_found_and_one_that_is_down_costs_the_others_nothing(
        cluster: ScriptedCluster, brokers: ClusterBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_brokers, "LOOK_S_MIN", 0.0)
    monkeypatch.setattr(cluster_brokers, "ADDRESSES_AGE_MAX_S", 3_600.0)
    cluster.add_unreachable_broker("b", closed_address())
    assert await ask(brokers, "a") == 0
    looks = len(cluster.name_server.requests_of(LOOK))
    for _ in range(10):
        with pytest.raises(CallRefused) as refused:
            await ask(brokers, "b")
        assert refused.value.code == Code.PROXY_TIMEOUT
    monkeypatch.setattr(cluster_brokers, "LOOK_S_MIN", 3_600.0)
    looked = len(cluster.name_server.requests_of(LOOK)) - looks
    for _ in range(10):
        assert await ask(brokers, "a") == 0
    assert len(cluster.name_server.requests_of(LOOK)) - looks <= looked + 1
    monkeypatch.setattr(cluster_brokers, "LOOK_S_MIN", 0.0)
    await cluster.add_broker("b")
    async with asyncio.timeout(60):     # long before the addresses are old
        while True:
            try:
                assert await ask(brokers, "b") == 0
                break
            except CallRefused:
                await asyncio.sleep(0.01)
    looks = len(cluster.name_server.requests_of(LOOK))
    for _ in range(10):
        assert await ask(brokers, "b") == 0
    assert len(cluster.name_server.requests_of(LOOK)) == looks      # all is well again


async def test_a_slave_is_asked_nothing(cluster: ScriptedCluster, brokers: ClusterBrokers) -> None:
    cluster.broker_id = 1
    with pytest.raises(CallRefused) as refused:
        await ask(brokers, "a")
    assert refused.value.code == Code.PROXY_TIMEOUT


async def test_a_request_that_fits_into_no_frame_is_refused_and_its_connection_lives(cluster: ScriptedCluster,
                                                                                     brokers: ClusterBrokers) -> None:
    with pytest.raises(CallRefused, match="16777216") as refused:
        await ask(brokers, "a", 17 << 20)
    assert refused.value.code == Code.INTERNAL_SERVER_ERROR
    assert await ask(brokers, "a") == 0


async def test_a_broker_that_is_known_by_the_name_of_its_host_is_heard(cluster: ScriptedCluster,
                                                                       brokers: ClusterBrokers) -> None:
    """Its connection says 127.0.0.1, and its entry at the name server localhost."""
    heard: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    async def on_request(broker: str, command: RemotingCommand) -> None:
        heard.put_nowait((broker, command.code))

    brokers.on_request = on_request
    cluster.addresses["a"] = cluster.addresses["a"].replace("127.0.0.1", "localhost")
    assert await ask(brokers, "a") == 0
    (connection,) = cluster.brokers["a"].connections
    connection.ask_soon(RemotingCommand.request(RequestCode.CHECK_TRANSACTION_STATE, oneway=True))
    assert await asyncio.wait_for(heard.get(), 60) == ("a", RequestCode.CHECK_TRANSACTION_STATE)


async def test_brokers_are_ready_when_one_is_known_and_stay_so_without_a_name_server(
        cluster: ScriptedCluster, brokers: ClusterBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks whether they are has them looked up, once for all."""
    assert not any(brokers.is_ready() for _ in range(50))
    async with asyncio.timeout(20):
        while not brokers.is_ready():
            await asyncio.sleep(0.01)
    assert len(cluster.name_server.requests_of(LOOK)) == 1
    monkeypatch.setattr(cluster_brokers, "ADDRESSES_AGE_MAX_S", 0.0)
    monkeypatch.setattr(cluster_brokers, "LOOK_S_MIN", 0.0)
    assert brokers.is_ready()
    async with asyncio.timeout(20):
        while len(cluster.name_server.requests_of(LOOK)) < 2:
            await asyncio.sleep(0.01)
    await cluster.name_server.stop()
    assert await ask(brokers, "a") == 0
    assert brokers.is_ready()
