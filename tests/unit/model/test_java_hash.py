import pytest

from regulus.model.java_hash import hash_on, java_hash, java_hash_of, tags_code


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


@pytest.mark.parametrize("text", ["", "TagA", "TopicA#k1", "polygenelubricants"])
def test_the_hash_of_bytes_is_that_of_their_text(text):
    data = f"<{text}>".encode()
    assert java_hash_of(data, 1, len(data) - 1) == java_hash(text)
    assert hash_on(hash_on(0, data, 0, 2), data, 2, len(data)) == java_hash(f"<{text}>") & 0xFFFFFFFF
