"""Bodies that name too much."""

import pytest

from regulus.broker.handlers.named_body import BODY_SIZE_MAX
from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import HeartbeatData, LockBatchRequestBody
from regulus.wire.codes import RequestCode, ResponseCode


@pytest.mark.parametrize("code", [
    RequestCode.HEART_BEAT, RequestCode.CHECK_CLIENT_CONFIG, RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, RequestCode.UPDATE_BROKER_CONFIG])
def test_a_body_beyond_the_limit_is_refused_unread(rig, code):
    response = rig.ask(code, {}, b" " * (BODY_SIZE_MAX + 1))
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert f"has {BODY_SIZE_MAX + 1} bytes; {BODY_SIZE_MAX} are the most" in response.remark
    assert "fewer" in response.remark


def test_a_body_of_the_limit_is_read(rig):
    text = HeartbeatData(client_id="c1").encode()
    assert rig.ask(RequestCode.HEART_BEAT, body=text.ljust(BODY_SIZE_MAX)).code == ResponseCode.SUCCESS


def test_thousands_of_queues_are_locked_by_one_request(rig):
    queues = [MessageQueue("a_topic_with_a_rather_long_name", "broker-a", number) for number in range(8_000)]
    body = LockBatchRequestBody(consumer_group="G", client_id="c1", mq_set=queues).encode()
    response = rig.ask(RequestCode.LOCK_BATCH_MQ, body=body)
    assert response.body.count(b"queueId") == 8_000
