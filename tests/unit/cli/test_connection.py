"""What the client commands have in common."""

import pytest

from regulus.cli.connection import Moment
from regulus.cli.group import group


@pytest.mark.parametrize(("text", "moment"), [("1700000000000", 1700000000000), ("1970-01-01T00:00:01+00:00", 1000)])
def test_times_are_written_as_ms_or_as_dates(text, moment):
    assert Moment().convert(text, None, None) == moment


def test_an_unreadable_time_is_refused_with_examples(run):
    assert "an age such as 30m" in run(group, "reset", "g", "t", "--time", "soon", fails=True)


def test_an_age_is_a_time_before_now():
    assert Moment().convert("1m", None, None) - Moment().convert("1h", None, None) - 59 * 60_000 + 1000 > 0
