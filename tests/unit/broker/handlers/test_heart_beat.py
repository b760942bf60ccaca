"""Clients come and go, and the others of their group hear of it."""

import pytest

from regulus.broker.groups.clients import PRODUCER_GROUPS_MAX
from regulus.broker.outcome import HOLD
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.wire import fastjson
from regulus.wire.bodies import CheckClientConfigBody, ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import UnregisterClientRequest


def test_the_first_heartbeat_of_a_group_makes_it_and_its_retry_topic(rig):
    response = rig.heartbeat("CG", "TopicA")
    assert response.code == ResponseCode.SUCCESS
    assert response.version >= 401
    assert "CG" in rig.broker.subscription_groups
    retry = rig.broker.topics.get("%RETRY%CG")
    assert (retry.read_queue_nums, retry.write_queue_nums, retry.perm) == (1, 1, 6)


def test_a_group_that_does_not_retry_gets_no_retry_topic(rig):
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG", retry_queue_nums=0), 0)
    rig.heartbeat("CG", "TopicA")
    assert "%RETRY%CG" not in rig.broker.topics


def test_the_retry_topic_of_an_ordered_topic_is_ordered(rig):
    rig.broker.topics.put(TopicConfig(topic_name="Order", order=True), 0)
    rig.heartbeat("CG", "Order")
    assert rig.broker.topics.get("%RETRY%CG").order


def test_an_unknown_group_that_may_not_be_made_does_not_join(make_rig):
    rig = make_rig(auto_create_subscription_group=False)
    assert rig.heartbeat("CG", "TopicA").code == ResponseCode.SUCCESS
    assert rig.broker.clients.consumer_group("CG") is None


def test_who_joins_is_told_to_all_of_the_group_once(rig):
    rig.heartbeat("CG", "TopicA")
    assert rig.told() == [1]
    rig.heartbeat("CG", "TopicA")
    assert rig.told() == []
    rig.heartbeat("CG", "TopicA", channel=2, client_id="c2")
    assert rig.told() == [1, 2]


def test_another_set_of_topics_is_told_another_version_is_not(rig):
    rig.heartbeat("CG", "TopicA", sub_version=1)
    rig.told()
    rig.heartbeat("CG", "TopicA", sub_version=2)
    assert rig.told() == []
    assert rig.broker.clients.consumer_group("CG").subscriptions["TopicA"].sub_version == 2
    rig.heartbeat("CG", "TopicA", sub_version=1)
    assert rig.broker.clients.consumer_group("CG").subscriptions["TopicA"].sub_version == 2
    rig.heartbeat("CG", "TopicB", sub_version=3)
    assert rig.told() == [1]
    assert set(rig.broker.clients.consumer_group("CG").subscriptions) == {"TopicB"}


@pytest.mark.parametrize("quiet", ["setting", "broadcasting"])
def test_some_groups_want_no_word(rig, quiet):
    if quiet == "setting":
        rig.broker.subscription_groups.put(
            SubscriptionGroupConfig(group_name="CG", notify_consumer_ids_changed_enable=False), 0)
    rig.heartbeat("CG", "TopicA", message_model="BROADCASTING" if quiet == "broadcasting" else "CLUSTERING")
    assert rig.told() == []


def test_a_client_that_unregisters_leaves_at_once(rig):
    rig.heartbeat("CG", "TopicA", producer_group="PG")
    rig.heartbeat("CG", "TopicA", channel=2, client_id="c2")
    rig.told()
    ext = UnregisterClientRequest(client_id="c1", producer_group="PG", consumer_group="CG").ext()
    assert rig.ask(RequestCode.UNREGISTER_CLIENT, ext).code == ResponseCode.SUCCESS
    assert rig.broker.clients.producer_group("PG") == []
    assert rig.broker.clients.consumer_group("CG").client_ids() == ["c2"]
    assert rig.told() == [2]


def test_a_closed_connection_leaves_at_once(rig):
    rig.heartbeat("CG", "TopicA", producer_group="PG")
    rig.heartbeat("CG", "TopicA", channel=2, client_id="c2")
    rig.told()
    rig.broker.channel_closed(1, rig.now_ms)
    assert rig.broker.clients.producer_group("PG") == []
    assert rig.told() == [2]


