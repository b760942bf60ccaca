from regulus.model.topics import TopicConfig
from regulus.wire.bodies import QueueData, TopicRouteData
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.nameserver.support import CLUSTER, TOPICS, NameServerUnderTest


def test_permission_to_write_is_taken_and_given_back() -> None:
    server = NameServerUnderTest()
    server.register()
    assert server.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}).ext == {"wipeTopicCount": "2"}
    assert server.route("TopicA")["queueDatas"][0]["perm"] == 4
    assert server.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}).ext == {"addTopicCount": "2"}
    assert server.route("TopicA")["queueDatas"][0]["perm"] == 6


def test_wiped_permission_stays_until_the_topics_change() -> None:
    server = NameServerUnderTest()
    server.register(counter=1)
    server.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    server.register(counter=1)
    assert server.route("TopicA")["queueDatas"][0]["perm"] == 4
    server.register(counter=2)
    assert server.route("TopicA")["queueDatas"][0]["perm"] == 6


def test_an_unknown_broker_has_no_rows() -> None:
    server = NameServerUnderTest()
    assert server.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "none"}).ext == {"wipeTopicCount": "0"}


def test_a_deleted_topic_is_gone() -> None:
    server = NameServerUnderTest()
    server.register()
    assert server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "TopicA"}).code == ResponseCode.SUCCESS
    assert server.topics() == ["TopicB"]
    assert server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "TopicA"}).code == ResponseCode.SUCCESS


def test_a_topic_is_deleted_in_one_cluster_only() -> None:
    server = NameServerUnderTest()
    server.register()
    server.register("broker-b", address="10.0.0.3:10911", cluster="Other")
    server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "TopicA", "clusterName": "Other"})
    assert [row["brokerName"] for row in server.route("TopicA")["queueDatas"]] == ["broker-a"]


def test_a_topic_that_came_back_with_the_next_registration() -> None:
    """The name server forgets, but the broker that still has the topic tells it again."""
    server = NameServerUnderTest()
    server.register()
    server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "TopicA"})
    server.register()
    assert server.topics() == ["TopicA", "TopicB"]


def test_topics_missing_from_a_registration_go_only_where_that_is_switched_on() -> None:
    for enabled in (False, True):
        server = NameServerUnderTest(delete_topic_with_broker_registration=enabled)
        server.register()
        server.register(counter=2, topics={name: TopicConfig(topic_name=name) for name in ("TopicB", "TopicC")})
        assert ("TopicA" in server.topics()) is not enabled


def test_a_topic_is_registered_for_known_brokers() -> None:
    server = NameServerUnderTest()
    server.register()
    rows = [QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6)
            for name in ("broker-a", "unknown")]
    server.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "New"}, TopicRouteData(queue_datas=rows).encode())
    assert [row["brokerName"] for row in server.route("New")["queueDatas"]] == ["broker-a"]


def test_topics_of_a_cluster() -> None:
    server = NameServerUnderTest()
    server.register()
    assert sorted(server.ask_json(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": CLUSTER})["topicList"]) == [
        "TopicA", "TopicB"]
    assert server.ask_json(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "None"}) == {"topicList": []}


def test_system_topics_are_named_after_clusters_and_brokers() -> None:
    server = NameServerUnderTest()
    assert server.ask_json(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == {"topicList": []}
    server.register(address="0.0.0.0:10911")
    assert server.ask_json(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == {
        "brokerAddr": "192.0.2.7:10911", "topicList": [CLUSTER, "broker-a"]}


def test_unit_topics_are_told_by_their_flag() -> None:
    server = NameServerUnderTest()
    server.register(topics={f"Flag{flag}": TopicConfig(topic_name=f"Flag{flag}", topic_sys_flag=flag)
                            for flag in range(4)})
    for code, topics in ((RequestCode.GET_UNIT_TOPIC_LIST, ["Flag1", "Flag3"]),
                         (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, ["Flag2", "Flag3"]),
                         (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, ["Flag2"])):
        assert sorted(server.ask_json(code)["topicList"]) == topics


def test_lists_can_be_switched_off() -> None:
    server = NameServerUnderTest(enable_all_topic_list=False, enable_topic_list=False)
    for code, ext in ((RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}),
                      (RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": CLUSTER}),
                      (RequestCode.GET_UNIT_TOPIC_LIST, {})):
        response = server.ask(code, ext)
        assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "disable")


def test_first_registration_brings_all_topics() -> None:
    server = NameServerUnderTest()
    server.register(counter=0)
    assert server.topics() == sorted(TOPICS)
