from collections.abc import Iterator
from dataclasses import replace

import pytest

from regulus.model.topics import DataVersion, TopicConfig
from regulus.nameserver.route_table import QueueRow, Registration, RouteTable

TOPICS = {name: TopicConfig(topic_name=name) for name in ("TopicA", "TopicB")}


def registration(broker_id: int = 0, address: str = "10.0.0.1:10911", counter: int = 1, state_version: int = 0,
                 channel: int = 1, enable_acting_master: bool | None = None,
                 filter_servers: tuple[str, ...] | None = None,
                 gone_topics: tuple[str, ...] = ()) -> Registration:
    return Registration(cluster_name="C", broker_name="broker-a", broker_id=broker_id, broker_addr=address,
                        ha_server_addr="10.0.0.1:10912", channel=channel, topics=TOPICS,
                        data_version=DataVersion(counter=counter, state_version=state_version),
                        enable_acting_master=enable_acting_master, filter_servers=filter_servers,
                        gone_topics=gone_topics)


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


def test_a_deposed_master_that_comes_back_is_no_longer_alive() -> None:
    table = RouteTable()
    table.register(registration(address="10.0.0.1:10911", state_version=1), 0)
    table.register(registration(address="10.0.0.2:10911", state_version=2, channel=2), 0)
    table.register(registration(address="10.0.0.1:10911", state_version=1), 0)
    assert table.data_version("C", "10.0.0.1:10911") is None
    assert table.channel_closed(1) == []
    assert table.brokers["broker-a"].broker_addrs == {0: "10.0.0.2:10911"}


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


def test_a_broker_drops_its_own_rows_of_topics_that_it_deleted_and_no_others() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    table.register(replace(registration(address="10.0.0.2:10911", channel=2), broker_name="broker-b"), 0)
    table.register(replace(registration(counter=2, gone_topics=("TopicA", "TopicA", "unknown")), topics={}), 0)
    assert {topic: list(rows) for topic, rows in table.topics.items()} == {
        "TopicA": ["broker-b"], "TopicB": ["broker-a", "broker-b"]}


def test_a_slave_drops_no_rows() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    table.register(registration(1, "10.0.0.2:10911", channel=2, gone_topics=("TopicA",)), 0)
    assert set(table.topics) == set(TOPICS)


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
    table.register(registration(filter_servers=("10.0.0.7:1",)), 0)
    table.channel_closed(1)
    table.register(registration(), 0)
    route = table.route("TopicA")
    assert route is not None
    assert route.filter_servers == {}


def test_unregistering_an_unknown_broker_changes_nothing() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    assert table.unregister("C", "other", "10.0.0.9:1", 0) is None
    assert table.unregister("C", "broker-a", "10.0.0.9:1", 5) is None
    assert set(table.topics) == set(TOPICS)


class Watched(dict[str, dict[str, QueueRow]]):
    """Counts how many topics are looked at."""

    asked = 0

    def __getitem__(self, topic: str) -> dict[str, QueueRow]:
        self.asked += 1
        return super().__getitem__(topic)

    def __iter__(self) -> Iterator[str]:
        for topic in super().__iter__():
            self.asked += 1
            yield topic


@pytest.mark.parametrize("brokers", [20, 40])
def test_a_broker_is_forgotten_at_the_cost_of_its_own_topics(brokers: int) -> None:
    table = RouteTable()
    for number in range(brokers):
        topics = {f"T{number}-{topic}": TopicConfig(topic_name="") for topic in range(5)} | TOPICS
        table.register(replace(registration(address=f"10.0.0.1:{number}", channel=number), topics=topics,
                               broker_name=f"b{number}"), 0)
    table.topics = Watched(table.topics)
    table.channel_closed(7)
    table.wipe_write_perm("b8")
    table.register(replace(registration(address="10.0.0.1:9", channel=9), topics=TOPICS, broker_name="b9"), 1,
                   delete_missing_topics=True)
    assert table.topics.asked <= 3 * 7
    assert "T7-0" not in table.topics
    assert "T9-0" not in table.topics
    assert table.topics["T8-0"]["b8"].perm == 4
    assert "b7" not in table.topics["TopicA"]


def test_another_connection_s_end_is_nothing_to_a_broker_that_registered_anew() -> None:
    table = RouteTable()
    table.register(registration(channel=1), 0)
    table.register(registration(channel=2), 1)
    table.channel_closed(1)
    assert table.brokers
    table.channel_closed(2)
    assert not any((table.brokers, table.topics, table._topics_of, table._channels, table._live))


