"""What a SQL92 condition may not be. What it means stands in the golden tests, by RocketMQ's own evaluator."""

import contextlib
import time

import pytest

from regulus.broker.filters.sql_parser import DEPTH_MAX, EXPRESSION_LENGTH_MAX, compile_condition
from regulus.errors import HeaderError
from tests.sql_conditions import takes


@pytest.mark.parametrize(("text", "place", "why"), [
    ("", "1, the end", "a property, a literal or"),
    ("a >", "4, the end", "a property, a literal or"),
    ("a > 5 b", "7, b", "condition ends"),
    ("(a > 5", "7, the end", r"\) is"),
    ("a = NULL", "5, NULL", "IS NULL"),
    ("NULL <> a", "1, NULL", "IS NULL"),
    ("a BETWEEN 5 AND 1", "11, 5", "above"),
    ("a BETWEEN 'x' AND 'y'", "11, 'x'", "order"),
    ("a > 'x'", "5, 'x'", "order"),
    ("a > (b = 1)", r"5, \(", "order"),
    ("5 IN ('x')", "1, 5", "a property is"),
    ("a IN (5)", "7, 5", "in quotes"),
    ("a IN ()", r"7, \)", "in quotes"),
    ("a CONTAINS b", "12, b", "in quotes"),
    ("a IS 5", "6, 5", "NULL is"),
    ("'x' AND a", "1, 'x'", "neither TRUE"),
    ("5", "1, 5", "neither TRUE"),
    ("NOT 5", "5, 5", "neither TRUE"),
    ("TRUE = 5", "8, 5", "truth value"),
    ("a = 9223372036854775808", "5, 9223372036854775808", "largest"),
    ("a = " + "9" * 5000, "5, 9999", "largest"),
    ("a = 0.0", "5, 0.0", "decimal"),
    ("a = 1e999", "5, 1e999", "decimal"),
    ("a = 'x", "5, '", "no closing quote"),
    ("a ! 5", "3, !", "no word, number, text or sign begins with this"),
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
    ("0x" + "f" * 200 + "p0", True), ("0x" + "f" * 30_000, False), (" " * 1_000 + "7", True),
    (" " * 2_000 + "7", False)])
def test_a_text_that_is_longer_than_any_number_is_none(text, is_read):
    assert takes(compile_condition("a > -1.0"), {"a": text}) is is_read


def test_a_whole_number_has_no_more_characters_either():
    condition = compile_condition("a = 7")
    assert takes(condition, {"a": "0" * 1_099 + "7"})
    assert not takes(condition, {"a": "0" * 1_100 + "7"})


def deep_by_rows() -> str:
    """Comparisons in a row behind each bracket: the tree is as deep as all of them together."""
    text = "a"
    for level in range(49, -1, -1):
        text = text + " = a" * (50 - level)
        text = f"({text})" if level else text
    return text


def test_rows_of_comparisons_within_brackets_are_as_deep_as_all_together():
    with pytest.raises(HeaderError, match="conditions are nested"):
        compile_condition(deep_by_rows())


def test_how_long_a_condition_may_be_is_a_promise():
    assert EXPRESSION_LENGTH_MAX == 16_384


@pytest.mark.parametrize("needle", ["a" * 1191 + "b" + "a" * 8, "a" * 90 + "b" + "a" * 7])
def test_a_text_alike_is_looked_for_in_as_many_steps_as_there_are_characters(needle):
    """Python's own search takes as many as both sizes multiplied: 400 times these."""
    compiled = compile_condition(f"a CONTAINS '{needle}'")

    def took(size):
        value = "a" * size
        times = []
        for _ in range(5):
            began = time.perf_counter_ns()
            for _ in range(20):
                compiled.takes([value])
            times.append(time.perf_counter_ns() - began)
        return min(times)

    assert took(2_400) < 40 * took(len(needle) + 100)


@pytest.mark.parametrize(("text", "needle"), [("x" * 5_000 + "needle", "needle"), ("needle" + "x" * 5_000, "needle"),
                                              ("x" * 5_000, "needle"), ("a.b" * 3_000, "a.b"), ("aXb" * 3_000, "a.b")])
def test_a_text_is_found_in_a_long_one_as_in_a_short_one(text, needle):
    compiled = compile_condition(f"a CONTAINS '{needle}'")
    assert takes(compiled, {"a": text}) is (needle in text)
    assert takes(compile_condition(f"a NOT CONTAINS '{needle}'"), {"a": text}) is (needle not in text)


def test_nothing_to_look_for_is_found_nowhere_and_asks_nothing():
    assert takes(compile_condition("NOT ((a > 5) CONTAINS '')"), {"a": "x"})


def test_digits_are_those_of_one_character_in_java():
    assert takes(compile_condition("a = 5"), {"a": "\u0665"})
    assert not takes(compile_condition("a = 5"), {"a": "\U0001d7d3"})
    assert not takes(compile_condition("NOT (a < 5)"), {"a": "\U0001d7d3"})


def test_leading_zeros_of_any_script_do_not_count():
    condition = compile_condition("a < 9223372036854775807")
    assert takes(condition, {"a": "0" * 40 + "5"})
    assert takes(condition, {"a": "\u0660" * 40 + "\u0665"})
    assert takes(condition, {"a": "-" + "0" * 40})
    assert not takes(condition, {"a": "1" * 40})


@pytest.mark.parametrize(("text", "takes_it"), [
    ("true", True), ("TRUE", True), ("True", True), ("true ", False), ("\u0130" * 14_000, False), ("tru\u0130", False)])
def test_a_truth_value_is_one_word(text, takes_it):
    assert takes(compile_condition("a = TRUE"), {"a": text}) is takes_it


@pytest.mark.parametrize(("condition", "value", "takes_it"), [
    ("a NOT BETWEEN 5 AND 7", "5", False), ("a NOT BETWEEN 5 AND 7", "7", False), ("a NOT BETWEEN 5 AND 7", "4", True),
    ("a > -2147483648", "-2147483648", False), ("a < -2147483647", "-2147483648", True),
    ("a < 0.5", "-0x1p99999", True), ("a < 0.5", "0x1p99999", False), ("a = 1.0", "\x1f1\x01", True),
    ("a = 8.0", "0x1p3f", True), ("a = 8.0", "0x1p3D", True), ("a = 8.0", "0x1p3", True)])
def test_a_corner_is_as_in_java(condition, value, takes_it):
    assert takes(compile_condition(condition), {"a": value}) is takes_it
