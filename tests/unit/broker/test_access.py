"""The table of the broker's door: every request stands there, and is read as its handler reads it."""

from contextlib import suppress

import pytest

from regulus.access.decision import ANY_NAME, Action, Need, ResourceKind
from regulus.broker.request_table import ROWS, needs_of
from regulus.errors import HeaderError
from regulus.wire.bodies import (
    BatchAck,
    BatchAckMessageRequestBody,
    CheckClientConfigBody,
    QueryAssignmentRequestBody,
    SetMessageRequestModeRequestBody,
    SubscriptionData,
)
from regulus.wire.codes import RequestCode as Code
from regulus.wire.headers import EndTransactionRequest, SendMessageRequest
from regulus.wire.remoting_command import RemotingCommand

PUB, SUB, GET, UPDATE = Action.PUB, Action.SUB, Action.GET, Action.UPDATE


def topic(name: str, *actions: Action) -> Need:
    return Need(ResourceKind.TOPIC, name, actions)


def group(name: str, *actions: Action) -> Need:
    return Need(ResourceKind.GROUP, name, actions)


def needs(code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> tuple[Need, ...]:
    return needs_of(RemotingCommand.request(int(code), ext, body))


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE,
                                  Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2])
@pytest.mark.parametrize("spelled_for", [Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2])
def test_a_send_needs_its_topic_in_either_spelling(code, spelled_for):
    """The handlers take both spellings for each code, so the door does."""
    header = SendMessageRequest("PG", "orders", queue_id=0, properties={}, born_timestamp=1)
    assert needs(code, header.ext_for(spelled_for)) == (topic("orders", PUB),)


def test_a_send_that_names_two_topics_is_judged_by_the_one_that_is_stored(rig):
    ext = SendMessageRequest("PG", "TopicA", queue_id=0, properties={}, born_timestamp=1).ext()
    ext |= SendMessageRequest("PG", "TopicB", queue_id=0, properties={}, born_timestamp=1).ext_for(Code.SEND_MESSAGE)
    (need,) = needs(Code.SEND_MESSAGE_V2, ext)
    assert rig.ask(Code.SEND_MESSAGE_V2, ext, b"x").code == 0
    assert [arrival.topic for arrival in rig.arrivals] == [need.name]


def test_a_send_to_a_retry_topic_needs_the_group_of_the_topic():
    """Not the group that the request names besides: the topic says where the message goes."""
    header = SendMessageRequest("another", "%RETRY%billing", queue_id=0, properties={}, born_timestamp=1)
    assert needs(Code.SEND_MESSAGE_V2, header.ext()) == (group("billing", SUB),)


@pytest.mark.parametrize("name", ["SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC",
                                  "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"])
def test_who_reads_where_messages_of_all_topics_wait_needs_all_topics(name):
    """Delayed, half and given-up messages lie there whatever their topic is, and it may be one that is denied."""
    assert needs(Code.PULL_MESSAGE, PULL | {"topic": name}) == (group("billing", SUB), topic(ANY_NAME, SUB))
    assert needs(Code.BULK_PULL, BULK | {"topic": name}) == (topic(ANY_NAME, SUB),)
    assert needs(Code.QUERY_MESSAGE, QUERY | {"topic": name}) == (topic(ANY_NAME, SUB, GET),)
    assert needs(Code.POP_MESSAGE, POP | {"topic": name}) == (group("billing", SUB), topic(ANY_NAME, SUB))


