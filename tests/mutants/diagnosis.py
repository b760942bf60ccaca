"""Faults of `regulus why`: another cause than the true one, a question that changes something, a limit that is none."""

from tests.mutants import Mutant

_GROUP = "regulus/diagnosis/group_checks.py"
_MESSAGE = "regulus/diagnosis/message_checks.py"
_COURSE = "regulus/diagnosis/message_course.py"
_CHECKS = "regulus/diagnosis/checks.py"
_SEARCH = "regulus/diagnosis/message_search.py"
_GATHERING = "regulus/diagnosis/gathering.py"
_CASES = ("tests/unit/diagnosis/test_checks.py::test_facts_give_their_causes",)
_REAL = "tests/unit/diagnosis/test_real_causes.py::"

MUTANTS = [
    Mutant(name="what holds now explains a message that was consumed", path=_CHECKS,
           old="(is_final and finding.cause in _STOP_CONSUMING)", new="(False)", tests=_CASES),
    Mutant(name="a full disk explains a message that is stored", path=_CHECKS,
           old="(is_stored and finding.cause in _STOP_STORING)", new="(False)", tests=_CASES),
    Mutant(name="a note makes a group ill", path=_CHECKS,
           old="all(each.level is Level.NOTE for", new="not any(True for", tests=_CASES),
    Mutant(name="a message at the group's offset was consumed", path=_MESSAGE,
           old="if offset is not None and offset > message.original.queue_offset:",
           new="if offset is not None and offset >= message.original.queue_offset:",
           tests=(_REAL + "test_a_message_is_in_the_hands_of_a_listener",)),
    Mutant(name="a tag of the same hash is wanted", path=_MESSAGE,
           old="message.tags not in subscription.tags_set:", new="False:",
           tests=("tests/unit/diagnosis/test_checks.py::test_a_subscription_takes_what_broker_and_consumer_would_pass",)),
    Mutant(name="a half that was rolled back is open", path=_COURSE,
           old="Stage.ROLLED_BACK if facts.message.half_ended", new="Stage.ROLLED_BACK if False", tests=_CASES),
    Mutant(name="the oldest record decides", path=_COURSE, old="last = facts.message.copies[-1]",
           new="last = facts.message.copies[0]", tests=_CASES),
    Mutant(name="an acknowledged pop is in flight", path=_SEARCH, old="if not ended.endswith(each.unique_key)}",
           new="if True}", tests=(_REAL + "test_a_popped_message_is_in_flight_and_then_acknowledged",)),
    Mutant(name="copies for other groups are this group's", path=_SEARCH,
           old="each.properties.get(names.REAL_TOPIC, topic) in wanted]", new="True]",
           tests=(_REAL + "test_a_retry_of_another_group_is_not_this_groups",)),
    Mutant(name="a unique key is asked for at the address that it seems to have", path=_SEARCH,
           old="    if host_text(host) not in addresses:\n        return None\n", new="",
           tests=("tests/unit/diagnosis/test_message_search.py::test_only_brokers_of_the_cluster_are_asked",)),
    Mutant(name="a diagnosis creates the group", path=_GATHERING,
           old="{broker.text}\", self._admin.group_configs(address))",
           new="{broker.text}\", self._admin.group_configs(address)); "
               "await self._admin.group_config(group, address)",
           tests=(_REAL + "test_a_group_is_unknown_and_a_near_name_is_shown",)),
    Mutant(name="members that did not report own nothing", path=_GROUP,
           old="or not all(_pulls(each) for each in members):", new="or False:", tests=_CASES),
]
