"""Locks as clients see them."""

from dataclasses import replace

import pytest

from regulus.broker.groups.clients import LEFT_AT_ONCE
from regulus.model.message_queue import MessageQueue
from regulus.model.peer import Peer
from regulus.wire.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from regulus.wire.codes import RequestCode

QUEUES = [MessageQueue("TopicA", "broker-a", n) for n in range(2)]


def locked(rig, client_id, queues=QUEUES, channel=1):
    body = LockBatchRequestBody(consumer_group="CG", client_id=client_id, mq_set=queues)
    answer = rig.ask(RequestCode.LOCK_BATCH_MQ, body=body.encode(), peer=Peer(channel, b"", b""))
    return LockBatchResponseBody.decode(answer.body).lock_ok_mq_set


def test_a_lock_is_granted_renewed_and_given_back(rig):
    assert locked(rig, "c1", QUEUES[:1]) == QUEUES[:1]
    assert locked(rig, "c1") == QUEUES
    assert locked(rig, "c2") == []
    body = UnlockBatchRequestBody(consumer_group="CG", client_id="c1", mq_set=QUEUES[:1])
    assert rig.ask(RequestCode.UNLOCK_BATCH_MQ, body=body.encode()).code == 0
    assert locked(rig, "c2") == QUEUES[:1]


def test_a_lock_lapses_after_a_minute_of_silence(rig):
    locked(rig, "c1")
    rig.run(60_000)
    assert locked(rig, "c2") == []
    rig.run(1)
    assert locked(rig, "c2") == QUEUES


@pytest.mark.parametrize("is_freed", [False, True])
def test_what_a_member_held_whose_connection_closes(rig, is_freed):
    """Free at once only where the broker is set to that."""
    rig.broker.config = replace(rig.broker.config, unlock_queues_on_close=is_freed)
    for channel, client_id in ((1, "c1"), (2, "c2")):
        rig.heartbeat("CG", "TopicA", client_id=client_id, channel=channel)
    rig.heartbeat("Other", "TopicA", client_id="c1", channel=3)
    locked(rig, "c1")
    rig.broker.channel_closed(2, rig.now_ms)
    rig.broker.channel_closed(3, rig.now_ms)
    assert locked(rig, "c2") == []
    rig.broker.channel_closed(1, rig.now_ms)
    assert locked(rig, "c2") == (QUEUES if is_freed else [])


def test_a_member_that_has_connected_anew_keeps_what_it_held(rig):
    rig.broker.config = replace(rig.broker.config, unlock_queues_on_close=True)
    rig.heartbeat("CG", "TopicA", client_id="c1", channel=1)
    locked(rig, "c1")
    rig.heartbeat("CG", "TopicA", client_id="c1", channel=2)
    rig.broker.channel_closed(1, rig.now_ms)
    assert locked(rig, "c2") == []
    rig.broker.channel_closed(2, rig.now_ms)
    assert locked(rig, "c2") == QUEUES


def test_a_member_that_renewed_over_a_new_connection_before_its_heartbeat_keeps_what_it_held(rig):
    rig.broker.config = replace(rig.broker.config, unlock_queues_on_close=True)
    rig.heartbeat("CG", "TopicA", client_id="c1", channel=1)
    locked(rig, "c1", channel=1)
    assert locked(rig, "c1", QUEUES[:1], channel=3) == QUEUES[:1]
    assert locked(rig, "c1", QUEUES[:1], channel=1) == QUEUES[:1]       # a request that was still on its way
    rig.broker.channel_closed(1, rig.now_ms)
    assert locked(rig, "c2", channel=2) == QUEUES[1:]


def test_a_queue_that_another_member_took_over_an_older_connection_is_freed_with_that(rig):
    rig.broker.config = replace(rig.broker.config, unlock_queues_on_close=True)
    rig.heartbeat("CG", "TopicA", client_id="c1", channel=1)
    locked(rig, "c2", channel=2)
    rig.run(60_001)
    assert locked(rig, "c1", channel=1) == QUEUES
    rig.broker.channel_closed(1, rig.now_ms)
    assert locked(rig, "c2", channel=2) == QUEUES


def test_the_queues_of_many_groups_are_free_as_they_leave_one_after_another(rig):
    rig.broker.config = replace(rig.broker.config, unlock_queues_on_close=True)
    for number in range(LEFT_AT_ONCE + 1):
        rig.heartbeat(f"G{number}", "TopicA", client_id="c1", channel=1)
        rig.broker.queue_locks.lock(f"G{number}", "c1", QUEUES, rig.broker.steady_ms, channel=1)
    rig.broker.channel_closed(1, rig.now_ms)
    rig.run(10)
    assert not any(rig.broker.queue_locks.is_any_held(f"G{number}", rig.broker.steady_ms)
                   for number in range(LEFT_AT_ONCE + 1))
