"""What a SQL92 condition may not be. What it means stands in the golden tests, by RocketMQ's own evaluator."""

import contextlib
import time

import pytest

from regulus.broker.sql_expression import DEPTH_MAX, EXPRESSION_LENGTH_MAX, compile_condition
from regulus.errors import HeaderError
from tests.sql_conditions import takes


@pytest.mark.parametrize(("text", "place", "why"), [
    ("", "1, the end", "a property, a literal or"),
    ("a >", "4, the end", "a property, a literal or"),
    ("a > 5 b", "7, b", "has ended"),
    ("(a > 5", "7, the end", r"\) must"),
    ("a = NULL", "5, NULL", "IS NULL"),
    ("NULL <> a", "1, NULL", "IS NULL"),
    ("a BETWEEN 5 AND 1", "11, 5", "above"),
    ("a BETWEEN 'x' AND 'y'", "11, 'x'", "order"),
    ("a > 'x'", "5, 'x'", "order"),
    ("a > (b = 1)", r"5, \(", "order"),
    ("5 IN ('x')", "1, 5", "a property must"),
    ("a IN (5)", "7, 5", "in quotes"),
    ("a IN ()", r"7, \)", "in quotes"),
    ("a CONTAINS b", "12, b", "in quotes"),
    ("a IS 5", "6, 5", "NULL must"),
    ("'x' AND a", "1, 'x'", "neither TRUE"),
    ("5", "1, 5", "neither TRUE"),
    ("NOT 5", "5, 5", "neither TRUE"),
    ("TRUE = 5", "8, 5", "truth value"),
    ("a = 9223372036854775808", "5, 9223372036854775808", "largest"),
    ("a = " + "9" * 5000, "5, 9999", "largest"),
    ("a = 0.0", "5, 0.0", "decimal"),
    ("a = 1e999", "5, 1e999", "decimal"),
    ("a = 'x", "5, '", "begins"),
    ("a ! 5", "3, !", "begins"),
])
def test_a_wrong_condition_is_refused_with_its_place(text, place, why):
    with pytest.raises(HeaderError, match=rf"wrong at character {place}.*: .*{why}"):
        compile_condition(text)


@pytest.mark.parametrize("text", ["(" * 60 + "a" + ")" * 60, "NOT " * 60 + "a", "- " * 60 + "a > 5", "a" + " = a" * 60,
                                  "a" + " IS NULL" * 60])
def test_a_deep_condition_is_refused(text):
    with pytest.raises(HeaderError, match=f"more than {DEPTH_MAX} conditions"):
        compile_condition(text)


def test_the_deepest_condition_is_called():
    depth = DEPTH_MAX - 1
    assert takes(compile_condition("(" * depth + "a > 5" + ")" * depth), {"a": "6"})


def test_a_long_condition_is_refused():
    with pytest.raises(HeaderError, match=f"at most {EXPRESSION_LENGTH_MAX}"):
        compile_condition("a" * (EXPRESSION_LENGTH_MAX + 1))


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_a_long_row_of_conditions_is_no_depth(word):
    row = f" {word} ".join(["a = 1"] * (EXPRESSION_LENGTH_MAX // 10))
    assert takes(compile_condition(row), {"a": "1"})


@pytest.mark.parametrize("text", ["/*" + "*" * 16_000, "--" + "-" * 16_000, "'" * 16_001, "/*" * 8_000, "1" * 16_000,
                                  "a IN (" + ",".join(["''"] * 5_000) + ")"])
def test_a_hostile_text_takes_no_long_time(text):
    began = time.process_time()
    with contextlib.suppress(HeaderError):
        compile_condition(text)
    assert time.process_time() - began < 1


def test_a_hostile_property_takes_no_long_time():
    condition = compile_condition("a = 5 OR a = 5.5 OR a = 3000000000")
    began = time.process_time()
    assert not takes(condition, {"a": "9" * 30_000})
    assert time.process_time() - began < 1


@pytest.mark.parametrize(("text", "weight"), [
    ("a = 5", 2), ("a = 5 OR a = 6", 5), ("a IN ('1', '2', '3', '4')", 2), ("((NOT a CONTAINS 'x'))", 3),
    ("a CONTAINS 'x' OR " * 99 + "a CONTAINS 'y'", 299)])
def test_a_condition_weighs_as_its_words_and_signs(text, weight):
    assert compile_condition(text).weight == weight


@pytest.mark.parametrize(("text", "is_read"), [
    ("9" * 300 + ".5", True), ("0." + "0" * 1097 + "1", True), ("0." + "0" * 1098 + "1", False), ("9" * 30_000, False),
    ("0x" + "f" * 200 + "p0", True), ("0x" + "f" * 30_000, False), (" " * 2_000 + "7", True)])
def test_a_text_that_is_longer_than_any_number_is_none(text, is_read):
    assert takes(compile_condition("a > -1.0"), {"a": text}) is is_read


def test_a_whole_number_has_no_more_characters_either():
    condition = compile_condition("a = 7")
    assert takes(condition, {"a": "0" * 1_099 + "7"})
    assert not takes(condition, {"a": "0" * 1_100 + "7"})
