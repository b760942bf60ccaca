"""A reply finds its way to the client that asked."""

import pytest

from regulus.broker.outcome import NO_REPLY, Relay
from regulus.model import message_properties
from regulus.model.message_id import parse_offset_message_id
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import PushReplyMessageToClientRequest, SendMessageRequest, SendMessageResponse
from regulus.wire.remoting_command import RemotingCommand

TOPIC = "DefaultCluster_REPLY_TOPIC"
REPLY = {"MSG_TYPE": "reply", "CORRELATION_ID": "id-1", "REPLY_TO_CLIENT": "asker", "TTL": "3000", "UNIQ_KEY": "K"}


@pytest.fixture
def rig(rig):
    """A producer that asked something, connected as channel 9."""
    rig.heartbeat(None, client_id="asker", channel=9, producer_group="PG")
    return rig


def reply(rig, code=RequestCode.SEND_REPLY_MESSAGE_V2, *, oneway=False, **fields):
    header = SendMessageRequest("RG", fields.pop("topic", TOPIC), queue_id=fields.pop("queue_id", 0), born_timestamp=5,
                                properties=fields.pop("properties", dict(REPLY)), **fields)
    return rig.handle(code, header.ext_for(int(code)), b"answer", oneway=oneway)


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2])
def test_a_reply_is_stored_and_pushed_to_the_asker(rig, code):
    outcome = reply(rig, code)
    assert isinstance(outcome, Relay)
    assert (outcome.channel, outcome.timeout_ms) == (9, 10_000)
    assert outcome.request.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    assert not outcome.request.is_oneway
    assert outcome.request.body == b"answer"
    header = PushReplyMessageToClientRequest.decode(outcome.request)
    assert (header.topic, header.born_host, header.store_host) == (TOPIC, "10.0.0.5:40000", "10.0.0.1:10911")
    properties = message_properties.parse(header.properties)
    assert REPLY.items() <= properties.items()
    assert properties["PUSH_REPLY_TIME"] == str(rig.now_ms)
    assert rig.stored(TOPIC)[0].properties == properties


def test_the_replier_hears_that_it_arrived(rig):
    outcome = reply(rig)
    response = outcome.answer(RemotingCommand(ResponseCode.SUCCESS))
    answer = SendMessageResponse.decode(response)
    assert (response.code, response.opaque, answer.queue_offset) == (ResponseCode.SUCCESS, 7, 0)
    assert parse_offset_message_id(answer.msg_id)[1] == 0


@pytest.mark.parametrize("pushed", [None, RemotingCommand(ResponseCode.SYSTEM_ERROR)])
def test_the_replier_hears_that_it_did_not(rig, pushed):
    response = reply(rig).answer(pushed)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.ext["MSG_REGION"] == "DefaultRegion"


def test_a_reply_that_could_not_be_stored_is_pushed_all_the_same(rig):
    rig.store.refusal = "the disk is full"
    outcome = reply(rig)
    assert SendMessageResponse.decode(outcome.answer(RemotingCommand(ResponseCode.SUCCESS))).msg_id == "0"


def test_an_asker_that_is_gone(rig):
    rig.broker.channel_closed(9, rig.now_ms)
    response = reply(rig).answer
    assert (response.code, response.remark) == (
        ResponseCode.SYSTEM_ERROR, "push reply message fail, channel of <asker> not found.")


def test_a_one_way_reply_is_pushed_without_waiting(rig):
    assert reply(rig, oneway=True) is NO_REPLY
    (notice,) = rig.broker.notices
    assert (notice.channel, notice.reply.answer.code) == (9, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)


def test_replies_that_are_refused(rig):
    assert reply(rig, topic="Nothing").answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert reply(rig, topic="SELF_TEST_TOPIC").answer.code == ResponseCode.NO_PERMISSION
    rig.send("TopicA")
    refused = reply(rig, topic="TopicA").answer
    assert (refused.code, refused.remark) == (
        ResponseCode.NO_PERMISSION, f"topic[TopicA] accepts no replies: send them to {TOPIC}")
    assert len(rig.stored("TopicA")) == 1
    assert reply(rig, queue_id=5).answer.code == ResponseCode.INVALID_PARAMETER


def test_a_reply_over_the_limit_is_refused(make_rig):
    rig = make_rig(max_message_size=3)
    outcome = reply(rig)
    assert outcome.answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert rig.stored(TOPIC) == []
