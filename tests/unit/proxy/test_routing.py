"""Routes for RocketMQ 5 clients, and the queue of a message group."""

import pytest

from regulus.model.message_queue import MessageQueue
from regulus.proxy import routing
from regulus.wire.bodies import TopicRouteData
from regulus.wire.bodies.topic_route_data import BrokerData, QueueData
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import MessageType

TOPIC = messages.Resource(name="Orders")
ENDPOINTS = messages.Endpoints(scheme=1, addresses=[messages.Address(host="10.0.0.1", port=8081)])
READ, WRITE, READ_WRITE, NONE = 2, 3, 4, 1


def route(reads: int, writes: int, perm: int, replicas: tuple[int, ...] = (0,)) -> TopicRouteData:
    return TopicRouteData(
        queue_datas=[QueueData(broker_name="a", read_queue_nums=reads, write_queue_nums=writes, perm=perm)],
        broker_datas=[BrokerData(broker_name="a", broker_addrs=dict.fromkeys(replicas, "h:1"))])


@pytest.mark.parametrize(("reads", "writes", "perm", "expected"), [
    (3, 2, 6, [READ, READ_WRITE, READ_WRITE]), (1, 3, 6, [WRITE, WRITE, READ_WRITE]),
    (2, 2, 6, [READ_WRITE, READ_WRITE]), (2, 4, 4, [READ, READ]), (2, 3, 2, [WRITE, WRITE, WRITE]),
    (2, 3, 0, [NONE, NONE, NONE]), (0, 0, 0, [NONE]), (0, 0, 6, [])])
def test_queues_are_told_with_what_may_be_done(reads: int, writes: int, perm: int, expected: list[int]) -> None:
    entries = list(routing.queue_entries(route(reads, writes, perm), TOPIC, ENDPOINTS, [MessageType.FIFO]))
    assert [entry.permission for entry in entries] == expected
    assert [entry.id for entry in entries] == list(range(len(expected)))
    assert all(list(entry.accept_message_types) == [2] for entry in entries)


def test_only_masters_are_received_from() -> None:
    assert routing.readable_brokers(route(2, 2, 6, (0, 1))) == ["a"]
    for told in (route(2, 2, 6, (1,)), route(0, 2, 6), route(2, 2, 2)):
        assert routing.readable_brokers(told) == []
        assert list(routing.assignments(told, TOPIC, ENDPOINTS, fifo=False)) == []


def test_replicas_are_told_too_and_all_by_the_address_that_the_client_used() -> None:
    entries = list(routing.queue_entries(route(1, 1, 6, (1, 0)), TOPIC, ENDPOINTS, [MessageType.NORMAL]))
    assert [(entry.broker.id, entry.broker.endpoints) for entry in entries] == [(0, ENDPOINTS), (1, ENDPOINTS)]


def test_a_group_is_assigned_brokers_and_one_in_order_their_queues() -> None:
    told = route(2, 2, 6)
    assert [each.message_queue.id for each in routing.assignments(told, TOPIC, ENDPOINTS, False)] == [-1]
    assert [each.message_queue.id for each in routing.assignments(told, TOPIC, ENDPOINTS, True)] == [0, 1]
    assert list(routing.assignments(route(2, 2, 2), TOPIC, ENDPOINTS, False)) == []
    assert list(routing.assignments(route(2, 2, 6, (1,)), TOPIC, ENDPOINTS, False)) == []


def test_where_a_client_says_nothing_it_is_told_what_its_call_names() -> None:
    made = routing.endpoints_of(messages.Endpoints(), "queue.example:9000", 8081)
    assert (made.scheme, made.addresses[0].host, made.addresses[0].port) == (3, "queue.example", 9000)
    made = routing.endpoints_of(messages.Endpoints(), "[::1]:9000", 8081)
    assert (made.scheme, made.addresses[0].host) == (2, "::1")
    made = routing.endpoints_of(messages.Endpoints(), "", 8081)
    assert (made.scheme, made.addresses[0].host, made.addresses[0].port) == (1, "127.0.0.1", 8081)
    assert routing.endpoints_of(ENDPOINTS, "other:1", 8081) is ENDPOINTS


# What Guava 32.0.1 says: Hashing.consistentHash(text.hashCode(), n) for n = 1, 4, 16, 100.
@pytest.mark.parametrize(("group", "expected"), [
    ("G", [0, 0, 0, 52]), ("order-1", [0, 3, 3, 3]), ("order-2", [0, 2, 11, 46]), ("Größe", [0, 2, 2, 33]),
    ("", [0, 0, 0, 0]), ("user-4711", [0, 1, 7, 89])])
def test_a_message_group_has_the_queue_that_rocketmqs_proxy_gives_it(group: str, expected: list[int]) -> None:
    chosen = [routing.queue_of_group([MessageQueue("t", "a", number) for number in range(count)], group).queue_id
              for count in (1, 4, 16, 100)]
    assert chosen == expected
