"""Answers about many things are made a part at a time, and are the same as if they were made at once."""

import pytest

from regulus.broker.handlers import stepped
from regulus.broker.outcome import HOLD, Reply
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.wire.bodies import ConsumeStats, LockBatchRequestBody, TopicStatsTable
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import InvokeBrokerToResetOffsetRequest

QUEUES = 10
LOCK = LockBatchRequestBody(consumer_group="CG", client_id="c1",
                            mq_set=[MessageQueue("TopicA", "broker-a", number) for number in range(QUEUES)]).encode()
RESET = InvokeBrokerToResetOffsetRequest(topic="TopicA", group="CG", timestamp=-1, is_force=True).ext()

REQUESTS = [
    (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "TopicA"}, b""),
    (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "CG"}, b""),
    (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}, b""),
    (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "TopicA", "group": "CG"}, b""),
    (RequestCode.QUERY_CONSUME_QUEUE, {"topic": "TopicA", "queueId": "3", "index": "0", "count": "10"}, b""),
    (RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "CG"}, b""),
    (RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "PG"}, b""),
    (RequestCode.GET_ALL_PRODUCER_INFO, {}, b""),
    (RequestCode.LOCK_BATCH_MQ, {}, LOCK),
    (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RESET, b""),
]


@pytest.fixture
def full(rig):
    """Two topics of many queues, with messages, offsets, members and producers."""
    for topic in ("TopicA", "TopicB"):
        rig.broker.topics.put(TopicConfig(topic_name=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES),
                              rig.now_ms)
        for queue_id in range(QUEUES):
            for _ in range(5):
                rig.send(topic, queue_id=queue_id)
            for group in ("CG", "CG2"):
                rig.broker.subscription_groups.find(group, rig.now_ms)
                rig.broker.consumer_offsets.commit(group, topic, queue_id, queue_id % 4)
    for channel in range(1, QUEUES):
        rig.heartbeat("CG", "TopicA", "TopicB", channel=channel, client_id=f"c{channel}",
                      producer_group="PG" if channel % 2 else "PG2")
    rig.told()
    return rig


@pytest.mark.parametrize(("code", "ext", "body"), REQUESTS)
def test_an_answer_in_steps_is_the_same_as_one_made_at_once(full, monkeypatch, code, ext, body):
    monkeypatch.setattr(stepped, "FRAGMENTS_A_STEP", 1000)
    at_once = full.handle(code, ext, body)
    assert isinstance(at_once, Reply)
    assert at_once.answer.code == ResponseCode.SUCCESS
    monkeypatch.setattr(stepped, "FRAGMENTS_A_STEP", 2)
    assert full.handle(code, ext, body) is HOLD
    assert full.late_answer().body == at_once.answer.body


@pytest.mark.parametrize("queues", [2 * stepped.FRAGMENTS_A_STEP, 4 * stepped.FRAGMENTS_A_STEP])
@pytest.mark.parametrize("code", [RequestCode.GET_TOPIC_STATS_INFO, RequestCode.GET_CONSUME_STATS])
def test_no_step_grows_with_the_topic(rig, queues, code):
    config = TopicConfig(topic_name="Wide", read_queue_nums=queues, write_queue_nums=queues)
    rig.broker.topics.put(config, rig.now_ms)
    looked_at: list[int] = []
    max_offset = rig.store.max_offset

    def counting(topic: str, queue_id: int) -> int:
        looked_at[-1] += topic == "Wide"
        return max_offset(topic, queue_id)

    rig.store.max_offset = counting
    looked_at.append(0)
    assert rig.handle(code, {"topic": "Wide", "consumerGroup": "CG"}) is HOLD
    while not rig.broker.notices:
        looked_at.append(0)
        rig.broker.tick(rig.now_ms)
    assert max(looked_at) == stepped.FRAGMENTS_A_STEP
    body = rig.broker.notices[-1].reply.answer.body
    kind = TopicStatsTable if code == RequestCode.GET_TOPIC_STATS_INFO else ConsumeStats
    assert len(kind.decode(body).offset_table) == queues


def test_a_reset_that_nobody_waits_for_any_more_resets_nothing(full, monkeypatch):
    monkeypatch.setattr("regulus.broker.handlers.relay.TARGETS_A_STEP", 2)
    assert full.handle(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RESET) is HOLD
    before = full.broker.consumer_offsets.queues("CG", "TopicA")
    full.broker.channel_closed(1, full.now_ms)
    full.run(1000)
    assert full.broker.consumer_offsets.queues("CG", "TopicA") == before


def test_nothing_at_all_is_an_empty_list(rig):
    nothing = LockBatchRequestBody(consumer_group="G", client_id="c").encode()
    assert rig.ask(RequestCode.LOCK_BATCH_MQ, body=nothing).body == b'{"lockOKMQSet":[]}'
