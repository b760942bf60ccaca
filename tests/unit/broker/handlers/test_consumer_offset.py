"""Queries and commits of consumer offsets."""

from regulus.broker.groups.consumer_offsets import NOT_FOUND
from regulus.record.pop_record import REVIVE_GROUP
from regulus.wire.codes import ResponseCode


def test_a_committed_offset_is_found(rig):
    rig.send()
    rig.broker.subscription_groups.find("CG", 0)
    assert rig.commit(5).code == ResponseCode.SUCCESS
    assert rig.offset().ext == {"offset": "5"}
    assert rig.commit(2).code == ResponseCode.SUCCESS
    assert rig.offset().ext == {"offset": "2"}


def test_a_new_group_starts_a_young_queue_at_its_start(rig):
    rig.send()
    assert rig.offset().ext == {"offset": "0"}


def test_unless_it_asks_for_the_plain_truth(rig):
    rig.send()
    response = rig.offset(set_zero_if_not_found=False)
    assert response.code == ResponseCode.QUERY_NOT_FOUND


def test_a_queue_that_lost_messages_is_not_young(rig, monkeypatch):
    rig.send()
    monkeypatch.setattr(rig.store, "min_offset", lambda topic, queue_id: 100)
    response = rig.offset()
    assert response.code == ResponseCode.QUERY_NOT_FOUND
    assert response.remark.startswith("Not found, V3_0_6_SNAPSHOT")


def test_commits_that_are_refused(rig):
    """A commit makes no group, even where a heartbeat would."""
    rig.send()
    assert rig.commit(1).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert rig.commit(1, group="TOOLS_CONSUMER", topic="Nothing").code == ResponseCode.TOPIC_NOT_EXIST
    assert rig.commit(1, group="TOOLS_CONSUMER").code == ResponseCode.SUCCESS


def test_until_a_reset_was_told_commits_do_nothing(rig):
    rig.send()
    rig.broker.subscription_groups.find("CG", 0)
    rig.broker.consumer_offsets.assign_reset("CG", "TopicA", 0, 3)
    response = rig.commit(9)
    assert (response.code, response.remark) == (ResponseCode.SUCCESS, "Offset has been previously reset")
    assert rig.offset().ext == {"offset": "3"}
    rig.broker.consumer_offsets.take_reset("CG", "TopicA", 0)
    rig.commit(9)
    assert rig.offset().ext == {"offset": "9"}


def test_a_slave_that_tells_of_a_group_makes_it(rig):
    rig.send()
    assert rig.commit(7, set_backs=0).code == ResponseCode.SUCCESS
    assert "CG" in rig.broker.subscription_groups
    assert rig.offset().ext == {"offset": "7"}


def test_no_group_is_made_for_a_topic_that_is_not_there(rig):
    assert rig.commit(7, topic="Nothing", set_backs=0).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "CG" not in rig.broker.subscription_groups


def test_a_slave_that_has_not_heard_of_a_deletion_brings_no_group_back(rig):
    rig.send()
    rig.commit(7, set_backs=0)
    rig.broker.subscription_groups.delete("CG", 0)
    rig.broker.forget_group("CG", 0)
    assert rig.commit(7, set_backs=0).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "CG" not in rig.broker.subscription_groups


def test_how_far_pops_are_done_is_the_brokers_own_whoever_says_that_it_was_told_by_a_slave(rig):
    """A commit further on would have all pops before it forgotten, and their messages never come again."""
    rig.send()
    rig.broker.subscription_groups.find(REVIVE_GROUP, 0)
    for set_backs in (None, 0):
        assert rig.commit(7, group=REVIVE_GROUP, set_backs=set_backs).code == ResponseCode.NO_PERMISSION
    assert rig.broker.consumer_offsets.query(REVIVE_GROUP, "TopicA", 0) == NOT_FOUND
