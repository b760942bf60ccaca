"""The consumer groups that a broker knows."""

from regulus.broker.groups.subscription_groups import SubscriptionGroups
from regulus.model.topics import SYSTEM_GROUPS, SubscriptionGroupConfig
from regulus.wire import encoded_table


def test_system_groups_are_always_there():
    assert set(SYSTEM_GROUPS) <= set(SubscriptionGroups(False).names())


def test_a_group_makes_itself_only_where_it_may():
    open_groups, closed = SubscriptionGroups(True), SubscriptionGroups(False)
    assert open_groups.find("G", 1).retry_max_times == 16
    assert open_groups.changes == 1
    assert closed.find("G", 1) is None
    assert open_groups.find("bad name", 1) is None
    assert open_groups.find("g" * 121, 1) is None
    assert open_groups.get("Other") is None


def test_a_topic_can_be_closed_to_a_group_and_opened_again():
    groups = SubscriptionGroups(True)
    groups.set_readable("G", "T", False, 1)
    assert not groups.is_readable("G", "T")
    assert groups.is_readable("G", "Other")
    changes = groups.changes
    groups.set_readable("G", "T", False, 2)
    assert groups.changes == changes
    groups.set_readable("G", "T", True, 3)
    assert groups.is_readable("G", "T")
    assert groups.forbidden == {}


def test_groups_are_saved_and_loaded():
    groups = SubscriptionGroups(True)
    groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=3, consume_message_orderly=True), 5)
    groups.set_readable("G", "T", False, 6)
    again = SubscriptionGroups(True)
    again.load(encoded_table.text(groups.document()))
    assert (again.table, again.forbidden, again.data_version) == (groups.table, groups.forbidden, groups.data_version)


def test_a_deleted_group_leaves_nothing():
    groups = SubscriptionGroups(False)
    groups.put(SubscriptionGroupConfig(group_name="G"), 1)
    groups.set_readable("G", "T", False, 1)
    assert groups.delete("G", 2)
    assert not groups.delete("G", 2)
    assert groups.is_readable("G", "T")