BULK = {"topic": "orders", "queueId": "0", "queueOffset": "0", "queueOffsetEnd": "1", "sizeMax": "1"}
QUERY = {"topic": "orders", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"}
PULL = {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1",
        "sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
POP = {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "maxMsgNums": "1", "invisibleTime": "1",
       "pollTime": "1", "bornTime": "1", "initMode": "0"}
BOTH = (group("billing", SUB), topic("orders", SUB))


@pytest.mark.parametrize(("code", "ext", "expected"), [
    (Code.PULL_MESSAGE, PULL, BOTH),
    (Code.LITE_PULL_MESSAGE, PULL, BOTH),
    (Code.PULL_MESSAGE, PULL | {"topic": "%RETRY%billing"}, (group("billing", SUB), group("billing", SUB))),
    (Code.PULL_MESSAGE, PULL | {"topic": "%RETRY%others"}, (group("billing", SUB), group("others", SUB))),
    (Code.POP_MESSAGE, POP, BOTH),
    (Code.BULK_PULL, {"topic": "orders", "queueId": "0", "queueOffset": "0", "queueOffsetEnd": "1", "sizeMax": "1"},
     (topic("orders", SUB),)),
    (Code.QUERY_MESSAGE, {"topic": "orders", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"},
     (topic("orders", SUB, GET),)),
    (Code.VIEW_MESSAGE_BY_ID, {"offset": "0", "topic": "orders"}, (topic(ANY_NAME, GET),)),
    (Code.READ_COMMIT_LOG, {"physicalOffset": "0", "sizeMax": "1"}, (topic(ANY_NAME, SUB),)),
    (Code.CONSUMER_SEND_MSG_BACK, {"offset": "0", "group": "billing", "delayLevel": "0"},
     (group("billing", SUB), topic(ANY_NAME, SUB))),
    (Code.CONSUMER_SEND_MSG_BACK, {"offset": "0", "group": "billing", "delayLevel": "0", "originTopic": "orders"},
     BOTH),
    (Code.UPDATE_CONSUMER_OFFSET, {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "commitOffset": "1"},
     (group("billing", SUB, UPDATE), topic("orders", SUB, UPDATE))),
    (Code.QUERY_CONSUMER_OFFSET, {"consumerGroup": "billing", "topic": "orders", "queueId": "0"},
     (group("billing", SUB, GET), topic("orders", SUB, GET))),
    (Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "billing"}, (group("billing", SUB, GET),)),
    (Code.UNREGISTER_CLIENT, {"clientID": "c", "producerGroup": "PG"}, ()),
    (Code.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "billing"}, (group("billing", SUB),)),
    (Code.UPDATE_AND_CREATE_TOPIC, {"topic": "orders", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"},
     (topic("orders", Action.CREATE),)),
    (Code.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}, (topic("orders", Action.DELETE),)),
    (Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "billing"}, (group("billing", Action.DELETE),)),
    (Code.CLONE_GROUP_OFFSET, {"srcGroup": "billing", "destGroup": "others", "topic": "orders"},
     (group("billing", UPDATE), group("others", UPDATE), topic("orders", UPDATE))),
    (Code.UPDATE_BROKER_CONFIG, {}, (Need(ResourceKind.CLUSTER, ANY_NAME, (UPDATE,)),)),
    (Code.UPDATE_AND_CREATE_ACL_CONFIG, {}, (Need(ResourceKind.CLUSTER, ANY_NAME, (UPDATE,)),)),
    (Code.GET_BROKER_CLUSTER_ACL_CONFIG, {}, (Need(ResourceKind.CLUSTER, ANY_NAME, (UPDATE,)),)),
    (Code.GET_DOCUMENT, {"name": "topics"}, (Need(ResourceKind.CLUSTER, ANY_NAME, (UPDATE,)),)),
    (Code.GET_BROKER_CONFIG, {}, (Need(ResourceKind.CLUSTER, ANY_NAME, (GET,)),)),
])
def test_what_a_request_needs(code, ext, expected):
    assert needs(code, ext) == expected


NAMES = {"consumerGroup": "billing", "group": "billing", "groupName": "billing", "topic": "orders", "queueId": "0",
         "maxMsgNums": "1", "recallHandle": "h", "clientId": "c", "clientID": "c", "offset": "0", "timestamp": "0",
         "isForce": "false", "index": "0", "count": "1"}
"""A request that names a group and a topic, whatever else it has."""


@pytest.mark.parametrize(("expected", "codes"), [
    (BOTH, (Code.PEEK_MESSAGE,)),
    ((topic("orders", PUB),), (Code.RECALL_MESSAGE,)),
    ((topic("orders", PUB, SUB, GET),), (
        Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET, Code.GET_EARLIEST_MSG_STORETIME,
        Code.GET_TOPIC_STATS_INFO, Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.GET_TOPIC_CONFIG)),
    ((group("billing", SUB, GET),), (
        Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_CONSUMER_RUNNING_INFO, Code.QUERY_TOPICS_BY_CONSUMER,
        Code.GET_SUBSCRIPTIONGROUP_CONFIG)),
    ((group("billing", SUB, GET), topic("orders", SUB, GET)), (
        Code.QUERY_CONSUME_TIME_SPAN, Code.QUERY_SUBSCRIPTION_BY_CONSUMER, Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)),
    ((group("billing", GET), topic("orders", GET)), (Code.QUERY_CONSUME_QUEUE,)),
    ((group("billing", UPDATE), topic("orders", UPDATE)), (
        Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.UPDATE_AND_GET_GROUP_FORBIDDEN)),
    ((topic(ANY_NAME, Action.DELETE),), (Code.CLEAN_UNUSED_TOPIC,)),
    ((topic(ANY_NAME, Action.LIST),), (Code.GET_ALL_TOPIC_CONFIG,)),
    ((group(ANY_NAME, Action.LIST),), (Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,)),
    ((group("billing", SUB), topic(ANY_NAME, SUB)), (Code.CONSUME_MESSAGE_DIRECTLY,)),
    ((Need(ResourceKind.CLUSTER, ANY_NAME, (UPDATE,)),), (
        Code.RESUME_CHECK_HALF_MESSAGE, Code.UPDATE_ARCHIVED_OFFSET, Code.DELETE_EXPIRED_COMMITLOG,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER,
        Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL)),
])
def test_what_a_request_that_names_a_group_and_a_topic_needs(expected, codes):
    assert {code.name: needs(code, NAMES) for code in codes} == {code.name: expected for code in codes}


