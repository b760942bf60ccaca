from regulus.model.topics import TopicConfig
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.nameserver.support import CLUSTER, TOPICS, NameServerUnderTest, peer


def test_a_route_has_the_queues_and_the_addresses() -> None:
    server = NameServerUnderTest()
    server.register()
    server.register(broker_id=1, address="10.0.0.2:10911")
    assert server.route("TopicA") == {
        "brokerDatas": [{"brokerAddrs": {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}, "brokerName": "broker-a",
                         "cluster": CLUSTER, "enableActingMaster": False}],
        "filterServerTable": {},
        "queueDatas": [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0,
                        "writeQueueNums": 4}]}


def test_integer_keys_are_quoted_for_every_version() -> None:
    server = NameServerUnderTest()
    server.register()
    for version in (0, 121, 317, 409, 479):
        assert server.route("TopicA", version=version)["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.1:10911"}


def test_an_unknown_topic_has_the_code_that_producers_wait_for() -> None:
    response = NameServerUnderTest().ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Nowhere"})
    assert response.code == ResponseCode.TOPIC_NOT_EXIST
    assert (response.remark or "").startswith("No topic route info in name server for the topic: Nowhere\n")


def test_a_broker_without_an_address_of_its_own_is_reached_as_its_name_server_is() -> None:
    server = NameServerUnderTest()
    server.register(address="0.0.0.0:10911")
    for local, shown in (("127.0.0.1", "127.0.0.1:10911"), ("192.168.1.5", "192.168.1.5:10911"),
                         ("2001:db8::5", "[2001:db8::5]:10911"), ("", "0.0.0.0:10911")):
        asker = peer(local_address=local or "127.0.0.1")
        asker.local_address = local
        assert server.route("TopicA", asker=asker)["brokerDatas"][0]["brokerAddrs"] == {"0": shown}
        clusters = server.ask_json(RequestCode.GET_BROKER_CLUSTER_INFO, asker=asker)
        assert clusters["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {"0": shown}


def test_two_brokers_of_one_topic() -> None:
    server = NameServerUnderTest()
    server.register()
    server.register("broker-b", address="10.0.0.3:10911", topics={**TOPICS, "TopicA": TopicConfig(
        topic_name="TopicA", read_queue_nums=8, write_queue_nums=2, perm=4)})
    route = server.route("TopicA")
    assert [(row["brokerName"], row["readQueueNums"], row["perm"]) for row in route["queueDatas"]] == [
        ("broker-a", 4, 6), ("broker-b", 8, 4)]
    assert {row["brokerName"] for row in route["brokerDatas"]} == {"broker-a", "broker-b"}


def test_order_configuration_is_told_only_where_it_is_switched_on() -> None:
    for enabled in (False, True):
        server = NameServerUnderTest(order_message_enable=enabled)
        server.state.kv_config.put("ORDER_TOPIC_CONFIG", "TopicA", "broker-a:4")
        server.register()
        assert server.route("TopicA").get("orderTopicConf") == ("broker-a:4" if enabled else None)


def test_a_young_name_server_may_wait_for_its_brokers() -> None:
    server = NameServerUnderTest(need_wait_for_service=True)
    server.state.started_ms = server.steady_ms
    server.register()
    assert server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicA"}).code == ResponseCode.SYSTEM_ERROR
    server.steady_ms += 45_000
    assert server.route("TopicA")


def test_a_zone_sees_its_own_brokers() -> None:
    server = NameServerUnderTest()
    server.register(zone_name="z1")
    server.register("broker-b", address="10.0.0.3:10911", zone_name="z2")
    ext = {"topic": "TopicA", "__ZONE_MODE": "true", "__ZONE_NAME": "Z2"}
    route = server.ask_json(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext)
    assert [row["brokerName"] for row in route["brokerDatas"]] == ["broker-b"]
    assert [row["brokerName"] for row in route["queueDatas"]] == ["broker-b"]
    everything = server.ask_json(RequestCode.GET_ROUTEINFO_BY_TOPIC, {**ext, "__ZONE_MODE": "false"})
    assert len(everything["brokerDatas"]) == 2


def test_a_slave_acts_for_its_master() -> None:
    server = NameServerUnderTest(support_acting_master=True)
    server.register(enable_acting_master=True, channel=1)
    server.register(broker_id=2, address="10.0.0.2:10911", enable_acting_master=True, channel=2)
    server.state.channel_closed(1, server.steady_ms)
    route = server.route("TopicA")
    assert route["queueDatas"][0]["perm"] == 4
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.2:10911"}


def test_clusters_and_their_brokers() -> None:
    server = NameServerUnderTest()
    server.register()
    server.register("broker-b", address="10.0.0.3:10911", cluster="Other")
    assert server.ask_json(RequestCode.GET_BROKER_CLUSTER_INFO)["clusterAddrTable"] == {
        CLUSTER: ["broker-a"], "Other": ["broker-b"]}
