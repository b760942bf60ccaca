"""How numbers, times and strangers' text are written."""

import pytest

from regulus.model.wording import counted, lines, one_line, time_text


def test_one_is_no_plural():
    assert [counted(number, "message") for number in (0, 1, 2)] == ["0 messages", "1 message", "2 messages"]


def test_no_time_is_a_dash():
    assert time_text(0) == "-"
    assert ".123" in time_text(1_700_000_000_123)


@pytest.mark.parametrize(("text", "shown"), [
    ("plain \u00e9 \u4e2d", "plain \u00e9 \u4e2d"), ("a\nb", r"a\nb"), ("a\tb", r"a\tb"), ("\x1b[2J", r"\x1b[2J"),
    ("\x7f\x9b", r"\x7f\x9b"),
    ("\u2028", r"\u2028"), ("\u202egnp", r"\u202egnp"), ("\u2066x", r"\u2066x")])
def test_a_peers_text_is_one_line(text, shown):
    assert one_line(text) == shown


def test_a_body_keeps_its_lines():
    assert lines("a\n\tb\r\x1b") == "a\n\tb\\r\\x1b"
