import pytest

from regulus.client.core.message_check import check_group, check_message
from regulus.errors import ConfigError, MessageIllegal
from regulus.model import message as message_module
from regulus.model.message import Message

LIMIT = 4 << 20
COMPILED = not message_module.__file__.endswith(".py")


@pytest.mark.parametrize("message", [
    Message("T", b""), Message("T", None), Message("T", b"x" * (LIMIT + 1)), Message("", b"x"),
    Message("a" * 128, b"x"), Message("no spaces", b"x"), Message("SCHEDULE_TOPIC_XXXX", b"x"),
], ids=["empty body", "no body", "body too large", "no topic", "topic too long", "bad character", "system topic"])
def test_faulty_messages_fail_here_with_code_13(message):
    with pytest.raises(MessageIllegal) as caught:
        check_message(message, LIMIT)
    assert caught.value.code == 13


@pytest.mark.parametrize("properties", [
    {"a\x01b": "c"}, {"a\x02b": "c"}, {"a": "b\x01c"}, {"a": "b\x02TAGS\x01evil"}, {"fine": "1", "TAGS": "x\x02"},
    {"n": 5}, {5: "n"}, {"n": None},
])
def test_properties_that_the_format_cannot_carry_are_refused(properties):
    with pytest.raises(MessageIllegal, match="the message properties"):
        check_message(Message("T", b"x", properties=properties), LIMIT)


@pytest.mark.parametrize("level", ["x", "-1", "", "1.5", "\u0663", "1000000000"])
def test_a_delay_level_that_is_none_is_refused(level):
    with pytest.raises(MessageIllegal, match="the delay level DELAY is"):
        check_message(Message("T", b"x", properties={"DELAY": level}), LIMIT)
    check_message(Message("%RETRY%G", b"x", properties={"DELAY": level}), LIMIT)


@pytest.mark.parametrize("level", ["0", "1", "18", "99"])
def test_a_delay_level_passes_for_the_broker_knows_how_many_there_are(level):
    check_message(Message("T", b"x", properties={"DELAY": level}), LIMIT)


def test_what_a_consumer_sends_on_keeps_its_strange_properties():
    check_message(Message("%RETRY%G", b"x", properties={"a": "b\x01c"}), LIMIT)


def test_a_body_that_became_a_text_is_refused():
    """The compiled message takes none in the first place."""
    def check_it():
        message = Message("T", b"x")
        message.body = "text"
        check_message(message, LIMIT)

    with pytest.raises(TypeError if COMPILED else MessageIllegal, match="str"):
        check_it()


def test_a_body_at_the_limit_passes():
    check_message(Message("T", b"x" * LIMIT), LIMIT)


@pytest.mark.parametrize("group", ["", " ", "g" * 121, "a b", "DEFAULT_PRODUCER"])
def test_faulty_groups_are_refused(group):
    with pytest.raises(ConfigError):
        check_group(group)


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
@pytest.mark.parametrize("value", ["", "x", "1.5", "+5", " 5", "5\n", "\u0663", "1" * 16, "--5"])
def test_a_time_that_is_no_whole_number_is_refused(name, value):
    with pytest.raises(MessageIllegal, match=f"{name} is .*; give a whole number, as a text"):
        check_message(Message("T", b"x", properties={name: value}), LIMIT)
    check_message(Message("%RETRY%G", b"x", properties={name: value}), LIMIT)


@pytest.mark.parametrize("value", ["0", "-5", "1794700800000", "9" * 15])
def test_a_whole_number_is_a_time_also_one_that_is_over(value):
    check_message(Message("T", b"x", properties={"TIMER_DELIVER_MS": value}), LIMIT)


def test_a_level_and_a_time_are_not_both_given():
    both = {"DELAY": "3", "TIMER_DELIVER_MS": "5", "TIMER_DELAY_MS": "5"}
    with pytest.raises(MessageIllegal, match="a delay level and TIMER_DELAY_MS, TIMER_DELIVER_MS; a broker"):
        check_message(Message("T", b"x", properties=both), LIMIT)
    check_message(Message("T", b"x", properties={"DELAY": "0", "TIMER_DELAY_MS": "5"}), LIMIT)


@pytest.mark.parametrize("value", ["x", "-1", "", "1.5", "2147483648"])
def test_a_priority_that_is_none_is_refused(value):
    properties = {"_SYS_MSG_PRIORITY_": value}
    with pytest.raises(MessageIllegal, match="_SYS_MSG_PRIORITY_ is"):
        check_message(Message("T", b"x", properties=properties), LIMIT)
    check_message(Message("%RETRY%G", b"x", properties=properties), LIMIT)


@pytest.mark.parametrize("rival", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "1"}, {"TIMER_DELIVER_MS": "1"},
                                   {"__SHARDINGKEY": "k"}, {"TRAN_MSG": "true"}])
def test_a_priority_that_would_not_count_is_refused(rival):
    with pytest.raises(MessageIllegal, match=f"a priority and {next(iter(rival))}"):
        check_message(Message("T", b"x", properties=rival, priority=3), LIMIT)
    check_message(Message("%RETRY%G", b"x", properties=rival, priority=3), LIMIT)


def test_a_priority_and_a_level_that_is_no_delay_pass():
    check_message(Message("T", b"x", properties={"DELAY": "0"}, priority=3), LIMIT)
