import json
import zlib

from regulus.model.topics import DataVersion, TopicConfig
from regulus.wire.bodies import RegisterBrokerBody, TopicConfigSerializeWrapper, encode_data_version
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.nameserver.support import CLUSTER, TOPICS, NameServerUnderTest, peer

IDENTITY = {"brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "clusterName": CLUSTER, "brokerId": "0"}


def test_a_master_brings_its_topics() -> None:
    server = NameServerUnderTest()
    response = server.register()
    assert (response.code, response.ext, response.body) == (ResponseCode.SUCCESS, {}, b"")
    assert server.topics() == ["TopicA", "TopicB"]


def test_a_body_with_a_wrong_checksum_is_refused() -> None:
    server = NameServerUnderTest()
    assert server.register(body_crc32=1).remark == "crc32 not match"
    assert server.topics() == []


def test_a_body_with_the_right_checksum_is_taken() -> None:
    body = RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
        topic_config_table=TOPICS)).encode()
    server = NameServerUnderTest()
    assert server.register(body=body, body_crc32=zlib.crc32(body) & 0x7FFFFFFF).code == ResponseCode.SUCCESS


def test_a_compressed_body_is_told_by_its_first_byte() -> None:
    wrapper = TopicConfigSerializeWrapper(topic_config_table=TOPICS)
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode_compressed()
    server = NameServerUnderTest()
    server.register(body=body, compressed=False)
    assert server.topics() == ["TopicA", "TopicB"]


def test_the_body_of_an_old_broker_is_the_topic_table_alone() -> None:
    server = NameServerUnderTest()
    server.register(body=TopicConfigSerializeWrapper(topic_config_table=TOPICS).encode(), version=36)
    assert server.topics() == ["TopicA", "TopicB"]


def test_a_registration_without_body_enters_the_address_alone() -> None:
    server = NameServerUnderTest()
    assert server.register(body=b"").code == ResponseCode.SUCCESS
    assert server.topics() == []
    clusters = server.ask_json(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert clusters["clusterAddrTable"] == {CLUSTER: ["broker-a"]}


def test_one_topic_of_an_unknown_broker_is_refused() -> None:
    server = NameServerUnderTest()
    response = server.register(topics={"TopicA": TOPICS["TopicA"]})
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "register broker failed")
    assert server.topics() == []


def test_one_topic_of_a_known_broker_is_added() -> None:
    server = NameServerUnderTest()
    server.register()
    server.register(topics={"TopicC": TopicConfig(topic_name="TopicC")}, counter=2)
    assert server.topics() == ["TopicA", "TopicB", "TopicC"]


def test_a_slave_is_told_of_its_master_and_brings_no_topics() -> None:
    server = NameServerUnderTest()
    server.register()
    response = server.register(broker_id=1, address="10.0.0.2:10911", topics={
        name: TopicConfig(topic_name=name) for name in ("OnSlave1", "OnSlave2")})
    assert response.ext == {"haServerAddr": "10.0.0.1:10912", "masterAddr": "10.0.0.1:10911"}
    assert server.topics() == ["TopicA", "TopicB"]


def test_a_broker_gets_the_order_configuration() -> None:
    server = NameServerUnderTest()
    server.state.kv_config.put("ORDER_TOPIC_CONFIG", "TopicA", "broker-a:4")
    assert json.loads(server.register().body) == {"table": {"TopicA": "broker-a:4"}}


def test_unregistering_removes_broker_cluster_and_topics() -> None:
    server = NameServerUnderTest()
    server.register()
    server.ask(RequestCode.UNREGISTER_BROKER, IDENTITY)
    assert server.topics() == []
    assert server.ask_json(RequestCode.GET_BROKER_CLUSTER_INFO) == {"brokerAddrTable": {}, "clusterAddrTable": {}}


def test_a_broker_asks_whether_it_must_register_anew() -> None:
    server = NameServerUnderTest()
    known = encode_data_version(DataVersion(counter=1, timestamp=5))
    assert server.ask(RequestCode.QUERY_DATA_VERSION, IDENTITY, known).ext == {"changed": "true"}
    server.register()
    same = server.ask(RequestCode.QUERY_DATA_VERSION, IDENTITY, known)
    assert same.ext == {"changed": "false"}
    assert json.loads(same.body) == {"counter": 1, "stateVersion": 0, "timestamp": 5}
    newer = server.ask(RequestCode.QUERY_DATA_VERSION, IDENTITY, encode_data_version(DataVersion(counter=2)))
    assert newer.ext == {"changed": "true"}


