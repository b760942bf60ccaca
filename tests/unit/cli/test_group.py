"""`regulus group` and `regulus bench` against a real server."""

import json
import re
import threading
import time
from pathlib import Path

from regulus.cli.bench import bench
from regulus.cli.group import group
from regulus.cli.topic import topic
from regulus.client.config import ConsumeFromWhere, MessageRequestMode, PushConsumerConfig
from regulus.client.listener import ConsumeStatus
from regulus.client.sync import Admin, PushConsumer, SimpleConsumer


def test_a_group_shows_progress_and_is_reset_and_deleted(run):
    run(topic, "create", "Orders", "-q", "2")
    run(bench, "producer", "--topic", "Orders", "-c", "19", "-f", "4")
    assert "20 messages" in run(bench, "consumer", "--topic", "Orders", "--group", "billing", "-c", "20")
    assert "lag 0" in run(group, "progress", "billing")
    run(group, "reset", "billing", "Orders", "--to", "earliest")
    progress = json.loads(run(group, "progress", "billing", "--output", "json"))
    assert (progress["lag"], progress["online"]) == (20, False)
    run(group, "reset", "billing", "Orders", "--offset", "3", "--queue", "broker-a/0")
    assert json.loads(run(group, "progress", "billing", "--output", "json"))["lag"] == 17
    run(group, "reset", "billing", "Orders", "--to", "latest")
    assert re.search(r"billing +0 +2 +0 ", run(group, "list"))
    assert "no consumer of group billing is online" in run(group, "members", "billing", fails=True)
    run(group, "delete", "billing", "--yes")
    assert "billing" not in run(group, "list")


def test_groups_are_those_of_brokers_whatever_retry_topics_there_are(run, regulus_server):
    run(topic, "create", "%RETRY%billing_Orders", "-q", "1")    # of a group that pops and never pulled
    run(group, "create", "billing", "--retry-max-times", "3", "--priority-factor", "40")
    assert json.loads(run(group, "settings", "billing", "--output", "json")) == [
        {"broker": "broker-a", "retry_max_times": 3, "in_order": False, "consume_enable": True, "slow_reads_at": 1,
         "attributes": {"priority.factor": "40"}}]
    assert re.search(r"broker-a +3 +False +True +1 +priority.factor=40", run(group, "settings", "billing"))
    assert "no broker has a group 'shipping'" in run(group, "settings", "shipping", fails=True)
    assert [each["group"] for each in json.loads(run(group, "list", "--output", "json"))] == ["billing"]


def test_of_a_group_what_is_not_named_stays_as_it_is(run, regulus_server):
    document = Path(regulus_server.store_path) / "config" / "subscriptionGroup.json"
    for options, told, in_order, retries, attributes in (
            (["--in-order"], "16 times, and pops in order", True, 16, {}),
            (["--retry-max-times", "3"], "3 times, and pops in order", True, 3, {}),
            (["--priority-factor", "90"], "3 times, and pops in order", True, 3, {"priority.factor": "90"}),
            (["--any-order"], "3 times", False, 3, {"priority.factor": "90"}),
            (["--priority-factor", "0"], "3 times", False, 3, {"priority.factor": "0"})):
        assert run(group, "create", "billing", *options) == f"group billing tries a message again {told}\n"
        kept = json.loads(document.read_text())["subscriptionGroupTable"]["billing"]
        assert (kept["consumeMessageOrderly"], kept["retryMaxTimes"], kept["attributes"]) == (
            in_order, retries, attributes)
    with Admin(regulus_server.name_server_address) as admin:
        admin.set_retry_limit("billing", 5)
    kept = json.loads(document.read_text())["subscriptionGroupTable"]["billing"]
    assert (kept["retryMaxTimes"], kept["attributes"]) == (5, {"priority.factor": "0"})


def test_a_member_shows_its_blocked_queues(run, regulus_server):
    run(topic, "create", "Orders", "-q", "1")
    run(bench, "producer", "--topic", "Orders", "-c", "1", "-f", "1")
    assert "no consumer of group billing is online" in run(group, "show", "billing", fails=True)
    tries = threading.Semaphore(0)

    def fail(messages, context):
        tries.release()
        return ConsumeStatus.RECONSUME_LATER

    consumer = PushConsumer(regulus_server.name_server_address, "billing", fail, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, consume_orderly=True,
        suspend_current_queue_time_millis=10))
    consumer.subscribe("Orders")
    with consumer:
        for _ in range(5):
            assert tries.acquire(timeout=60)
        until = time.monotonic() + 60
        while True:     # it may be on its way to its second queue
            (member,) = json.loads(run(group, "show", "billing", "--output", "json"))
            if (member["queues"], member["cached"]) == (2, 2) or time.monotonic() > until:
                break
    assert member == {"client": member["client"], "queues": 2, "cached": 2, "blocked": 1, "restarts": 0, **NOT_POPPED}


NOT_POPPED = dict.fromkeys(("ready", "inflight", "commit", "retry", "dead_letter"), "-")


def test_a_member_that_pops_shows_its_messages_by_their_state(run, regulus_server):
    run(topic, "create", "Orders", "-q", "1")
    begun, may_end = threading.Semaphore(0), threading.Event()

    def listen(messages, context):
        begun.release()
        may_end.wait(60)
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = PushConsumer(regulus_server.name_server_address, "billing", listen, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, consume_thread_max=1,
        message_request_mode=MessageRequestMode.POP))
    consumer.subscribe("Orders")
    run(bench, "producer", "--topic", "Orders", "-c", "1", "-f", "1")
    with consumer, SimpleConsumer(regulus_server.name_server_address, "billing", {"Orders": "*"}):
        assert begun.acquire(timeout=60)
        popping, asking = sorted(json.loads(run(group, "show", "billing", "--output", "json")),
                                 key=lambda member: member["commit"] == "-")
        may_end.set()
    assert popping["inflight"] == 1
    assert {popping[name] for name in ("commit", "retry", "dead_letter")} == {0}
    assert asking == {"client": asking["client"], "queues": "-", "cached": "-", "blocked": "-", "restarts": "-",
                      **NOT_POPPED}


def test_a_reset_needs_one_place_to_go(run):
    assert "give one of" in run(group, "reset", "billing", "Orders", fails=True)
    assert "BROKER/ID" in run(group, "reset", "billing", "Orders", "--offset", "3", fails=True)