def test_a_silent_client_leaves_after_two_minutes_and_a_scan(rig):
    rig.heartbeat("CG", "TopicA", producer_group="PG")
    rig.heartbeat("CG", "TopicA", channel=2, client_id="c2")
    rig.run(60_000)
    rig.heartbeat("CG", "TopicA", channel=2, client_id="c2")
    rig.notices()
    rig.run(60_000)
    assert len(rig.broker.clients.consumer_group("CG").clients) == 2
    rig.run(10_100)
    assert rig.broker.clients.consumer_group("CG").client_ids() == ["c2"]
    assert rig.broker.clients.producer_group("PG") == []
    assert len(rig.notices()) == 1
    rig.run(70_000)
    assert rig.broker.clients.consumer_group("CG") is None


def test_a_heartbeat_without_subscriptions_keeps_those_that_are_known(rig):
    first = rig.heartbeat("CG", "TopicA", heartbeat_fingerprint=5)
    assert first.ext == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    again = rig.heartbeat("CG", heartbeat_fingerprint=5, without_sub=True)
    assert again.ext["IS_SUB_CHANGE"] == "false"
    assert set(rig.broker.clients.consumer_group("CG").subscriptions) == {"TopicA"}
    assert rig.heartbeat("CG", heartbeat_fingerprint=6, without_sub=True).ext["IS_SUB_CHANGE"] == "true"


@pytest.mark.parametrize(("allowed", "expression_type", "expression", "code"), [
    (False, "TAG", "a", 0), (False, "SQL92", "a > 5", 1), (True, "SQL92", "a > 5", 0), (True, "SQL92", "a >", 23)])
def test_a_consumer_learns_before_it_starts_whether_its_filter_is_served(make_rig, allowed, expression_type,
                                                                         expression, code):
    rig = make_rig(enable_property_filter=allowed)
    subscription = SubscriptionData(topic="TopicA", sub_string=expression, expression_type=expression_type)
    body = CheckClientConfigBody(client_id="c1", group="CG", subscription_data=subscription)
    assert rig.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode()).code == code


def test_a_body_that_is_no_heartbeat_is_an_error(rig):
    assert rig.ask(RequestCode.HEART_BEAT, body=b"[]").code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("value", ["1e400", "-1e400", "NaN", "Infinity", "9" * 5000, "[" * 100_000 + "]" * 100_000,
                                   "[" * 70 + "]" * 70, '{"a":' * 70 + "1" + "}" * 70, '"\\ud800"'])
@pytest.mark.parametrize("place", ['"codeSet":[%s]', '"tagsSet":[%s]', '"subVersion":%s', '"topic":%s', '"spare":%s'])
def test_a_value_that_nothing_can_be_made_of_is_refused_in_a_sentence(rig, place, value):
    text = '{"clientID":"c1","consumerDataSet":[{"groupName":"CG","subscriptionDataSet":[{"topic":"TopicA",%s}]}]}'
    response = rig.ask(RequestCode.HEART_BEAT, body=(text % (place % value)).encode())
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark.startswith(("JSON ", "SubscriptionData."))
    assert rig.broker.clients.consumer_group("CG") is None


def test_a_heartbeat_that_names_many_topics_is_read_in_steps(rig, monkeypatch):
    monkeypatch.setattr(fastjson, "ITEMS_A_STEP", 10)
    topics = [f"T{number}" for number in range(95)]
    consumer = ConsumerData(group_name="CG", subscription_data_set=[
        SubscriptionData.compile(topic, "*", 1) for topic in topics])
    body = HeartbeatData(client_id="c1", consumer_data_set=[consumer]).encode()
    assert rig.handle(RequestCode.HEART_BEAT, body=body) is HOLD
    for _ in range(8):
        rig.broker.tick(rig.now_ms)
        assert rig.broker.clients.consumer_group("CG") is None      # it counts at once, when all is read
    assert rig.late_answer().code == ResponseCode.SUCCESS
    assert list(rig.broker.clients.consumer_group("CG").subscriptions) == topics


def test_a_client_that_is_gone_before_its_heartbeat_was_read_is_none(rig, monkeypatch):
    monkeypatch.setattr(fastjson, "ITEMS_A_STEP", 1)
    consumer = ConsumerData(group_name="CG", subscription_data_set=[SubscriptionData.compile("T", "*", 1)])
    body = HeartbeatData(client_id="c1", consumer_data_set=[consumer]).encode()
    assert rig.handle(RequestCode.HEART_BEAT, body=body) is HOLD
    rig.broker.channel_closed(rig.peer.channel, rig.now_ms)
    for _ in range(5):
        rig.broker.tick(rig.now_ms)
    assert rig.broker.clients.consumer_group("CG") is None


