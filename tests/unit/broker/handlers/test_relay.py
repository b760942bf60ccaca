"""What is passed on to clients."""

import json

import pytest

from regulus.broker.groups.clients import Client
from regulus.broker.outcome import Relay, Reply
from regulus.broker.request_table import handle
from regulus.model.message_id import offset_message_id
from regulus.model.message_queue import MessageQueue
from regulus.record import message_record
from regulus.wire.bodies import GetConsumerStatusBody, ResetOffsetBody, SubscriptionData
from regulus.wire.codes import LanguageCode, RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand


def queue(queue_id, topic="TopicA"):
    return MessageQueue(topic, "broker-a", queue_id)


def reset(rig, **ext):
    fields = {"topic": "TopicA", "group": "CG", "timestamp": "-1", "isForce": "true", **ext}
    return rig.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)


def sent(rig):
    """Three messages, a second apart, of which the group consumed one."""
    for body in (b"one", b"two", b"three"):
        rig.send(body=body)
        rig.now_ms += 1000
    rig.heartbeat("CG", "TopicA", client_id="c1")
    rig.commit(1)
    return rig


def join(rig, client_id, channel, version=479):
    rig.broker.clients.register_consumer(
        "CG", Client(channel, client_id, LanguageCode.JAVA, version, "h:1", rig.now_ms, rig.broker.steady_ms),
        "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", [SubscriptionData.compile("TopicA", "*", 1)])


# --- reset offset -----------------------------------------------------------------------------------------------------


def test_the_broker_resets_to_the_end(rig):
    sent(rig)
    body = ResetOffsetBody.decode(reset(rig).body)
    assert body.offset_table == {queue(0): 3, queue(1): 0, queue(2): 0, queue(3): 0}
    assert rig.broker.consumer_offsets.query("CG", "TopicA", 0) == 3
    assert rig.pull(queue_offset=1).code == ResponseCode.PULL_OFFSET_MOVED


def test_the_broker_resets_to_a_time(rig):
    start_ms = rig.now_ms
    sent(rig)
    assert ResetOffsetBody.decode(reset(rig, timestamp=str(start_ms + 500)).body).offset_table[queue(0)] == 1


def test_one_queue_is_reset_to_an_offset(rig):
    sent(rig)
    assert ResetOffsetBody.decode(reset(rig, queueId="0", offset="2").body).offset_table == {queue(0): 2}
    assert ResetOffsetBody.decode(reset(rig, queueId="0", offset="-1").body).offset_table == {queue(0): 3}
    refused = reset(rig, queueId="0", offset="4")
    assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR,
                                              "Target offset 4 not in consume queue range [0-3]")


def test_a_reset_needs_topic_and_group(rig):
    assert reset(rig).code == ResponseCode.TOPIC_NOT_EXIST
    rig.send()
    assert reset(rig).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_consumers_are_told_to_reset(make_rig):
    rig = sent(make_rig(use_server_side_reset_offset=False))
    for queue_id in range(1, 4):
        rig.commit(0, queue_id=queue_id)
    join(rig, "c2", 2)
    rig.notices()
    body = ResetOffsetBody.decode(reset(rig).body)
    assert body.offset_table[queue(0)] == 3
    pushed = rig.notices()
    assert [command.code for command in pushed] == [RequestCode.RESET_CONSUMER_CLIENT_OFFSET] * 2
    assert pushed[0].is_oneway
    assert pushed[0].ext == {"topic": "TopicA", "group": "CG", "timestamp": "-1", "isForce": "false", "queueId": "-1"}
    assert b'{{"brokerName":"broker-a","queueId":0,"topic":"TopicA"}:3' in pushed[0].body
    assert rig.broker.consumer_offsets.query("CG", "TopicA", 0) == 1


def test_without_force_a_consumer_does_not_go_forward(make_rig):
    rig = sent(make_rig(use_server_side_reset_offset=False))
    for queue_id in range(1, 4):
        rig.commit(0, queue_id=queue_id)
    assert ResetOffsetBody.decode(reset(rig, isForce="false").body).offset_table[queue(0)] == 1


def test_consumers_that_are_away_cannot_be_told(make_rig):
    rig = sent(make_rig(use_server_side_reset_offset=False))
    for queue_id in range(1, 4):
        rig.commit(0, queue_id=queue_id)
    rig.broker.channel_closed(1, rig.now_ms)
    response = reset(rig)
    assert response.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert response.remark == "Consumer not online, so can not reset offset, Group: CG Topic: TopicA Timestamp: -1"


def test_a_group_that_never_committed_cannot_be_told(make_rig):
    rig = make_rig(use_server_side_reset_offset=False)
    rig.send()
    assert reset(rig).code == ResponseCode.SYSTEM_ERROR


def test_the_reader_of_the_c_client_gets_a_list(make_rig):
    rig = sent(make_rig(use_server_side_reset_offset=False))
    for queue_id in range(1, 4):
        rig.commit(0, queue_id=queue_id)
    rig.notices()
    request = RemotingCommand.request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {
        "topic": "TopicA", "group": "CG", "timestamp": "-1", "isForce": "true"})
    request.language = LanguageCode.CPP
    assert isinstance(handle(request, rig.peer, rig.broker, rig.now_ms), Reply)
    [pushed] = rig.notices()
    assert {"brokerName": "broker-a", "offset": 3, "queueId": 0, "topic": "TopicA"} in json.loads(
        pushed.body)["offsetTable"]


