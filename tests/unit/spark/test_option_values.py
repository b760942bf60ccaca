import pytest

from regulus.errors import OptionError
from regulus.spark import option_values


def test_options_get_their_own_spelling():
    assert option_values.known_values({"BATCHROWS": "1"}, ("batchRows",), {}) == {"batchRows": "1"}


@pytest.mark.parametrize(("key", "spelt"), [("groupidprefix", "groupIdPrefix"), ("kafka.anything", "kafka.anything")])
def test_an_owned_option_is_refused_with_its_advice(key, spelt):
    with pytest.raises(OptionError, match=f"option '{spelt}' cannot be set: do this"):
        option_values.known_values({key: "x"}, ("groups",), {"groupIdPrefix": "do this", "kafka.": "do this"})


def test_a_word_may_be_of_any_case():
    assert option_values.word({"a": " EARLIEST "}, "a", "latest", ("earliest", "latest")) == "earliest"
    assert option_values.word({}, "a", "latest", ("earliest", "latest")) == "latest"


@pytest.mark.parametrize("text", ["-1", "+1", "1.5", "٣", "9" * 19, ""])
def test_a_number_is_of_ascii_digits(text):
    with pytest.raises(OptionError, match="from 0 to 9"):
        option_values.number({"a": text}, "a", 0, 0, 9)


@pytest.mark.parametrize("text", ["[1]", "x", '"a"'])
def test_json_must_be_an_object(text):
    with pytest.raises(OptionError, match="write so"):
        option_values.json_object(text, "a", "write so")


@pytest.mark.parametrize("text", ["1795609864", "20261125", "1", "946684799999"])
def test_a_time_in_other_units_than_ms_is_refused(text):
    with pytest.raises(OptionError, match=f"'a' is {text}, which as ms since 1970 is before the year 2000: write ms"):
        option_values.timestamp({"a": text}, "a")


@pytest.mark.parametrize(("text", "ms"), [
    ("0", 0), ("-1", -1), ("946684800000", 946_684_800_000), ("1970-01-01T00:00:01Z", 1000)])
def test_a_time_in_ms_or_as_a_date_is_taken_as_it_is(text, ms):
    assert option_values.timestamp({"a": text}, "a") == ms
