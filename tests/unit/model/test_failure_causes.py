"""The causes of failed attempts in a message's properties."""

import pytest

from regulus.model import message_properties
from regulus.model.failure_causes import (
    ATTEMPTS_MAX,
    CAUSES_SIZE_MAX,
    Cause,
    add_cause,
    attempt_of,
    causes_of,
    is_cause,
    newest_cause,
    without_causes,
)


@pytest.mark.parametrize(("name", "attempt"), [
    ("CAUSE_1", 1), ("CAUSE_17", 17), ("CAUSE_STACK", 0), ("CAUSE_", 0), ("CAUSE_x", 0), ("CAUSE_1x", 0),
    ("CAUSE_٣", 0), ("CAUSE_1234567890", 0), ("OTHER", 0)])
def test_the_attempt_of_a_property(name, attempt):
    assert attempt_of(name) == attempt
    assert is_cause(name) is (attempt > 0 or name == "CAUSE_STACK")


def test_causes_are_in_the_order_of_attempts_and_the_newest_has_the_stack():
    properties = {"a": "1"}
    for attempt in (1, 2, 10):
        add_cause(properties, attempt, Cause(f"cause {attempt}", f"stack {attempt}"))
    assert causes_of(properties) == {1: "cause 1", 2: "cause 2", 10: "cause 10"}
    assert list(causes_of(properties)) == [1, 2, 10]
    assert (newest_cause(properties), properties["CAUSE_STACK"]) == ("cause 10", "stack 10")
    add_cause(properties, 11, Cause("cause 11"))
    assert "CAUSE_STACK" not in properties, "it was of another attempt"
    assert without_causes(properties)
    assert properties == {"a": "1"}
    assert not without_causes(properties)
    assert newest_cause(properties) == ""


def test_only_the_newest_attempts_are_kept():
    properties: dict[str, str] = {}
    for attempt in range(1, 40):
        add_cause(properties, attempt, Cause("c"))
    assert list(causes_of(properties)) == list(range(40 - ATTEMPTS_MAX, 40))


def test_what_separates_properties_and_what_is_no_text_is_taken_out():
    properties: dict[str, str] = {}
    add_cause(properties, 1, Cause("a\x01b\x02c\ud800", "\x02"))
    assert properties == {"CAUSE_1": "abc?"}
    assert message_properties.parse(message_properties.format(properties)) == properties


def test_a_stack_keeps_its_innermost_frames():
    properties: dict[str, str] = {}
    add_cause(properties, 1, Cause("c", "outer " * 1_000 + "inner"))
    assert properties["CAUSE_STACK"].endswith("inner")
    assert len(properties["CAUSE_STACK"]) == 2_000


def test_all_causes_together_have_a_limit_in_bytes_at_which_the_stack_goes_first_and_then_the_oldest():
    properties: dict[str, str] = {}
    for attempt in range(1, 17):
        add_cause(properties, attempt, Cause("\N{ROCKET}" * 200, "s" * 2_000))
    assert "CAUSE_STACK" not in properties
    kept = list(causes_of(properties))
    assert kept == list(range(kept[0], 17))
    assert kept[0] > 1
    assert len(message_properties.format(properties).encode()) <= CAUSES_SIZE_MAX


@pytest.mark.parametrize("size", range(30_000, 32_768, 400))
def test_properties_are_never_more_than_a_record_has_room_for(size):
    properties = {"big": "b" * size}
    before = len(message_properties.format(properties).encode())
    for attempt in range(1, 4):
        add_cause(properties, attempt, Cause("c" * 200, "s" * 2_000))
    after = len(message_properties.format(properties).encode())
    assert after <= max(before, message_properties.PROPERTIES_SIZE_MAX - 2_048)
    assert properties["big"] == "b" * size
