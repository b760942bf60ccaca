"""Topics made, changed, shown and deleted by operators."""

import json

import pytest

from regulus.broker.outcome import HOLD, Hold
from regulus.model.java_hash import java_hash
from regulus.model.message import MessageExt
from regulus.model.topics import TopicConfig
from regulus.record.timer_units import DEFAULT_KIND, TimerRecord
from regulus.wire.bodies import CreateTopicListRequestBody, KVTable
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import UpdateAndCreateTopicRequest


def update(rig, topic="TopicA", **fields):
    values = {"default_topic": "TBW102", "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, **fields}
    return rig.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, UpdateAndCreateTopicRequest(topic=topic, **values).ext())


def test_a_topic_is_made_as_wanted(rig):
    assert update(rig, read_queue_nums=3, write_queue_nums=2, perm=4, order=True, topic_sys_flag=1,
                  attributes="+message.type=FIFO").code == ResponseCode.SUCCESS
    assert rig.broker.topics.get("TopicA") == TopicConfig(
        topic_name="TopicA", read_queue_nums=3, write_queue_nums=2, perm=4, order=True, topic_sys_flag=1,
        attributes={"message.type": "FIFO"})


def test_the_name_servers_hear_of_a_change_and_only_of_a_change(rig):
    before = rig.broker.registration_changed
    update(rig)
    made = rig.broker.registration_changed
    assert made != before
    update(rig)
    assert rig.broker.registration_changed == made
    update(rig, perm=2)
    assert rig.broker.registration_changed != made


@pytest.mark.parametrize(("topic", "fields", "remark"), [
    ("", {}, "blank"), ("a b", {}, "illegal characters"), ("x" * 128, {}, "longer than"),
    ("TBW102", {}, "conflict with system topic"), ("DefaultCluster", {}, "conflict with system topic"),
    ("rmq_sys_mine", {}, "conflict with system topic"), ("T", {"read_queue_nums": -1}, "readQueueNums"),
    ("T", {"write_queue_nums": 1_000_000}, "writeQueueNums"), ("T", {"perm": 16}, "perm"),
    ("T", {"topic_filter_type": "NONE"}, "topicFilterType")])
def test_a_topic_that_cannot_be_is_refused_with_the_reason(rig, topic, fields, remark):
    response = update(rig, topic, **fields)
    assert response.code == ResponseCode.INVALID_PARAMETER
    assert remark in response.remark
    assert topic not in rig.broker.topics or rig.broker.topics.is_system(topic)


def test_a_bad_attribute_is_named(rig):
    response = update(rig, attributes="+colour=blue")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "colour" in response.remark
    assert "TopicA" not in rig.broker.topics


def test_a_list_of_topics_is_made_or_refused_as_a_whole(rig):
    good, bad = TopicConfig(topic_name="Good"), TopicConfig(topic_name="not good")
    body = CreateTopicListRequestBody(topic_config_list=[good, bad]).encode()
    assert rig.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body).code == ResponseCode.INVALID_PARAMETER
    assert "Good" not in rig.broker.topics
    body = CreateTopicListRequestBody(topic_config_list=[good, TopicConfig(topic_name="Two")]).encode()
    before = rig.broker.registration_changed
    assert rig.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body).code == ResponseCode.SUCCESS
    assert rig.broker.topics.get("Good") == good
    assert "Two" in rig.broker.topics
    assert rig.broker.registration_changed == before + 1


def test_a_deleted_topic_takes_queues_offsets_and_counts_along(rig):
    rig.send()
    rig.heartbeat("CG", "TopicA")
    rig.commit(1)
    assert rig.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TopicA"}).code == ResponseCode.SUCCESS
    assert "TopicA" not in rig.broker.topics
    assert rig.broker.consumer_offsets.topics_of("CG") == []
    assert ("TopicA", 0) not in rig.store.queues()
    table = KVTable.decode(rig.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body).table
    assert table["putMessageTimesTotal"] == "1"
    assert rig.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TopicA"}).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("topic", ["", " ", "TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster"])
def test_a_system_topic_stays(rig, topic):
    assert rig.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}).code == ResponseCode.INVALID_PARAMETER


def test_retry_topics_may_be_deleted(rig):
    rig.heartbeat("CG", "TopicA")
    assert "%RETRY%CG" in rig.broker.topics
    rig.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%RETRY%CG"})
    assert "%RETRY%CG" not in rig.broker.topics


def test_all_topics_in_one_page(rig):
    update(rig)
    response = rig.ask(RequestCode.GET_ALL_TOPIC_CONFIG, {"topicSeq": "0", "maxTopicNum": "1"})
    body = json.loads(response.body)
    assert set(body["topicConfigTable"]) == set(rig.broker.topics.names())
    assert body["topicConfigTable"]["TopicA"]["topicName"] == "TopicA"
    assert body["dataVersion"]["counter"] == rig.broker.topics.data_version.counter
    assert "totalTopicNum" not in response.ext


