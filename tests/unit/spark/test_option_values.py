import pytest

from regulus.errors import OptionError
from regulus.spark import option_values


def test_options_get_their_own_spelling():
    assert option_values.known_values({"BATCHROWS": "1"}, ("batchRows",), {}) == {"batchRows": "1"}


@pytest.mark.parametrize("key", ["group.id", "kafka.anything"])
def test_an_owned_option_is_refused_with_its_advice(key):
    with pytest.raises(OptionError, match=f"option '{key}' cannot be set: do this"):
        option_values.known_values({key: "x"}, ("groups",), {"group.id": "do this", "kafka.": "do this"})


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
