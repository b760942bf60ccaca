"""The way to the log of all that does not go straight."""

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.send_facts import SendFacts
from regulus.broker.storing import Storing, refusal_of
from regulus.broker.topics import Topics
from regulus.model.message import MessageExt
from regulus.model.store_result import Appended, PutStatus
from regulus.testing.memory_store import MemoryStore

NOW = 1_700_000_000_000


class Warehouse:
    def __init__(self, **settings: object) -> None:
        config = BrokerConfig(**settings)
        self.store = MemoryStore(config)
        self.topics = Topics(config)
        self.topics.create_if_absent("T", 4, NOW)
        self.storing = Storing(SendFacts(config, self.store, self.topics.facts))

    def put_nums(self, topic: str = "T") -> int:
        return self.topics.facts[topic].put_nums


@pytest.fixture
def warehouse() -> Warehouse:
    return Warehouse()


def delayed() -> MessageExt:
    return MessageExt("T", b"x", {"DELAY": "3"}, 1)


def test_what_waits_is_placed_and_counted_where_it_is_put(warehouse: Warehouse) -> None:
    message = delayed()
    appended = warehouse.storing.store(message, NOW)
    assert (appended.status, message.topic, message.queue_id) == (PutStatus.PUT_OK, "SCHEDULE_TOPIC_XXXX", 2)
    assert (warehouse.put_nums(), warehouse.put_nums("SCHEDULE_TOPIC_XXXX")) == (0, 1)


def test_what_is_appended_stays_where_it_is(warehouse: Warehouse) -> None:
    message = delayed()
    warehouse.storing.append(message, NOW)
    assert (message.topic, message.queue_id, warehouse.put_nums()) == ("T", 1, 1)


def test_a_batch_counts_as_so_many_messages(warehouse: Warehouse) -> None:
    appended = warehouse.storing.append_batch([MessageExt("T", b"x", {}, 1) for _ in range(3)], NOW)
    assert (appended.status, warehouse.put_nums()) == (PutStatus.PUT_OK, 3)
    assert warehouse.topics.facts["T"].put_size == appended.end - appended.start


def test_what_the_store_refuses_counts_as_failed_and_nowhere_else(warehouse: Warehouse) -> None:
    warehouse.store.refusal = "the disk is full"
    refused = [warehouse.storing.append(MessageExt("T", b"x", {}, 1), NOW),
               warehouse.storing.append_batch([MessageExt("T", b"x", {}, 1)] * 2, NOW)]
    assert [refusal_of(each) for each in refused] == ["the disk is full"] * 2
    assert (warehouse.storing.put_failed_times, warehouse.put_nums()) == (2, 0)


def test_a_name_that_is_no_topic_s_is_refused_whoever_comes(warehouse: Warehouse) -> None:
    assert warehouse.storing.store(MessageExt("../T", b"x", {}, 1), NOW).status == PutStatus.MESSAGE_ILLEGAL


def test_a_message_may_outlive_its_topic(warehouse: Warehouse) -> None:
    warehouse.topics.delete("T", NOW)
    assert warehouse.storing.append(MessageExt("T", b"x", {}, 1), NOW).status == PutStatus.PUT_OK


def test_a_refusal_without_words_is_named_by_its_status() -> None:
    assert refusal_of(Appended(PutStatus.CREATE_MAPPED_FILE_FAILED)) == "the store answers CREATE_MAPPED_FILE_FAILED"


@pytest.mark.parametrize(("flush", "waits", "is_awaited"), [
    ("ASYNC_FLUSH", True, False), ("SYNC_FLUSH", True, True), ("SYNC_FLUSH", False, False)])
def test_one_place_says_what_an_answer_waits_for(flush: str, waits: bool, is_awaited: bool) -> None:
    warehouse = Warehouse(flush_disk_type=flush)
    end = warehouse.storing.append(MessageExt("T", b"x", {}, 1), NOW).end
    assert warehouse.storing.durable_at(waits=waits) == (end if is_awaited else 0)
    assert warehouse.storing.facts.durable_at(end, waits) == (end if is_awaited else 0)
