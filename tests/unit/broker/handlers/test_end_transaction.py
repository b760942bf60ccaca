"""END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE as requests; what they do is tested with the transactions."""

from dataclasses import replace

import pytest

from regulus.broker.outcome import NO_REPLY
from regulus.broker.transactions import FOUND_STEPS_MAX
from regulus.model.message_id import parse_offset_message_id
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import EndTransactionRequest, SendMessageResponse


def half_of(rig):
    answer = rig.send(sys_flag=4, properties={"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "U"})
    sent = SendMessageResponse.decode(answer)
    return EndTransactionRequest(
        producer_group="PG", tran_state_table_offset=sent.queue_offset, msg_id="U", commit_or_rollback=8,
        commit_log_offset=parse_offset_message_id(sent.msg_id)[1])


def test_the_one_way_form_of_java_is_not_answered(rig):
    assert rig.handle(RequestCode.END_TRANSACTION, half_of(rig).ext(), oneway=True) is NO_REPLY
    assert len(rig.stored("TopicA")) == 1


def test_a_commit_is_answered_when_it_is_durable(make_rig):
    rig = make_rig(flush_disk_type="SYNC_FLUSH")
    outcome = rig.handle(RequestCode.END_TRANSACTION, half_of(rig).ext())
    assert outcome.durable_at == rig.store.commit_log_max_offset()


@pytest.mark.parametrize("code", [RequestCode.END_TRANSACTION, RequestCode.RESUME_CHECK_HALF_MESSAGE])
def test_a_request_without_fields_is_refused(rig, code):
    assert rig.ask(code).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("part", ["committed", "given up"])
def test_how_a_transaction_ended_long_ago_is_looked_for_in_a_few_steps_only(rig, part, monkeypatch):
    """Else a producer that gives all its messages one unique key would have everybody wait."""
    end = half_of(rig)
    assert rig.ask(RequestCode.END_TRANSACTION, end.ext()).code == 0
    rig.broker.transactions._ended.clear()      # as it is remembered of the last ones only
    assert rig.ask(RequestCode.END_TRANSACTION, end.ext()).code == 0
    steps, asked = [], []
    query = rig.store.query_message_in_steps

    def crowded(topic, key, *bounds):
        asked.append(topic)
        if (topic == "TopicA") is (part == "committed"):
            for number in range(1_000):
                steps.append(number)
                yield
        return (yield from query(topic, key, *bounds))

    monkeypatch.setattr(rig.store, "query_message_in_steps", crowded)
    refused = rig.ask(RequestCode.END_TRANSACTION, end.ext())
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.remark == ("the transaction ended in a way that is not known: too many messages have its unique "
                              "key U")
    assert len(steps) == FOUND_STEPS_MAX
    assert len(rig.stored("TopicA")) == 1


@pytest.mark.parametrize(("is_guarded", "topic", "code"), [
    (True, "TopicB", ResponseCode.SYSTEM_ERROR), (True, "TopicA", ResponseCode.SUCCESS),
    (True, None, ResponseCode.SUCCESS), (False, "TopicB", ResponseCode.SUCCESS)])
def test_with_access_control_a_half_message_is_of_the_topic_that_is_named(rig, is_guarded, topic, code):
    if is_guarded:
        rig.be_guarded(alice="TopicA=PUB,TopicB=PUB")
    end = replace(half_of(rig), topic=topic)
    assert rig.ask(RequestCode.END_TRANSACTION, end.ext()).code == code
    assert len(rig.stored("TopicA")) == (code == ResponseCode.SUCCESS)


@pytest.mark.parametrize("named", [None, "", "RMQ_SYS_TRANS_HALF_TOPIC", "TopicA"])
@pytest.mark.parametrize(("is_guarded", "ids", "code"), [
    (True, {"msg_id": "", "transaction_id": None}, ResponseCode.SYSTEM_ERROR),
    (True, {"msg_id": "guessed", "transaction_id": "guessed"}, ResponseCode.SYSTEM_ERROR),
    (True, {"msg_id": "", "transaction_id": "U"}, ResponseCode.SUCCESS),
    (True, {"msg_id": "U", "transaction_id": None}, ResponseCode.SUCCESS),
    (False, {"msg_id": "guessed", "transaction_id": None}, ResponseCode.SUCCESS)])
def test_with_access_control_who_ends_it_must_know_the_unique_key(rig, is_guarded, ids, code, named):
    """Group and places are soon guessed, and any account could commit what another has not decided yet, or any that may
    send to the topic."""
    end = half_of(rig)
    if is_guarded:
        rig.be_guarded(alice="TopicA=PUB")
    assert rig.ask(RequestCode.END_TRANSACTION, replace(end, topic=named, **ids).ext()).code == code
    assert len(rig.stored("TopicA")) == (code == ResponseCode.SUCCESS)


@pytest.mark.parametrize("named", [None, "", "TopicA", "TopicB"])
@pytest.mark.parametrize("how", [8, 12])
@pytest.mark.parametrize("topics", ["", "TopicB=PUB", "TopicA=SUB", "TopicA=DENY,TopicB=PUB"])
def test_who_may_not_send_to_the_topic_ends_none_of_its_transactions(rig, named, how, topics):
    """With all that he was told or has guessed: group, places and unique key; and with a topic of his own, or none."""
    end = half_of(rig)
    rig.be_guarded(mallory=topics, alice="TopicA=PUB")
    refused = rig.ask(RequestCode.END_TRANSACTION, replace(end, topic=named, commit_or_rollback=how).ext())
    assert (refused.code, "TopicA" in refused.remark) == (ResponseCode.SYSTEM_ERROR, True)
    assert (rig.stored("TopicA"), rig.stored("RMQ_SYS_TRANS_OP_HALF_TOPIC")) == ([], [])
    owner = rig.peer.of_user("alice")
    assert rig.ask(RequestCode.END_TRANSACTION, end.ext(), peer=owner).code == ResponseCode.SUCCESS
    assert len(rig.stored("TopicA")) == 1


def test_nobody_without_a_name_ends_a_transaction(rig):
    end = half_of(rig)
    rig.be_guarded(alice="TopicA=PUB")
    assert rig.ask(RequestCode.END_TRANSACTION, end.ext(), peer=rig.peer.of_user("")).code == ResponseCode.SYSTEM_ERROR
    assert rig.stored("TopicA") == []
