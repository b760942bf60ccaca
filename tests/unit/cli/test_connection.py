"""What the client commands have in common."""

import pytest
from click.testing import CliRunner

from regulus.cli.connection import Moment
from regulus.cli.exit_codes import ExitCode
from regulus.cli.group import group


@pytest.mark.parametrize(("text", "moment"), [("1700000000000", 1700000000000), ("1970-01-01T00:00:01+00:00", 1000)])
def test_times_are_written_as_ms_or_as_dates(text, moment):
    assert Moment().convert(text, None, None) == moment


def test_an_unreadable_time_is_refused_with_examples(run):
    assert "an age such as 30m" in run(group, "reset", "g", "t", "--time", "soon", fails=True)


@pytest.mark.parametrize("text", ["-1", "1969-12-31T00:00:00", "9" * 20, "9" * 5000, "0001-01-01", "99999999999d",
                                  "\u00b2", "9999-12-31T23:59:59"])
def test_a_time_that_no_message_can_have_is_refused_in_one_sentence(text):
    done = CliRunner().invoke(group, ["reset", "g", "t", "--time", text])
    assert done.exit_code == ExitCode.USAGE
    assert "is not a time" in done.output


@pytest.mark.parametrize("text", ["1795609864", "20261125", "1", "946684799999"])
def test_a_number_that_is_in_other_units_is_refused(text):
    done = CliRunner().invoke(group, ["reset", "g", "t", "--time", text])
    assert done.exit_code == ExitCode.USAGE
    assert "as ms since 1970 is before the year 2000; write ms, not seconds" in " ".join(done.output.split())


def test_the_beginning_is_a_time():
    assert Moment().convert("0", None, None) == 0
    assert Moment().convert("946684800000", None, None) == 946_684_800_000


def test_an_age_is_a_time_before_now():
    assert Moment().convert("1m", None, None) - Moment().convert("1h", None, None) - 59 * 60_000 + 1000 > 0


def test_one_key_without_the_other_is_told_by_the_names_of_its_options():
    done = CliRunner().invoke(group, ["list", "--access-key", "me"])
    assert done.exit_code == ExitCode.USAGE
    assert "--access-key and --secret-key belong together" in done.output
