"""Each request has one row, and the row says what the tests' own list says."""


import pytest

from regulus.access.decision import ANY_NAME, Action, Need, ResourceKind
from regulus.access.needs import GET, SUB, Decoded, Names, cluster, reading, seen_in_parts
from regulus.broker import request_table
from regulus.broker.handlers.broker_config import handle_get_broker_config
from regulus.broker.outcome import Reply
from regulus.broker.request_row import Answered, Refused, SavedFirst, Where
from regulus.broker.request_table import HANDLERS, ROWS, handle, handle_as_slave, joined, needs_of
from regulus.wire import headers
from regulus.wire.bodies import (
    BatchAck,
    BatchAckMessageRequestBody,
    CheckClientConfigBody,
    QueryAssignmentRequestBody,
    SetMessageRequestModeRequestBody,
    SubscriptionData,
)
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import SendMessageRequest
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.broker.request_facts import ANSWERED, ANYWHERE, MASTER, REFUSED, SOUND_LOG, Facts

SENDS = {10, 310, 320, 324, 325}
NAMES = {"consumerGroup": "billing", "group": "billing", "groupName": "billing", "topic": "orders",
         "originTopic": "orders", "srcGroup": "billing", "destGroup": "payroll", "compareGroup": "payroll",
         "queueId": "0", "maxMsgNums": "1", "recallHandle": "h", "clientId": "c", "clientID": "c", "offset": "0",
         "queueOffset": "0", "queueOffsetEnd": "1", "sizeMax": "1",
         "commitOffset": "0", "timestamp": "0", "isForce": "false", "index": "0", "count": "1",
         "key": "k", "extraInfo": "0 0 0 0 0 b 0 0", "invisibleTime": "1", "pollTime": "0", "bornTime": "0",
         "initMode": "0", "delayLevel": "0", "sysFlag": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
         "producerGroup": "PG", "tranStateTableOffset": "0", "commitLogOffset": "0", "commitOrRollback": "8",
         "beginTimestamp": "0", "endTimestamp": "0", "maxNum": "1", "offsets": "0", "filterGroups": "",
         "isOffline": "false", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
         "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "msgId": "m"}
"""Whatever header a request has, it names the topic `orders` and the group `billing`."""
BODIES = {
    46: CheckClientConfigBody(client_id="c", group="billing",
                              subscription_data=SubscriptionData.compile("orders", "*", 1)).encode(),
    200: b'{"groupName":"billing"}',
    400: QueryAssignmentRequestBody(topic="orders", consumer_group="billing", client_id="c").encode(),
    401: SetMessageRequestModeRequestBody(topic="orders", consumer_group="billing").encode(),
    200151: BatchAckMessageRequestBody(broker_name="b", acks=[
        BatchAck(consumer_group="billing", topic="orders", retry="0", start_offset=0, queue_id=0, revive_queue_id=0,
                 pop_time=0, invisible_time=1, bit_set="AQ==")]).encode()}
THINGS = {"topic": (ResourceKind.TOPIC, "orders"), "any topic": (ResourceKind.TOPIC, ANY_NAME),
          "group": (ResourceKind.GROUP, "billing"), "other group": (ResourceKind.GROUP, "payroll"),
          "any group": (ResourceKind.GROUP, ANY_NAME), "cluster": (ResourceKind.CLUSTER, ANY_NAME)}
REFUSED_CODES = [(number, name, reason, needs) for (reason, needs), codes in REFUSED.items()
                 for number, name in codes.items()]


def named(facts: Facts) -> str:
    return facts.name


def request_of(number: int) -> RemotingCommand:
    ext = NAMES
    if number in SENDS:
        ext = SendMessageRequest("PG", "orders", queue_id=0, properties={}, born_timestamp=1).ext()
    return RemotingCommand.request(number, dict(ext), BODIES.get(number, b""))


def needs_in(text: str) -> set[Need]:
    """`SUB/GET group, PUB topic` as needs."""
    found = set()
    for part in filter(None, text.split(", ")):
        actions, _, thing = part.partition(" ")
        kind, name = THINGS[thing]
        found.add(Need(kind, name, tuple(Action[action] for action in actions.split("/"))))
    return found


# --- each row against the list ----------------------------------------------------------------------------------------


def test_each_code_stands_in_the_list_under_its_number_and_is_answered_or_refused():
    listed = [(facts.number, facts.name) for facts in ANSWERED]
    refused = [(number, name) for number, name, _, _ in REFUSED_CODES]
    assert sorted(listed + refused) == sorted((int(code), code.name) for code in RequestCode)
    assert sorted(listed) == sorted((code, RequestCode(code).name) for code in HANDLERS)


@pytest.mark.parametrize("facts", ANSWERED, ids=named)
def test_a_row_says_what_is_saved_first_and_which_header_there_is(facts):
    row = ROWS[facts.number]
    assert isinstance(row, Answered)
    header = "" if row.header is None else row.header.__name__
    assert (row.code, header, row.saved_first.name) == (facts.number, facts.header, facts.saved_first)


@pytest.mark.parametrize("facts", ANSWERED, ids=named)
def test_an_answered_request_needs_what_the_list_says(facts):
    if facts.needs == "seen in parts":
        assert ROWS[facts.number].needs is seen_in_parts
    else:
        assert set(needs_of(request_of(facts.number))) == needs_in(facts.needs)


@pytest.mark.parametrize(("number", "name", "reason", "needs"), REFUSED_CODES)
def test_a_refused_request_needs_what_the_list_says_and_its_asker_reads_why(rig, number, name, reason, needs):
    assert set(needs_of(RemotingCommand.request(number))) == needs_in(needs)
    answer = rig.ask(number)
    assert (answer.code, answer.remark) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                                            f" request type {number} not supported: {reason}")