def test_one_topic_as_it_is_set(rig):
    update(rig, perm=4)
    assert json.loads(rig.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "TopicA"}).body) == {
        "attributes": {}, "order": False, "perm": 4, "readQueueNums": 4, "topicFilterType": "SINGLE_TAG",
        "topicName": "TopicA", "topicSysFlag": 0, "writeQueueNums": 4}
    assert rig.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "None"}).code == ResponseCode.TOPIC_NOT_EXIST


def test_system_topics(rig):
    topics = json.loads(rig.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body)["topicList"]
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-a", "RMQ_SYS_TRACE_TOPIC"} <= set(topics)


def test_queues_without_a_topic_are_cleaned(rig):
    rig.send()
    rig.send(topic="TopicB")
    rig.broker.topics.delete("TopicA", rig.now_ms)
    assert rig.ask(RequestCode.CLEAN_UNUSED_TOPIC).code == ResponseCode.SUCCESS
    assert {topic for topic, _ in rig.store.queues()} == {"TopicB"}


@pytest.mark.parametrize("topic", ["../commitlog", ".", "/tmp", "a/b"])
def test_what_cannot_be_a_topic_is_not_deleted(rig, topic):
    response = rig.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    assert response.code == ResponseCode.INVALID_PARAMETER
    assert "illegal characters" in response.remark


@pytest.mark.parametrize("attribute", ["cleanup.policy=COMPACTION", "reserve.time=60"])
def test_a_topic_with_an_attribute_that_is_not_served_is_not_made(rig, attribute):
    response = update(rig, attributes=f"+{attribute}")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark.startswith(f"{attribute} is not served by this broker: ")
    assert "TopicA" not in rig.broker.topics


def test_a_topic_goes_in_the_first_step_and_without_a_look_at_other_queues(rig, monkeypatch):
    rig.send("TopicA")
    for number in range(100):
        rig.broker.consumer_offsets.commit(f"G{number}", "TopicA", 0, 1)
        rig.broker.statistics.note_get(f"G{number}", "TopicA", 1, 1)
    rig.broker.topics.create_if_absent("%RETRY%G7_TopicA", 1, 0)
    monkeypatch.setattr(type(rig.store), "queue_ids", lambda store, topic: [0] if topic == "TopicA" else [])
    monkeypatch.setattr(type(rig.store), "queues", lambda store: pytest.fail("all queues were walked"))
    assert rig.handle(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TopicA"}) is HOLD
    assert "TopicA" not in rig.broker.topics
    assert rig.broker.consumer_offsets.groups_of("TopicA") == []
    assert rig.broker.statistics.item("GROUP_GET_NUMS", "TopicA@G7") is None
    assert "%RETRY%G7_TopicA" in rig.broker.topics
    assert rig.late_answer().code == ResponseCode.SUCCESS
    assert "%RETRY%G7_TopicA" not in rig.broker.topics


@pytest.mark.parametrize("retry", ["%RETRY%G_TopicA", "%RETRY%G+TopicA"])
def test_what_was_popped_again_of_a_topic_goes_with_it(rig, retry):
    rig.send("TopicA")
    rig.broker.consumer_offsets.commit("G", "TopicA", 0, 1)
    rig.broker.topics.create_if_absent(retry, 1, 0)
    rig.store.append(MessageExt(retry, b"again", {}), rig.now_ms)      # no client may send there
    rig.dispatch()
    assert rig.store.queue_ids(retry) == [0]
    assert rig.handle(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TopicA"}) is HOLD
    assert rig.late_answer().code == ResponseCode.SUCCESS
    assert retry not in rig.broker.topics
    assert rig.store.queue_ids(retry) == []


def test_a_topic_leaves_the_retry_topic_of_a_group_that_has_the_name(rig):
    """Of a group that pushes, and does not even consume the topic."""
    rig.heartbeat("G_TopicA", "TopicB")
    rig.send("TopicA")
    rig.send("TopicB")
    rig.broker.consumer_offsets.commit("G", "TopicA", 0, 1)
    assert rig.send_back(rig.stored("TopicB")[0].physical_offset, group="G_TopicA", delay_level=1,
                         origin_topic="TopicB").code == ResponseCode.SUCCESS
    rig.run(5_000)
    assert rig.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TopicA"}).code == ResponseCode.SUCCESS
    assert len(rig.stored("%RETRY%G_TopicA")) == 1


def test_a_topic_leaves_a_retry_topic_where_another_group_reads(rig):
    """`%RETRY%G_A_B` is of group G and topic A_B, and of group G_A and topic B."""
    rig.send("B")
    rig.broker.consumer_offsets.commit("G_A", "B", 0, 1)
    rig.broker.topics.create_if_absent("%RETRY%G_A_B", 1, 0)
    rig.broker.storing.append(MessageExt("%RETRY%G_A_B", b"popped", {}), rig.now_ms)
    rig.broker.consumer_offsets.commit("G", "%RETRY%G_A_B", 0, 0)
    assert rig.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "B"}).code == ResponseCode.SUCCESS
    assert len(rig.stored("%RETRY%G_A_B")) == 1


