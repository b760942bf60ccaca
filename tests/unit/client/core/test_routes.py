import pytest

from regulus.client.core.routes import default_topic_route, route_of
from regulus.errors import HeaderError
from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import BrokerData, QueueData, TopicRouteData


def data(*rows, masters=("a", "b"), order=None):
    brokers = {row.broker_name for row in rows}
    return TopicRouteData(
        queue_datas=list(rows), order_topic_conf=order,
        broker_datas=[BrokerData(broker_name=name, broker_addrs={0 if name in masters else 1: f"{name}:10911"})
                      for name in sorted(brokers)])


def row(broker_name, read=2, write=2, perm=6):
    return QueueData(broker_name=broker_name, read_queue_nums=read, write_queue_nums=write, perm=perm)


def test_sends_go_to_write_queues_of_writable_brokers_by_name():
    route = route_of("T", data(row("b", write=1), row("a")))
    assert route.publish_queues == (MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0))


def test_a_broker_without_master_or_write_permission_takes_no_sends():
    route = route_of("T", data(row("a", perm=4), row("b"), masters=("a",)))
    assert route.publish_queues == ()
    assert len(route.subscribe_queues) == 4


def test_reads_come_from_read_queues_of_readable_brokers():
    route = route_of("T", data(row("a", read=1), row("b", perm=2)))
    assert route.subscribe_queues == (MessageQueue("T", "a", 0),)


def test_an_order_configuration_replaces_the_queues():
    route = route_of("T", data(row("a"), row("b"), order="b:1;a:2;nonsense"))
    assert route.publish_queues == (MessageQueue("T", "b", 0), MessageQueue("T", "a", 0), MessageQueue("T", "a", 1))
    assert route.ordered


def test_an_unknown_topic_gets_as_many_queues_as_the_broker_will_make():
    route = default_topic_route("New", data(row("a", read=8, write=8)), 4)
    assert len(route.publish_queues) == 4
    assert {queue.topic for queue in route.publish_queues} == {"New"}
    assert len(default_topic_route("New", data(row("a", read=2, write=8)), 4).publish_queues) == 2


def test_addresses_of_masters_and_of_any_replica():
    route = route_of("T", data(row("a"), row("b"), masters=("a",)))
    assert route.master("a") == "a:10911"
    assert route.master("b") is None
    assert route.any_address("b") == "b:10911"
    assert route.any_address("c") is None
    assert route.masters() == ["a:10911"]
    assert route.readable_addresses() == ["a:10911", "b:10911"]


@pytest.mark.parametrize(("route", "source"), [
    (data(row("a", write=1_000_000_000)), "writeQueueNums"),
    (data(row("a", read=1_000_000_000)), "readQueueNums"),
    (data(row("a", read=200_000), row("b", read=200_000), row("c", read=-200_000)), "readQueueNums"),
    (data(row("a"), order="a:1000000000"), "orderTopicConf"),
])
def test_a_number_of_queues_that_nobody_has_is_refused(route, source):
    with pytest.raises(HeaderError, match=f"[0-9]+ queues by its {source}; 262144 are the most"):
        route_of("T", route)


def test_a_broker_with_as_many_queues_as_it_may_have_is_served():
    assert len(route_of("T", data(row("a", read=65_536, write=65_536))).publish_queues) == 65_536


@pytest.mark.parametrize("order", ["a:\N{SUPERSCRIPT TWO}", "a:-1", "a:" + "1" * 5000])
def test_a_part_of_an_order_configuration_that_is_no_count_is_left_out(order):
    assert route_of("T", data(row("a"), order=order)).publish_queues == ()
