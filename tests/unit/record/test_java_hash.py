import pytest

from regulus.record.java_hash import java_hash, tags_code


@pytest.mark.parametrize(("text", "value"), [
    ("", 0), ("TagA", 2598919), ("TopicA#k1", -1903240649), ("polygenelubricants", -(2**31)), ("标签", 857175),
    ("\U0001f680", 1773027), ("a\U0001f680b", 31 * (31 * (31 * 97 + 0xD83D) + 0xDE80) + 98),
])
def test_java_hash(text, value):
    assert java_hash(text) == value


@pytest.mark.parametrize("tags", [None, ""])
def test_no_tags_have_code_0(tags):
    assert tags_code(tags) == 0


def test_the_code_of_tags_is_their_hash():
    assert tags_code("TagA") == 2598919
