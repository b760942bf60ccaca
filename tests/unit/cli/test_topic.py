"""`regulus topic` against a real server."""

import json
import re

from regulus.cli.message import message
from regulus.cli.topic import topic


def test_topics_are_created_listed_shown_and_deleted(run):
    assert "8 queues" in run(topic, "create", "Orders", "-q", "8", "--attribute", "message.type=NORMAL")
    assert "Orders" in run(topic, "list").splitlines()
    assert re.search(r"broker-a +DefaultCluster +8 +8 +6 ", run(topic, "route", "Orders"))
    assert json.loads(run(topic, "route", "Orders", "--json"))["queueDatas"][0]["writeQueueNums"] == 8
    assert run(topic, "status", "Orders").endswith("0 messages\n")
    run(topic, "delete", "Orders", "--yes")
    assert "Orders" not in run(topic, "list").splitlines()
    assert "no broker serves topic 'Orders'" in run(topic, "route", "Orders", fails=True)


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