def test_nobody_knows_a_code_that_has_no_row():
    assert request_table.refusal_remark(31337) == " request type 31337 not supported"
    with pytest.raises(KeyError):
        needs_of(RemotingCommand.request(31337))


# --- where a request is answered --------------------------------------------------------------------------------------


def refusal(rig, number: int, ext: dict[str, str] | None = None) -> str:
    """Of a slave; empty where it does not refuse as a slave."""
    outcome = handle_as_slave(RemotingCommand.request(number, ext), rig.peer, rig.broker, rig.tell_time())
    assert isinstance(outcome, Reply)
    answer = outcome.answer
    return answer.remark if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE else ""


def by_slaves(rig, number: int, ext: dict[str, str] | None = None) -> str:
    """Where a request is answered, as slaves show that are asked."""
    of_slave = refusal(rig, number, ext)
    rig.broker.parted = "its log parted"
    of_parted = refusal(rig, number, ext)
    if of_slave:
        assert of_slave == of_parted
        assert of_slave.startswith("this is a slave of ")
        return MASTER
    if of_parted:
        assert of_parted.endswith("must not be read from: its log parted")
        return SOUND_LOG
    return ANYWHERE


@pytest.mark.parametrize("facts", ANSWERED, ids=named)
def test_slaves_answer_what_the_list_says(rig, facts):
    assert by_slaves(rig, facts.number) == facts.where


def test_a_slave_lets_no_group_of_pops_begin(rig):
    assert by_slaves(rig, RequestCode.NOTIFICATION, {"initMode": "0"}) == MASTER


@pytest.mark.parametrize("is_parted", [False, True])
@pytest.mark.parametrize("number", [number for number, _, _, _ in REFUSED_CODES])
def test_a_slave_says_of_what_no_broker_serves_that_it_is_not_served(rig, number, is_parted):
    rig.broker.parted = "its log parted" * is_parted
    outcome = handle_as_slave(RemotingCommand.request(number), rig.peer, rig.broker, rig.tell_time())
    assert outcome.answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("facts", ANSWERED, ids=named)
def test_a_master_answers_all_of_them(rig, facts):
    outcome = handle(RemotingCommand.request(facts.number), rig.peer, rig.broker, rig.tell_time())
    assert outcome.answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED


# --- what a row may not be --------------------------------------------------------------------------------------------


def row(code: RequestCode = RequestCode.GET_BROKER_CONFIG) -> Answered:
    return Answered(code=code, header=None, handler=handle_get_broker_config, needs=cluster(GET), where=Where.ANYWHERE,
                    saved_first=SavedFirst.WHAT_IT_USED)


def test_a_code_with_two_rows_is_an_error():
    refused = Refused(code=RequestCode.GET_BROKER_CONFIG, needs=cluster(GET), reason="why")
    for families in (((row(), row()),), ((row(),), (refused,))):
        with pytest.raises(ValueError, match="GET_BROKER_CONFIG has two rows"):
            joined(*families)


@pytest.mark.parametrize("left_out", ["code", "header", "handler", "needs", "where", "saved_first"])
def test_no_fact_of_a_row_has_a_default(left_out):
    facts = {name: getattr(row(), name) for name in Answered.__slots__ if name != left_out}
    with pytest.raises(TypeError, match=left_out):
        Answered(**facts)


@pytest.mark.parametrize(("needs", "header"), [
    (Names(topic="topic", actions=SUB), None), (Names(actions=SUB), headers.GetMaxOffsetRequest),
    (Names(topic="topic", actions=()), headers.GetMaxOffsetRequest), (Decoded(lambda header: ()), None)])
def test_needs_that_name_nothing_are_an_error(needs, header):
    """Whoever sends such a request would be let in."""
    with pytest.raises(ValueError, match="names nothing"):
        reading(needs, header)