def test_a_topic_that_is_made_anew_between_the_steps_keeps_all_that_is_its_own(rig):
    rig.send("TopicA")
    for number in range(20):
        rig.broker.consumer_offsets.commit(f"G{number}", "TopicA", 0, 10)
        rig.broker.topics.create_if_absent(f"%RETRY%G{number}_TopicA", 1, 0)
    assert rig.handle(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TopicA"}) is HOLD
    rig.send("TopicA")
    assert rig.broker.consumer_offsets.query("G1", "TopicA", 0) == -1
    rig.broker.consumer_offsets.commit("G1", "TopicA", 0, 1)
    rig.late_answer()
    rig.run(100)
    assert "TopicA" in rig.broker.topics
    assert rig.store.max_offset("TopicA", 0) == 1
    assert rig.broker.consumer_offsets.query("G1", "TopicA", 0) == 1


def test_who_waits_at_a_deleted_topic_and_what_counts_its_messages_is_let_go(rig):
    """One that waited on would wait behind the first messages of a topic that is made anew."""
    rig.send("TopicA")
    rig.heartbeat("CG", "TopicA")
    rig.run(100)
    assert rig.pull_outcome("TopicA", queue_offset=1) is HOLD
    rig.broker.timers.counts.entered(TimerRecord(0, DEFAULT_KIND, 0, 0, 100, java_hash("TopicA")), "TopicA", 0)
    assert rig.broker.timers.counts.knows(java_hash("TopicA"))
    assert rig.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TopicA"}).code == ResponseCode.SUCCESS
    assert not rig.broker.timers.counts.knows(java_hash("TopicA"))
    rig.run(100)
    assert [each.code for each in rig.notices() if each.is_response] == [ResponseCode.TOPIC_NOT_EXIST]
    assert len(rig.broker.held_requests) == 0


def test_a_deletion_is_done_to_its_end_when_its_asker_has_gone(rig):
    rig.send("TopicA")
    rig.broker.consumer_offsets.commit("G", "TopicA", 0, 1)
    rig.broker.topics.create_if_absent("%RETRY%G_TopicA", 1, 0)
    assert rig.handle(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TopicA"}) is HOLD
    rig.broker.channel_closed(rig.peer.channel, rig.now_ms)
    rig.run(100)
    assert "%RETRY%G_TopicA" not in rig.broker.topics


def test_a_topic_deleted_behind_a_list_stays_deleted(rig):
    listed = [{"topicName": f"t{number}", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
               "topicFilterType": "SINGLE_TAG"} for number in range(3_000)]
    assert rig.handle(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
                      body=json.dumps({"topicConfigList": listed}).encode()) is HOLD
    assert rig.handle(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t2999"}) is HOLD
    rig.run(100)
    assert "t1" in rig.broker.topics
    assert "t2999" not in rig.broker.topics


def test_clean_unused_leaves_queues_of_the_broker_itself(rig):
    """Those of them that have no configuration are the broker's all the same."""
    rig.store.append(MessageExt("rmq_sys_mine", b"x", {}), rig.now_ms)
    rig.dispatch()
    assert "rmq_sys_mine" not in rig.broker.topics
    assert rig.ask(RequestCode.CLEAN_UNUSED_TOPIC).code == ResponseCode.SUCCESS
    assert rig.store.queue_ids("rmq_sys_mine") == [0]


def create_topic(rig, name):
    return rig.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"})


def test_clean_unused_keeps_a_topic_that_is_made_between_its_steps(rig):
    create_topic(rig, "Gone")
    rig.send("Gone", b"old")
    rig.broker.topics.delete("Gone", rig.now_ms)        # as a kill between configuration and queues leaves it
    assert isinstance(rig.handle(RequestCode.CLEAN_UNUSED_TOPIC), Hold)
    assert create_topic(rig, "Gone").code == ResponseCode.SUCCESS
    assert rig.send("Gone", b"acknowledged").code == ResponseCode.SUCCESS
    while rig.broker.tick(rig.now_ms) == 0:
        pass
    assert b"acknowledged" in [each.body for each in rig.stored("Gone")]


def test_an_attribute_set_while_a_list_is_made_stays(rig):
    """The list says nothing of the attribute, and yet undoes what another operator was told is so."""
    create_topic(rig, "t0")
    listed = [{"topicName": f"t{number}", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6,
               "topicFilterType": "SINGLE_TAG"} for number in range(3_000)]
    assert isinstance(rig.handle(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
                                 body=json.dumps({"topicConfigList": listed}).encode()), Hold)
    while len(rig.broker.long_answers):
        rig.broker.tick(rig.now_ms)
        if len(rig.broker.topics) and rig.broker.topics.get("t0").read_queue_nums == 1:
            last = "FIFO" if rig.broker.topics.get("t0").attributes.get("message.type") == "NORMAL" else "NORMAL"
            outcome = rig.handle(RequestCode.UPDATE_AND_CREATE_TOPIC, {
                "topic": "t0", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
                "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
                "attributes": f"+message.type={last}"})
            assert isinstance(outcome, Hold)    # its turn comes behind the list's
            told = last
            break
    while rig.broker.tick(rig.now_ms) == 0:
        pass
    assert rig.broker.topics.get("t0").attributes.get("message.type") == told
