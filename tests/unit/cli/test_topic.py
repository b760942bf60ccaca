"""`regulus topic` against a real server."""

import asyncio
import json
import re

from regulus.broker.config import BrokerConfig
from regulus.cli.group import group
from regulus.cli.message import message
from regulus.cli.topic import topic
from regulus.client.sync import Admin
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.server.assembly import BrokerServer
from regulus.testing.running_server import HOST, small_store


def test_topics_are_created_listed_shown_and_deleted(run):
    assert "8 queues" in run(topic, "create", "Orders", "-q", "8", "--attribute", "message.type=NORMAL")
    assert "Orders" in run(topic, "list").splitlines()
    assert re.search(r"broker-a +DefaultCluster +8 +8 +6 ", run(topic, "route", "Orders"))
    assert json.loads(run(topic, "route", "Orders", "--output", "json"))["queueDatas"][0]["writeQueueNums"] == 8
    assert run(topic, "status", "Orders").endswith("0 messages\n")
    assert re.search(r"broker-a +8 +8 +6 +False +message.type=NORMAL", run(topic, "settings", "Orders"))
    assert json.loads(run(topic, "settings", "Orders", "--output", "json")) == [
        {"broker": "broker-a", "read": 8, "write": 8, "perm": 6, "order": False,
         "attributes": {"message.type": "NORMAL"}}]
    assert "no broker has a topic 'Bills'" in run(topic, "settings", "Bills", fails=True)
    run(topic, "delete", "Orders", "--yes")
    assert "Orders" not in run(topic, "list").splitlines()
    assert "no broker serves topic 'Orders'" in run(topic, "route", "Orders", fails=True)


def settings(run, name):
    (row,) = json.loads(run(topic, "route", name, "--output", "json"))["queueDatas"]
    return row["readQueueNums"], row["writeQueueNums"], row["perm"]


def test_what_is_not_named_stays_as_it_is(run, regulus_server):
    run(topic, "create", "Orders", "-q", "16", "--perm", "4", "--order")
    run(topic, "create", "Orders", "--attribute", "message.type=FIFO")
    assert settings(run, "Orders") == (16, 16, 4)
    run(topic, "create", "Orders", "--perm", "6")
    with Admin(regulus_server.name_server_address) as admin:
        config = admin.topic_configs(regulus_server.address)["Orders"]
    assert (config.read_queue_nums, config.perm, config.order) == (16, 6, True)
    assert config.attributes == {"message.type": "FIFO"}
    run(topic, "create", "Orders", "--no-order")
    with Admin(regulus_server.name_server_address) as admin:
        config = admin.topic_configs(regulus_server.address)["Orders"]
    assert (config.read_queue_nums, config.order, config.attributes) == (16, False, {"message.type": "FIFO"})


async def test_what_is_not_named_stays_as_it_is_on_each_broker(run, regulus_server, tmp_path):
    second = BrokerServer(BrokerConfig(listen_port=0, broker_name="broker-b", broker_ip1=HOST,
                                       namesrv_addr=regulus_server.name_server_address), small_store(tmp_path / "b"))
    await second.start()
    addresses = [regulus_server.address, f"{HOST}:{second.port}"]

    def change():
        with Admin(regulus_server.name_server_address) as admin:
            for address, count in zip(addresses, (4, 8), strict=True):
                admin.create_topic(TopicConfig(topic_name="Orders", read_queue_nums=count, write_queue_nums=count),
                                   broker_address=address)
                admin.create_group(SubscriptionGroupConfig(group_name="billing", retry_max_times=count),
                                   broker_address=address)
            run(topic, "create", "Orders", "--perm", "4")
            run(group, "create", "billing", "--in-order")
            return ([admin.topic_configs(address)["Orders"] for address in addresses],
                    [admin.group_configs(address)["billing"] for address in addresses])

    topics, groups = await asyncio.to_thread(change)
    assert [(each.read_queue_nums, each.write_queue_nums, each.perm) for each in topics] == [(4, 4, 4), (8, 8, 4)]
    assert [(each.retry_max_times, each.consume_message_orderly) for each in groups] == [(4, True), (8, True)]
    await second.stop()


def test_queues_that_have_messages_are_taken_away_by_force_alone(run):
    run(topic, "create", "Orders", "-q", "8")
    run(message, "send", "Orders", "here", "--queue", "broker-a/7", "-c", "3")
    refused = run(topic, "create", "Orders", "-q", "7", fails=True)
    assert "3 messages of topic Orders would be in queues that are not read" in refused
    assert settings(run, "Orders") == (8, 8, 6)
    assert "8 queues, 7 to write to, on each broker" in run(topic, "create", "Orders", "--write-queues", "7")
    assert settings(run, "Orders") == (8, 7, 6)
    assert "3 messages" in run(topic, "create", "Orders", "-q", "7", fails=True)
    run(topic, "create", "Orders", "-q", "7", "--force")
    assert settings(run, "Orders") == (7, 7, 6)
    run(topic, "create", "Orders", "-q", "5")       # nothing lies behind it
    assert settings(run, "Orders") == (5, 5, 6)


def test_queues_with_messages_are_found_however_the_broker_is_named(run, regulus_server):
    """Not by the address that name servers know: a host's name, another network's, the port beside it."""
    run(topic, "create", "Orders", "-q", "8")
    run(message, "send", "Orders", "here", "--queue", "broker-a/7", "-c", "3")
    by_name = f"localhost:{regulus_server.port}"
    assert "3 messages" in run(topic, "create", "Orders", "-q", "7", "--broker", by_name, fails=True)
    assert settings(run, "Orders") == (8, 8, 6)


def test_tail_shows_what_is_there_by_tag_and_count(run):
    run(topic, "create", "Orders")
    run(message, "send", "Orders", "one", "-t", "A", "-c", "5")
    run(message, "send", "Orders", "two", "-t", "B")
    assert len(run(topic, "tail", "Orders", "--from-beginning", "--no-wait").splitlines()) == 6
    assert len(run(topic, "tail", "Orders", "--from-beginning", "--no-wait", "--tag", "A").splitlines()) == 5
    assert len(run(topic, "tail", "Orders", "--from-beginning", "-c", "2").splitlines()) == 2


def test_an_empty_queue_has_no_last_message(run):
    run(topic, "create", "Empty", "--queues", "1")
    (row,) = json.loads(run(topic, "status", "Empty", "--output", "json"))
    assert (row["messages"], row["last"]) == (0, None)
