"""Which connections belong to which group."""

from regulus.broker.clients import CLIENT_EXPIRY_MS, Client, Clients
from regulus.wire.bodies import SubscriptionData


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
    assert sorted(clients.channel_closed(1)) == ["G", "H"]
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
