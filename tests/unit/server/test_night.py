"""What an operator reads of a whole server afterwards: who came, what was made, what was refused."""

import asyncio
import logging
import re
from pathlib import Path

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.groups.clients import NAMESAKES
from regulus.nameserver.config import NamesrvConfig
from regulus.server.assembly import Regulus
from regulus.server.name_server import NameServer
from regulus.store.config import MessageStoreConfig
from regulus.testing.running_server import HOST, small_store
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.wire.bodies import ConsumerData, HeartbeatData, ProducerData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

TOPIC = {"defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
         "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regulus")


def make_regulus(store_config: MessageStoreConfig) -> Regulus:
    return Regulus(BrokerConfig(listen_port=0, broker_name="broker-a", broker_ip1=HOST), store_config,
                   NamesrvConfig(listen_port=0, bind_address=HOST), transport_config=TransportConfig(bind_address=HOST))


async def ask(connection: Connection, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> int:
    return (await connection.request(RemotingCommand.request(code, ext, body), 60_000)).code


async def create(connection: Connection, topic: str, perm: str = "6") -> None:
    assert await ask(connection, RequestCode.UPDATE_AND_CREATE_TOPIC, {**TOPIC, "topic": topic, "perm": perm}) == 0


def named(caplog: pytest.LogCaptureFixture, kind: str) -> str:
    """Behind the kind, all lines of it in one."""
    return " / ".join([message.removeprefix(f"{kind}: ") for message in caplog.messages
                       if message.startswith(f"{kind}: ")])


async def test_topics_and_groups(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = make_regulus(small_store(tmp_path))
    await server.start()
    connection = await connect(HOST, server.broker_server.port)
    await create(connection, "Orders")
    await create(connection, "Orders", perm="4")
    assert await ask(connection, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"}) == 0
    assert await ask(connection, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "nobody"}) == 0
    connection.close()
    await server.stop()
    assert (named(caplog, "topics made"), named(caplog, "topics changed"), named(caplog, "topics deleted")) == (
        "Orders", "Orders", "Orders")
    assert (named(caplog, "routes added"), named(caplog, "routes changed")) == ("Orders on broker-a",) * 2
    assert named(caplog, "groups deleted") == "", "there was none"


async def test_a_start_lists_nothing_of_what_it_finds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = make_regulus(small_store(tmp_path))
    await server.start()
    connection = await connect(HOST, server.broker_server.port)
    for number in range(60):
        await create(connection, f"T{number}")
    connection.close()
    await server.stop()
    caplog.clear()
    server = make_regulus(small_store(tmp_path))
    await server.start()
    await server.stop()
    assert named(caplog, "topics made") == named(caplog, "topics changed") == named(caplog, "groups changed") == ""
    assert named(caplog, "brokers registered").startswith(f"broker-a at {HOST}:")
    assert len(max(caplog.messages, key=len)) < 500


async def test_members(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = make_regulus(small_store(tmp_path))
    await server.start()
    connection = await connect(HOST, server.broker_server.port)
    heartbeat = HeartbeatData(
        client_id="c@1", producer_data_set=[ProducerData(group_name="makers")], consumer_data_set=[ConsumerData(
            group_name="readers", consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET", subscription_data_set=[], unit_mode=False)]).encode()
    for _ in range(3):
        assert await ask(connection, RequestCode.HEART_BEAT, body=heartbeat) == 0
    assert await ask(connection, RequestCode.UNREGISTER_CLIENT, {"clientID": "c@1", "consumerGroup": "readers"}) == 0
    connection.close()
    await server.stop()
    for kind, group in (("consumers joined", "readers"), ("consumers left", "readers"), ("producers joined", "makers"),
                        ("producers left", "makers")):
        assert re.fullmatch(rf"c@1 at 127\.0\.0\.1:\d+ in group {group}", named(caplog, kind)), kind
    assert named(caplog, "groups made") == "readers"


async def test_two_clients_with_one_id(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = make_regulus(small_store(tmp_path))
    await server.start()
    connections = [await connect(HOST, server.broker_server.port) for _ in range(2)]
    heartbeat = HeartbeatData(client_id="c@1", producer_data_set=[], consumer_data_set=[ConsumerData(
        group_name="readers", consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET", subscription_data_set=[], unit_mode=False)]).encode()
    async with asyncio.timeout(60):
        while not named(caplog, NAMESAKES):
            for connection in connections:
                assert await ask(connection, RequestCode.HEART_BEAT, body=heartbeat) == 0
    for connection in connections:
        connection.close()
    await server.stop()
    place = r"127\.0\.0\.1:\d+"
    assert re.fullmatch(rf"c@1 at {place} and {place} in group readers", named(caplog, NAMESAKES))
    assert [record.levelname for record in caplog.records if record.message.startswith(NAMESAKES)] == ["WARNING"]


async def test_refusals(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = make_regulus(small_store(tmp_path))
    await server.start()
    connection = await connect(HOST, server.broker_server.port)
    missing = {"consumerGroup": "readers", "topic": "Missing", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1",
               "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
               "subVersion": "0", "expressionType": "TAG"}
    for _ in range(3):
        assert await ask(connection, RequestCode.PULL_MESSAGE, missing) == ResponseCode.TOPIC_NOT_EXIST
    empty = {**missing, "topic": "TBW102"}
    assert await ask(connection, RequestCode.PULL_MESSAGE, empty) == ResponseCode.PULL_NOT_FOUND
    connection.close()
    await server.stop()
    lines = [message for message in caplog.messages if message.startswith("refused: ")]
    assert sum(int(line.split()[1]) for line in lines) == 3
    assert "Missing" in lines[0]
    assert all("NOT_FOUND" not in line for line in lines)


async def test_brokers_of_a_name_server(caplog: pytest.LogCaptureFixture) -> None:
    server = NameServer(NamesrvConfig(listen_port=0, bind_address=HOST))
    await server.start()
    connection = await connect(HOST, server.port)
    broker = {"brokerName": "broker-b", "brokerAddr": "10.0.0.1:10911", "clusterName": "C", "haServerAddr": "",
              "brokerId": "0"}
    for _ in range(2):
        assert await ask(connection, RequestCode.REGISTER_BROKER, broker) == 0
    assert await ask(connection, RequestCode.UNREGISTER_BROKER, broker) == 0
    assert await ask(connection, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Missing"}) == 17
    connection.close()
    await server.stop()
    assert named(caplog, "brokers registered") == "broker-b at 10.0.0.1:10911 (id 0, 0 topics so far)"
    assert named(caplog, "brokers unregistered") == "broker-b at 10.0.0.1:10911 (id 0, 0 topics)"
    assert named(caplog, "refused").startswith("1 GET_ROUTEINFO_BY_TOPIC with 17 TOPIC_NOT_EXIST; the last: ")
