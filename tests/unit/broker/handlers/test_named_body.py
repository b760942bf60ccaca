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


@pytest.mark.parametrize("body", [
    b'{"clientID":"c1","consumerDataSet":[%s]}' % b",".join([b'{"groupName":"g"}'] * 16_384),
    b'{"clientID":"c1","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t","codeSet":[%s]}]}]}'
    % b",".join([b"1"] * 131_068),
    b'{"clientID":"c1","unknown":[[],%s]}' % b",".join([b"[[[1,[]]]]"] * 21_845)], ids=["objects", "values", "lists"])
def test_a_short_body_of_many_things_is_refused_unread(rig, body):
    response = rig.ask(RequestCode.HEART_BEAT, body=body)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "more than 16384 objects or 131072 values" in response.remark
    one_less = body.replace(b'{"groupName":"g"},', b"", 1).replace(b"1,", b"", 1)
    assert len(body) < BODY_SIZE_MAX
    assert rig.ask(RequestCode.HEART_BEAT, body=one_less).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("more", [
    b'{"clientID":"c1",unknown:[%s]}' % b",".join([b"1"] * 8_191),
    b'{"clientID":"c1","unknown":{%s}}' % b",".join([b'{"a":1}:1'] * 4_096),
    b'{"clientID":"c1","unknown":[%s]}}' % b",".join([b"1"] * 8_191)], ids=["bare key", "object keys", "broken"])
def test_what_is_read_slowly_may_name_less(rig, more):
    """What fastjson writes and JSON has not, or what is none at all: it takes ten times as long."""
    response = rig.ask(RequestCode.HEART_BEAT, body=more)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "is not plain JSON and has more than 8192 objects and values" in response.remark


@pytest.mark.parametrize("body", [
    b'{"clientID":"c1",unknown:[%s]}' % b",".join([b"1"] * 8_190),
    b'{"clientID":"c1","unknown":{%s}}' % b",".join([b'{"a":1}:1'] * 4_095)], ids=["bare key", "object keys"])
def test_what_is_read_slowly_and_names_little_is_read(rig, body):
    assert rig.ask(RequestCode.HEART_BEAT, body=body).code == ResponseCode.SUCCESS


def test_thousands_of_queues_are_locked_by_one_request(rig):
    queues = [MessageQueue("a_topic_with_a_rather_long_name", "broker-a", number) for number in range(8_000)]
    body = LockBatchRequestBody(consumer_group="G", client_id="c1", mq_set=queues).encode()
    response = rig.ask(RequestCode.LOCK_BATCH_MQ, body=body)
    assert response.body.count(b"queueId") == 8_000