def test_a_broker_whose_place_was_taken_registers_anew_when_the_other_one_is_gone() -> None:
    server = NameServerUnderTest()
    known = encode_data_version(DataVersion(counter=1, timestamp=5))
    server.register()
    server.register(address="10.0.0.2:10911", channel=2)
    assert server.ask(RequestCode.QUERY_DATA_VERSION, IDENTITY, known).ext == {"changed": "false"}
    server.ask(RequestCode.UNREGISTER_BROKER, {**IDENTITY, "brokerAddr": "10.0.0.2:10911"})
    assert server.topics() == []
    assert server.ask(RequestCode.QUERY_DATA_VERSION, IDENTITY, known).ext == {"changed": "true"}
    server.register()
    assert server.topics() == ["TopicA", "TopicB"]


def test_heartbeat_and_question_keep_a_broker_alive() -> None:
    server = NameServerUnderTest()
    server.register()
    for code, body in ((RequestCode.BROKER_HEARTBEAT, b""),
                       (RequestCode.QUERY_DATA_VERSION, encode_data_version(DataVersion()))):
        server.steady_ms += 100_000
        assert server.ask(code, IDENTITY, body).code == ResponseCode.SUCCESS
        server.tick()
    assert server.topics() == ["TopicA", "TopicB"]
    server.steady_ms += 120_001
    server.tick()
    assert server.topics() == []


def test_a_broker_may_choose_its_own_timeout() -> None:
    server = NameServerUnderTest()
    server.register(heartbeat_timeout_millis=10_000)
    server.steady_ms += 10_000
    server.tick()
    assert server.topics()
    server.steady_ms += 1
    server.tick()
    assert not server.topics()


def test_a_closed_connection_takes_its_broker_along() -> None:
    server = NameServerUnderTest()
    server.register(channel=5)
    server.register("broker-b", address="10.0.0.9:10911", channel=6)
    server.state.channel_closed(5, server.steady_ms)
    assert list(server.ask_json(RequestCode.GET_BROKER_CLUSTER_INFO)["brokerAddrTable"]) == ["broker-b"]


def test_the_members_of_a_broker_group() -> None:
    server = NameServerUnderTest()
    server.register(address="0.0.0.0:10911")
    server.register(broker_id=1, address="10.0.0.2:10911")
    asked = {"clusterName": CLUSTER, "brokerName": "broker-a"}
    group = server.ask_json(RequestCode.GET_BROKER_MEMBER_GROUP, asked)["brokerMemberGroup"]
    assert group == {"brokerAddrs": {"0": "192.0.2.7:10911", "1": "10.0.0.2:10911"}, "brokerName": "broker-a",
                     "cluster": CLUSTER}
    unknown = server.ask_json(RequestCode.GET_BROKER_MEMBER_GROUP, {**asked, "brokerName": "other"})
    assert unknown["brokerMemberGroup"]["brokerAddrs"] == {}


def test_slaves_hear_that_the_master_left() -> None:
    server = NameServerUnderTest(notify_min_broker_id_changed=True)
    server.register(channel=1)
    server.register(broker_id=1, address="10.0.0.2:10911", channel=2)
    server.state.channel_closed(1, server.steady_ms)
    [(channel, command)] = server.state.notices
    assert channel == 2
    assert command.is_oneway
    assert command.ext == {"minBrokerId": "1", "brokerName": "broker-a", "minBrokerAddr": "10.0.0.2:10911",
                           "offlineBrokerAddr": "10.0.0.1:10911", "haBrokerAddr": "10.0.0.1:10912"}


def test_slaves_hear_that_a_master_came() -> None:
    server = NameServerUnderTest(notify_min_broker_id_changed=True)
    server.register(broker_id=1, address="10.0.0.2:10911", channel=2)
    server.register(channel=1)
    [(channel, command)] = server.state.notices
    assert channel == 2
    assert command.ext["minBrokerAddr"] == "10.0.0.1:10911"


def test_nobody_hears_by_default() -> None:
    server = NameServerUnderTest()
    server.register(broker_id=1, address="10.0.0.2:10911", channel=2)
    server.register(channel=1)
    server.state.channel_closed(1, server.steady_ms)
    assert not server.state.notices


def test_a_missing_field_is_named() -> None:
    response = NameServerUnderTest().ask(RequestCode.REGISTER_BROKER, {"brokerName": "b"}, asker=peer())
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "brokerAddr" in (response.remark or "")
