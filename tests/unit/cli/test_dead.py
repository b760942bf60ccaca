"""`regulus dead` against a real server: letters are shown with their causes, and sent again, each once."""

import base64
import json
import re
import threading
import time

import pytest

from regulus.cli.dead import dead
from regulus.cli.topic import topic
from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.listener import ConsumeStatus
from regulus.client.sync import Admin, Producer, PushConsumer
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.testing.running_server import ServerThread
from tests.stores import small_config
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


def test_a_failing_listener_leaves_its_cause_which_every_command_shows(run, shop, tmp_path):
    """The whole way: fail, look, try first with one, mend, send again."""
    with Producer(run.name_server, "shop") as producer:
        for number in range(3):
            body = b"order \xff" if number == 2 else b"order %d" % number
            producer.send(Message("Orders", body, "T", f"o{number}"))
    is_mended = threading.Event()
    consumed: list[str] = []

    def listen(messages, context):
        if not is_mended.is_set():
            context.delay_level_when_next_consume = -1
            raise ValueError(f"order {messages[0].keys[1:]} has no price")
        consumed.extend(each.keys for each in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    config = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = PushConsumer(run.name_server, "g", listen, config)
    consumer.subscribe("Orders")
    with consumer:
        wait_until(lambda: json.loads(run(dead, "list", "--output", "json"))[:1] and json.loads(
            run(dead, "list", "--output", "json"))[0]["letters"] == 3)
        [listed] = json.loads(run(dead, "list", "--output", "json"))
        assert (listed["group"], listed["last_hour"], listed["topics"]) == ("g", 3, ["Orders"])
        assert listed["expires"] - listed["oldest"] == 72 * 3_600_000
        [cause] = json.loads(run(dead, "show", "g", "--group-by", "cause", "--output", "json"))
        assert (cause["cause"], cause["letters"]) == ("ValueError: order # has no price", 3)
        rows = json.loads(run(dead, "show", "g", "--where", "cause CONTAINS 'order 1' AND topic = 'Orders'",
                              "--output", "json"))
        assert [(row["keys"], row["tries"], row["cause"]) for row in rows] == [
            ("o1", 1, "ValueError: order 1 has no price")]
        shown = run(dead, "debug", "g", rows[0]["id"])
        assert "1  ValueError: order 1 has no price" in shown
        assert "in listen" in shown
        assert "order 1" in shown.splitlines()[-1]

        said = run(dead, "redrive", "g", *SENDS, "--canary", "1", fails=True)
        assert "not all letters were sent" in said
        assert json.loads(run(dead, "status", "g", "--output", "json")) == {
            "group": "g", "letters": 4, "sent_again": 1, "left": 3, "dead_once_more": 1}

        is_mended.set()
        assert "3 sent, 1 sent before; brokers: broker-a" in run(dead, "redrive", "g", *SENDS, "--canary", "1")
        wait_until(lambda: sorted(consumed) == ["o0", "o1", "o2"])
    assert "0 sent, 4 sent before" in run(dead, "redrive", "g", *SENDS)

    file = tmp_path / "letters.jsonl"
    assert "4 letters written" in run(dead, "export", "g", str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["topic"] for line in lines] == ["Orders"] * 4
    assert {base64.b64decode(line["body_base64"]) for line in lines if "body_base64" in line} == {b"order \xff"}
    assert "exists and is not overwritten" in run(dead, "export", "g", str(file), fails=True)
    assert len(file.read_text().splitlines()) == 4


def wait_until(is_so, seconds=60):
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_letters_that_nobody_consumes_stop_a_run_after_its_first(run, shop):
    letters(run.name_server, "o1", "o2", "o3")
    run(dead, "redrive", "g", *SENDS, "--canary", "1", "--canary-wait", "1", fails=True)
    assert len(messages_of(shop, "Orders", wait_for=1)) == 1
    assert "2 sent, 1 sent before" in run(dead, "redrive", "g", *SENDS, "--rate", "1000")


def test_the_cap_takes_the_oldest_and_another_topic_is_the_users_choice(run, shop):
    letters(run.name_server, "o1", "o2", "o3")
    letters(run.name_server, "lost", origin="Gone")
    assert statuses(run, "--cap", "1") == {("Orders", "to send"): 1, ("Orders", "beyond the cap"): 2,
                                           ("Gone", "no such topic"): 1}
    assert "1 sent, 0 sent before, 1 whose topic is gone or not known, 2 not sent: beyond the cap" in run(
        dead, "redrive", "g", *SENDS, "--cap", "1")
    assert [each.keys for each in messages_of(shop, "Orders", wait_for=1)] == ["o1"]
    run(topic, "create", "Repairs", "-q", "1")
    assert "1 sent, 0 sent before" in run(dead, "redrive", "g", *SENDS, "--to-topic", "Repairs", "--where",
                                          "keys = 'lost' AND reconsume_times = 0 AND age_ms < 600000")
    assert [each.keys for each in messages_of(shop, "Repairs", wait_for=1)] == ["lost"]
    assert statuses(run, "--to-topic", "%RETRY%g") == {("%RETRY%g", "no such topic"): 4}


def test_a_letter_that_is_older_than_its_topic_is_not_sent(run, shop):
    letters(run.name_server, "o1")
    run(dead, "redrive", "g", *SENDS)
    run(topic, "delete", "Orders", "--yes")
    run(topic, "create", "Orders", "-q", "2")
    assert statuses(run) == {("Orders", "topic is newer"): 1}
    said = run(dead, "redrive", "g", *SENDS)
    assert "0 sent, 0 sent before, 1 not sent: older than the topic" in said
    assert messages_of(shop, "Orders") == []
    assert statuses(run, "--to-topic", "Orders") == {("Orders", "to send"): 1}


def test_brokers_that_are_away_or_not_named_are_missed(run, shop):
    letters(run.name_server, "o1")
    assert "expected brokers are away: broker-b" in run(dead, "redrive", "g", "-y", "--brokers", "broker-a,broker-b",
                                                        fails=True)
    assert messages_of(shop, "Orders") == []


def test_queues_that_cannot_be_read_may_have_what_was_sent(run, shop):
    letters(run.name_server, "o1")
    with Producer(run.name_server, "shop") as producer, Admin(run.name_server) as admin:
        producer.send(Message("Orders", b"x"), queue=MessageQueue("Orders", "broker-a", 1))
        admin.create_topic(TopicConfig(topic_name="Orders", read_queue_nums=1, write_queue_nums=1))
    assert "have messages and cannot be read" in run(dead, "redrive", "g", *SENDS, fails=True)


@pytest.mark.parametrize(("arguments", "error"), [
    (("redrive", "nobody", *SENDS), "no message of group 'nobody' ever became a dead letter"),
    (("show", "g", "--where", "a >"), "the SQL92 expression is wrong"),
    (("debug", "g", "nothing"), "no message nothing in topic '%DLQ%g'")])
def test_what_is_not_there_is_said(run, shop, arguments, error):
    assert error in run(dead, *arguments, fails=True)


def test_letters_are_counted_by_topic_tag_and_day(run, shop):
    letters(run.name_server, "o1", "o2")
    letters(run.name_server, "o3", origin="Other")
    by_topic = json.loads(run(dead, "show", "g", "--group-by", "topic", "--output", "json"))
    assert [(row["topic"], row["letters"]) for row in by_topic] == [("Orders", 2), ("Other", 1)]
    assert [row["tag"] for row in json.loads(run(dead, "show", "g", "--group-by", "tag", "--output", "json"))] == ["T"]
    by_day = json.loads(run(dead, "show", "g", "--group-by", "day", "--output", "json"))
    assert sum(row["letters"] for row in by_day) == 3
    assert [row["cause"] for row in json.loads(
        run(dead, "show", "g", "--group-by", "cause", "--output", "json"))] == ["(unknown)"]
    assert len(run(dead, "show", "g", "--limit", "2").splitlines()) == 4    # header, two rows, and that there are more


def test_a_message_that_fills_a_file_of_the_log_becomes_a_letter_without_its_cause(tmp_path):
    """Files of 4 KiB, in which the message has room and its cause has not."""
    server = ServerThread(tmp_path, store_config=small_config(tmp_path))
    server.start()

    def fail(messages, context):
        context.delay_level_when_next_consume = -1
        raise ValueError("x" * 1_000)

    try:
        where = server.name_server_address
        consumer = PushConsumer(where, "g", fail, PushConsumerConfig(
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
        consumer.subscribe("Orders")
        with Admin(where) as admin, Producer(where, "shop") as producer:
            for name in ("Orders", "%DLQ%g"):
                admin.create_topic(TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1))
            for body in (b"small", b"b" * 3_500):
                producer.send(Message("Orders", body))
            with consumer:
                wait_until(lambda: len(messages_of(server, "%DLQ%g")) == 2)
            small, large = sorted(messages_of(server, "%DLQ%g", wait_for=2), key=lambda each: len(each.body))
    finally:
        server.stop()
    assert small.properties["CAUSE_1"].startswith("ValueError: xxx")
    assert (len(large.body), "CAUSE_1" in large.properties) == (3_500, False)
