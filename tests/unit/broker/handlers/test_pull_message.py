"""What a broker answers to pulls, and when."""

import pytest

from regulus.broker.filters import message_filter
from regulus.broker.held_requests import HeldRequests
from regulus.broker.outcome import HOLD
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.record import message_record
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import PullMessageRequest, PullMessageResponse

SUSPEND, SUBSCRIPTION, COMMIT, LITE = 2, 4, 1, 16
REFUSED_SQL92 = "The broker does not support consumer to filter message by SQL92 (enablePropertyFilter=false)"


@pytest.fixture
def rig(rig):
    """Three messages in queue 0 of TopicA, a consumer that subscribes to all."""
    rig.heartbeat("CG", "TopicA")
    for number, tag in enumerate("ABA"):
        rig.send(body=b"%d" % number, properties={"UNIQ_KEY": f"K{number}", "TAGS": tag})
    rig.arrive()
    rig.told()
    return rig


def test_a_pull_gets_whole_records_and_the_range_of_the_queue(rig):
    response = rig.pull(queue_offset=1)
    assert (response.code, response.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert [message.body for message in message_record.decode_all(response.body)] == [b"1", b"2"]
    header = PullMessageResponse.decode(response)
    assert (header.next_begin_offset, header.min_offset, header.max_offset) == (3, 0, 3)
    assert header.suggest_which_broker_id == 0


def test_a_pull_takes_no_more_messages_than_both_sides_allow(rig, make_rig):
    assert PullMessageResponse.decode(rig.pull(max_msg_nums=2)).next_begin_offset == 2
    small = make_rig(max_transfer_count_on_message_in_memory=1)
    small.heartbeat("CG", "TopicA")
    small.send()
    small.send()
    assert PullMessageResponse.decode(small.pull(max_msg_nums=32)).next_begin_offset == 1


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
def test_both_codes_pull(rig, code):
    header = PullMessageRequest("CG", "TopicA", 0, 0, sys_flag=SUBSCRIPTION | LITE, subscription="*")
    assert rig.ask(code, header.ext()).code == ResponseCode.SUCCESS


# --- filter ----------------------------------------------------------------------------------------------------------


def test_the_pull_may_bring_its_own_filter(rig):
    response = rig.pull(sys_flag=SUBSCRIPTION, subscription="B", group="Other")
    assert [message.tags for message in message_record.decode_all(response.body)] == ["B"]


def test_the_heartbeat_filter_holds_for_pulls_without_one(rig):
    rig.heartbeat("CG", "TopicA", expression="A || C", sub_version=2)
    response = rig.pull(sub_version=2)
    assert [message.tags for message in message_record.decode_all(response.body)] == ["A", "A"]


def test_what_matches_nothing_is_passed_over(rig):
    response = rig.pull(sys_flag=SUBSCRIPTION, subscription="Z")
    assert (response.code, response.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert PullMessageResponse.decode(response).next_begin_offset == 3


def test_an_expression_without_a_tag_cannot_be_parsed(rig):
    assert rig.pull(sys_flag=SUBSCRIPTION, subscription=" || ").code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_sql_is_refused(rig):
    response = rig.pull(sys_flag=SUBSCRIPTION, subscription="a > 5", expression_type="SQL92")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == REFUSED_SQL92


def test_sql_of_the_heartbeat_is_refused(make_rig):
    """The group's consumers told it while it was allowed, or by a client that does not ask."""
    rig = make_rig()
    rig.send()
    rig.heartbeat("CG", "TopicA", expression="a > 5", expression_type="SQL92")
    response = rig.pull()
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == REFUSED_SQL92


# --- conditions ------------------------------------------------------------------------------------------------------


@pytest.fixture
def sql_rig(make_rig):
    """A broker that filters by SQL92, messages with a = 0 ... 9 in queue 0 of TopicA."""
    rig = make_rig(enable_property_filter=True)
    for number in range(10):
        rig.send(body=b"%d" % number, properties={"UNIQ_KEY": f"K{number}", "a": str(number)})
    rig.arrive()
    rig.told()
    return rig


def bodies(response):
    return [message.body for message in message_record.decode_all(response.body)]


def test_a_condition_filters_by_properties(sql_rig):
    response = sql_rig.pull(sys_flag=SUBSCRIPTION, subscription="a BETWEEN 3 AND 5", expression_type="SQL92")
    assert bodies(response) == [b"3", b"4", b"5"]
    assert PullMessageResponse.decode(response).next_begin_offset == 10


def test_a_condition_of_the_heartbeat_filters(sql_rig):
    sql_rig.heartbeat("CG", "TopicA", expression="a > 7", expression_type="SQL92")
    assert bodies(sql_rig.pull()) == [b"8", b"9"]


def test_conditions_may_be_allowed_while_the_broker_runs(make_rig):
    rig = make_rig()
    pull = {"sys_flag": SUBSCRIPTION, "subscription": "a = 1", "expression_type": "SQL92"}
    rig.send(properties={"UNIQ_KEY": "K", "a": "1"})
    rig.told()
    assert rig.pull(**pull).code == ResponseCode.SYSTEM_ERROR
    assert rig.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"enablePropertyFilter=true").code == ResponseCode.SUCCESS
    assert rig.pull(**pull).code == ResponseCode.SUCCESS


def test_what_no_condition_takes_is_passed_over(sql_rig):
    response = sql_rig.pull(sys_flag=SUBSCRIPTION, subscription="a = 'x'", expression_type="SQL92")
    assert response.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert PullMessageResponse.decode(response).next_begin_offset == 10


def test_a_wrong_condition_is_refused_with_its_place(sql_rig):
    response = sql_rig.pull(sys_flag=SUBSCRIPTION, subscription="a >", expression_type="SQL92")
    assert response.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "character 4" in response.remark


def test_a_held_pull_is_answered_by_what_its_condition_takes(sql_rig):
    assert sql_rig.pull_outcome(queue_offset=10, sys_flag=SUBSCRIPTION | SUSPEND, subscription="a = 11",
                                expression_type="SQL92") is HOLD
    sql_rig.send(body=b"11", properties={"UNIQ_KEY": "K11", "a": "11"})
    (answer,) = sql_rig.arrive()
    assert bodies(answer) == [b"11"]


def wait_for(rig, condition, **fields):
    assert rig.pull_outcome(sys_flag=SUBSCRIPTION | SUSPEND, subscription=condition, expression_type="SQL92",
                            **{"queue_offset": 10, **fields}) is HOLD


def send_number(rig, number):
    rig.send(body=b"%d" % number, properties={"UNIQ_KEY": f"K{number}", "a": str(number)})


def test_a_held_pull_waits_on_while_its_condition_takes_nothing(sql_rig):
    wait_for(sql_rig, "a = 12")
    for number in (10, 11):
        send_number(sql_rig, number)
        assert sql_rig.arrive() == []
        assert len(sql_rig.broker.held_requests) == 1
        size = sql_rig.broker.store.queue_units("TopicA", 0, number, 1)[0].size
        # Of the two parts of the condition; what arrived before is not looked at again.
        assert sql_rig.broker.held_requests.looked == 2 * size
        # Operators see that it is behind it.
        assert sql_rig.broker.consumer_offsets.pulls.of("CG", "TopicA", 0) == number + 1
    send_number(sql_rig, 12)
    (answer,) = sql_rig.arrive()
    assert bodies(answer) == [b"12"]
    assert PullMessageResponse.decode(answer).next_begin_offset == 13
    assert len(sql_rig.broker.held_requests) == 0


def test_a_held_pull_whose_time_is_up_is_told_where_to_go_on(sql_rig):
    wait_for(sql_rig, "a = 12", suspend=15_000)
    sql_rig.run(10_000)
    send_number(sql_rig, 10)
    assert sql_rig.arrive() == []
    sql_rig.run(4_999)
    assert sql_rig.notices() == []
    sql_rig.run(1)
    (answer,) = sql_rig.notices()
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert PullMessageResponse.decode(answer).next_begin_offset == 11
    assert len(sql_rig.broker.held_requests) == 0


def test_a_held_pull_whose_time_is_up_waits_no_longer_for_what_it_wants(rig):
    assert rig.pull_outcome(queue_offset=3, sys_flag=SUBSCRIPTION | SUSPEND, subscription="B", suspend=15_000) is HOLD
    rig.send(properties={"UNIQ_KEY": "K3", "TAGS": "A"})
    assert rig.arrive() == []
    rig.run(15_000)
    (answer,) = rig.notices()
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert PullMessageResponse.decode(answer).next_begin_offset == 4


def test_a_held_pull_that_met_what_it_does_not_want_goes_with_its_connection(sql_rig):
    wait_for(sql_rig, "a = 12")
    send_number(sql_rig, 10)
    sql_rig.arrive()
    sql_rig.broker.channel_closed(1, sql_rig.now_ms)
    assert len(sql_rig.broker.held_requests) == 0
    send_number(sql_rig, 12)
    assert sql_rig.arrive() == []


def test_a_held_pull_goes_on_by_the_condition_that_its_group_has_then(sql_rig):
    sql_rig.heartbeat("CG", "TopicA", expression="a = 12", expression_type="SQL92")
    assert sql_rig.pull_outcome(queue_offset=10) is HOLD
    send_number(sql_rig, 10)
    assert sql_rig.arrive() == []
    sql_rig.heartbeat("CG", "TopicA", expression="a = 11", expression_type="SQL92", sub_version=2)
    send_number(sql_rig, 11)
    assert [bodies(answer) for answer in sql_rig.arrive() if answer.body] == [[b"11"]]


def test_a_group_that_may_consume_no_more_is_told_by_the_next_message(sql_rig):
    wait_for(sql_rig, "a = 12")
    send_number(sql_rig, 10)
    sql_rig.arrive()
    sql_rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG", consume_enable=False), 0)
    send_number(sql_rig, 11)
    (answer,) = sql_rig.arrive()
    assert answer.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("is_brought", [True, False])
def test_the_condition_of_a_held_pull_is_read_once(sql_rig, is_brought):
    """However many others there are: no more are kept ready than CONDITIONS_CACHED_MAX."""
    if is_brought:
        wait_for(sql_rig, "a = 12")
    else:
        sql_rig.heartbeat("CG", "TopicA", expression="a = 12", expression_type="SQL92")
        assert sql_rig.pull_outcome(queue_offset=10) is HOLD
        sql_rig.told()
    message_filter._condition.cache_clear()
    for number in (10, 11, 12):
        send_number(sql_rig, number)
        answers = sql_rig.arrive()
    assert bodies(answers[0]) == [b"12"]
    assert message_filter._condition.cache_info().misses == 0


def test_held_conditions_that_look_at_much_take_turns(sql_rig, monkeypatch):
    monkeypatch.setattr("regulus.broker.state.HELD_LOOKED_MAX", 1)
    for channel in range(3):
        wait_for(sql_rig, "a = 10", channel=channel)
    send_number(sql_rig, 10)
    answered = [len(sql_rig.arrive())]
    while sql_rig.broker.wants_tick:
        sql_rig.broker.tick(sql_rig.now_ms)
        answered.append(len(sql_rig.notices()))
    assert answered == [1, 1, 1]


def test_a_held_pull_that_did_not_come_to_the_end_goes_on_without_another_message(sql_rig, monkeypatch):
    """It is not answered before: a client that is told to come again comes at once."""
    monkeypatch.setattr("regulus.broker.state.HELD_ANSWERED_MAX", 1)
    monkeypatch.setattr("regulus.testing.memory_store.SCANNED_MAX", 2)
    wait_for(sql_rig, "a = 14")
    for number in range(10, 15):
        send_number(sql_rig, number)
    assert sql_rig.arrive() == []
    ticks = 0
    while sql_rig.broker.wants_tick:
        sql_rig.broker.tick(sql_rig.now_ms)
        ticks += 1
    assert ticks == 2
    (answer,) = sql_rig.notices()
    assert bodies(answer) == [b"14"]


def test_one_of_many_held_conditions_looks_at_what_arrived_in_its_queue(sql_rig):
    for queue_id in range(4):
        wait_for(sql_rig, "a = 12", queue_id=queue_id, queue_offset=10 if queue_id == 0 else 0)
    send_number(sql_rig, 10)
    assert sql_rig.arrive() == []
    assert len(sql_rig.broker.held_requests) == 4
    assert sql_rig.broker.held_requests.looked == 2 * sql_rig.broker.store.queue_units("TopicA", 0, 10, 1)[0].size


# --- checks ----------------------------------------------------------------------------------------------------------


def test_a_broker_that_cannot_be_read(make_rig):
    response = make_rig(broker_permission=2).pull()
    assert (response.code, PullMessageResponse.decode(response).forbidden_type) == (ResponseCode.NO_PERMISSION, 1)


def test_lite_pulls_can_be_switched_off(make_rig):
    assert make_rig(lite_pull_message_enable=False).pull(sys_flag=LITE).code == ResponseCode.NO_PERMISSION


def test_an_unknown_group(make_rig):
    rig = make_rig(auto_create_subscription_group=False)
    assert rig.pull().code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_group_that_may_not_consume(rig):
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG", consume_enable=False), 0)
    response = rig.pull()
    assert (response.code, PullMessageResponse.decode(response).forbidden_type) == (ResponseCode.NO_PERMISSION, 2)


def test_an_unknown_topic(rig):
    assert rig.pull("Nothing").code == ResponseCode.TOPIC_NOT_EXIST


def test_a_topic_that_may_not_be_read(rig):
    rig.broker.topics.put(TopicConfig(topic_name="TopicA", perm=2), 0)
    response = rig.pull()
    assert (response.code, PullMessageResponse.decode(response).forbidden_type) == (ResponseCode.NO_PERMISSION, 3)


@pytest.mark.parametrize("queue_id", [-1, 4])
def test_a_queue_that_the_topic_does_not_have(rig, queue_id):
    assert rig.pull(queue_id=queue_id).code == ResponseCode.INVALID_PARAMETER


def test_a_group_without_a_live_consumer(rig):
    response = rig.pull(group="Nobody")
    assert (response.code, response.remark) == (ResponseCode.SUBSCRIPTION_NOT_EXIST,
                                                "the consumer's group info not exist")


def test_a_topic_to_which_the_group_does_not_subscribe(rig):
    rig.send("TopicB")
    assert rig.pull("TopicB").remark == "the consumer's subscription not exist"


def test_a_subscription_that_is_newer_than_the_last_heartbeat(rig):
    response = rig.pull(sub_version=2)
    assert (response.code, response.remark) == (ResponseCode.SUBSCRIPTION_NOT_LATEST,
                                                "the consumer's subscription not latest")


def test_broadcasting_can_be_forbidden(rig):
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG", consume_broadcast_enable=False), 0)
    rig.heartbeat("CG", "TopicA", message_model="BROADCASTING")
    response = rig.pull()
    assert (response.code, PullMessageResponse.decode(response).forbidden_type) == (ResponseCode.NO_PERMISSION, 4)


def test_a_topic_can_be_closed_to_one_group(rig):
    rig.broker.subscription_groups.set_readable("CG", "TopicA", False, 0)
    response = rig.pull()
    assert (response.code, PullMessageResponse.decode(response).forbidden_type) == (ResponseCode.NO_PERMISSION, 5)


# --- offsets ---------------------------------------------------------------------------------------------------------


def test_an_offset_behind_the_end_is_moved_back(rig):
    response = rig.pull(queue_offset=9)
    assert (response.code, response.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY")
    assert PullMessageResponse.decode(response).next_begin_offset == 3


def test_an_offset_before_the_start_is_moved_forward(rig):
    response = rig.pull(queue_offset=-1)
    assert (response.code, response.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL")
    assert PullMessageResponse.decode(response).next_begin_offset == 0


def test_an_empty_queue_moves_only_offsets_that_are_not_its_start(rig):
    assert rig.pull(queue_id=1, sys_flag=0).code == ResponseCode.PULL_NOT_FOUND
    assert rig.pull(queue_id=1, queue_offset=5, sys_flag=0).code == ResponseCode.PULL_OFFSET_MOVED


def test_a_pull_may_commit(rig):
    rig.pull(sys_flag=COMMIT, commit_offset=2)
    assert rig.broker.consumer_offsets.query("CG", "TopicA", 0) == 2
    rig.pull(sys_flag=0, commit_offset=1)
    assert rig.broker.consumer_offsets.query("CG", "TopicA", 0) == 2


def test_a_refused_pull_commits_nothing(rig):
    rig.pull(sys_flag=COMMIT, commit_offset=2, sub_version=9)
    assert rig.broker.consumer_offsets.query("CG", "TopicA", 0) == -1


def test_a_reset_is_told_to_the_next_pull_once(rig):
    rig.broker.consumer_offsets.assign_reset("CG", "TopicA", 0, 1)
    response = rig.pull(queue_offset=3)
    assert (response.code, response.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert PullMessageResponse.decode(response).next_begin_offset == 1
    assert rig.pull(queue_offset=1).code == ResponseCode.SUCCESS


def test_the_pull_that_is_told_of_a_reset_commits_nothing(rig):
    """It was sent before: where its client dies now, the next one begins where the operator wants it to."""
    rig.broker.consumer_offsets.commit("CG", "TopicA", 0, 2)
    rig.broker.consumer_offsets.assign_reset("CG", "TopicA", 0, 1)
    response = rig.pull(queue_offset=3, sys_flag=COMMIT, commit_offset=3)
    assert (response.code, response.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert rig.broker.consumer_offsets.query("CG", "TopicA", 0) == 1


# --- long polling ----------------------------------------------------------------------------------------------------


def test_a_pull_at_the_end_waits_for_a_message(rig):
    assert rig.pull_outcome(queue_offset=3) is HOLD
    assert rig.arrive() == []
    rig.send(body=b"new")
    (response,) = rig.arrive()
    assert (response.code, response.opaque) == (ResponseCode.SUCCESS, 7)
    assert [message.body for message in message_record.decode_all(response.body)] == [b"new"]
    assert len(rig.broker.held_requests) == 0


def test_a_pull_that_may_not_wait_is_answered_at_once(rig):
    response = rig.pull(queue_offset=3, sys_flag=0)
    assert (response.code, response.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")


def test_a_held_pull_is_answered_when_its_time_is_up(rig):
    assert rig.pull_outcome(queue_offset=3, suspend=15_000) is HOLD
    rig.run(14_999)
    assert rig.notices() == []
    rig.run(1)
    (response,) = rig.notices()
    assert response.code == ResponseCode.PULL_NOT_FOUND
    assert PullMessageResponse.decode(response).next_begin_offset == 3


def test_without_long_polling_the_wait_is_short(make_rig):
    rig = make_rig(long_polling_enable=False, short_polling_time_mills=200)
    rig.heartbeat("CG", "TopicA")
    rig.send()
    rig.told()
    assert rig.pull_outcome(queue_offset=1) is HOLD
    rig.run(200)
    assert len(rig.notices()) == 1


def test_a_held_pull_is_woken_only_by_what_it_wants(rig):
    assert rig.pull_outcome(queue_offset=3, sys_flag=SUSPEND | SUBSCRIPTION, subscription="A") is HOLD
    rig.send(properties={"TAGS": "B", "UNIQ_KEY": "K"})
    rig.send("TopicB", properties={"TAGS": "A", "UNIQ_KEY": "K"})
    rig.send(queue_id=1, properties={"TAGS": "A", "UNIQ_KEY": "K"})
    assert rig.arrive() == []
    rig.send(properties={"TAGS": "A", "UNIQ_KEY": "K"})
    (response,) = rig.arrive()
    assert [message.tags for message in message_record.decode_all(response.body)] == ["A"]


def test_all_who_wait_at_a_queue_are_woken_with_their_own_answers(rig):
    rig.heartbeat("CG2", "TopicA", channel=2, client_id="c2")
    assert rig.pull_outcome(queue_offset=3, channel=1) is HOLD
    assert rig.pull_outcome(queue_offset=3, channel=2, group="CG2") is HOLD
    rig.notices()
    rig.send()
    rig.broker.message_arrived(rig.arrivals, rig.now_ms)
    assert [notice.channel for notice in rig.broker.notices] == [1, 2]


def test_a_closed_connection_takes_its_held_pulls_along(rig):
    assert rig.pull_outcome(queue_offset=3) is HOLD
    rig.broker.channel_closed(1, rig.now_ms)
    rig.send()
    assert rig.arrive() == []
    assert len(rig.broker.held_requests) == 0
    rig.run(20_000)
    assert rig.notices() == []


def test_a_held_pull_whose_topic_is_deleted_is_answered(rig):
    assert rig.pull_outcome(queue_offset=3) is HOLD
    rig.broker.topics.delete("TopicA", rig.now_ms)
    rig.run(15_000)
    assert [response.code for response in rig.notices()] == [ResponseCode.TOPIC_NOT_EXIST]


def test_only_so_many_pulls_are_held(rig):
    rig.broker.held_requests = HeldRequests(count_max=2)
    assert rig.pull_outcome(queue_offset=3) is HOLD
    assert rig.pull_outcome(queue_offset=3) is HOLD
    response = rig.pull(queue_offset=3)
    assert response.code == ResponseCode.SYSTEM_BUSY
    assert response.remark.startswith("[REJECTREQUEST]")


def test_a_forbidden_pull_is_not_held(rig):
    rig.broker.topics.put(TopicConfig(topic_name="TopicA", perm=2), 0)
    assert rig.pull(queue_offset=3).code == ResponseCode.NO_PERMISSION


def test_pulls_are_counted(rig):
    rig.pull()
    rig.pull(queue_offset=3, sys_flag=0)
    statistics = rig.broker.statistics
    assert (statistics.get_found_times, statistics.get_missed_times, statistics.get_message_nums) == (1, 1, 3)
    assert statistics.item("GROUP_GET_NUMS", "TopicA@CG").value == 3
    assert rig.broker.consumer_offsets.pulls.of("CG", "TopicA", 0) == 3


@pytest.mark.parametrize("how", ["damaged", "unmapped"])
def test_a_held_pull_of_a_queue_that_is_damaged_meanwhile_is_refused_alone(rig, how):
    rig.heartbeat("CG2", "TopicA", channel=2, client_id="c2")
    assert rig.pull_outcome(queue_offset=3, channel=1) is HOLD
    assert rig.pull_outcome(queue_offset=0, queue_id=1, channel=2, group="CG2") is HOLD
    rig.notices()
    rig.send(queue_id=0)
    rig.send(queue_id=1)
    getattr(rig.store, how)["TopicA", 0] = "message 3 of queue 0 of TopicA is damaged"
    codes = [(response.code, response.remark) for response in rig.arrive()]
    assert codes == [(ResponseCode.SYSTEM_ERROR, "message 3 of queue 0 of TopicA is damaged"),
                     (ResponseCode.SUCCESS, "FOUND")]
