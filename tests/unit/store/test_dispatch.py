import errno
import os
import shutil
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged
from regulus.model.java_hash import tags_code
from regulus.model.store_result import PutStatus
from regulus.model.sys_flag import TRANSACTION_NOT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from regulus.record.message_record import decode
from regulus.store import commit_log
from tests.stores import NOW, a_message, bodies, crashed_copy, dispatch, fill, open_store


def test_a_message_is_visible_once_it_is_dispatched(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    message = a_message(TAGS="TagA")
    store.append(message, NOW)
    assert store.max_offset("TopicA", 0) == 0
    assert store.dispatch_behind_bytes() == message.store_size
    assert [tuple(arrival) for arrival in store.dispatch(10)] == [("TopicA", 0, 0, tags_code("TagA"), NOW, None)]
    assert store.max_offset("TopicA", 0) == 1
    assert store.dispatch_behind_bytes() == 0
    assert store.dispatch(10) == []


def test_halves_have_entries_in_the_index_and_rollbacks_have_none(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number, sys_flag in enumerate((TRANSACTION_NOT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)):
        appended = store.append(a_message(sys_flag=sys_flag, UNIQ_KEY=f"U{number}"), NOW)
        dispatch(store)
        if sys_flag != TRANSACTION_ROLLBACK:
            newest = appended.start
        assert store.query_message("TopicA", "any", 32, 0, 1 << 62).index_last_update_physical_offset == newest


def test_arrivals_are_made_for_wanted_queues_only(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for queue_id in (0, 1, 0, 2):
        store.append(a_message(queue_id=queue_id), NOW)
    arrivals = store.dispatch(10, {("TopicA", 0)})
    assert [(arrival.queue_id, arrival.queue_offset) for arrival in arrivals] == [(0, 0), (0, 1)]
    assert store.max_offset("TopicA", 2) == 1


def test_properties_come_along_when_asked_for(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append(a_message(TAGS="TagA", colour="red"), NOW)
    assert store.dispatch(10, None, True)[0].properties == {"TAGS": "TagA", "colour": "red"}


def test_no_more_than_wanted_at_a_time(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for _ in range(10):
        store.append(a_message(), NOW)
    assert len(store.dispatch(4)) == 4
    assert len(store.dispatch(40)) == 6


def test_a_delayed_message_has_its_delivery_time_for_a_tag(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for level in ("3", "99", "0", "x"):
        store.append(a_message("SCHEDULE_TOPIC_XXXX", TAGS="TagA", DELAY=level), NOW)
    store.append(a_message("TopicA", TAGS="TagA", DELAY="3"), NOW)
    arrivals = store.dispatch(10)
    assert [arrival.tags_code for arrival in arrivals] == [NOW + 10_000, NOW + 7_200_000] + [tags_code("TagA")] * 3
    assert store.queue_units("SCHEDULE_TOPIC_XXXX", 0, 0, 1)[0].tags_code == NOW + 10_000


def test_reading_the_log_and_remembering_it_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same messages, dispatched from memory and rebuilt from the bytes alone."""
    store = open_store(tmp_path / "one")
    for number in range(60):
        store.append(a_message(body=b"x" * (number * 20), queue_id=number % 3, sys_flag=(0, 0, 8, 4, 12)[number % 5],
                               TAGS=("", "TagA", "标签")[number % 3], KEYS=f"k{number} 键", UNIQ_KEY=f"U{number}",
                               DELAY=str(number)), NOW + number)
    dispatch(store)
    copy = crashed_copy(tmp_path / "one", tmp_path / "two")
    for name in ("consumequeue", "index"):
        shutil.rmtree(copy / name)
    rebuilt = open_store(copy)
    assert rebuilt.queues() == store.queues()
    for topic, queue_id in store.queues():
        assert rebuilt.queue_units(topic, queue_id, 0, 100) == store.queue_units(topic, queue_id, 0, 100)
    # Rollbacks, every fifth message, have no keys; halves, the fourth of five, have no unit either.
    assert [(topic, queue_id, store.max_offset(topic, queue_id)) for topic, queue_id in store.queues()] == [
        ("TopicA", 0, 12), ("TopicA", 1, 12), ("TopicA", 2, 12)]
    wanted = {f"{letter}{number}": [number] if number % 5 != 4 else [] for letter in "kU" for number in range(60)}
    wanted["键"] = [number for number in range(60) if number % 5 != 4]
    for key, numbers in wanted.items():
        for each in (rebuilt, store):
            found = [decode(data) for data in each.query_message("TopicA", key, 64, 0, NOW * 2).buffers]
            assert [message.properties["UNIQ_KEY"] for message in found] == [f"U{number}" for number in numbers], key


def test_more_than_it_remembers_is_read_back(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=4 << 20)
    count = commit_log.RECENT_MAX + 10
    for number in range(count):
        store.append(a_message(body=b"%d" % number), NOW)
    dispatch(store)
    assert store.max_offset("TopicA", 0) == count
    assert bodies(store) == [b"%d" % number for number in range(count)]


def test_a_message_changed_after_its_append_is_dispatched_as_it_was(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    message = a_message(TAGS="TagA")
    store.append(message, NOW)
    message.topic = "Other"
    message.properties["TAGS"] = "TagB"
    store.append(message, NOW)
    assert [(arrival.topic, arrival.tags_code) for arrival in store.dispatch(10)] == [
        ("TopicA", tags_code("TagA")), ("Other", tags_code("TagB"))]


def test_a_full_disk_stops_it_and_room_lets_it_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    real = os.posix_fallocate
    messages = [a_message(body=b"%d" % number) for number in range(30)]
    for message in messages:
        store.append(message, NOW)

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert store.dispatch(100) == []
    assert "is full" in store.fault
    assert store.dispatch_behind_bytes() > 0
    assert store.append(a_message(), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert not store.is_writable
    monkeypatch.setattr(os, "posix_fallocate", real)
    assert len(store.dispatch(100)) == 30
    assert store.fault == ""
    assert store.append(a_message(), NOW).status is PutStatus.PUT_OK
    assert bodies(store) == [message.body for message in messages]


def test_bytes_that_change_under_the_broker_are_named(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    message = a_message()
    store.append(message, NOW)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.write(b"\xff" * 8)
    with pytest.raises(StoreDamaged, match="changed under the running broker"):
        store.dispatch(1, None, True)


def test_queues_are_flushed_when_they_have_enough_to_flush(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_consume_queue=20_000)
    fill(store, 30)
    store.flush_consume_queues(2)
    store.flush_consume_queues(0)
    store.flush_commit_log()
    store.flush_checkpoint()
    checkpoint = (tmp_path / "checkpoint").read_bytes()
    assert int.from_bytes(checkpoint[:8], "big") == NOW + 29
    assert int.from_bytes(checkpoint[8:16], "big") == NOW + 29