def heartbeat_of(*topics):
    consumer = ConsumerData(group_name="CG", subscription_data_set=[
        SubscriptionData.compile(topic, "*", 1) for topic in topics])
    return HeartbeatData(client_id="c1", consumer_data_set=[consumer]).encode()


def test_who_unregisters_behind_a_long_heartbeat_is_gone(rig, monkeypatch):
    monkeypatch.setattr(fastjson, "ITEMS_A_STEP", 1)
    assert rig.handle(RequestCode.HEART_BEAT, body=heartbeat_of("T0", "T1")) is HOLD
    ext = UnregisterClientRequest(client_id="c1", producer_group=None, consumer_group="CG").ext()
    assert rig.handle(RequestCode.UNREGISTER_CLIENT, ext) is HOLD
    assert [rig.late_answer().code for _ in range(2)] == [ResponseCode.SUCCESS] * 2
    assert rig.broker.clients.consumer_group("CG") is None


def test_the_newer_of_two_heartbeats_counts_though_it_is_read_sooner(rig, monkeypatch):
    monkeypatch.setattr(fastjson, "ITEMS_A_STEP", 10)
    assert rig.handle(RequestCode.HEART_BEAT, body=heartbeat_of(*[f"T{number}" for number in range(30)])) is HOLD
    assert rig.handle(RequestCode.HEART_BEAT, body=heartbeat_of("Now")) is HOLD
    assert [rig.late_answer().code for _ in range(2)] == [ResponseCode.SUCCESS] * 2
    assert list(rig.broker.clients.consumer_group("CG").subscriptions) == ["Now"]


def test_a_heartbeat_does_not_wait_for_those_of_others(rig, monkeypatch):
    monkeypatch.setattr(fastjson, "ITEMS_A_STEP", 10)
    assert rig.handle(RequestCode.HEART_BEAT, body=heartbeat_of(*[f"T{number}" for number in range(30)])) is HOLD
    assert rig.heartbeat("CG", "TopicA", channel=2, client_id="c2").code == ResponseCode.SUCCESS


def test_the_condition_of_a_group_is_kept_until_a_day_after_its_last_consumer_left(rig):
    for channel in (1, 2):
        rig.heartbeat("CG", "TopicA", expression="a > 1", expression_type="SQL92", channel=channel,
                      client_id=f"c{channel}")
    filters = rig.broker.consumer_filters
    rig.ask(RequestCode.UNREGISTER_CLIENT, UnregisterClientRequest(client_id="c1", consumer_group="CG").ext())
    assert not filters.find("TopicA", "CG").is_dead
    rig.broker.channel_closed(2, rig.now_ms)
    assert filters.find("TopicA", "CG").dead_time == rig.now_ms
    rig.broker.tick(rig.now_ms + 86_399_999)
    assert filters.find("TopicA", "CG") is not None
    rig.broker.tick(rig.now_ms + 86_400_000)
    assert filters.find("TopicA", "CG") is None


def test_the_condition_of_a_group_whose_consumers_fell_silent_or_left_is_dead(rig):
    for group in ("CG", "CG2"):
        rig.heartbeat(group, "TopicA", expression="a > 1", expression_type="SQL92")
    rig.ask(RequestCode.UNREGISTER_CLIENT, UnregisterClientRequest(client_id="c1", consumer_group="CG2").ext())
    filters = rig.broker.consumer_filters
    assert [filters.find("TopicA", group).is_dead for group in ("CG", "CG2")] == [False, True]
    rig.run(140_000)
    assert filters.find("TopicA", "CG").is_dead


def test_a_heartbeat_without_subscriptions_leaves_conditions_alive(rig):
    rig.heartbeat("CG", "TopicA", expression="a > 1", expression_type="SQL92")
    rig.heartbeat("CG", without_sub=True)
    assert not rig.broker.consumer_filters.find("TopicA", "CG").is_dead


def test_who_waits_hears_that_its_group_wants_other_messages_now(rig):
    """It would wait for messages of a tag that nobody wants any more."""
    rig.heartbeat("CG", "TopicA", expression="A")
    rig.send(properties={"UNIQ_KEY": "J"})
    rig.arrive()
    rig.told()
    assert rig.pull_outcome(queue_offset=1) is HOLD
    rig.heartbeat("CG", "TopicA", expression="B", sub_version=2)
    rig.run(100)
    rig.told()
    rig.send(properties={"UNIQ_KEY": "K", "TAGS": "B"})
    assert [answer.code for answer in rig.arrive()] == [ResponseCode.SUCCESS]


