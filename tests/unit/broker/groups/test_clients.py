"""Which connections belong to which group."""

import pytest

from regulus.broker.groups.clients import (
    CLIENT_EXPIRY_MS,
    EXPIRY_SCAN_MS,
    IDS_KEPT_MAX,
    LEFT_AT_ONCE,
    PRODUCER_GROUPS_MAX,
    STRANGERS,
    UNLIKE,
    Client,
    Clients,
    LostMember,
)
from regulus.wire.bodies import SubscriptionData


def groups(lost: list[LostMember]) -> list[str]:
    return [member.group for member in lost]


def client(channel: int, now_ms: int = 0) -> Client:
    return Client(channel, f"c{channel}", 0, 479, "10.0.0.5:1", 1_700_000_000_000, now_ms)


def join(clients: Clients, channel: int, *topics: str, group: str = "G", now_ms: int = 0) -> bool:
    subscriptions = [SubscriptionData.compile(topic, "*", 1) for topic in topics]
    return clients.register_consumer(group, client(channel, now_ms), "CONSUME_PASSIVELY", "CLUSTERING",
                                     "CONSUME_FROM_LAST_OFFSET", subscriptions)


def test_joining_is_news_staying_is_none():
    clients = Clients()
    assert join(clients, 1, "T")
    assert not join(clients, 1, "T")
    assert join(clients, 2, "T")
    assert clients.consumer_group("G").client_ids() == ["c1", "c2"]


def test_other_subscriptions_take_the_place_of_the_group_s():
    clients = Clients()
    join(clients, 1, "T")
    assert join(clients, 1, "U")
    assert clients.groups_subscribing("T") == []
    assert clients.groups_subscribing("U") == ["G"]


def test_a_group_without_members_is_forgotten():
    clients = Clients()
    join(clients, 1, "T")
    assert clients.unregister_consumer("G", 1)
    assert not clients.unregister_consumer("G", 1)
    assert clients.consumer_group("G") is None


def test_a_closed_connection_leaves_all_its_groups():
    clients = Clients()
    join(clients, 1, "T", group="G")
    join(clients, 1, "T", group="H")
    join(clients, 2, "T", group="H")
    clients.register_producer("P", client(1))
    assert sorted(groups(clients.channel_closed(1))) == ["G", "H"]
    assert clients.producer_groups() == {}
    assert clients.consumer_group("H").client_ids() == ["c2"]


def test_silent_clients_expire_at_the_next_scan():
    clients = Clients()
    join(clients, 1, "T", now_ms=0)
    join(clients, 2, "T", now_ms=50_000)
    clients.register_producer("P", client(3, 0))
    lost, wait_ms = clients.tick(CLIENT_EXPIRY_MS)
    assert (lost, wait_ms) == ([], 10_000)
    assert clients.tick(CLIENT_EXPIRY_MS + 1) == ([], 9_999)
    lost, _ = clients.tick(CLIENT_EXPIRY_MS + 10_000)
    assert lost == ["G"]
    assert clients.consumer_group("G").client_ids() == ["c2"]
    assert clients.producer_group("P") == []


def test_a_client_is_found_by_its_id():
    clients = Clients()
    join(clients, 1, "T")
    clients.register_producer("P", client(2))
    assert clients.find_client("c1").channel == 1
    assert clients.find_client("c2").channel == 2
    assert clients.find_client("c3") is None
    assert clients.consumer_group("G").find("c2") is None


def test_a_client_that_connects_anew_is_one_client():
    clients = Clients()
    for channel in (1, 2):
        clients.register_consumer("G", Client(channel, "same", 0, 479, "", 0, 0), "CONSUME_PASSIVELY", "CLUSTERING",
                                  "CONSUME_FROM_LAST_OFFSET", [])
        clients.register_producer("P", Client(channel, "maker", 0, 479, "", 0, 0))
    assert clients.consumer_group("G").client_ids() == ["same"]
    assert clients.consumer_group("G").find("same").channel == 2
    assert clients.find_client("maker").channel == 2


def test_a_client_that_gives_itself_another_id_is_found_under_that():
    clients = Clients()
    join(clients, 1, "T")
    clients.register_consumer("G", Client(1, "other", 0, 479, "", 0, 0), "CONSUME_PASSIVELY", "CLUSTERING", "", [])
    assert clients.find_client("c1") is None
    assert clients.find_client("other").channel == 1
    assert clients.consumer_group("G").client_ids() == ["other"]