def _acks(*pairs: tuple[str, str]) -> bytes:
    return BatchAckMessageRequestBody(broker_name="b", acks=[
        BatchAck(consumer_group=group_name, topic=topic_name, retry="0", start_offset=0, queue_id=0, revive_queue_id=0,
                 pop_time=0, invisible_time=1, bit_set="AQ==") for group_name, topic_name in pairs]).encode()


@pytest.mark.parametrize(("code", "body", "expected"), [
    (Code.BATCH_ACK_MESSAGE, _acks(("billing", "orders"), ("payroll", "wages")),
     (group("billing", SUB), group("payroll", SUB), topic("orders", SUB), topic("wages", SUB))),
    (Code.QUERY_ASSIGNMENT, QueryAssignmentRequestBody(topic="orders", consumer_group="billing",
                                                       client_id="c").encode(), BOTH),
    (Code.SET_MESSAGE_REQUEST_MODE, SetMessageRequestModeRequestBody(topic="orders", consumer_group="billing").encode(),
     (group("billing", UPDATE), topic("orders", UPDATE))),
    (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"billing"}', (group("billing", UPDATE),))])
def test_what_a_body_names_is_needed_too(code, body, expected):
    assert needs(code, body=body) == expected


@pytest.mark.parametrize("code", sorted(ROWS))
@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[]", b'{"groupName":5}', b'{"consumerDataSet":[{}]}'])
def test_no_body_breaks_a_reading(code, body):
    with suppress(HeaderError):
        assert isinstance(needs(code, {}, body), tuple)


def test_each_topic_of_consume_stats_is_needed():
    """5.x names several at once, beside the single one."""
    ext = {"consumerGroup": "billing", "topic": "orders", "topicList": "payments;invoices"}
    assert needs(Code.GET_CONSUME_STATS, ext) == (group("billing", GET), topic("orders", GET), topic("payments", GET),
                                                  topic("invoices", GET))


def test_who_corrects_an_offset_looks_at_a_topic_and_at_another_group():
    ext = {"topic": "orders", "compareGroup": "billing", "filterGroups": "a,b"}
    assert needs(Code.QUERY_CORRECTION_OFFSET, ext) == (topic("orders", GET), group("billing", GET))


def test_the_check_of_a_filter_names_a_group_and_a_topic():
    body = CheckClientConfigBody(client_id="c", group="billing",
                                 subscription_data=SubscriptionData.compile("orders", "*", 1))
    assert needs(Code.CHECK_CLIENT_CONFIG, body=body.encode()) == BOTH


@pytest.mark.parametrize(("named", "expected"), [
    ("orders", (topic("orders", PUB),)), (None, ()), ("RMQ_SYS_TRANS_HALF_TOPIC", ())])
def test_an_end_of_a_transaction_needs_the_topic_that_it_names(named, expected):
    """Java's 5.x clients name the topic of all halves when they answer a check, and may not send there."""
    end = EndTransactionRequest(producer_group="PG", tran_state_table_offset=0, commit_log_offset=0,
                                commit_or_rollback=8, msg_id="U", topic=named)
    assert needs(Code.END_TRANSACTION, end.ext()) == expected


ACK = {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "extraInfo": "0 0 0 0 0 b 0 0", "offset": "0"}


@pytest.mark.parametrize("code", [Code.ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME])
@pytest.mark.parametrize("named", ["orders", "%RETRY%billing_orders", "%RETRY%billing+orders"])
def test_who_pops_a_topic_acknowledges_its_retries_in_each_naming(code, named):
    """Java's client names the topic from which the message was popped: a retry topic, at its second delivery."""
    assert needs(code, ACK | {"topic": named, "invisibleTime": "1"}) == (group("billing", SUB), topic("orders", SUB))


@pytest.mark.parametrize("code", [Code.ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME])
def test_a_retry_of_another_group_is_not_acknowledged(code):
    ext = ACK | {"invisibleTime": "1"}
    assert needs(code, ext | {"topic": "%RETRY%payroll+orders"}) == (group("billing", SUB), group("payroll", SUB))
    assert needs(code, ext | {"topic": "%RETRY%payroll_orders"}) == (
        group("billing", SUB), group("payroll_orders", SUB))
    assert needs(code, ext | {"topic": "%RETRY%billing"}) == (group("billing", SUB), group("billing", SUB))


def test_retries_of_pops_are_their_group_s_where_their_name_says_so():
    assert needs(Code.PULL_MESSAGE, PULL | {"topic": "%RETRY%payroll+orders"}) == (
        group("billing", SUB), group("payroll", SUB))
    # As RocketMQ names them by default, they are also those of the group `payroll_orders`.
    assert needs(Code.PULL_MESSAGE, PULL | {"topic": "%RETRY%payroll_orders"}) == (
        group("billing", SUB), group("payroll_orders", SUB))
