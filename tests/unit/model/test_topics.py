import pytest

from regulus.model import topics


@pytest.mark.parametrize("name", ["orders", "%RETRY%group-1", "a|b_C-9", "x" * 127, "%RETRY%" + "x" * 200])
def test_good_names(name):
    assert topics.name_fault(name) is None


@pytest.mark.parametrize(("name", "fault"), [
    ("", "blank"), ("  ", "blank"), ("x" * 128, "max length 127"), ("a b", "illegal"), ("主题", "illegal"),
])
def test_bad_names(name, fault):
    assert fault in topics.name_fault(name)


def test_a_group_name_may_be_shorter_only():
    assert "max length 120" in topics.name_fault("g" * 121, "group")


def test_retry_and_dead_letter_topics():
    assert topics.is_retry_topic(topics.retry_topic("g"))
    assert topics.is_dlq_topic(topics.dlq_topic("g"))
    assert not topics.is_retry_topic("orders")


def test_a_data_version_grows():
    version = topics.DataVersion(counter=3, timestamp=5)
    assert version.next(9) == topics.DataVersion(counter=4, timestamp=9)
