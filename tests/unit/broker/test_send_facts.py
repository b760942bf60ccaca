"""What a send finds ready."""

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.send_facts import SIZE_EDGES, SendFacts, SentCounts, TopicFacts
from regulus.model.store_result import Appended, PutStatus
from regulus.model.topics import TopicConfig
from regulus.testing.memory_store import MemoryStore


@pytest.mark.parametrize(("config", "is_straight", "code"), [
    (TopicConfig(topic_name="T"), True, 0),
    (TopicConfig(topic_name="T", perm=4), False, 16),
    (TopicConfig(topic_name="SCHEDULE_TOPIC_XXXX"), False, 16),
    (TopicConfig(topic_name="%RETRY%G"), False, 0),
    (TopicConfig(topic_name="T", attributes={"cleanup.policy": "COMPACTION"}), False, 0),
    (TopicConfig(topic_name="T", attributes={"queue.type": "SimpleCQ"}), True, 0),
    (TopicConfig(topic_name="T", attributes={"queue.type": "BatchCQ"}), False, 0)])
def test_a_straight_topic_needs_no_further_look(config, is_straight, code):
    facts = TopicFacts(config)
    assert (facts.is_straight, facts.refusal_code) == (is_straight, code)


def test_queues_and_flags_of_a_topic():
    facts = TopicFacts(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=5,
                                   topic_filter_type="MULTI_TAG"))
    assert (facts.write_queue_nums, facts.queue_nums_max, facts.sys_flag) == (5, 5, 2)


def test_the_broker_s_marks():
    facts = SendFacts(BrokerConfig(region_id="R", trace_on=False, broker_ip1="10.0.0.1", listen_port=80),
                      MemoryStore(), {})
    assert facts.stamp == {"MSG_REGION": "R", "TRACE_ON": "false", "CLUSTER": "DefaultCluster"}
    assert facts.store_host == bytes((10, 0, 0, 1, 0, 0, 0, 80))
    assert not facts.is_restricted


@pytest.mark.parametrize("settings", [{"broker_permission": 4}, {"start_accept_send_request_time_stamp": 5}])
def test_a_restricted_broker_looks_closer(settings):
    assert SendFacts(BrokerConfig(**settings), MemoryStore(), {}).is_restricted


def test_answers_are_made_once_for_each_address():
    facts = SendFacts(BrokerConfig(), MemoryStore(), {})
    assert facts.answers(b"\x0a\0\0\x01\0\0\x2a\x9f") is facts.answers(b"\x0a\0\0\x01\0\0\x2a\x9f")
    assert facts.answers(b"\x0a\0\0\x02\0\0\x2a\x9f") is not facts.answers(b"\x0a\0\0\x01\0\0\x2a\x9f")


def appended(size: int) -> Appended:
    return Appended(PutStatus.PUT_OK, 100, 100 + size)


@pytest.mark.parametrize(("size", "larger"), [
    (1024, [0, 0, 0, 0, 0, 0]), (1025, [1, 0, 0, 0, 0, 0]), (4096, [1, 0, 0, 0, 0, 0]), (524_289, [1, 1, 1, 0, 0, 0]),
    (SIZE_EDGES[-1] + 1, [1, 1, 1, 1, 1, 1])])
def test_a_send_is_counted_by_the_edges_that_its_size_exceeds(size, larger):
    counts = SentCounts()
    counts.count(1, appended(size))
    assert (counts.nums, counts.size, counts.batched, counts.larger) == (1, size, 0, larger)


def test_a_batch_is_one_send_of_the_mean_size_of_its_messages():
    counts = SentCounts()
    counts.count(4, appended(8200))
    assert (counts.nums, counts.size, counts.batched, counts.batched_size) == (4, 8200, 3, 8200 - 2050)
    assert counts.larger == [1, 0, 0, 0, 0, 0]