def test_the_list_of_members_is_encoded_once_until_they_change():
    clients = Clients()
    join(clients, 1, "T")
    join(clients, 2, "T")
    group = clients.consumer_group("G")
    encoded = group.encoded_ids()
    assert encoded == b'{"consumerIdList":["c1","c2"]}'
    join(clients, 2, "T", now_ms=5)
    assert group.encoded_ids() is encoded
    clients.channel_closed(1)
    assert group.encoded_ids() == b'{"consumerIdList":["c2"]}'
    join(clients, 3, "T")
    assert group.encoded_ids() == b'{"consumerIdList":["c2","c3"]}'


class Watched(dict):
    """Counts what is asked of it."""

    asked = 0

    def __iter__(self):
        for key in super().__iter__():
            Watched.asked += 1
            yield key

    def items(self):
        for item in super().items():
            Watched.asked += 1
            yield item

    def values(self):
        for value in super().values():
            Watched.asked += 1
            yield value

    def get(self, *key):
        Watched.asked += 1
        return super().get(*key)


@pytest.mark.parametrize("others", [100, 200])
def test_the_end_of_a_connection_costs_what_it_was_in(others):
    clients = Clients()
    for number in range(others):
        join(clients, 10 + number, "T", group=f"G{number}")
        clients.register_producer(f"P{number}", client(10 + number))
    join(clients, 1, "T", group="G7")
    clients.register_producer("P7", client(1))
    clients._consumers, clients._producers = Watched(clients._consumers), Watched(clients._producers)
    Watched.asked = 0
    assert groups(clients.channel_closed(1)) == ["G7"]
    assert clients.channel_closed(2) == []
    assert clients.find_client("c11").channel == 11
    assert Watched.asked <= 4


def test_nothing_is_left_of_connections_that_are_gone():
    clients = Clients()
    for channel in range(5):
        join(clients, channel, "T", group=f"G{channel % 2}")
        clients.register_producer("P", client(channel))
    for channel in range(5):
        clients.channel_closed(channel)
    assert not any((clients._consumers, clients._producers, clients._memberships, clients._ids._channels))


def happened(clients: Clients) -> dict[str, str]:
    return {kind: str(names) for kind, names in clients.happenings.take().items()}


def test_who_comes_and_goes_is_noted_once():
    clients = Clients()
    for _ in range(3):
        join(clients, 1, "T")
        clients.register_producer("P", client(1))
    assert happened(clients) == {"consumers joined": "c1 at 10.0.0.5:1 in group G",
                                 "producers joined": "c1 at 10.0.0.5:1 in group P"}
    clients.unregister_consumer("G", 1)
    clients.unregister_consumer("G", 1)
    assert happened(clients) == {"consumers left": "c1 at 10.0.0.5:1 in group G"}
    clients.channel_closed(1)
    assert happened(clients) == {"producers left": "c1 at 10.0.0.5:1 in group P"}


def test_silent_clients_are_noted_as_gone():
    clients = Clients()
    join(clients, 1, "T")
    clients.register_producer("P", client(1))
    happened(clients)
    clients.tick(CLIENT_EXPIRY_MS + 1)
    assert happened(clients) == {"producers left": "c1 at 10.0.0.5:1 in group P",
                                 "consumers left": "c1 at 10.0.0.5:1 in group G"}


def beat(clients: Clients, channel: int, now_ms: int, client_id: str = "same",
         message_model: str = "CLUSTERING") -> None:
    named = Client(channel, client_id, 0, 479, f"10.0.0.{channel}:1", 0, now_ms)
    clients.register_consumer("G", named, "CONSUME_PASSIVELY", message_model, "CONSUME_FROM_LAST_OFFSET", [])


def told(clients: Clients) -> list[str]:
    return [str(names) for names in clients.faults.take().values()]


