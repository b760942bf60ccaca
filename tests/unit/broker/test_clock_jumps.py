"""Somebody sets the clock of the machine: what lasts goes on as if nothing had happened."""

import pytest

from regulus.broker.groups.queue_locks import LOCK_EXPIRY_MS
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.wire.bodies import LockBatchResponseBody
from regulus.wire.bodies.lock_batch_body import LockBatchRequestBody
from regulus.wire.codes import RequestCode, ResponseCode

HOUR_MS = 3_600_000
JUMPS = (HOUR_MS, -HOUR_MS, 30 * 24 * HOUR_MS)

pytestmark = pytest.mark.parametrize("jump_ms", JUMPS)


def locked(rig, client_id):
    body = LockBatchRequestBody(consumer_group="CG", client_id=client_id, mq_set=frozenset({MessageQueue("T", "b", 0)}))
    response = rig.ask(RequestCode.LOCK_BATCH_MQ, body=body.encode())
    return bool(LockBatchResponseBody.decode(response.body).lock_ok_mq_set)


def test_a_held_pull_is_answered_at_its_deadline(rig, jump_ms):
    rig.broker.topics.put(TopicConfig(topic_name="TopicA"), rig.now_ms)
    rig.heartbeat("CG", "TopicA")
    rig.pull_outcome(suspend=15_000)
    rig.run(5_000)
    rig.notices()       # the group heard of its member
    rig.set_clock(jump_ms)
    rig.run(9_000)
    assert rig.notices() == []
    rig.run(1_001)
    (answer,) = rig.notices()
    assert answer.code == ResponseCode.PULL_NOT_FOUND


def test_consumers_and_producers_stay_and_the_silent_ones_go(rig, jump_ms):
    rig.heartbeat("CG", "TopicA", client_id="c1", producer_group="PG")
    rig.run(60_000)
    rig.set_clock(jump_ms)
    rig.run(55_000)
    assert rig.broker.clients.consumer_group("CG").client_ids() == ["c1"]
    assert len(rig.broker.clients.producer_group("PG")) == 1
    rig.run(30_000)
    assert rig.broker.clients.consumer_group("CG") is None
    assert rig.broker.clients.producer_group("PG") == []


def test_operators_are_told_the_time_of_day(rig, jump_ms):
    rig.heartbeat("CG", "TopicA")
    rig.set_clock(jump_ms)
    rig.heartbeat("CG", "TopicA")
    (client,) = rig.broker.clients.consumer_group("CG").clients.values()
    assert client.last_update_timestamp == rig.now_ms


def test_a_lock_is_held_for_its_time(rig, jump_ms):
    assert locked(rig, "c1")
    rig.set_clock(jump_ms)
    assert not locked(rig, "c2")
    rig.run(LOCK_EXPIRY_MS)
    assert not locked(rig, "c2")
    rig.run(1)
    assert locked(rig, "c2")


def test_stamps_are_the_time_of_day(rig, jump_ms):
    rig.set_clock(jump_ms)
    assert rig.send().code == ResponseCode.SUCCESS
    (message,) = rig.stored("TopicA")
    assert message.store_timestamp == rig.now_ms


def test_a_delayed_message_is_due_by_its_stamp_but_waits_no_longer_than_its_delay(rig, jump_ms):
    """The log says at which time of day it is due. So it comes early when the clock is set forward; when it is set
    back, one that would wait for more than its whole delay comes at once."""
    rig.send(properties={"UNIQ_KEY": "K1", "DELAY": "3"})
    rig.run(4_000)
    rig.set_clock(jump_ms)
    rig.run(200)
    assert len(rig.stored("TopicA")) == 1
