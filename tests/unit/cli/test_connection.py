"""What the client commands have in common."""

import pytest

from regulus.cli.connection import Moment, print_table, time_text
from regulus.cli.group import group


@pytest.mark.parametrize(("text", "moment"), [("1700000000000", 1700000000000), ("1970-01-01T00:00:01+00:00", 1000)])
def test_times_are_written_as_ms_or_as_dates(text, moment):
    assert Moment().convert(text, None, None) == moment


def test_an_unreadable_time_is_refused_with_examples(run):
    assert "an age such as 30m" in run(group, "reset", "g", "t", "--time", "soon", fails=True)


def test_an_age_is_a_time_before_now():
    assert Moment().convert("1m", None, None) - Moment().convert("1h", None, None) - 59 * 60_000 + 1000 > 0


def test_a_table_aligns_numbers_to_the_right(capsys):
    print_table(("NAME", "COUNT"), [("a", 5), ("long name", 1234)])
    assert capsys.readouterr().out.splitlines() == ["NAME       COUNT", "a              5", "long name   1234"]


def test_an_empty_table_is_its_header(capsys):
    print_table(("NAME", "COUNT"), [])
    assert capsys.readouterr().out == "NAME  COUNT\n"


def test_no_time_is_a_dash():
    assert time_text(0) == "-"
    assert ".123" in time_text(1_700_000_000_123)