# --- consumer status --------------------------------------------------------------------------------------------------


def status(rig, **ext):
    return rig.handle(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
                      {"topic": "TopicA", "group": "CG", "clientAddr": "", **ext})


def told(offset):
    return RemotingCommand(0, body=GetConsumerStatusBody(message_queue_table={queue(0): offset}).encode())


def test_each_consumer_is_asked_and_the_answers_are_put_together(rig):
    join(rig, "c1", 1)
    join(rig, "c2", 2)
    first = status(rig)
    assert isinstance(first, Relay)
    assert (first.channel, first.request.code, first.timeout_ms) == (
        1, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, 5000)
    assert first.request.ext == {"topic": "TopicA", "group": "CG"}
    second = first.answer(told(5))
    assert isinstance(second, Relay)
    assert second.channel == 2
    response = second.answer(told(7))
    body = GetConsumerStatusBody.decode(response.body)
    assert body.consumer_table == {"c1": {queue(0): 5}, "c2": {queue(0): 7}}
    assert response.opaque == 7


@pytest.mark.parametrize("answer", [None, RemotingCommand(1, remark="no"), RemotingCommand(0, body=b"{"),
                                    RemotingCommand(0)])
def test_a_consumer_that_says_nothing_is_left_out(rig, answer):
    join(rig, "c1", 1)
    response = status(rig).answer(answer)
    assert response.code == ResponseCode.SUCCESS
    assert GetConsumerStatusBody.decode(response.body).consumer_table == {}


def test_one_consumer_is_asked_by_its_id(rig):
    join(rig, "c1", 1)
    join(rig, "c2", 2)
    assert status(rig, clientAddr="c2").channel == 2
    nobody = status(rig, clientAddr="c3")
    assert isinstance(nobody, Reply)


def test_nobody_to_ask(rig):
    assert status(rig).answer.code == ResponseCode.CONSUMER_NOT_ONLINE


def test_a_consumer_that_is_too_old_is_not_asked(rig):
    join(rig, "c1", 1, version=27)
    assert status(rig).answer.code == ResponseCode.SYSTEM_ERROR


# --- passing on -------------------------------------------------------------------------------------------------------


def running_info(rig, **ext):
    return rig.handle(RequestCode.GET_CONSUMER_RUNNING_INFO, {
        "consumerGroup": "CG", "clientId": "c1", "jstackEnable": "true", "AccessKey": "a", "Signature": "s", **ext})


def test_a_consumers_own_answer_is_passed_back(rig):
    join(rig, "c1", 4)
    relay = running_info(rig)
    assert isinstance(relay, Relay)
    assert (relay.channel, relay.request.code, relay.timeout_ms) == (4, RequestCode.GET_CONSUMER_RUNNING_INFO, 10_000)
    assert relay.request.ext == {"consumerGroup": "CG", "clientId": "c1", "jstackEnable": "true"}
    response = relay.answer(RemotingCommand(0, remark="fine", body=b"{anything}", opaque=99))
    assert (response.code, response.remark, response.body, response.opaque) == (0, "fine", b"{anything}", 7)
    assert relay.answer(None).code == ResponseCode.CONSUME_MSG_TIMEOUT


def test_a_consumer_that_is_away(rig):
    assert running_info(rig).answer.remark == "The Consumer <CG> <c1> not online"
    join(rig, "other", 1)
    assert running_info(rig).answer.code == ResponseCode.SYSTEM_ERROR


def test_a_consumer_that_is_too_old(rig):
    join(rig, "c1", 1, version=61)
    assert "too low" in running_info(rig).answer.remark


def consume(rig, **ext):
    return rig.handle(RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "CG", "clientId": "c1", **ext})


def test_a_stored_message_is_given_to_a_consumer(rig):
    rig.send(body=b"again")
    join(rig, "c1", 4)
    relay = consume(rig, msgId=offset_message_id(rig.peer.local, 0), topic="TopicA")
    assert relay.channel == 4
    assert message_record.decode(relay.request.body).body == b"again"
    assert relay.request.ext["brokerName"] == "broker-a"
    assert relay.request.ext["topicSysFlag"] == "0"
    result = b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":9}'
    assert relay.answer(RemotingCommand(0, body=result)).body == result


def test_any_consumer_will_do(rig):
    rig.send()
    join(rig, "c9", 9)
    ext = {"consumerGroup": "CG", "msgId": offset_message_id(rig.peer.local, 0)}
    relay = rig.handle(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext)
    assert relay.channel == 9


@pytest.mark.parametrize("message_id", ["nonsense", "00", "0A000001000002A9F" + "0" * 15,
                                        "0A00000100002A9F00000000FFFFFFFF"])
def test_a_message_that_is_not_there(rig, message_id):
    join(rig, "c1", 4)
    assert consume(rig, msgId=message_id).answer.code == ResponseCode.SYSTEM_ERROR