def test_rows_of_deleted_topics_are_not_kept_in_mind() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    table.delete_topic("TopicA")
    table.delete_topic("TopicB", "other cluster")
    assert table.wipe_write_perm("broker-a") == 1
    table.delete_topic("TopicB", "C")
    assert table.wipe_write_perm("broker-a") == 0
    table.register_topic("TopicC", {"broker-a": QueueRow(1, 1, 6, 0), "unknown": QueueRow(1, 1, 6, 0)})
    assert table.add_write_perm("broker-a") == 1
    table.channel_closed(1)
    assert not table.topics


def happened(table: RouteTable) -> dict[str, str]:
    return {kind: str(names) for kind, names in table.happenings.take().items()}


def test_a_broker_beside_its_name_server_is_noted_without_an_address_that_nobody_can_use() -> None:
    table = RouteTable()
    table.register(registration(address="0.0.0.0:10911"), 0)
    assert happened(table) == {
        "brokers registered": "broker-a beside this name server, at port 10911 (id 0, 2 topics so far)"}


def test_a_broker_that_comes_is_noted_and_one_that_stays_is_not() -> None:
    table = RouteTable()
    for _ in range(3):
        table.register(registration(), 0)
    assert happened(table) == {"brokers registered": "broker-a at 10.0.0.1:10911 (id 0, 2 topics so far)"}
    table.register(registration(channel=2), 0)
    assert happened(table) == {
        "brokers registered over another connection": "broker-a at 10.0.0.1:10911 (id 0, 2 topics so far)"}


def twins(table: RouteTable) -> list[str]:
    return [str(names) for kind, names in table.faults.take().items() if kind.startswith("brokers of one name and id")]


@pytest.mark.parametrize("cluster", ["C", "Other"])
def test_two_brokers_of_one_name_and_id_are_a_fault_each_time_that_one_takes_the_other_s_place(cluster: str) -> None:
    table = RouteTable()
    one = registration()
    other = replace(registration(address="10.0.0.2:10911", channel=2), cluster_name=cluster)
    table.register(one, 0)
    assert twins(table) == []
    for comes, stays in ((other, one), (one, other), (other, one)):
        table.register(comes, 0)
        [told] = twins(table)
        assert told == (
            f"broker-a (id 0) at {comes.broker_addr} in cluster {comes.cluster_name} took its place where "
            f"{stays.broker_addr} in cluster {stays.cluster_name} is registered: it has moved, or one of both needs "
            "another name")
        table.register(comes, 0)
        assert twins(table) == []
    table.unregister(cluster, "broker-a", "10.0.0.2:10911", 0)
    table.register(one, 0)
    assert twins(table) == []


def test_a_broker_that_is_behind_the_one_of_its_name_is_a_fault_each_time_that_it_comes() -> None:
    table = RouteTable()
    table.register(registration(state_version=2), 0)
    for _ in range(2):
        table.register(registration(address="10.0.0.2:10911", channel=2), 0)
        [told] = twins(table)
        assert "10.0.0.2:10911 in cluster C is not taken where 10.0.0.1:10911" in told


def test_why_a_broker_goes_is_noted() -> None:
    table = RouteTable()
    described = "broker-a at 10.0.0.1:10911 (id 0, 2 topics)"

    def come() -> None:
        table.register(registration(), 0)
        table.happenings.take()

    come()
    table.unregister("C", "broker-a", "10.0.0.1:10911", 0)
    assert happened(table) == {"brokers unregistered": described}
    table.unregister("C", "broker-a", "10.0.0.1:10911", 0)
    assert happened(table) == {}
    come()
    table.channel_closed(1)
    assert happened(table) == {"brokers forgotten whose connection closed": described}
    come()
    table.expire(120_001)
    assert happened(table) == {"brokers forgotten that went silent": described}


def test_routes_that_change_are_noted() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    table.happenings.take()
    more = {**TOPICS, "TopicA": TopicConfig(topic_name="TopicA", perm=4), "TopicC": TopicConfig(topic_name="TopicC")}
    table.register(replace(registration(counter=2), topics=more), 0)
    assert happened(table) == {"routes changed": "TopicA on broker-a", "routes added": "TopicC on broker-a"}
    table.register(replace(registration(counter=3), topics=TOPICS), 0, delete_missing_topics=True)
    assert happened(table) == {"routes deleted": "TopicC on broker-a", "routes changed": "TopicA on broker-a"}
    table.delete_topic("TopicA")
    assert happened(table) == {"routes deleted": "TopicA on broker-a"}
    table.wipe_write_perm("broker-a")
    table.wipe_write_perm("broker-a")
    assert happened(table) == {"routes changed": "TopicB on broker-a"}
