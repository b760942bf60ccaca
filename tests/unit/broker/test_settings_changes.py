"""Which answers wait for topics and groups to be saved."""

import json

import pytest

from regulus.broker.handlers.stepped import MEMBERS_A_STEP
from regulus.broker.outcome import HOLD, Outcome, Reply
from regulus.model.topics import SubscriptionGroupConfig
from regulus.wire.bodies import encode_subscription_group_config
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import DeleteTopicInBrokerRequest, SendMessageRequest, UpdateAndCreateTopicRequest

GROUP = encode_subscription_group_config(SubscriptionGroupConfig(group_name="G"))


@pytest.fixture
def kept(rig):
    """A broker whose settings somebody saves."""
    rig.send("Old")
    rig.broker.settings.is_kept = True
    return rig


def topic(name: str) -> dict[str, str]:
    return UpdateAndCreateTopicRequest(
        topic=name, default_topic="TBW102", read_queue_nums=4, write_queue_nums=4, perm=6,
        topic_filter_type="SINGLE_TAG").ext()


def send(kept, name: str, **properties: str) -> Outcome:
    header = SendMessageRequest("PG", name, queue_id=0, properties={"UNIQ_KEY": "K1", **properties}, born_timestamp=1)
    return kept.handle(RequestCode.SEND_MESSAGE_V2, header.ext_for(RequestCode.SEND_MESSAGE_V2), b"hello")


def waits_for(outcome: Outcome) -> int:
    assert isinstance(outcome, Reply)
    return outcome.change


def saved(kept) -> None:
    kept.broker.settings_saved(kept.broker.settings.count)