def test_who_waits_is_not_woken_by_a_heartbeat_that_says_what_is_known(rig):
    rig.heartbeat("CG", "TopicA", expression="A")
    rig.send(properties={"UNIQ_KEY": "J"})
    rig.arrive()
    assert rig.pull_outcome(queue_offset=1) is HOLD
    rig.heartbeat("CG", "TopicA", expression="A", sub_version=2)
    assert not rig.broker.held_requests.has_ready


def many_producers(*groups):
    named = [ProducerData(group_name=group) for group in groups]
    return HeartbeatData(client_id="c1", producer_data_set=named).encode()


def test_a_connection_does_not_produce_for_any_number_of_groups(rig):
    """Each is kept as long as the connection is, and nobody has to have a right on a producer group."""
    names = [f"PG{number}" for number in range(PRODUCER_GROUPS_MAX + 1)]
    refused = rig.ask(RequestCode.HEART_BEAT, body=many_producers(*names))
    assert (refused.code, f"produces for {PRODUCER_GROUPS_MAX} groups" in refused.remark) == (1, True)
    assert len(rig.broker.clients.producer_groups()) == PRODUCER_GROUPS_MAX
    assert rig.ask(RequestCode.HEART_BEAT, body=many_producers(*names[:5])).code == 0


def test_a_front_produces_for_each_topic_to_which_it_may_send(rig):
    topics = [f"T{number}" for number in range(PRODUCER_GROUPS_MAX + 50)]
    rig.broker.topics.put_all([TopicConfig(topic_name=topic) for topic in topics], rig.now_ms)
    assert rig.ask(RequestCode.HEART_BEAT, body=many_producers(*topics)).code == 0
    assert len(rig.broker.clients.producer_groups()) == len(topics)


def test_own_topics_take_no_room_of_other_groups(rig):
    topics = [f"T{number}" for number in range(PRODUCER_GROUPS_MAX + 50)]
    others = [f"PG{number}" for number in range(PRODUCER_GROUPS_MAX)]
    rig.broker.topics.put_all([TopicConfig(topic_name=topic) for topic in topics], rig.now_ms)
    for _ in range(2):
        assert rig.ask(RequestCode.HEART_BEAT, body=many_producers(*topics)).code == 0
        assert rig.ask(RequestCode.HEART_BEAT, body=many_producers(*others)).code == 0
    assert rig.ask(RequestCode.HEART_BEAT, body=many_producers("one more")).code == 1
    rig.ask(RequestCode.UNREGISTER_CLIENT, UnregisterClientRequest(client_id="c1", producer_group="PG1").ext())
    assert rig.ask(RequestCode.HEART_BEAT, body=many_producers("one more")).code == 0
    assert rig.ask(RequestCode.HEART_BEAT, body=many_producers("PG1")).code == 1


def test_what_is_no_topic_of_its_own_any_more_needs_room_as_others(rig):
    rig.broker.topics.put(TopicConfig(topic_name="T"), rig.now_ms)
    assert rig.ask(RequestCode.HEART_BEAT, body=many_producers("T")).code == 0
    others = [f"PG{number}" for number in range(PRODUCER_GROUPS_MAX)]
    assert rig.ask(RequestCode.HEART_BEAT, body=many_producers(*others)).code == 0
    rig.broker.topics.delete("T", rig.now_ms)
    rig.now_ms += 100_000
    assert rig.ask(RequestCode.HEART_BEAT, body=many_producers("T", *others)).code == 1
    rig.run(60_000)
    assert set(rig.broker.clients.producer_groups()) == set(others)


def test_the_names_of_others_topics_are_no_reason_to_produce_for_more_groups(rig):
    topics = [f"T{number}" for number in range(PRODUCER_GROUPS_MAX + 50)]
    rig.broker.topics.put_all([TopicConfig(topic_name=topic) for topic in topics], rig.now_ms)
    rig.be_guarded(mallory="T1=PUB")
    assert rig.ask(RequestCode.HEART_BEAT, body=many_producers(*topics)).code == 1
    assert len(rig.broker.clients.producer_groups()) == PRODUCER_GROUPS_MAX + 1      # T1 is its own
