"""Locks as clients see them."""

from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from regulus.wire.codes import RequestCode

QUEUES = [MessageQueue("TopicA", "broker-a", n) for n in range(2)]


def locked(rig, client_id, queues=QUEUES):
    body = LockBatchRequestBody(consumer_group="CG", client_id=client_id, mq_set=queues)
    return LockBatchResponseBody.decode(rig.ask(RequestCode.LOCK_BATCH_MQ, body=body.encode()).body).lock_ok_mq_set


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
