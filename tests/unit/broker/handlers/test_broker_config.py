"""Settings shown and changed while the broker runs."""

import json

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.handlers.broker_config import FORBIDDEN_KEYS, UPDATABLE_KEYS
from regulus.broker.runtime_facts import RuntimeFacts
from regulus.model import permission
from regulus.model.fixed_settings import FIXED_BROKER_SETTINGS
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.config_text import config_values, parse_lines


def update(rig, text):
    return rig.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


def test_all_settings_are_shown(rig):
    rig.broker.runtime_facts = RuntimeFacts(store_config={"storePathRootDir": "/x"})
    response = rig.ask(RequestCode.GET_BROKER_CONFIG)
    values = parse_lines(response.body.decode())
    assert list(values) == sorted(values)
    for key in ("brokerName", "brokerClusterName", "brokerIP1", "listenPort", "fileReservedTime", "messageDelayLevel",
                "autoCreateTopicEnable", "brokerRole", "filterServerNums", "useTLS", "maxMessageSize"):
        assert key in values
    assert json.loads(response.ext["version"]) == {"counter": 0, "stateVersion": 0, "timestamp": 0}


def test_a_setting_changes_at_once_and_the_version_with_it(rig):
    assert update(rig, "maxMessageSize=10\ntraceOn=false\n").code == ResponseCode.SUCCESS
    assert rig.broker.config.max_message_size == 10
    assert rig.send(body=b"x" * 11).code == ResponseCode.MESSAGE_ILLEGAL
    assert json.loads(rig.ask(RequestCode.GET_BROKER_CONFIG).ext["version"])["counter"] == 1


@pytest.mark.parametrize(("key", "before"), [("enablePopBufferMerge", "false"),
                                             ("enableNotifyAfterPopOrderLockRelease", "true")])
def test_settings_of_pops_change_while_the_broker_runs_and_begin_as_rocketmqs(rig, key, before):
    def shown() -> str:
        return parse_lines(rig.ask(RequestCode.GET_BROKER_CONFIG).body.decode())[key]

    after = {"true": "false", "false": "true"}[before]
    assert shown() == before
    assert update(rig, f"{key}={after}").code == ResponseCode.SUCCESS
    assert shown() == after


def test_updatable_keys_are_settings_of_the_broker():
    assert set(config_values(BrokerConfig())) >= UPDATABLE_KEYS
    assert UPDATABLE_KEYS.isdisjoint(FORBIDDEN_KEYS)


@pytest.mark.parametrize("key", sorted(FORBIDDEN_KEYS))
def test_some_settings_may_never_change_from_outside(rig, key):
    assert update(rig, f"{key}=x").code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(("text", "remark"), [
    ("listenPort=1", "listenPort cannot change"), ("brokerName=x", "brokerName cannot change"),
    ("noSuchKey=1", "noSuchKey cannot change"), ("traceOn=perhaps", "traceOn"), ("maxMessageSize=0", "maxMessageSize"),
    ("maxMessageSize=many", "maxMessageSize"), (f"flushDelayOffsetInterval={'9' * 400}", "whole number"),
    ("flushConsumerOffsetInterval=0", "flushConsumerOffsetInterval"), ("shortPollingTimeMills=-1", "shortPolling"),
    ("", "no key=value line")])
def test_what_cannot_be_changed_is_named(rig, text, remark):
    before = rig.broker.config
    response = update(rig, text)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert remark in response.remark
    assert rig.broker.config == before


@pytest.mark.parametrize(("key", "text"), [
    ("duplicationEnable", "true"),
    ("storeType", "defaultRocksDB"), ("readOnlyCommitLogStorePaths", "/b,/c")])
def test_what_is_not_served_is_refused_with_what_to_do_instead(rig, key, text):
    response = update(rig, f"traceOn=false\n{key}={text}")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark.startswith(f"{key}={text} is not served: ")
    assert response.remark.endswith(f"; write {key}={FIXED_BROKER_SETTINGS[key].value}")
    assert rig.broker.config.trace_on is True


def test_what_holds_already_may_be_said_again(rig):
    assert update(rig, "traceOn=false\nbrokerRole=ASYNC_MASTER\nenableLmq=FALSE").code == ResponseCode.SUCCESS
    assert rig.broker.config.trace_on is False
    refused = update(rig, "brokerRole=SLAVE")
    assert refused.remark.startswith("brokerRole cannot change while the broker runs")


def test_all_keys_or_none(rig):
    update(rig, "traceOn=false\nlistenPort=1")
    assert rig.broker.config.trace_on is True


def test_topics_stop_making_themselves_and_begin_again(rig):
    update(rig, "autoCreateTopicEnable=false")
    assert rig.send(topic="New", default_topic="TBW102").code == ResponseCode.TOPIC_NOT_EXIST
    update(rig, "autoCreateTopicEnable=true")
    assert rig.send(topic="New", default_topic="TBW102").code == ResponseCode.SUCCESS


def test_topics_begin_to_make_themselves(make_rig):
    rig = make_rig(auto_create_topic_enable=False)
    update(rig, "autoCreateTopicEnable=true")
    assert rig.send(topic="New", default_topic="TBW102").code == ResponseCode.SUCCESS


def test_groups_stop_making_themselves(rig):
    update(rig, "autoCreateSubscriptionGroup=false")
    rig.heartbeat("New", "TopicA")
    assert "New" not in rig.broker.subscription_groups


def register_body(broker):
    return broker.register_body(broker.topics.names(), broker.topics.data_version)


def test_a_broker_closed_for_writing_tells_its_name_servers(rig):
    before = rig.broker.registration_changed
    update(rig, "brokerPermission=4")
    assert rig.broker.registration_changed != before
    table = register_body(rig.broker).topic_config_serialize_wrapper.topic_config_table
    assert not any(permission.is_writable(config.perm) for config in table.values())
