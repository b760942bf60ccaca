"""Consumer groups made, changed, shown and deleted by operators."""

import json

import pytest

from regulus.broker.outcome import Hold
from regulus.model.message import MessageExt
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.wire.bodies import SubscriptionGroupList, encode_subscription_group_config
from regulus.wire.codes import RequestCode, ResponseCode


def update(rig, config):
    return rig.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_subscription_group_config(config))


def test_a_group_is_made_as_wanted(rig):
    config = SubscriptionGroupConfig(group_name="CG", retry_max_times=5, consume_enable=False)
    assert update(rig, config).code == ResponseCode.SUCCESS
    assert rig.broker.subscription_groups.get("CG") == config


def test_a_group_of_an_old_tool_has_the_defaults_of_what_it_does_not_know(rig):
    body = b'{"brokerId":0,"consumeEnable":true,"groupName":"Old","retryMaxTimes":3}'
    rig.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert rig.broker.subscription_groups.get("Old") == SubscriptionGroupConfig(group_name="Old", retry_max_times=3)


def test_an_unchanged_group_is_not_saved_again(rig):
    config = SubscriptionGroupConfig(group_name="CG")
    update(rig, config)
    changes = rig.broker.subscription_groups.changes
    update(rig, config)
    assert rig.broker.subscription_groups.changes == changes


@pytest.mark.parametrize("name", ["", "a b", "x" * 121])
def test_a_bad_name_is_refused(rig, name):
    assert update(rig, SubscriptionGroupConfig(group_name=name)).code == ResponseCode.INVALID_PARAMETER


def test_a_list_of_groups_is_made_or_refused_as_a_whole(rig):
    configs = [SubscriptionGroupConfig(group_name="One"), SubscriptionGroupConfig(group_name="not good")]
    body = SubscriptionGroupList(group_config_list=configs).encode()
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    assert rig.ask(code, body=body).code == ResponseCode.INVALID_PARAMETER
    assert "One" not in rig.broker.subscription_groups
    assert rig.ask(code, body=SubscriptionGroupList(group_config_list=configs[:1]).encode()).code == 0
    assert "One" in rig.broker.subscription_groups


@pytest.mark.parametrize(("field", "kept"), [({}, True), ({"cleanOffset": "false"}, True),
                                             ({"cleanOffset": "true"}, False), ({"removeOffset": "true"}, False)])
def test_a_deleted_group_keeps_its_offsets_unless_told_otherwise(rig, field, kept):
    rig.send()
    rig.heartbeat("CG", "TopicA")
    rig.commit(1)
    response = rig.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "CG", **field})
    assert response.code == ResponseCode.SUCCESS
    assert "CG" not in rig.broker.subscription_groups
    assert (rig.broker.consumer_offsets.query("CG", "TopicA", 0) == 1) is kept


def deleted(rig, group="CG"):
    return rig.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": group, "cleanOffset": "true"}).code


def with_retries(rig, *topics):
    """The group has popped in vain, and committed elsewhere, too."""
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG"), 0)
    for topic in topics:
        rig.broker.topics.put(TopicConfig(topic_name=topic), 0)
        rig.broker.consumer_offsets.commit("CG", topic, 0, 0)


def popped_in_vain(rig, retry):
    """No client may send there."""
    rig.store.append(MessageExt(retry, b"again", {}), rig.now_ms)
    rig.dispatch()
    assert rig.store.queue_ids(retry) == [0]


def test_a_deleted_group_leaves_no_offset_and_no_topic_of_its_retries(rig):
    with_retries(rig, "T", "%RETRY%CG+T", "%RETRY%CG_T", "%RETRY%CG+U")
    rig.broker.consumer_offsets.commit("other", "T", 0, 5)
    rig.broker.consumer_offsets.pulls.note("CG", "only pulled", 0, 5)
    popped_in_vain(rig, "%RETRY%CG+T")
    assert deleted(rig) == ResponseCode.SUCCESS
    assert [key for key in rig.broker.consumer_offsets.table if key.endswith("@CG")] == []
    assert [topic for topic in rig.broker.topics.names() if topic.startswith("%RETRY%CG")] == []
    assert rig.store.queue_ids("%RETRY%CG+T") == []
    assert len(rig.broker.consumer_offsets.pulls) == 0
    assert "T" in rig.broker.topics
    assert rig.broker.consumer_offsets.query("other", "T", 0) == 5


def test_a_group_that_keeps_its_offsets_keeps_what_it_is_to_try_again(rig):
    with_retries(rig, "T", "%RETRY%CG+T")
    popped_in_vain(rig, "%RETRY%CG+T")
    assert rig.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "CG"}).code == ResponseCode.SUCCESS
    assert "%RETRY%CG+T" in rig.broker.topics
    assert len(rig.stored("%RETRY%CG+T")) == 1


