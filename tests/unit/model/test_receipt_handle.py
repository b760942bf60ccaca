"""Receipts of popped messages, and the topics that they speak of by a flag."""

import pytest

from regulus.errors import HeaderError
from regulus.model import receipt_handle
from regulus.model.receipt_handle import ReceiptHandle

HANDLE = ReceiptHandle(10, 1_700_000_000_123, 60_000, 5, "1", "broker-a", 3, 12)
TEXT = "10 1700000000123 60000 5 1 broker-a 3 12"
NUMBER = 10**19 - 1


def test_a_receipt_is_written_and_read_as_rocketmq_has_it():
    assert receipt_handle.encode(HANDLE) == TEXT
    assert receipt_handle.decode(TEXT) == HANDLE


def test_a_receipt_of_old_clients_has_no_offset():
    assert receipt_handle.decode("10 1700000000123 60000 5 0 broker-a 3") == ReceiptHandle(
        10, 1_700_000_000_123, 60_000, 5, "0", "broker-a", 3, -1)


def test_the_proxy_of_rocketmq_sends_the_physical_offset_along():
    assert receipt_handle.decode(f"{TEXT} 897") == HANDLE
    assert receipt_handle.decode_placed(f"{TEXT} 897") == (HANDLE, 897)
    assert receipt_handle.decode_placed(TEXT) == (HANDLE, receipt_handle.UNKNOWN)


@pytest.mark.parametrize("text", ["", "1 2 3 4 0 b", "1 2 3 4 3 b 5 6", "1 2 3 4  b 5 6", "x 2 3 4 0 b 5 6",
                                  "1 2 3 4 0 b 5 1e3", "1 2 3 4 0 b 5 ٣", "1 2 3 4 0 b 5 --6",
                                  f"1{'0' * 19} 2 3 4 0 b 5 6", "1 2 3 4 0 b 5 6 7 8", "1 2 3 4 0 b 5 6 x",
                                  "1 2 3 4 0  5 6", "1 -2 3 4 0 b 5 6", "1 2 -3 4 0 b 5 6", "1 2 3 -4 0 b 5 6",
                                  "1 2 3 4 0 b -5 6", f"1 2 3 4 0 b {1 << 31} 6", f"1 2 3 {1 << 31} 0 b 5 6",
                                  f"{1 << 63} 2 3 4 0 b 5 6", f"1 {1 << 63} 3 4 0 b 5 6", f"1 2 {1 << 63} 4 0 b 5 6",
                                  f"1 2 3 4 0 b 5 {1 << 63}", f"1 2 3 4 0 b 5 6 {1 << 63}",
                                  f"1 2 3 4 0 {'b' * 256} 5 6", "1 2 3 4 0 b 5 6\n"])
def test_what_is_no_receipt_is_refused(text):
    with pytest.raises(HeaderError):
        receipt_handle.decode(text)


def test_the_longest_receipt_is_as_long_as_is_said():
    longest = ReceiptHandle(NUMBER, NUMBER, NUMBER, NUMBER, "1", "bröker", NUMBER, NUMBER)
    assert len(receipt_handle.encode(longest).encode()) == receipt_handle.size_max("bröker")


@pytest.mark.parametrize(("flag", "topic"), [("0", "T"), ("1", "%RETRY%G_T"), ("2", "%RETRY%G+T")])
def test_a_flag_says_from_which_topic_a_message_was_popped_and_back(flag, topic):
    assert receipt_handle.real_topic("T", "G", flag) == topic
    assert receipt_handle.retry_flag(topic, "G") == flag
    assert receipt_handle.normal_topic(topic, "G") == "T"


def test_a_retry_topic_of_another_group_is_a_topic_like_others():
    assert receipt_handle.normal_topic("%RETRY%H_T", "G") == "%RETRY%H_T"
