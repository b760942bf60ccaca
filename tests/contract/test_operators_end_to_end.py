"""Operators at whole servers: broker and name server in one process, and as two servers, over sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from regulus.broker.config import BrokerConfig
from regulus.model.topics import SubscriptionGroupConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.server.assembly import BrokerServer, Regulus
from regulus.server.name_server import NameServer
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.wire import fastjson
from regulus.wire.bodies import (
    ConsumerData,
    GetConsumerStatusBody,
    HeartbeatData,
    SubscriptionData,
    encode_subscription_group_config,
)
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import UpdateAndCreateTopicRequest
from regulus.wire.remoting_command import RemotingCommand

HOST = "127.0.0.1"
LOOPBACK = TransportConfig(bind_address=HOST)
TOPIC = UpdateAndCreateTopicRequest(topic="Orders", default_topic="TBW102", read_queue_nums=2, write_queue_nums=2,
                                    perm=6)
SEND = {"a": "producers", "b": "Orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0",
        "i": "", "j": "0", "k": "false", "m": "false"}


@dataclass
class Site:
    """The ports of a running pair, and what asks them."""

    name_server_port: int
    broker_port: int
    kv_config: Path

    async def ask(self, port: int, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> RemotingCommand:
        connection = await connect(HOST, port, lambda _, requests: None)
        try:
            return await connection.request(RemotingCommand.request(code, ext, body), 60_000)
        finally:
            connection.close()

    async def broker(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> RemotingCommand:
        return await self.ask(self.broker_port, code, ext, body)

    async def name_server(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> RemotingCommand:
        return await self.ask(self.name_server_port, code, ext, body)

    async def eventually_routed(self, topic: str, routed: bool = True) -> Any:
        """A broker on the network registers a moment after it answered."""
        async with asyncio.timeout(25):
            while True:
                answer = await self.name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
                if (answer.code == ResponseCode.SUCCESS) is routed:
                    return json.loads(answer.body) if routed else answer
                await asyncio.sleep(0)


def store_config(root: Path) -> MessageStoreConfig:
    return MessageStoreConfig(store_path_root_dir=str(root), mapped_file_size_commit_log=1 << 20,
                              mapped_file_size_consume_queue=2000, max_hash_slot_num=500, max_index_num=2000)


@pytest.fixture(params=["one process", "two servers"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    kv_config = tmp_path / "kvConfig.json"
    namesrv = NamesrvConfig(listen_port=0, bind_address=HOST, kv_config_path=str(kv_config))
    if request.param == "one process":
        both = Regulus(BrokerConfig(listen_port=0), store_config(tmp_path / "store"), namesrv,
                       transport_config=LOOPBACK)
        await both.start()
        yield Site(both.name_server.port, both.broker_server.port, kv_config)
        await both.stop()
    else:
        name_server = NameServer(namesrv, LOOPBACK)
        await name_server.start()
        config = BrokerConfig(listen_port=0, namesrv_addr=f"{HOST}:{name_server.port}")
        broker = BrokerServer(config, store_config(tmp_path / "store"), transport_config=LOOPBACK)
        await broker.start()
        yield Site(name_server.port, broker.port, kv_config)
        await broker.stop()
        await name_server.stop()


async def test_a_topic_is_made_routed_and_deleted(site: Site) -> None:
    assert (await site.broker(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC.ext())).code == ResponseCode.SUCCESS
    route = await site.eventually_routed("Orders")
    assert route["queueDatas"] == [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 2, "topicSysFlag": 0,
                                    "writeQueueNums": 2}]
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": f"{HOST}:{site.broker_port}"}
    topics = json.loads((await site.name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body)["topicList"]
    assert "Orders" in topics
    assert (await site.broker(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"})).code == ResponseCode.SUCCESS
    await site.name_server(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "Orders", "clusterName": "DefaultCluster"})
    await site.eventually_routed("Orders", routed=False)


async def test_the_cluster_is_found_and_its_broker_tells_of_itself(site: Site) -> None:
    await site.eventually_routed("TBW102")
    cluster = json.loads((await site.name_server(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
    assert cluster["clusterAddrTable"] == {"DefaultCluster": ["broker-a"]}
    assert cluster["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {"0": f"{HOST}:{site.broker_port}"}
    table = json.loads((await site.broker(RequestCode.GET_BROKER_RUNTIME_INFO)).body)["table"]
    assert float(table["commitLogDiskRatio"]) > 0
    assert table["commitLogDirCapacity"].startswith("Total : ")
    settings = (await site.broker(RequestCode.GET_BROKER_CONFIG)).body.decode()
    assert f"listenPort={site.broker_port}\n" in settings
    assert "mappedFileSizeCommitLog=1048576\n" in settings


async def test_a_message_is_counted_where_operators_look(site: Site) -> None:
    await site.broker(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC.ext())
    assert (await site.broker(RequestCode.SEND_MESSAGE_V2, SEND, b"hello")).code == ResponseCode.SUCCESS
    answer = await site.broker(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "Orders"})
    rows = fastjson.loads(answer.body)["offsetTable"]
    assert sorted(row["maxOffset"] for row in rows.values()) == [0, 1]
    units = await site.broker(RequestCode.QUERY_CONSUME_QUEUE, {
        "topic": "Orders", "queueId": "0", "index": "0", "count": "5"})
    assert len(json.loads(units.body)["queueData"]) == 1
    table = json.loads((await site.broker(RequestCode.GET_BROKER_RUNTIME_INFO)).body)["table"]
    assert table["putMessageTimesTotal"] == "1"


async def test_groups_are_made_and_deleted(site: Site) -> None:
    body = encode_subscription_group_config(SubscriptionGroupConfig(group_name="readers", retry_max_times=3))
    await site.broker(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    shown = json.loads((await site.broker(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "readers"})).body)
    assert shown["retryMaxTimes"] == 3
    await site.broker(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "readers", "cleanOffset": "true"})
    groups = json.loads((await site.broker(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)
    assert "readers" not in groups["subscriptionGroupTable"]


async def test_all_consumers_of_a_group_are_asked(site: Site) -> None:
    await site.broker(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC.ext())

    def answer(connection: Connection, requests: list[RemotingCommand]) -> None:
        for request in requests:
            if request.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
                connection.send(request.response(ResponseCode.SUCCESS, body=GetConsumerStatusBody().encode()))
            elif request.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
                connection.send(request.response(ResponseCode.SUCCESS, body=b'{"mine":1}'))

    consumers = [await connect(HOST, site.broker_port, answer) for _ in range(2)]
    for number, consumer in enumerate(consumers):
        heartbeat = HeartbeatData(client_id=f"c{number}", consumer_data_set=[ConsumerData(
            group_name="readers", subscription_data_set=[SubscriptionData.compile("Orders", "*")])])
        await consumer.request(RemotingCommand.request(RequestCode.HEART_BEAT, body=heartbeat.encode()), 60_000)
    group = {"topic": "Orders", "group": "readers"}
    status = await site.broker(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, group)
    assert set(GetConsumerStatusBody.decode(status.body).consumer_table) == {"c0", "c1"}
    info = await site.broker(RequestCode.GET_CONSUMER_RUNNING_INFO, {
        "consumerGroup": "readers", "clientId": "c1", "jstackEnable": "false"})
    assert info.body == b'{"mine":1}'
    await site.eventually_routed("%RETRY%readers")
    for consumer in consumers:
        consumer.close()


async def test_the_key_value_configuration_is_saved(site: Site) -> None:
    entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": "Orders"}
    await site.name_server(RequestCode.PUT_KV_CONFIG, {**entry, "value": "broker-a:2"})
    assert (await site.name_server(RequestCode.GET_KV_CONFIG, entry)).ext == {"value": "broker-a:2"}
    assert json.loads(site.kv_config.read_text()) == {"configTable": {"ORDER_TOPIC_CONFIG": {"Orders": "broker-a:2"}}}
