"""The broker as a whole: what it saves, registers and does in time."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.groups.consumer_offsets import NOT_FOUND
from regulus.broker.kept_parts import When
from regulus.broker.state import BrokerState
from regulus.errors import HeaderError
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.testing.memory_store import MemoryStore
from regulus.wire import encoded_table
from regulus.wire.codes import RequestCode
from regulus.wire.headers import DeleteSubscriptiongroupRequest, DeleteTopicInBrokerRequest


def broker(**settings: object) -> BrokerState:
    return BrokerState(BrokerConfig(**settings), MemoryStore(), now_ms=0, seed=1)


def test_the_parts_say_what_of_them_is_worth_saving():
    state = broker()
    changes = {kept.name: kept.part.changes for kept in state.kept_parts}
    assert [kept.name for kept in state.kept_parts if kept.saved != changes[kept.name]] == [
        "topics", "subscriptionGroup", "consumerOffset", "delayOffset", "regulusPops", "regulusSinkMarks"]
    state.consumer_offsets.commit("G", "T", 0, 1)
    state.topics.put(TopicConfig(topic_name="T"), 1)
    assert [kept.name for kept in state.kept_parts if kept.part.changes != changes[kept.name]] == [
        "topics", "regulusTopicEpochs", "consumerOffset"]


def test_a_damaged_document_is_named():
    with pytest.raises(HeaderError, match=r"subscriptionGroup\.json: .*subscriptionGroupTable"):
        broker().load_documents({"topics": "{}", "subscriptionGroup": '{"subscriptionGroupTable":1}'})


def test_a_number_beyond_all_numbers_is_damage_like_another():
    with pytest.raises(HeaderError, match=r"regulusArchive\.json"):
        broker().load_documents({"regulusArchive": '{"archivedPhysicalOffset":1e400}'})


def test_a_delivery_after_its_delay_is_saved_with_the_offsets(rig):
    rig.send(properties={"DELAY": "1", "UNIQ_KEY": "K"})
    (kept,) = [kept for kept in rig.broker.kept_parts if kept.name == "delayOffset"]
    changes = kept.part.changes
    rig.run(999)
    assert kept.part.changes == changes
    rig.run(1)
    assert kept.part.changes != changes
    assert kept.when is When.LATER
    assert json.loads(encoded_table.text(kept.part.document()))["offsetTable"] == {"1": 1}


def test_a_broker_goes_on_where_an_earlier_one_stopped():
    state = broker()
    state.topics.put(TopicConfig(topic_name="T", read_queue_nums=7), 1)
    state.subscription_groups.find("G", 1)
    state.consumer_offsets.commit("G", "T", 3, 42)
    again = broker()
    again.load_documents(state.documents())
    assert again.topics.get("T").read_queue_nums == 7
    assert "G" in again.subscription_groups
    assert again.consumer_offsets.query("G", "T", 3) == 42


def test_missing_and_empty_documents_are_passed_by():
    broker().load_documents({"topics": "", "subscriptionGroup": " \n", "unknown": "x"})


def test_what_a_document_of_another_broker_asks_for_in_vain_is_told():
    state = broker()
    assert state.unserved_attributes() == []
    asked = {"cleanup.policy": "COMPACTION", "queue.type": "BatchCQ", "message.type": "PRIORITY"}
    state.topics.put(TopicConfig(topic_name="B", attributes=asked), 1)
    state.subscription_groups.put(SubscriptionGroupConfig(group_name="G", attributes={"priority.factor": "5"}), 1)
    again = broker()
    again.load_documents(state.documents())
    assert [text.partition(":")[0] for text in again.unserved_attributes()] == ["topic B"]


def test_a_read_only_broker_registers_its_topics_so():
    state = broker(broker_permission=4)
    body = state.register_body(state.topics.names(), state.topics.data_version)
    table = body.topic_config_serialize_wrapper.topic_config_table
    assert (table["TBW102"].perm, table["BenchmarkTest"].perm) == (5, 4)


def test_settings_take_effect_on_the_next_send(rig):
    rig.send()
    rig.broker.set_config(replace(rig.broker.config, max_message_size=3))
    assert rig.send(body=b"long").code == 13


def test_made_keys_differ_and_carry_the_time_of_the_month():
    from regulus.model.message_id import unique_key_month_ms

    state = broker(broker_ip1="10.0.0.1")
    keys = {state.make_unique_key(1_700_000_000_000) for _ in range(100)}
    assert len(keys) == 100
    assert {unique_key_month_ms(key) for key in keys} == {1_700_000_000_000 - 1_698_796_800_000}


def test_an_idle_broker_wants_to_be_called_for_its_delays():
    assert broker().tick(0) == 100


@pytest.mark.parametrize("name", ["topics", "subscriptionGroup", "consumerOffset", "delayOffset", "consumerFilter"])
def test_files_of_rocketmq_4_9_8_are_read(name):
    config = Path(__file__).parents[2] / "golden" / "store-4.9.8" / "config" / f"{name}.json"
    state = broker()
    state.load_documents({name: config.read_text()})
    if name == "topics":
        assert state.topics.get("SOrder").order
    if name == "consumerOffset":
        assert state.consumer_offsets.query("CG_all", "SNormal", 1) == 111


# --- a slave ---------------------------------------------------------------------------------------------------------


def follow(slave, master, is_copy=True):
    documents = master.broker.documents()
    return slave.broker.follow(documents, slave.broker.store.commit_log_max_offset(), slave.now_ms, is_copy=is_copy)


@pytest.fixture
def pair(make_rig):
    """A master with a topic, a group and what it committed; and a slave that knows that."""
    master, slave = make_rig(), make_rig(broker_role="SLAVE", broker_id=1, namesrv_addr="n:1")
    master.send()
    master.heartbeat("CG", "TopicA")
    master.commit(5)
    follow(slave, master)
    assert slave.broker.consumer_offsets.query("CG", "TopicA", 0) == 5
    return master, slave


def test_offsets_of_a_topic_that_is_made_anew_are_forgotten_at_the_slave(pair):
    master, slave = pair
    master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequest("TopicA").ext())
    master.now_ms += 1
    master.send()
    assert follow(slave, master) == []
    assert slave.broker.consumer_offsets.query("CG", "TopicA", 0) == NOT_FOUND


def test_offsets_of_a_group_that_is_deleted_are_forgotten_at_the_slave(pair):
    master, slave = pair
    master.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteSubscriptiongroupRequest(
        group_name="CG", clean_offset=True).ext())
    assert follow(slave, master) == []
    assert slave.broker.consumer_offsets.query("CG", "TopicA", 0) == NOT_FOUND


def test_offsets_of_a_group_that_came_to_the_slave_while_the_master_was_away_stay(pair):
    master, slave = pair
    slave.heartbeat("Newcomer", "TopicA")
    slave.commit(3, group="Newcomer")
    assert [(each.group, each.consumer_offset) for each in follow(slave, master)] == [("Newcomer", 3)]
    assert slave.broker.consumer_offsets.query("Newcomer", "TopicA", 0) == 3


def test_a_slave_whose_log_may_be_another_one_neither_takes_nor_tells_offsets(pair):
    master, slave = pair
    slave.commit(7)
    master.commit(6)
    assert follow(slave, master, is_copy=False) == []
    assert slave.broker.consumer_offsets.query("CG", "TopicA", 0) == 7
    assert [each.consumer_offset for each in follow(slave, master)] == [7]


def test_an_offset_says_what_was_consumed_of_this_log(pair):
    master, _ = pair
    assert master.store.max_offset("TopicA", 0) == 1
    master.broker.lower_offsets(master.now_ms)
    assert master.broker.consumer_offsets.query("CG", "TopicA", 0) == 1


def test_delayed_messages_that_wait_for_a_missing_file_are_known_to_the_slave(pair):
    master, slave = pair
    master.broker.delay_schedule._again.append((3, 0, 2))
    master.broker.delay_schedule.offset_table[3] = 2
    for rig in pair:
        rig.broker.delay_schedule._store.max_offset = lambda topic, queue_id: 2
    for _ in range(2):
        follow(slave, master)
        assert list(slave.broker.delay_schedule._again) == [(3, 0, 2)]
