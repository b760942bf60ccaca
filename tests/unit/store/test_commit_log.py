import errno
import os
import re
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.model.message_filter import EVERYTHING
from regulus.model.store_result import PutStatus
from regulus.record import message_record
from regulus.record.layout import MAGIC_BLANK
from regulus.store import disk
from tests.stores import NOW, a_message, bodies, dispatch, fill, open_store

V4_FIXED = 91


def body_for(record_size: int, topic: str = "TopicA") -> bytes:
    """Of a message without properties whose record has this size."""
    return b"x" * (record_size - V4_FIXED - len(topic))


def test_records_are_what_the_codec_makes(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first = a_message(body=b"one", TAGS="TagA")
    second = a_message(body=b"two")
    appended = store.append(first, NOW)
    assert (appended.start, appended.end, appended.queue_offset) == (0, first.store_size, 0)
    appended = store.append(second, NOW + 1)
    assert (appended.start, appended.queue_offset) == (first.store_size, 1)
    data = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
    assert data[:appended.end] == message_record.encode(first) + message_record.encode(second)
    assert data.count(0, appended.end) == 4096 - appended.end
    assert second.store_timestamp == NOW + 1


def test_a_record_leaves_room_for_a_blank(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store.append(a_message(body=body_for(4088)), NOW).end == 4088
    appended = store.append(a_message(body=body_for(4088)), NOW)
    assert (appended.start, appended.end) == (4096, 8184)
    blank = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()[4088:]
    assert int.from_bytes(blank[:4], "big") == 8
    assert int.from_bytes(blank[4:], "big", signed=True) == MAGIC_BLANK


def test_a_record_that_would_leave_less_goes_to_the_next_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append(a_message(body=body_for(100)), NOW)
    appended = store.append(a_message(body=body_for(3989)), NOW)
    assert appended.start == 4096
    assert sorted(path.name for path in (tmp_path / "commitlog").iterdir()) == [f"{0:020d}", f"{4096:020d}"]


def test_a_record_larger_than_a_file_is_illegal(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    appended = store.append(a_message(body=body_for(4089)), NOW)
    assert appended.status is PutStatus.MESSAGE_ILLEGAL
    assert "mappedFileSizeCommitLog" in appended.remark
    assert store.append(a_message(), NOW).start == 0


@pytest.mark.parametrize("message", [
    a_message(body=b"x" * 65_537), a_message(topic="t" * 256), a_message(K="v" * 40_000)],
    ids=["body", "topic", "properties"])
def test_what_breaks_a_limit_is_refused_and_costs_nothing(tmp_path: Path, message: object) -> None:
    store = open_store(tmp_path)
    assert store.append(message, NOW).status is PutStatus.MESSAGE_ILLEGAL  # type: ignore[arg-type]
    assert store.commit_log_max_offset() == 0
    assert store.append(a_message(), NOW).queue_offset == 0


def test_a_slice_is_of_what_was_written(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 1)
    log = store._log
    assert bytes(log.slice(log.end - 4, 4) or b"") == (tmp_path / "commitlog" / f"{0:020d}").read_bytes()[
        log.end - 4:log.end]
    for offset, size in ((log.end - 4, 5), (log.end, 1), (log.end + 1, 0), (-1, 1), (4096, 1)):
        assert log.slice(offset, size) is None


def test_prepared_and_rollback_records_have_no_queue_offset(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = [store.append(a_message(sys_flag=flag), NOW).queue_offset for flag in (0, 0x4, 0xC, 0x8, 0)]
    assert offsets == [0, 0, 0, 1, 2]
    dispatch(store)
    assert len(store.queue_units("TopicA", 0, 0, 10)) == 3


def test_a_batch_is_contiguous_in_one_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append(a_message(body=body_for(2000)), NOW)
    batch = [a_message(body=body_for(700)) for _ in range(3)]
    appended = store.append_batch(batch, NOW)
    assert appended.starts == (4096, 4796, 5496)
    assert (appended.start, appended.end, appended.queue_offset) == (4096, 6196, 1)
    dispatch(store)
    assert store.max_offset("TopicA", 0) == 4


def test_a_batch_that_cannot_be_stored_whole_is_not_stored_at_all(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    text = a_message(K="v")
    text.properties_text = b"K\x01v\x02" * 10_000     # a name that comes again and again is one property
    for batch in ([], [a_message(), text], [a_message(), a_message(topic="Other")],
                  [a_message(), a_message(queue_id=1)], [a_message(), a_message(sys_flag=4)],
                  [a_message(body=body_for(1500)) for _ in range(3)],
                  [a_message(body=b"x" * 40_000) for _ in range(2)], [a_message(), a_message(K="v" * 40_000)]):
        assert store.append_batch(batch, NOW).status is PutStatus.MESSAGE_ILLEGAL
    assert store.commit_log_max_offset() == 0


def test_a_full_disk_refuses_appends_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    before = fill(store, 3)
    real = os.posix_fallocate

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    # What was reserved ahead is used up before the disk is felt to be full.
    monkeypatch.setattr(os, "posix_fallocate", full)
    fresh = open_store(tmp_path / "other")
    appended = fresh.append(a_message(), NOW)
    assert appended.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "is full" in appended.remark
    assert str(tmp_path / "other") in appended.remark
    assert not fresh.is_writable
    # How many bytes are free is asked each time, and others write to the disk as well.
    assert re.sub(r"\d+ bytes", "", fresh.fault) == re.sub(r"\d+ bytes", "", appended.remark)
    assert fresh.append_batch([a_message()], NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert bodies(store) == [message.body for message in before]
    monkeypatch.setattr(os, "posix_fallocate", real)
    assert fresh.is_writable
    assert fresh.fault == ""
    assert fresh.append_batch([a_message()], NOW).queue_offset == 0
    assert fresh.fault == ""
    assert fresh.is_writable


def test_the_last_room_of_a_disk_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=64 << 20)
    real = os.posix_fallocate

    def nearly_full(descriptor: int, offset: int, length: int) -> None:
        if length > 65_536:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor, offset, length)

    monkeypatch.setattr(os, "posix_fallocate", nearly_full)
    assert store.append(a_message(), NOW).status is PutStatus.PUT_OK


def test_room_is_made_ahead(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=64 << 20)
    assert store.wants_allocation
    store.allocate_ahead()
    assert not store.wants_allocation
    path = tmp_path / "commitlog" / f"{0:020d}"
    assert path.stat().st_size == 64 << 20
    assert 8 << 20 <= path.stat().st_blocks * 512 <= 17 << 20
    fill(store, 100)
    assert not store.wants_allocation


def test_the_next_file_is_made_ahead_and_removed_when_it_was_not_needed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 3)
    store.allocate_ahead()
    assert (tmp_path / "commitlog" / f"{4096:020d}").stat().st_size == 4096
    assert not store.wants_allocation
    store.close()
    assert [path.name for path in (tmp_path / "commitlog").iterdir()] == [f"{0:020d}"]


def test_a_file_made_ahead_is_used(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    messages = []
    for first in range(0, 60, 3):
        store.allocate_ahead()
        messages += fill(store, 3, size=900, first=first)
    assert bodies(store) == [message.body for message in messages]
    store.close()
    again = open_store(tmp_path)
    assert bodies(again) == [message.body for message in messages]


def test_flushing_tells_how_far(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store.flush_commit_log() == 0
    messages = fill(store, 20, size=900)
    assert store.flushed_offset == 0
    assert store.flush_commit_log() == store.commit_log_max_offset() == store.flushed_offset
    assert messages[-1].physical_offset < store.flushed_offset


def test_a_failed_flush_is_never_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system reports it once; a flush that succeeds afterwards would vouch for what was lost."""
    store = open_store(tmp_path)
    fill(store, 1)

    def fail(*_: object) -> None:
        raise StoreNotWritable("the disk is broken")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "sync_range", fail)
        with pytest.raises(StoreNotWritable, match="the disk is broken"):
            store.flush_commit_log()
    with pytest.raises(StoreNotWritable, match="the disk is broken"):
        store.flush_commit_log()
    assert store.flushed_offset == 0


def resident_kib() -> int:
    """Of the process, mapped files included."""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssFile:"))


def test_reading_old_files_does_not_keep_their_memory(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=8 << 20)
    fill(store, 500, size=60_000)
    before = resident_kib()
    assert sum(len(body) for body in bodies(store)) == 500 * 60_000
    store.flush_consume_queues(0)
    assert resident_kib() - before < 12 << 10
    assert len(bodies(store)) == 500


@pytest.mark.parametrize("field", [0, 4, 12, 20, 28])
def test_a_record_that_is_not_its_unit_s_own_is_refused_and_those_before_it_are_served(tmp_path: Path,
                                                                                      field: int) -> None:
    """The fields: size, magic number, queue id, queue offset, physical offset."""
    store = open_store(tmp_path)
    messages = fill(store, 5)
    place = messages[3].physical_offset
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(place + field + 3)
        file.write(b"\x77")
    result = store.get_message("TopicA", 0, 0, 32, 1 << 20, EVERYTHING)
    assert (result.message_count, result.next_begin_offset) == (3, 3)
    with pytest.raises(StoreDamaged, match=f"message 3 of queue 0 of TopicA is damaged.* at {place}.*set to 4"):
        store.get_message("TopicA", 0, 3, 32, 1 << 20, EVERYTHING)
    assert store.get_message("TopicA", 0, 4, 32, 1 << 20, EVERYTHING).message_count == 1


def test_a_unit_that_leads_to_the_record_of_another_queue_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 6, queues=2)
    units = [tmp_path / "consumequeue/TopicA" / queue_id / f"{0:020d}" for queue_id in "01"]
    foreign = units[1].read_bytes()[20:40]
    with units[0].open("r+b") as file:
        file.seek(20)
        file.write(foreign)
    assert store.get_message("TopicA", 0, 0, 32, 1 << 20, EVERYTHING).message_count == 1
    with pytest.raises(StoreDamaged, match="message 1 of queue 0 of TopicA"):
        store.get_message("TopicA", 0, 1, 32, 1 << 20, EVERYTHING)


def test_a_light_queue_serves_records_of_other_queues(tmp_path: Path) -> None:
    """RocketMQ makes them, and numbers their units by themselves."""
    store = open_store(tmp_path)
    fill(store, 8)
    store.close()
    units = (tmp_path / "consumequeue/TopicA/0" / f"{0:020d}").read_bytes()[5 * 20:8 * 20]
    light = tmp_path / "consumequeue" / "%LMQ%123" / "0"
    light.mkdir(parents=True)
    (light / f"{0:020d}").write_bytes(units.ljust(200, b"\0"))
    (tmp_path / "regulusQueues").unlink()
    store = open_store(tmp_path)
    assert [body[:8] for body in bodies(store, "%LMQ%123")] == [b"00000005", b"00000006", b"00000007"]
    store.close()


def test_a_record_that_is_known_to_be_rotten_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    messages = fill(store, 5)
    store._log.rotten.add(messages[0].physical_offset)
    with pytest.raises(StoreDamaged, match="message 0 of queue 0 of TopicA"):
        store.get_message("TopicA", 0, 0, 32, 1 << 20, EVERYTHING)
    assert store.get_message("TopicA", 0, 1, 32, 1 << 20, EVERYTHING).message_count == 4
