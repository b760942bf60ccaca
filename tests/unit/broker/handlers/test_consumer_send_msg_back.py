"""What becomes of a message that a consumer could not use."""

import pytest

from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import ConsumerSendMsgBackRequest

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
WAITS_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


@pytest.fixture
def rig(rig):
    """One message that a consumer of CG got."""
    rig.heartbeat("CG", "TopicA")
    rig.send(body=b"work", queue_id=1, flag=3, properties={"UNIQ_KEY": "K1", "TAGS": "T", "KEYS": "k"})
    return rig


def first(rig):
    return rig.stored("TopicA", 1)[0]


def test_a_failed_message_waits_ten_seconds_and_comes_back(rig):
    origin = first(rig)
    assert rig.send_back(origin.physical_offset).code == ResponseCode.SUCCESS
    (parked,) = rig.stored(SCHEDULE, 2)
    assert parked.reconsume_times == 1
    rig.run(9_999)
    assert not rig.stored("%RETRY%CG")
    rig.run(1)
    (retry,) = rig.stored("%RETRY%CG")
    assert (retry.body, retry.flag, retry.born_host, retry.born_timestamp) == (
        b"work", 3, origin.born_host, origin.born_timestamp)
    assert retry.reconsume_times == 1
    assert retry.properties == parked.properties
    expected = {"UNIQ_KEY": "K1", "TAGS": "T", "KEYS": "k", "RETRY_TOPIC": "TopicA", "DELAY": "3",
                "REAL_TOPIC": "%RETRY%CG", "REAL_QID": "0"}
    assert expected.items() <= retry.properties.items()


def test_a_message_that_always_fails_is_tried_sixteen_more_times_then_buried(rig):
    failed = first(rig)
    origin_id = rig.peer.local.hex().upper() + f"{failed.physical_offset:016X}"
    for retries, wait_s in enumerate(WAITS_S, 1):
        assert rig.send_back(failed.physical_offset).code == ResponseCode.SUCCESS
        rig.run(wait_s * 1000 - 1)
        assert len(rig.stored("%RETRY%CG")) == retries - 1
        rig.run(1)
        assert len(rig.stored("%RETRY%CG")) == retries
        failed = rig.stored("%RETRY%CG")[-1]
        assert failed.reconsume_times == retries
        assert failed.properties["ORIGIN_MESSAGE_ID"] == origin_id
    assert retries == 16
    assert not rig.stored("%DLQ%CG")
    rig.send_back(failed.physical_offset)
    (letter,) = rig.stored("%DLQ%CG")
    assert letter.reconsume_times == 17
    assert letter.body == b"work"
    expected = {"UNIQ_KEY": "K1", "TAGS": "T", "KEYS": "k", "RETRY_TOPIC": "TopicA", "DLQ_ORIGIN_TOPIC": "TopicA",
                "ORIGIN_MESSAGE_ID": origin_id, "DLQ_ORIGIN_MESSAGE_ID": origin_id, "DELAY": "0"}
    assert expected.items() <= letter.properties.items()


def test_no_dead_letter_topic_before_the_first_dead_letter(rig):
    rig.send_back(first(rig).physical_offset)
    assert "%DLQ%CG" not in rig.broker.topics
    rig.send_back(first(rig).physical_offset, delay_level=-1)
    config = rig.broker.topics.get("%DLQ%CG")
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)


def test_a_chosen_level_takes_the_place_of_the_growing_one(rig):
    rig.send_back(first(rig).physical_offset, delay_level=5)
    assert len(rig.stored(SCHEDULE, 4)) == 1


@pytest.mark.parametrize(("limit", "dead"), [(0, True), (1, False), (None, False)])
def test_the_limit_of_the_request_goes_before_the_group_s(rig, limit, dead):
    rig.send_back(first(rig).physical_offset, max_reconsume_times=limit)
    assert len(rig.stored("%DLQ%CG")) == dead


def test_the_group_s_limit(rig):
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG", retry_max_times=0), 0)
    rig.send_back(first(rig).physical_offset)
    assert len(rig.stored("%DLQ%CG")) == 1


def test_a_group_without_retry_queues_must_keep_its_message(rig):
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG", retry_queue_nums=0), 0)
    response = rig.send_back(first(rig).physical_offset)
    assert response.code == ResponseCode.NO_PERMISSION
    assert "retryQueueNums" in response.remark


def test_refusals(rig, make_rig):
    assert rig.send_back(99_999).remark == "look message by offset failed, 99999"
    assert rig.send_back(99_999).code == ResponseCode.SYSTEM_ERROR
    strict = make_rig(auto_create_subscription_group=False)
    assert strict.send_back(0).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert make_rig(broker_permission=4).send_back(0).code == ResponseCode.NO_PERMISSION
    rig.broker.topics.put(TopicConfig(topic_name="%RETRY%CG", read_queue_nums=1, write_queue_nums=1, perm=4), 0)
    assert rig.send_back(first(rig).physical_offset).code == ResponseCode.NO_PERMISSION


def test_what_the_store_refuses_the_consumer_keeps(rig):
    offset = first(rig).physical_offset
    rig.store.refusal = "the disk is full"
    assert rig.send_back(offset).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("delay_level", [0, -1])
def test_copies_are_as_durable_as_sends(make_rig, delay_level):
    rig = make_rig(flush_disk_type="SYNC_FLUSH")
    rig.send(queue_id=1)
    header = ConsumerSendMsgBackRequest(offset=first(rig).physical_offset, group="CG", delay_level=delay_level)
    outcome = rig.handle(RequestCode.CONSUMER_SEND_MSG_BACK, header.ext())
    assert outcome.durable_at == rig.store.commit_log_max_offset()


