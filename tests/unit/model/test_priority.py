"""How urgent a message is, by its properties."""

import pytest

from regulus.model import priority

PROPERTY = "_SYS_MSG_PRIORITY_"


@pytest.mark.parametrize(("text", "number"), [
    ("0", 0), ("9", 9), ("007", 7), ("+4", 4), ("-0", 0), ("2147483647", 2147483647), ("\u0663", 3),
    ("2147483648", -1), ("3000000000", -1), ("99999999999999999999", -1), ("-1", -1), ("abc", -1), ("", -1), (" 2", -1),
    ("2 ", -1), ("1.5", -1), ("0x1", -1), ("1_0", -1)])
def test_a_priority_is_what_java_reads_as_a_number_of_32_bits(text, number):
    assert priority.of({PROPERTY: text}) == number


def test_a_message_without_the_property_has_none():
    assert priority.of({"PRIORITY": "3"}) == priority.NONE


@pytest.mark.parametrize("properties", [
    {"DELAY": "1"}, {"DELAY": "x"}, {"TIMER_DELAY_SEC": "0"}, {"TIMER_DELAY_MS": "1"}, {"TIMER_DELIVER_MS": "1"},
    {"__SHARDINGKEY": "k"}, {"TRAN_MSG": "true"}, {"TRAN_MSG": "True"}])
def test_what_is_delayed_transactional_or_ordered_has_none(properties):
    assert priority.rival({PROPERTY: "3", **properties}) == next(iter(properties))


@pytest.mark.parametrize("properties", [{}, {"DELAY": "0"}, {"TRAN_MSG": "false"}, {"KEYS": "k"}])
def test_all_else_leaves_it_its_priority(properties):
    assert priority.rival({PROPERTY: "3", **properties}) == ""


@pytest.mark.parametrize(("number", "queues", "queue_id"), [
    (0, 8, 0), (7, 8, 7), (8, 8, 7), (2147483647, 8, 7), (3, 1, 0), (3, 0, 0)])
def test_each_priority_has_its_queue_and_the_last_one_has_the_rest(number, queues, queue_id):
    assert priority.queue_of(number, queues) == queue_id