@pytest.mark.parametrize(("code", "ext", "body"), [
    (RequestCode.UPDATE_AND_CREATE_TOPIC, topic("T"), b""),
    (RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequest(topic="Old").ext(), b""),
    (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, GROUP),
    (RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G"}, b""),
])
def test_a_change_waits_and_so_does_the_same_asked_again(kept, code, ext, body):
    first = waits_for(kept.handle(code, ext, body))
    assert first == kept.broker.settings.count
    assert waits_for(kept.handle(code, ext, body)) == first
    saved(kept)
    assert waits_for(kept.handle(code, ext, body)) == 0


@pytest.mark.parametrize(("code", "key", "name"), [
    (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, "topicConfigList", "topicName"),
    (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "groupConfigList", "groupName"),
])
def test_so_does_what_takes_many_steps(kept, code, key, name):
    body = json.dumps({key: [{name: f"N{number}"} for number in range(MEMBERS_A_STEP + 1)]}).encode()

    def change() -> int:
        """For which the answer waits."""
        assert kept.handle(code, {}, body) is HOLD
        while kept.broker.long_answers.tick() is not None:
            pass
        notice = kept.broker.notices.pop()
        assert notice.reply.answer.code == ResponseCode.SUCCESS
        return notice.reply.change

    first = change()
    assert first == kept.broker.settings.count > 0
    assert change() == first
    saved(kept)
    assert change() == 0


@pytest.mark.parametrize(("code", "ext"), [
    (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Old"}),
    (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G", "cleanOffset": "true"})])
def test_a_deletion_that_is_asked_for_again_while_it_is_done_waits_too(kept, code, ext):
    """The second one finds nothing to do, and what the first one did is not saved yet."""
    kept.broker.subscription_groups.find("G", 0)
    for name in ("Old", "%RETRY%G+Old"):
        kept.broker.consumer_offsets.commit("G", name, 0, 1)
    kept.broker.topics.create_if_absent("%RETRY%G+Old", 1, 0)
    assert [kept.handle(code, ext) for _ in range(2)] == [HOLD, HOLD]
    while kept.broker.long_answers.tick() is not None:
        pass
    assert [(notice.reply.answer.code, notice.reply.change) for notice in kept.broker.notices] == [
        (ResponseCode.SUCCESS, kept.broker.settings.count)] * 2
    assert "%RETRY%G+Old" not in kept.broker.topics


def test_whoever_changes_nothing_does_not_wait(kept):
    kept.handle(RequestCode.UPDATE_AND_CREATE_TOPIC, topic("T"))
    assert waits_for(kept.handle(RequestCode.GET_MAX_OFFSET, {"topic": "Old", "queueId": "0"})) == 0
    assert waits_for(send(kept, "Old")) == 0


def test_each_send_to_a_topic_that_is_not_saved_waits_and_then_goes_straight(kept):
    first = waits_for(send(kept, "New"))
    assert first == kept.broker.settings.count
    assert waits_for(send(kept, "New")) == first
    assert not kept.broker.topics.facts["New"].is_straight
    saved(kept)
    assert kept.broker.topics.facts["New"].is_straight
    assert kept.broker.topics.facts["New"].put_nums == 2
    assert waits_for(send(kept, "New")) == 0


def test_a_topic_that_changed_again_waits_for_its_last_change(kept):
    waits_for(send(kept, "New"))
    count = kept.broker.settings.count
    kept.handle(RequestCode.UPDATE_AND_CREATE_TOPIC, topic("New"))
    kept.handle(RequestCode.UPDATE_AND_CREATE_TOPIC, {**topic("New"), "perm": "4"})
    kept.broker.settings_saved(count)
    assert "New" in kept.broker.topics.unsaved
    saved(kept)
    assert kept.broker.topics.unsaved == {}


def test_a_topic_that_changed_again_keeps_no_other_waiting(kept):
    waits_for(send(kept, "New"))
    waits_for(send(kept, "Newer"))
    count = kept.broker.settings.count
    kept.handle(RequestCode.UPDATE_AND_CREATE_TOPIC, {**topic("New"), "perm": "4"})
    kept.broker.settings_saved(count)
    assert set(kept.broker.topics.unsaved) == {"New"}
    assert waits_for(send(kept, "Newer")) == 0


def test_nothing_is_appended_to_a_topic_that_cannot_be_saved(kept):
    send(kept, "New")
    kept.broker.settings.fault = "the disk is full"
    end = kept.store.commit_log_max_offset()
    outcome = send(kept, "New")
    assert kept.store.commit_log_max_offset() == end
    assert isinstance(outcome, Reply)
    assert outcome.answer.code == ResponseCode.SYSTEM_ERROR
    assert "the topic[New] is not saved yet: the disk is full" in outcome.answer.remark
    assert waits_for(send(kept, "Old")) == 0


def test_the_heartbeats_of_a_new_group_wait_for_group_and_retry_topic(rig, heartbeat):
    rig.broker.settings.is_kept = True
    first = waits_for(rig.handle(RequestCode.HEART_BEAT, None, heartbeat("CG")))
    assert first == rig.broker.settings.count
    assert set(rig.broker.topics.unsaved) == {"%RETRY%CG"}
    assert set(rig.broker.subscription_groups.unsaved) == {"CG"}
    assert waits_for(rig.handle(RequestCode.HEART_BEAT, None, heartbeat("CG"))) == first
    saved(rig)
    assert waits_for(rig.handle(RequestCode.HEART_BEAT, None, heartbeat("CG"))) == 0


def test_one_way_requests_wait_for_nothing(kept):
    outcome = kept.handle(RequestCode.UPDATE_AND_CREATE_TOPIC, topic("T"), oneway=True)
    assert not isinstance(outcome, Reply)


def test_where_nobody_saves_nothing_waits(rig):
    assert waits_for(rig.handle(RequestCode.UPDATE_AND_CREATE_TOPIC, topic("T"))) == 0
    assert waits_for(send(rig, "New")) == 0
    assert rig.broker.topics.facts["New"].is_straight


@pytest.fixture
def heartbeat():
    from regulus.wire.bodies import ConsumerData, HeartbeatData, SubscriptionData

    def body(group: str) -> bytes:
        consumer = ConsumerData(group_name=group, consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING",
                                consume_from_where="CONSUME_FROM_LAST_OFFSET", unit_mode=False,
                                subscription_data_set=[SubscriptionData(topic="TopicA", sub_string="*")])
        return HeartbeatData(client_id="c1", consumer_data_set=[consumer], producer_data_set=[]).encode()
    return body
