"""`regulus dead` against a real server: letters are shown with their causes, and sent again, each once."""

import json
import re

import pytest

from regulus.cli.dead import dead
from regulus.cli.topic import topic
from regulus.client.sync import Producer
from regulus.model.message import Message
from tests.unit.spark.sink.support import messages_of

SENDS = ("-y", "--brokers", "broker-a")


def letters(name_server: str, *keys: str, group: str = "g", origin: str = "Orders", **properties: str) -> None:
    """Dead letters as brokers store them."""
    with Producer(name_server, "shop") as producer:
        for key in keys:
            producer.send(Message(f"%DLQ%{group}", b"order " + key.encode(), "T", key,
                                  {"DLQ_ORIGIN_TOPIC": origin, **properties}))


@pytest.fixture
def shop(run, regulus_server):
    run(topic, "create", "Orders", "-q", "2")
    run(topic, "create", "%DLQ%g", "-q", "1")
    return regulus_server


def statuses(run, *arguments):
    found = json.loads(run(dead, "redrive", "g", "--dry-run", "--output", "json", *arguments))
    return {(row["topic"], row["status"]): row["letters"] for row in found["counts"]}


def test_letters_are_sent_again_once_as_their_producer_sent_them(run, shop):
    letters(run.name_server, "o1", "o2", customer="c1", BUSINESS_ID="b1", DELAY="0", RECONSUME_TIME="2",
            CAUSE_1="ValueError: no", CAUSE_77="old", CAUSE_STACK="line", __SHARDINGKEY="k")
    assert statuses(run) == {("Orders", "to send"): 2}
    assert "2 sent, 0 sent before; brokers: broker-a" in run(dead, "redrive", "g", *SENDS)
    found = sorted(messages_of(shop, "Orders", wait_for=2), key=lambda each: each.physical_offset)
    assert [(each.keys, each.tags, each.body) for each in found] == [("o1", "T", b"order o1"), ("o2", "T", b"order o2")]
    assert len({each.queue_id for each in found}) == 1, "of one sharding key"
    assert {name: found[0].properties[name] for name in ("customer", "BUSINESS_ID", "__SHARDINGKEY")} == {
        "customer": "c1", "BUSINESS_ID": "b1", "__SHARDINGKEY": "k"}
    assert re.fullmatch(r"%DLQ%g/0/0/7F000001[0-9A-F]{24}", found[0].properties["REDRIVE_OF"])
    assert not {"DLQ_ORIGIN_TOPIC", "DELAY", "RECONSUME_TIME", "CAUSE_1", "CAUSE_77", "CAUSE_STACK"} & set(
        found[0].properties)
    assert "0 sent, 2 sent before; brokers: broker-a" in run(dead, "redrive", "g", *SENDS)
    letters(run.name_server, "o3")
    assert "1 sent, 2 sent before; brokers: broker-a" in run(dead, "redrive", "g", *SENDS)
    assert len(messages_of(shop, "Orders", wait_for=3)) == 3
    assert json.loads(run(dead, "status", "g", "--output", "json")) == {
        "group": "g", "letters": 3, "sent_again": 3, "left": 0, "dead_once_more": 0}


def test_a_run_asks_says_where_letters_go_and_a_no_sends_nothing(run, shop):
    letters(run.name_server, "o1")
    said = run(dead, "redrive", "g", stdin="n\n", fails=True)
    assert "Send 1 message (1 to Orders)?" in said
    assert "These must be all brokers that exist: broker-a." in said
    assert messages_of(shop, "Orders") == []
    assert "1 sent, 0 sent before" in run(dead, "redrive", "g", stdin="y\n")
    assert "it is not said which brokers there are" in run(dead, "redrive", "g", "-y", fails=True)