def test_two_topics_share_the_retry_topic_of_a_group(rig):
    rig.send("TopicB", properties={"UNIQ_KEY": "KB"})
    rig.send_back(first(rig).physical_offset)
    rig.send_back(rig.stored("TopicB")[0].physical_offset)
    rig.run(10_100)
    assert [m.properties["RETRY_TOPIC"] for m in rig.stored("%RETRY%CG")] == ["TopicA", "TopicB"]


def test_send_backs_are_counted(rig):
    rig.send_back(first(rig).physical_offset)
    assert rig.broker.statistics.item("SNDBCK_PUT_NUMS", "TopicA@CG").value == 1


@pytest.mark.parametrize("delay_level", [0, -1])
def test_a_copy_that_never_fits_is_refused_for_good(rig, delay_level):
    """A consumer that asks again for a dead letter is not to wait for what will not come."""
    rig.send(queue_id=2, properties={"P": "x" * 32_650})
    response = rig.send_back(rig.stored("TopicA", 2)[0].physical_offset, delay_level=delay_level)
    assert response.code == ResponseCode.MESSAGE_ILLEGAL
    assert "more than 32767" in response.remark


@pytest.mark.parametrize(("is_guarded", "topic", "code"), [
    (True, "TopicB", ResponseCode.NO_PERMISSION), (True, "TopicA", ResponseCode.SUCCESS),
    (False, "TopicB", ResponseCode.SUCCESS)])
def test_with_access_control_a_message_is_of_the_topic_that_is_named(rig, is_guarded, topic, code):
    """The door has let the sender at that topic; the position may be any."""
    if is_guarded:
        rig.be_guarded(alice="")
    assert rig.send_back(first(rig).physical_offset, origin_topic=topic).code == code
    assert bool(rig.stored(SCHEDULE, 2)) is (code == ResponseCode.SUCCESS)


def test_with_access_control_a_retry_is_of_its_first_topic_and_of_its_retry_topic(rig):
    rig.be_guarded(alice="")
    rig.send_back(first(rig).physical_offset, origin_topic="TopicA")
    rig.run(10_000)
    (retry,) = rig.stored("%RETRY%CG")
    for topic, code in (("TopicB", ResponseCode.NO_PERMISSION), ("TopicA", ResponseCode.SUCCESS),
                        ("%RETRY%CG", ResponseCode.SUCCESS)):
        assert rig.send_back(retry.physical_offset, origin_topic=topic).code == code


def test_what_is_tried_again_and_what_is_a_dead_letter_keeps_its_priority(rig):
    rig.send(body=b"urgent", properties={"UNIQ_KEY": "K2", "_SYS_MSG_PRIORITY_": "1"})
    (failed,) = (each for each in rig.stored("TopicA", 1) if each.body == b"urgent")
    rig.send_back(failed.physical_offset)
    rig.run(10_000)
    (retry,) = rig.stored("%RETRY%CG")
    rig.send_back(retry.physical_offset, max_reconsume_times=1)
    (dead,) = rig.stored("%DLQ%CG")
    assert [each.properties["_SYS_MSG_PRIORITY_"] for each in (retry, dead)] == ["1", "1"]


# --- causes ----------------------------------------------------------------------------------------------------------


def causes(message):
    return {name: value for name, value in message.properties.items() if name.startswith("CAUSE_")}


def test_each_attempt_leaves_its_cause_and_the_newest_its_stack(rig):
    rig.send_back(first(rig).physical_offset, delay_level=1, cause="OSError: gone\x01\x02", stack="old")
    rig.run(1_000)
    (retry,) = rig.stored("%RETRY%CG")
    assert causes(retry) == {"CAUSE_1": "OSError: gone", "CAUSE_STACK": "old"}
    answer = rig.send_back(retry.physical_offset, delay_level=-1, cause="ValueError: " + "x" * 500, stack="y" * 5_000)
    assert answer.ext == {"regulusDeadLetter": "true"}
    (letter,) = rig.stored("%DLQ%CG")
    assert causes(letter) == {"CAUSE_1": "OSError: gone", "CAUSE_2": ("ValueError: " + "x" * 500)[:200],
                              "CAUSE_STACK": "y" * 2_000}
    assert rig.broker.dead_letters.take() == [
        f"message K1 with keys k is a dead letter of group CG after 2 tries: {letter.properties['CAUSE_2']}"]


def test_a_stack_without_a_cause_and_a_message_without_both_leave_none(rig):
    rig.send_back(first(rig).physical_offset, delay_level=-1, stack="alone")
    (letter,) = rig.stored("%DLQ%CG")
    assert causes(letter) == {}


@pytest.mark.parametrize(("size", "left"), [(29_000, {"CAUSE_1"}), (31_000, set()), (32_500, set())])
def test_a_message_whose_properties_are_nearly_full_is_stored_with_what_has_room(rig, size, left):
    rig.send(body=b"full", queue_id=1, properties={"UNIQ_KEY": "K2", "big": "b" * size})
    full = rig.stored("TopicA", 1)[1]
    assert rig.send_back(full.physical_offset, delay_level=-1, cause="c" * 200, stack="s" * 2_000).code == (
        ResponseCode.SUCCESS)
    (letter,) = rig.stored("%DLQ%CG")
    assert (letter.body, set(causes(letter))) == (b"full", left)
