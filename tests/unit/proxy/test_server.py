"""The loops of the front: what brokers hear of its clients."""

import asyncio

import pytest

from regulus.errors import CallRefused
from regulus.proxy import catalog, server
from regulus.proxy.brokers import NAME_SERVER
from regulus.proxy.caller import Caller
from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import ProxyServer
from regulus.transport.config import TransportConfig
from regulus.wire.bodies import ClusterInfo
from regulus.wire.bodies.heartbeat_data import HeartbeatData
from regulus.wire.bodies.topic_route_data import BrokerData
from regulus.wire.codes import RequestCode
from regulus.wire.grpc.codes import Code
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import ScriptedBrokers


class Cluster(ScriptedBrokers):
    """Masters `a` and `b`; those in `down` answer nothing, a name server among them."""

    def __init__(self) -> None:
        super().__init__({})
        self.down: set[str] = set()
        self.told: list[tuple[str, list[str]]] = []

    async def ask(self, broker: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        await asyncio.sleep(0)
        if command.code == RequestCode.HEART_BEAT:
            data = HeartbeatData.decode(command.body)
            self.told.append((broker, [each.group_name for each in data.producer_data_set]))
        if broker in self.down:
            raise CallRefused(Code.PROXY_TIMEOUT, "it is down")
        if broker == NAME_SERVER:
            table = {name: BrokerData(broker_name=name, broker_addrs={number: f"{name}:1"})
                     for name, number in (("a", 0), ("b", 0), ("slave", 1))}
            return command.response(0, body=ClusterInfo(broker_addr_table=table).encode())
        return command.response(0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(catalog, "FRESH_S", 0.0)
    return Cluster()


async def tell(front: ProxyServer, cluster: Cluster, times: int = 1) -> list[tuple[str, list[str]]]:
    """What each master heard since."""
    cluster.told.clear()
    for _ in range(times):
        await front._tell_brokers()
    return sorted(cluster.told)


def front_of(cluster: Cluster, *topics: str) -> ProxyServer:
    front = ProxyServer(ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1"), cluster, TransportConfig())
    for topic in topics:
        front._clients.sends_to(Caller(client_id="c"), topic)
    return front


async def test_masters_hear_once_who_may_be_asked_and_of_new_topics_at_once(cluster: Cluster) -> None:
    front = front_of(cluster, "t")
    assert await tell(front, cluster, 3) == [("a", ["t"]), ("b", ["t"])]
    front._clients.sends_to(Caller(client_id="c"), "u")
    assert await tell(front, cluster, 3) == [("a", ["t", "u"]), ("b", ["t", "u"])]


async def test_a_broker_that_takes_no_heartbeat_gets_another_soon_and_the_others_do_not(
        cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    front = front_of(cluster, "t")
    cluster.down.add("b")
    assert await tell(front, cluster, 3) == [("a", ["t"]), ("b", ["t"])]
    monkeypatch.setattr(server, "TELL_AGAIN_S", 0.0)
    front._tell_at_s["b"] = 0.0
    assert await tell(front, cluster, 3) == [("b", ["t"])] * 3


async def test_masters_hear_of_producers_while_no_name_server_answers(cluster: Cluster,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they would ask nobody for transactions after two minutes."""
    monkeypatch.setattr(server, "HEARTBEAT_S", 0.0)
    front = front_of(cluster, "t")
    assert await tell(front, cluster) == [("a", ["t"]), ("b", ["t"])]
    cluster.down.add(NAME_SERVER)
    assert await tell(front, cluster) == [("a", ["t"]), ("b", ["t"])]


async def test_many_topics_are_told_in_parts(cluster: Cluster) -> None:
    topics = [f"t{number}" for number in range(server.GROUPS_OF_HEARTBEAT_MAX + 1)]
    front = front_of(cluster, *topics)
    told = await tell(front, cluster)
    assert sorted((broker, len(groups)) for broker, groups in told) == [("a", 1), ("a", 200), ("b", 1), ("b", 200)]
    assert {each for _, groups in told for each in groups} == set(topics)
