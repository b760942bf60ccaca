"""Nothing is made of a topic that is gone by what waited for it."""

import pytest

from regulus.broker.homes import Homes
from regulus.broker.state import TOPIC_EPOCHS_DOCUMENT
from regulus.broker.storing import GONE
from regulus.model.message import MessageExt
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    ConsumerSendMsgBackRequest,
    DeleteSubscriptiongroupRequest,
    DeleteTopicInBrokerRequest,
    EndTransactionRequest,
)

RETRY = "%RETRY%CG"


def delete(rig, topic: str) -> None:
    assert rig.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequest(topic=topic).ext()).code == 0


def delete_group(rig, group: str) -> None:
    ext = DeleteSubscriptiongroupRequest(group_name=group, clean_offset=True).ext()
    assert rig.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, ext).code == 0


@pytest.fixture
def homes(rig) -> Homes:
    return rig.broker.homes


def test_a_topic_is_there_until_it_is_deleted_and_when_it_is_made_again(rig, homes):
    rig.broker.topics.put(TopicConfig(topic_name="T"), 0)
    assert homes.is_there("T", 0)
    assert homes.is_there("SCHEDULE_TOPIC_XXXX", 0)
    rig.broker.topics.delete("T", 0)
    assert not homes.is_there("T", 0)
    rig.broker.topics.put(TopicConfig(topic_name="T"), 0)
    assert homes.is_there("T", 0)


def test_one_that_nobody_knows_was_not_deleted(homes):
    """Its document was lost, or has not reached a slave that is master now."""
    assert homes.is_there("unknown", 0)


def test_a_topic_that_is_there_is_not_gone_whatever_the_other_document_says(make_rig):
    """A broker that was killed between the two saves a topic that was made again, and that its name was deleted."""
    before = make_rig()
    before.broker.topics.put(TopicConfig(topic_name="T"), 0)
    before.broker.topics.delete("T", 0)
    epochs = before.broker.documents()[TOPIC_EPOCHS_DOCUMENT]
    before.broker.topics.put(TopicConfig(topic_name="T"), 0)
    after = make_rig()
    after.broker.load_documents({**before.broker.documents(), TOPIC_EPOCHS_DOCUMENT: epochs})
    assert "T" in after.broker.topics
    after.send("T", properties={"UNIQ_KEY": "K1", "DELAY": "1"})
    after.run(5_000)
    assert [message.message_id for message in after.stored("T")] == ["K1"]


def test_the_retry_topic_of_a_group_that_is_there_is_made_anew(rig, homes):
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG", retry_queue_nums=3), 0)
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="NONE", retry_queue_nums=0), 0)
    for topic in ("%RETRY%CG", "%RETRY%NONE", "%RETRY%other", "CG"):
        rig.broker.topics.put(TopicConfig(topic_name=topic), 0)
        rig.broker.topics.delete(topic, 0)
    assert homes.is_there(RETRY, 0)
    assert rig.broker.topics.get(RETRY).read_queue_nums == 3
    assert [homes.is_there(topic, 0) for topic in ("%RETRY%NONE", "%RETRY%other", "CG")] == [False] * 3
    assert "%RETRY%other" not in rig.broker.topics


@pytest.mark.parametrize("properties", [{"DELAY": "1"}, {"TIMER_DELAY_SEC": "1"}])
def test_a_message_whose_time_comes_makes_no_queue_of_a_topic_that_was_deleted(rig, properties):
    rig.send("T", properties={"UNIQ_KEY": "K1", **properties})
    rig.send("U", properties={"UNIQ_KEY": "K2", **properties})
    delete(rig, "T")
    rig.run(10_000)
    assert rig.store.queue_ids("T") == []
    assert [message.message_id for message in rig.stored("U")] == ["K2"]        # which lay behind it
    assert {kind: str(names) for kind, names in rig.broker.storing.happenings.take().items()} == {GONE: "T"}


def test_a_retry_whose_group_was_deleted_makes_no_queue(rig):
    rig.heartbeat("CG", "T")
    rig.send("T")
    ext = ConsumerSendMsgBackRequest(offset=rig.stored("T")[0].physical_offset, group="CG", delay_level=1).ext()
    assert rig.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext).code == 0
    delete_group(rig, "CG")
    delete(rig, RETRY)
    rig.run(5_000)
    assert rig.store.queue_ids(RETRY) == []
    assert RETRY not in rig.broker.topics


def test_a_retry_of_a_group_that_is_there_comes_though_its_retry_topic_was_deleted(rig):
    rig.heartbeat("CG", "T")
    rig.send("T")
    ext = ConsumerSendMsgBackRequest(offset=rig.stored("T")[0].physical_offset, group="CG", delay_level=1).ext()
    assert rig.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext).code == 0
    delete(rig, RETRY)
    rig.run(5_000)
    assert RETRY in rig.broker.topics
    assert len(rig.stored(RETRY)) == 1


def test_a_transaction_of_a_topic_that_was_deleted_is_not_committed(rig):
    rig.broker.topics.put(TopicConfig(topic_name="T"), 0)
    rig.send("T", b"x", sys_flag=4, properties={"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "K1"})
    (half,) = rig.stored("RMQ_SYS_TRANS_HALF_TOPIC")
    assert isinstance(half, MessageExt)
    delete(rig, "T")
    ext = EndTransactionRequest(producer_group="PG", tran_state_table_offset=half.queue_offset,
                                commit_log_offset=half.physical_offset, commit_or_rollback=8, msg_id="K1").ext()
    response = rig.ask(RequestCode.END_TRANSACTION, ext)
    assert (response.code, "topic T was deleted" in response.remark) == (ResponseCode.SYSTEM_ERROR, True)
    assert rig.store.queue_ids("T") == []
    assert rig.broker.transactions.open_count == 1
