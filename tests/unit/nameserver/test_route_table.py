from regulus.model.topics import DataVersion, TopicConfig
from regulus.nameserver.route_table import Registration, RouteTable

TOPICS = {name: TopicConfig(topic_name=name) for name in ("TopicA", "TopicB")}


def registration(broker_id: int = 0, address: str = "10.0.0.1:10911", counter: int = 1, state_version: int = 0,
                 channel: int = 1, enable_acting_master: bool | None = None,
                 filter_servers: tuple[str, ...] | None = None) -> Registration:
    return Registration(cluster_name="C", broker_name="broker-a", broker_id=broker_id, broker_addr=address,
                        ha_server_addr="10.0.0.1:10912", channel=channel, topics=TOPICS,
                        data_version=DataVersion(counter=counter, state_version=state_version),
                        enable_acting_master=enable_acting_master, filter_servers=filter_servers)


def test_a_promoted_slave_leaves_its_old_id() -> None:
    table = RouteTable()
    table.register(registration(1, "10.0.0.2:10911"), 0)
    table.register(registration(0, "10.0.0.2:10911"), 0)
    assert table.brokers["broker-a"].broker_addrs == {0: "10.0.0.2:10911"}


def test_a_deposed_master_is_passed_over() -> None:
    table = RouteTable()
    table.register(registration(address="10.0.0.2:10911", state_version=2), 0)
    assert table.register(registration(address="10.0.0.1:10911", state_version=1), 0).accepted
    assert table.brokers["broker-a"].broker_addrs == {0: "10.0.0.2:10911"}
    assert table.data_version("C", "10.0.0.1:10911") is None


def test_a_new_master_with_the_same_state_takes_over() -> None:
    table = RouteTable()
    table.register(registration(address="10.0.0.1:10911"), 0)
    table.register(registration(address="10.0.0.2:10911"), 0)
    assert table.brokers["broker-a"].broker_addrs == {0: "10.0.0.2:10911"}


def test_topics_stay_while_one_address_is_left() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    table.register(registration(1, "10.0.0.2:10911", channel=2), 0)
    table.channel_closed(1)
    assert table.brokers["broker-a"].broker_addrs == {1: "10.0.0.2:10911"}
    assert set(table.topics) == set(TOPICS)
    table.channel_closed(2)
    assert (table.brokers, table.clusters, table.topics) == ({}, {}, {})


def test_a_lapsed_registration_is_dropped_once() -> None:
    table = RouteTable()
    table.register(registration(), 1000)
    assert table.expire(121_000) == []
    assert table.brokers
    table.expire(121_001)
    assert not table.brokers
    assert table.expire(200_000) == []


def test_a_prime_slave_brings_topics_without_write_permission() -> None:
    table = RouteTable()
    table.register(registration(1, "10.0.0.2:10911", enable_acting_master=True), 0)
    assert table.topics["TopicA"]["broker-a"].perm == 4


def test_a_slave_of_the_old_kind_brings_no_topics() -> None:
    table = RouteTable()
    table.register(registration(1, "10.0.0.2:10911"), 0)
    assert table.topics == {}


def test_filter_servers_are_in_the_route_until_the_broker_has_none() -> None:
    table = RouteTable()
    table.register(registration(filter_servers=("10.0.0.7:1",)), 0)
    route = table.route("TopicA")
    assert route is not None
    assert route.filter_servers == {"10.0.0.1:10911": ["10.0.0.7:1"]}
    table.register(registration(filter_servers=()), 0)
    route = table.route("TopicA")
    assert route is not None
    assert route.filter_servers == {}


def test_unregistering_an_unknown_broker_changes_nothing() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    assert table.unregister("C", "other", "10.0.0.9:1", 0) is None
    assert table.unregister("C", "broker-a", "10.0.0.9:1", 5) is None
    assert set(table.topics) == set(TOPICS)