def test_a_deletion_is_done_to_its_end_when_its_asker_has_gone(rig):
    with_retries(rig, "%RETRY%CG+T", "%RETRY%CG+U")
    outcome = rig.handle(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "CG", "cleanOffset": "true"})
    assert isinstance(outcome, Hold)
    rig.broker.channel_closed(rig.peer.channel, rig.now_ms)
    rig.run(100)
    assert [topic for topic in rig.broker.topics.names() if topic.startswith("%RETRY%CG")] == []


def test_what_may_be_the_retry_topic_of_another_group_stays(rig):
    """`%RETRY%CG_T` is that of a group `CG_T`, too."""
    with_retries(rig, "%RETRY%CG_T", "%RETRY%CG+U")
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG_T"), 0)
    rig.broker.consumer_offsets.commit("another", "%RETRY%CG+U", 0, 5)
    assert deleted(rig) == ResponseCode.SUCCESS
    assert "%RETRY%CG_T" in rig.broker.topics
    assert "%RETRY%CG+U" in rig.broker.topics


def test_retries_of_a_group_that_is_made_anew_meanwhile_stay_and_it_begins_behind_them(rig):
    with_retries(rig, "%RETRY%CG+T")
    outcome = rig.handle(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "CG", "cleanOffset": "true"})
    assert isinstance(outcome, Hold)
    rig.broker.subscription_groups.find("CG", rig.now_ms)
    assert rig.late_answer().code == ResponseCode.SUCCESS
    assert "%RETRY%CG+T" in rig.broker.topics
    assert rig.broker.consumer_offsets.query("CG", "%RETRY%CG+T", 0) == 0


def test_all_groups_in_one_page(rig):
    update(rig, SubscriptionGroupConfig(group_name="CG"))
    body = json.loads(rig.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {"groupSeq": "0"}).body)
    assert set(body["subscriptionGroupTable"]) == set(rig.broker.subscription_groups.names())
    assert body["subscriptionGroupTable"]["CG"]["retryMaxTimes"] == 16
    assert body["forbiddenTable"] == {}


def test_one_group_is_shown_and_made_where_groups_make_themselves(rig, make_rig):
    ask = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    assert json.loads(rig.ask(ask, {"group": "New"}).body)["groupName"] == "New"
    strict = make_rig(auto_create_subscription_group=False)
    assert strict.ask(ask, {"group": "New"}).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_reading_is_forbidden_and_allowed_again(rig):
    ext = {"group": "CG", "topic": "TopicA"}
    for readable in (None, False, None, True, None):
        answer = rig.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
                         ext if readable is None else {**ext, "readable": str(readable).lower()})
        is_readable = rig.broker.subscription_groups.is_readable("CG", "TopicA")
        assert json.loads(answer.body) == {**ext, "readable": is_readable}
        assert readable in (None, is_readable)


def test_all_that_speaks_of_a_group_goes_with_it_in_one_step(rig):
    for number in range(100):
        rig.broker.consumer_offsets.commit("CG", f"T{number}", 0, 1)
        rig.broker.statistics.note_get("CG", f"T{number}", 1, 1)
    rig.broker.subscription_groups.find("CG", 0)
    rig.broker.consumer_offsets.commit("Other", "T7", 0, 1)
    ext = {"groupName": "CG", "cleanOffset": "true"}
    assert rig.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, ext).code == ResponseCode.SUCCESS
    assert "CG" not in rig.broker.subscription_groups
    assert rig.broker.consumer_offsets.topics_of("CG") == []
    assert rig.broker.consumer_offsets.topics_of("Other") == ["T7"]
    assert rig.broker.statistics.item("GROUP_GET_NUMS", "T7@CG") is None


def test_a_deletion_is_answered_when_it_is_saved(rig):
    rig.broker.settings.is_kept = True
    rig.broker.subscription_groups.find("Before", 0)
    outcome = rig.handle(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "CG", "cleanOffset": "true"})
    assert outcome.change == rig.broker.settings.count > 0


def group_list(names):
    return json.dumps({"groupConfigList": [{"groupName": name, "retryMaxTimes": 16} for name in names]}).encode()


def test_a_group_deleted_behind_a_list_stays_deleted(rig):
    outcome = rig.handle(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
                         body=group_list([f"g{number}" for number in range(3_000)]))
    assert isinstance(outcome, Hold)
    deletion = rig.handle(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g0", "cleanOffset": "true"})
    assert isinstance(deletion, Hold)       # its turn comes behind the list's
    while rig.broker.tick(rig.now_ms) == 0:
        pass
    assert rig.broker.subscription_groups.get("g1") is not None
    assert rig.broker.subscription_groups.get("g0") is None