def test_two_clients_with_one_id_are_told_once():
    clients = Clients()
    beat(clients, 1, 0)
    beat(clients, 2, 10)
    beat(clients, 2, 20)
    assert told(clients) == []      # the first may be gone, though its connection is not closed yet
    beat(clients, 1, 30)
    assert told(clients) == ["same at 10.0.0.2:1 and 10.0.0.1:1 in group G"]
    for now_ms in range(40, 100, 10):
        beat(clients, 1 + now_ms // 10 % 3, now_ms)
    assert told(clients) == []
    for channel in (1, 2, 3):
        clients.channel_closed(channel)
    beat(clients, 1, 100)
    beat(clients, 2, 100)
    beat(clients, 1, 110)
    assert told(clients) == []
    beat(clients, 2, 110)
    assert told(clients) == ["same at 10.0.0.1:1 and 10.0.0.2:1 in group G"]


def test_a_client_that_connects_anew_has_no_namesake():
    clients = Clients()
    for channel in (1, 2, 3):
        for now_ms in range(3):
            beat(clients, channel, 10 * channel + now_ms)
    assert told(clients) == []


def test_namesakes_do_no_double_work_elsewhere():
    clients = Clients()
    for now_ms in range(6):
        beat(clients, 1 + now_ms % 2, now_ms, f"c{now_ms % 2}")
        clients.register_producer("P", Client(3 + now_ms % 2, "same", 0, 479, "", 0, now_ms))
    assert told(clients) == []
    for now_ms in range(10, 16):
        beat(clients, 5 + now_ms % 2, now_ms, message_model="BROADCASTING")
    assert told(clients) == []


def client_of(user, channel, client_id="X", heard_ms=0):
    return Client(channel, client_id, 0, 479, f"h{channel}:1", 0, heard_ms, user)


def test_what_is_sent_to_an_id_goes_to_the_user_who_brought_it():
    """Ids are told to others, and whoever names one last would get its replies."""
    clients = Clients()
    clients.register_producer("P", client_of("alice", 1))
    clients.register_producer("P", client_of("mallory", 2))
    clients.register_consumer("G", client_of("mallory", 2), "", "CLUSTERING", "", [])
    assert clients.find_client("X").channel == 1
    assert list(clients.faults.take()) == [STRANGERS]
    clients.register_producer("P", client_of("alice", 3))
    assert clients.find_client("X").channel == 3
    assert clients.faults.take() == {}


@pytest.mark.parametrize("user", ["alice", ""])
def test_an_id_stays_where_it_is_as_long_as_one_connection_has_it(user):
    """Neither when another one of its user closes, nor when what would be kept of that ends."""
    clients = Clients()
    clients.register_producer("P", client_of(user, 1))
    clients.register_producer("P", client_of(user, 2))
    clients.tick(1_000)
    clients.channel_closed(1)
    clients.register_producer("P", client_of("mallory", 3))
    assert clients.find_client("X").channel == 2
    clients.register_producer("P", client_of(user, 2, heard_ms=130_000))
    clients.tick(1_000 + CLIENT_EXPIRY_MS + EXPIRY_SCAN_MS)
    clients.register_producer("P", client_of("mallory", 3, heard_ms=140_000))
    assert clients.find_client("X").channel == 2


def test_an_id_is_kept_for_its_user_while_a_client_starts_anew():
    clients = Clients()
    clients.register_producer("P", client_of("alice", 1))
    clients.tick(1_000)
    clients.channel_closed(1)
    clients.register_producer("P", client_of("mallory", 2))
    assert clients.find_client("X") is None
    clients.tick(1_000 + CLIENT_EXPIRY_MS - 1)
    clients.register_producer("P", client_of("mallory", 2, heard_ms=100_000))
    assert clients.find_client("X") is None
    clients.register_producer("P", client_of("alice", 4, heard_ms=100_000))
    assert clients.find_client("X").channel == 4


def test_an_id_that_is_kept_no_longer_is_of_who_is_heard_next():
    clients = Clients()
    clients.register_producer("P", client_of("alice", 1))
    clients.tick(1_000)
    clients.unregister_producer("P", 1)
    clients.tick(1_000 + CLIENT_EXPIRY_MS + EXPIRY_SCAN_MS)
    clients.register_producer("P", client_of("bob", 2, heard_ms=140_000))
    assert clients.find_client("X").channel == 2
    assert clients.faults.take() == {}


def test_who_comes_first_with_an_id_locks_nobody_out():
    clients = Clients()
    clients.register_producer("P", client_of("mallory", 1))
    assert clients.register_producer("P", client_of("alice", 2))
    clients.register_consumer("G", client_of("alice", 2), "", "CLUSTERING", "", [])
    assert [client.user for client in clients.producer_group("P")] == ["mallory", "alice"]
    assert clients.consumer_group("G").client_ids() == ["X"]
    assert groups(clients.channel_closed(2)) == ["G"]
    assert clients.find_client("X").channel == 1


@pytest.mark.parametrize("user", ["mallory", ""])
def test_a_stranger_who_leaves_takes_no_id_along(user):
    """Not while its client starts anew, and not later, when what is kept of the stranger ends."""
    clients = Clients()
    clients.register_producer("P", client_of("alice", 1))
    clients.channel_closed(1)
    clients.register_producer("P", client_of(user, 2))
    clients.tick(1_000)
    clients.channel_closed(2)
    clients.register_producer("P", client_of("mallory", 3, heard_ms=130_000))
    assert clients.find_client("X") is None
    clients.register_producer("P", client_of("alice", 4, heard_ms=130_000))
    clients.tick(1_000 + CLIENT_EXPIRY_MS + EXPIRY_SCAN_MS)
    clients.register_producer("P", client_of("mallory", 5, heard_ms=140_000))
    assert clients.find_client("X").channel == 4


def test_a_connection_that_has_another_user_has_his_ids():
    clients = Clients()
    clients.register_producer("P", client_of("alice", 1))
    clients.register_producer("P", client_of("bob", 1))
    assert clients.find_client("X").user == "bob"
    assert clients.faults.take() == {}
    clients.register_producer("P", client_of("alice", 2))
    assert clients.find_client("X").channel == 1
    assert list(clients.faults.take()) == [STRANGERS]


def test_a_user_has_so_many_ids_kept_and_no_more():
    clients = Clients()
    for number in range(IDS_KEPT_MAX + 1):
        clients.register_producer("P", client_of("mallory", number + 1, f"m{number}"))
        clients.register_producer("P", client_of("alice", 0, "mine"))
        clients.channel_closed(number + 1)
    clients.channel_closed(0)
    for client_id, is_free in (("m0", True), ("m1", False), ("mine", False)):
        clients.register_producer("P", client_of("bob", 9_999, client_id))
        assert (clients.find_client(client_id) is not None) is is_free


def test_a_connection_that_names_itself_anew_has_no_ids_kept():
    clients = Clients()
    for number in range(10):
        clients.register_producer("P", client_of("mallory", 1, f"m{number}"))
    clients.channel_closed(1)
    clients.register_producer("P", client_of("alice", 2, "m5"))
    assert clients.find_client("m5").channel == 2


def test_without_users_an_id_is_of_whoever_has_it():
    clients = Clients()
    clients.register_producer("P", client_of("", 1))
    clients.register_producer("P", client_of("", 2))
    assert clients.find_client("X").channel == 2
    clients.channel_closed(2)
    clients.channel_closed(1)
    assert clients.find_client("X") is None
    assert (clients._ids._users, clients._ids._channels, clients._ids._kept) == ({}, {}, {})


def test_one_connection_produces_for_so_many_groups_and_for_topics_besides():
    clients = Clients()
    told = [clients.register_producer(f"P{number}", client(1)) for number in range(PRODUCER_GROUPS_MAX + 2)]
    assert told == [True] * PRODUCER_GROUPS_MAX + [False] * 2
    assert clients.producer_group(f"P{PRODUCER_GROUPS_MAX}") == []
    assert clients.register_producer("P3", client(1))
    assert clients.register_producer("a topic", client(1), is_own_topic=True)
    assert [each.channel for each in clients.producer_group("a topic")] == [1]


def test_a_connection_that_is_in_many_groups_leaves_them_in_steps():
    clients = Clients()
    for number in range(LEFT_AT_ONCE):
        clients.register_consumer(f"G{number}", client(1), "", "CLUSTERING", "", [])
        clients.register_producer(f"P{number}", client(1))
    join(clients, 2, "T")
    assert (clients.channel_closed(1), clients.is_leaving) == ([], True)
    assert clients.producer_groups() == {}
    assert groups(clients.channel_closed(2)) == [f"G{number}" for number in range(LEFT_AT_ONCE)]
    assert (groups(clients.leave_some()), clients.is_leaving) == (["G"], False)
    assert [clients.consumer_group(f"G{number}") for number in range(LEFT_AT_ONCE)] == [None] * LEFT_AT_ONCE


def wishes(clients: Clients, channel: int, **expressions: str) -> list[str]:
    """A heartbeat with these, and what is told of it."""
    clients.register_consumer("G", client(channel), "CONSUME_PASSIVELY", "CLUSTERING", "", [
        SubscriptionData.compile(topic.replace("retry_", "%RETRY%"), expression)
        for topic, expression in expressions.items()])
    return [names.names[0] for kind, names in clients.faults.take().items() if kind == UNLIKE]


def test_members_that_subscribe_differently_are_told_once_a_change():
    clients = Clients()
    assert wishes(clients, 1, T="a") == []
    assert wishes(clients, 2, T="a") == []
    assert len(wishes(clients, 2, T="b")) == 1
    assert wishes(clients, 2, T="b") == []
    assert wishes(clients, 1, T="a") == [], "the other one said nothing new"
    assert wishes(clients, 1, T="b") == [], "now they are alike"
    assert len(wishes(clients, 1, T="b", U="*")) == 1


def test_a_member_that_left_is_unlike_nobody():
    clients = Clients()
    wishes(clients, 1, T="a")
    assert len(wishes(clients, 2, T="b")) == 1
    clients.unregister_consumer("G", 1)
    assert wishes(clients, 3, T="b") == []


def test_a_member_that_pops_is_not_unlike_one_that_pulls():
    clients = Clients()
    assert wishes(clients, 1, T="a", retry_G="*") == []
    assert wishes(clients, 2, T="a") == []
