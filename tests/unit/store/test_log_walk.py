"""Whole records in a piece of the log, and reading the log of a store by them."""

from pathlib import Path

import pytest

from regulus.record import message_record
from regulus.store.log_walk import whole_records
from tests.stores import a_message, fill, open_store


def records(count: int, first: int = 0) -> bytes:
    data = b""
    for number in range(count):
        message = a_message(body=b"%d" % number)
        message.physical_offset = first + len(data)
        data += message_record.encode(message)
    return data


def test_records_are_taken_whole_and_the_first_whatever_its_size() -> None:
    data = memoryview(records(3))
    one = len(data) // 3
    assert whole_records(data, 0, 1, 0) == (one, False)
    assert whole_records(data, 0, 2 * one, 0) == (2 * one, False)
    assert whole_records(data, 0, 2 * one + 1, 0) == (2 * one, False)
    assert whole_records(data, one, 1 << 20, one) == (3 * one, False)
    assert whole_records(data[:-1], 0, 1 << 20, 0) == (2 * one, False)


def test_a_blank_ends_the_walk() -> None:
    data = records(2)
    assert whole_records(memoryview(data + message_record.blank(100)), 0, 1 << 20, 0) == (len(data), True)


@pytest.mark.parametrize("position", [1, 4, 28])
def test_nothing_begins_within_a_record(position: int) -> None:
    data = memoryview(records(2))
    assert whole_records(data, position, 1 << 20, position) == (position, False)


def test_a_record_that_is_elsewhere_is_none() -> None:
    assert whole_records(memoryview(records(1, first=4096)), 0, 1 << 20, 0) == (0, False)


def test_a_store_is_read_from_end_to_end(tmp_path: Path) -> None:
    """Across files, only as far as it is asked for, and by any size."""
    store = open_store(tmp_path)
    messages = fill(store, 100)
    assert store.read_log(0, 1 << 20, 0) == (b"", 0)
    flushed = store.flush_commit_log()
    fill(store, 5, first=100)
    begin = messages[99].physical_offset
    assert store.read_log(begin, 1 << 20, flushed) == store.read_log(begin, flushed - begin, flushed)
    for size_max in (1, 1000, 1 << 20):
        bodies, offset = [], 0
        while offset < flushed:
            read = store.read_log(offset, size_max, flushed)
            assert read is not None
            assert read.data
            bodies += [message.body for message in message_record.decode_all(read.data)]
            offset = read.next_offset
        assert bodies == [message.body for message in messages]
        assert offset == flushed
    assert store.read_log(flushed, 100, flushed) == (b"", flushed)
    assert store.read_log(flushed + 1, 100, flushed) is None
    assert store.read_log(10, 100, flushed) is None
    behind = store.read_log(flushed, 1 << 20, store.commit_log_max_offset())
    assert behind is not None
    assert behind.data
    store.close()
