import pytest

from regulus.client.core.message_check import check_group, check_message
from regulus.errors import ConfigError, MessageIllegal
from regulus.model.message import Message

LIMIT = 4 << 20


@pytest.mark.parametrize("message", [
    Message("T", b""), Message("T", None), Message("T", b"x" * (LIMIT + 1)), Message("", b"x"),
    Message("a" * 128, b"x"), Message("no spaces", b"x"), Message("SCHEDULE_TOPIC_XXXX", b"x"),
], ids=["empty body", "no body", "body too large", "no topic", "topic too long", "bad character", "system topic"])
def test_faulty_messages_fail_here_with_code_13(message):
    with pytest.raises(MessageIllegal) as caught:
        check_message(message, LIMIT)
    assert caught.value.code == 13


def test_a_body_at_the_limit_passes():
    check_message(Message("T", b"x" * LIMIT), LIMIT)


@pytest.mark.parametrize("group", ["", " ", "g" * 121, "a b", "DEFAULT_PRODUCER"])
def test_faulty_groups_are_refused(group):
    with pytest.raises(ConfigError):
        check_group(group)
