"""Dead letters read and planned: what is sent, and what is not, because it was or may have been sent."""

from dataclasses import replace

import pytest

from regulus.client.administration import dead_letters
from regulus.client.administration.admin import Admin
from regulus.client.administration.dead_letters import (
    PlannedLetter,
    RedriveWish,
    Seen,
    judged,
    letter_ranges,
    letters_in,
    looked_since_ms,
    marked,
    planned,
)
from regulus.client.sending.producer import Producer
from regulus.errors import JobRefused, TopicMissing
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.record import message_record
from regulus.testing.running_server import ServerThread
from tests.stores import NOW, a_message, dispatch, open_store, small_config
from tests.unit.pipeline.shop import restarted_without_epochs

QUEUE = MessageQueue("%DLQ%g", "broker-a", 0)
WISH = RedriveWish(group="g", brokers=("broker-a",))


def letter(number: int, store_ms: int = 100, topic: str = "t") -> PlannedLetter:
    return PlannedLetter(store_ms, QUEUE, number, f"place {number}", topic)


SEEN = Seen(frozenset({"t"}), set(), {}, {})


@pytest.mark.parametrize(("seen", "status"), [
    (SEEN, "to send"), (SEEN._replace(sent={"place 1"}), "sent before"),
    (SEEN._replace(targets=frozenset()), "no such topic"), (SEEN._replace(since_made={"t": 101}), "topic is newer"),
    (SEEN._replace(since_made={"t": 100}), "to send"), (SEEN._replace(since_log={"t": 101}), "log is newer"),
    (SEEN._replace(since_log={"t": None}), "log is newer"), (SEEN._replace(since_log={"other": None}), "to send")])
def test_what_a_letter_is(seen, status):
    assert judged([letter(1)], seen, None) == [status]


def test_the_cap_counts_only_what_is_sent():
    chosen = [letter(number) for number in range(4)]
    assert judged(chosen, SEEN._replace(sent={"place 0"}), 2) == ["sent before", "to send", "to send", "beyond the cap"]
    assert judged(chosen, SEEN, 0) == ["beyond the cap"] * 4


def test_topics_are_read_from_an_hour_before_the_oldest_letter():
    assert looked_since_ms([letter(0, NOW + 5), letter(1, NOW), letter(2, NOW + 9)]) == NOW - 3_600_000
    assert looked_since_ms([letter(0, 5)]) == 0


def test_marks_are_properties_and_no_part_of_a_body():
    records = [a_message("t", other="x"), a_message("t", REDRIVE_OF="p1"), a_message("t", other="y"),
               a_message("t", REDRIVE_OF="p2")]
    records[2].body = b"REDRIVE_OF\x01p3\x02"
    data = b"".join(map(message_record.encode, records))
    assert [each.properties["REDRIVE_OF"] for each in marked(data)] == ["p1", "p2"]
    assert marked(message_record.encode(records[0])) == []


async def fill(server: ServerThread, *topics: str) -> None:
    async with Admin(server.name_server_address) as admin:
        for topic in topics:
            await admin.create_topic(TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2))


async def test_letters_are_read_in_the_order_in_which_they_were_stored(regulus_server):
    await fill(regulus_server, "%DLQ%g")
    async with Admin(regulus_server.name_server_address) as admin, Producer(
            regulus_server.name_server_address, "p") as producer:
        with pytest.raises(TopicMissing, match="no message of group 'other' ever became a dead letter"):
            await letter_ranges(admin, "other")
        for number in range(20):
            await producer.send(Message("%DLQ%g", b"%d" % number, properties={"DLQ_ORIGIN_TOPIC": "t"}),
                                queue=QUEUE._replace(queue_id=number * 7 // 5 % 2))
        found = [each async for each in letters_in(admin, "g", await letter_ranges(admin, "g"))]
        times = [each.message.store_timestamp for each in found]
        assert (len(found), times) == (20, sorted(times))
        assert {each.place for each in found} == {
            f"%DLQ%g/{each.queue.queue_id}/{each.message.queue_offset}/{each.message_id}" for each in found}


async def test_limits_are_refusals_that_name_the_spark_job(regulus_server, monkeypatch):
    await fill(regulus_server, "%DLQ%g", "t")
    async with Admin(regulus_server.name_server_address) as admin, Producer(
            regulus_server.name_server_address, "p") as producer:
        for _ in range(2):
            await producer.send(Message("%DLQ%g", b"x", properties={"DLQ_ORIGIN_TOPIC": "t"}))
        await producer.send(Message("t", b"x"))
        monkeypatch.setattr(dead_letters, "LETTERS_MAX", 1)
        with pytest.raises(JobRefused, match=r"more than 1 dead letters are chosen: .* `regulus job redrive`"):
            await planned(admin, WISH)
        monkeypatch.setattr(dead_letters, "LETTERS_MAX", 2)
        monkeypatch.setattr(dead_letters, "SCAN_SIZE_MAX", 10)
        with pytest.raises(JobRefused, match="use `regulus job redrive`"):
            await planned(admin, WISH)


def test_what_was_sent_again_may_seem_to_be_older_than_the_first_letter(tmp_path):
    """By the clock of another broker, which is half an hour behind."""
    import asyncio

    store = open_store(tmp_path)
    for topic, minutes, properties in (("t", -90, {}), ("%DLQ%g", 0, {"RETRY_TOPIC": "t"})):
        store.append(a_message(topic, **properties), NOW + minutes * 60_000)
    dispatch(store)
    store.close()

    def make_topics(server: ServerThread) -> None:
        asyncio.run(fill(server, "t", "%DLQ%g"))

    async def plan(server: ServerThread) -> list[tuple[str, str]]:
        async with Admin(server.name_server_address) as admin:
            return [(each.place, status) for each, status in (await planned(admin, replace(WISH))).samples]

    with restarted_without_epochs(tmp_path, make_topics, store_config=small_config(tmp_path)) as server:
        [(place, status)] = asyncio.run(plan(server))
        assert status == "to send"
    store = open_store(tmp_path)
    store.append(a_message("t", REDRIVE_OF=place), NOW - 30 * 60_000)
    dispatch(store)
    store.close()
    with restarted_without_epochs(tmp_path, make_topics, store_config=small_config(tmp_path)) as server:
        assert asyncio.run(plan(server)) == [(place, "sent before")]
