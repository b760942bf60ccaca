"""Allocation of queues: the specified results, and what RocketMQ's own clients did in recorded sessions."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.client.core import rebalance
from regulus.client.core.rebalance import STRATEGIES, average, sort_client_ids, sort_queues
from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import GetConsumerListByGroupResponseBody
from regulus.wire.codes import RequestCode
from regulus.wire.frame_reader import FrameReader

GOLDEN = Path(__file__).parents[3] / "golden" / "frames" / "rebalance.jsonl"


def queues_of(count: int, broker_name: str = "broker-a") -> list[MessageQueue]:
    return [MessageQueue("T", broker_name, number) for number in range(count)]


@pytest.mark.parametrize(("queue_count", "client_count", "sizes"), [
    (8, 3, [3, 3, 2]),
    (8, 9, [1, 1, 1, 1, 1, 1, 1, 1, 0]),
    (8, 1, [8]),
    (4, 4, [1, 1, 1, 1]),
    (0, 2, [0, 0]),
])
def test_average_gives_contiguous_blocks_and_the_first_clients_one_more(queue_count, client_count, sizes):
    queues = queues_of(queue_count)
    clients = [f"c{number}" for number in range(client_count)]
    blocks = [average(queues, clients, client) for client in clients]
    assert [len(block) for block in blocks] == sizes
    assert [queue for block in blocks for queue in block] == queues


def test_by_circle_deals_queues_one_by_one():
    queues = queues_of(5)
    assert rebalance.average_by_circle(queues, ["a", "b"], "a") == [queues[0], queues[2], queues[4]]
    assert rebalance.average_by_circle(queues, ["a", "b"], "b") == [queues[1], queues[3]]


def test_by_config_gives_the_listed_queues_that_exist():
    queues = queues_of(3)
    allocate = rebalance.by_config({"a": [queues[2], MessageQueue("T", "gone", 0)]})
    assert allocate(queues, ["a", "b"], "a") == [queues[2]]
    assert allocate(queues, ["a", "b"], "b") == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_client_that_is_not_in_the_list_gets_nothing(name):
    assert STRATEGIES[name](queues_of(4), ["a", "b"], "c") == []


@given(queue_count=st.integers(0, 40), clients=st.sets(st.text(min_size=1, max_size=6), min_size=1, max_size=12),
       name=st.sampled_from(sorted(STRATEGIES)))
def test_every_queue_has_exactly_one_owner(queue_count, clients, name):
    queues = queues_of(queue_count)
    members = sort_client_ids(list(clients))
    owned = [queue for client in members for queue in STRATEGIES[name](queues, members, client)]
    assert sorted(owned) == queues


def test_client_ids_sort_by_utf_16_units_as_java_compares_strings():
    # U+FF21 is one unit above the surrogates; U+1F600 begins with a surrogate, so Java puts it first.
    assert sort_client_ids(["\uff21", "\U0001f600", "a", "ab", "A", "B"]) == [
        "A", "B", "a", "ab", "\U0001f600", "\uff21"]


def test_queues_sort_by_topic_broker_and_number():
    places = (("T", "b", 10), ("T", "b", 9), ("T", "a", 11), ("S", "z", 1))
    mixed = [MessageQueue(*place) for place in places]
    assert sort_queues(mixed) == [mixed[3], mixed[2], mixed[1], mixed[0]]


def test_allocation_is_what_recorded_java_clients_did():
    """After each member list that a client got, the queues that it asked offsets for are those we would give it."""
    commands = []
    for line in GOLDEN.read_text().splitlines():
        frame = json.loads(line)
        reader = FrameReader()
        reader.feed(base64.b64decode(frame["frame_base64"]))
        commands.append((frame["conn"], reader.frames()[0]))
    client_of = {}
    owned: dict[str, set[int]] = {}
    members: dict[str, list[str]] = {}
    for connection, command in commands:
        if command.is_response and command.body.startswith(b'{"consumerIdList'):
            body = GetConsumerListByGroupResponseBody.decode(command.body)
            client = client_of[connection]
            if members.get(client) != body.consumer_id_list:
                members[client] = body.consumer_id_list
                mine = average(queues_of(8), sort_client_ids(body.consumer_id_list), client)
                owned[client] = {queue.queue_id for queue in mine}
        elif command.code == RequestCode.HEART_BEAT and not command.is_response:
            client_of[connection] = json.loads(command.body)["clientID"]
        elif command.code == RequestCode.QUERY_CONSUMER_OFFSET and command.ext["topic"] == "GReb":
            assert int(command.ext["queueId"]) in owned[client_of[connection]]
    assert members["192.0.2.10@reb1"] == ["192.0.2.10@reb1", "192.0.2.10@reb2"]
    assert owned["192.0.2.10@reb1"] == {0, 1, 2, 3}
    assert owned["192.0.2.10@reb2"] == set(range(8))
