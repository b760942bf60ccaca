from collections.abc import Iterator
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.model.message import MessageExt
from regulus.model.message_filter import EVERYTHING
from regulus.model.store_result import GetStatus
from regulus.record import message_record
from regulus.record.layout import BODY_START_V4
from regulus.store import log_pass
from regulus.store.file_message_store import FileMessageStore
from regulus.store.log_pass import LogPass
from tests.stores import NOW, a_message, dispatch, fill, open_store


@pytest.fixture
def messages() -> list[MessageExt]:
    return []


@pytest.fixture
def store(tmp_path: Path, messages: list[MessageExt]) -> Iterator[FileMessageStore]:
    """Opened anew, as a deep check finds it; the log has several files."""
    store = open_store(tmp_path)
    messages += fill(store, 40, size=300)
    store.close()
    store = open_store(tmp_path)
    yield store
    store.close()


def overwrite(store: FileMessageStore, physical_offset: int, data: bytes) -> None:
    file = store._log.files.find(physical_offset)
    assert file is not None
    with Path(file.path).open("r+b") as opened:
        opened.seek(physical_offset - file.start)
        opened.write(data)


def faults(store: FileMessageStore) -> list[str]:
    return [fault for step in store.deep_check.log_steps() for fault in step.faults]


@pytest.mark.parametrize("step_size", [64, 1000, 1 << 20])
def test_a_whole_log_is_gone_through_once_and_has_no_fault(store: FileMessageStore, messages: list[MessageExt],
                                                           step_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pass, "STEP_SIZE", step_size)
    found: list[int] = []
    steps = list(LogPass(store._log, 0, store.commit_log_max_offset(), check_crc=True,
                         take=lambda request: found.append(request.physical_offset)).steps())
    assert found == [message.physical_offset for message in messages]
    assert sum(step.size for step in steps) == store.commit_log_max_offset()
    assert not any(step.faults for step in steps)
    assert not store._log.rotten


@pytest.mark.parametrize(("place", "data", "cause"), [
    (BODY_START_V4 + 50, b"!", "body and its checksum differ"), (4, b"xxxx", "magic"),
    (0, b"\0\0\0\7", ""), (0, b"\0\1\0\0", "record says that it has 65536 bytes"),
    (35, b"\xff", "record says it is at"),
    (0, bytes(60), "")])
def test_a_record_that_rots_in_the_middle_is_told_and_refused_and_the_rest_is_gone_through(
        store: FileMessageStore, messages: list[MessageExt], place: int, data: bytes, cause: str) -> None:
    rotten, behind = messages[13], messages[14]
    overwrite(store, rotten.physical_offset + place, data)
    overwrite(store, messages[30].physical_offset + BODY_START_V4, b"!")
    first, second = faults(store)
    assert f"the log is damaged at {rotten.physical_offset}, byte" in first
    assert f"goes on at {behind.physical_offset}:" in first
    assert cause in first
    assert f"the log is damaged at {messages[30].physical_offset}" in second
    for queue_offset in (13, 30):
        with pytest.raises(StoreDamaged, match=f"message {queue_offset} of queue 0 of TopicA is damaged"):
            store.get_message("TopicA", 0, queue_offset, 32, 1 << 20, EVERYTHING)
        assert store.get_message("TopicA", 0, queue_offset + 1, 1, 1 << 20, EVERYTHING).message_count == 1


def test_a_record_as_long_as_the_rest_of_the_log_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pass, "STEP_SIZE", 64)
    store = open_store(tmp_path)
    (only,) = fill(store, 1, size=300)
    store.close()
    store = open_store(tmp_path)
    assert faults(store) == []
    overwrite(store, only.physical_offset + BODY_START_V4 + 200, b"!")
    (fault,) = faults(store)
    assert "body and its checksum differ" in fault
    store.close()


def test_a_record_that_is_too_long_to_be_read_is_well_when_it_leads_to_the_next(
        store: FileMessageStore, messages: list[MessageExt], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pass, "STEP_SIZE", 64)
    monkeypatch.setattr(log_pass, "RECORD_SIZE_MAX", 200)
    check = LogPass(store._log, 0, messages[3].physical_offset + 64, check_crc=True)
    assert [fault for step in check.steps() for fault in step.faults if " at 0," in fault] == []
    overwrite(store, messages[1].physical_offset, b"\1\1\1\1")
    told = [fault for step in check.steps() for fault in step.faults]
    assert f"the log is damaged at {messages[1].physical_offset}, byte" in told[0]
    assert f"goes on at {messages[2].physical_offset}:" in told[0]


def test_records_too_long_to_be_read_are_well_at_the_end_of_a_file_and_of_the_log(
        store: FileMessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the last of a file lies a blank, behind the last of the log nothing."""
    monkeypatch.setattr(log_pass, "STEP_SIZE", 64)
    monkeypatch.setattr(log_pass, "RECORD_SIZE_MAX", 200)
    assert len(store._log.files.files) > 1
    assert faults(store) == []
    assert store._log.rotten == set()


def test_a_long_record_makes_only_its_own_step_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pass, "STEP_SIZE", 300)
    store = open_store(tmp_path)
    fill(store, 1, size=1500)
    fill(store, 30, size=10, first=1)
    store.close()
    store = open_store(tmp_path)
    sizes = [step.size for step in store.deep_check.log_steps()]
    assert sizes[0] > 1500
    assert max(sizes[1:-1]) <= 300
    store.close()


def test_a_rotten_record_is_not_copied_whoever_looks_at_it_first(store: FileMessageStore,
                                                                 messages: list[MessageExt]) -> None:
    """A copy would get a checksum of its own, and nobody could tell any more."""
    offset = messages[13].physical_offset
    assert store.look_message(offset) is not None
    overwrite(store, offset + BODY_START_V4, b"!")
    assert store.look_message(offset) is None
    (told,) = store.deep_check.take_met()
    assert f"the record at {offset} of the log is damaged" in told
    assert store.look_message(offset) is None
    assert store.deep_check.take_met() == []
    assert store.record_bytes(offset) is None
    key = messages[13].message_id
    assert not store.query_message("TopicA", key, 10, 0, NOW * 2).buffers
    with pytest.raises(StoreDamaged):
        store.get_message("TopicA", 0, 13, 1, 1 << 20, EVERYTHING)


def test_what_was_appended_since_the_start_is_not_looked_at(store: FileMessageStore) -> None:
    (late,) = fill(store, 1, first=40)
    overwrite(store, late.physical_offset + BODY_START_V4, b"!")
    assert faults(store) == []


def test_a_file_that_is_deleted_meanwhile_is_no_fault(store: FileMessageStore) -> None:
    steps = store.deep_check.log_steps()
    next(steps)
    assert store.old_files.take_log_file(0, NOW)
    assert store.old_files.take_log_file(4096, NOW) is False
    assert store.old_files.delete_hanging(NOW, 0)
    assert store.old_files.take_log_file(4096, NOW)
    assert store.old_files.delete_hanging(NOW, 0)
    assert [fault for step in steps for fault in step.faults] == []
    assert [fault for step in store.deep_check.log_steps() for fault in step.faults] == []


def test_a_file_that_goes_while_it_is_read_is_no_fault(store: FileMessageStore) -> None:
    file = store._log.files.files[0]
    Path(file.path).unlink()
    check = LogPass(store._log, 0, store.commit_log_max_offset(), check_crc=True)
    read = check._read

    def read_late(file, physical_offset):
        if physical_offset == 0:
            del store._log.files.files[0]
        return read(file, physical_offset)

    check._read = read_late
    assert [fault for step in check.steps() for fault in step.faults] == []


def test_a_file_that_cannot_be_read_is_told_and_the_next_is_gone_through(store: FileMessageStore,
                                                                         messages: list[MessageExt]) -> None:
    Path(store._log.files.files[1].path).unlink()
    overwrite(store, messages[30].physical_offset + BODY_START_V4, b"!")
    first, second = faults(store)
    assert first.startswith("the log cannot be read behind 4096")
    assert f"damaged at {messages[30].physical_offset}" in second


def test_what_looks_like_a_record_in_a_rotten_body_is_none(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 1)
    forged = a_message(body=b"forged")
    carrier = a_message(body=b"." * 200)
    start = store.commit_log_max_offset()
    forged.physical_offset = start + BODY_START_V4 + 20
    carrier.body = b"." * 20 + message_record.encode(forged) + b"." * 40
    store.append(carrier, NOW)
    dispatch(store)
    (behind,) = fill(store, 1, first=1)
    store.close()
    store = open_store(tmp_path)
    overwrite(store, start + BODY_START_V4, b"!")
    (fault,) = faults(store)
    assert f"goes on at {behind.physical_offset}:" in fault
    store.close()


def test_a_full_disk_of_whoever_takes_the_records_is_no_fault_of_the_log(store: FileMessageStore) -> None:
    def full(request) -> None:
        raise StoreNotWritable("the disk is full")

    with pytest.raises(StoreNotWritable):
        list(LogPass(store._log, 0, 4096, check_crc=True, take=full).steps())


def test_only_so_many_are_remembered(store: FileMessageStore, messages: list[MessageExt],
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regulus.store.deep_check.ROTTEN_MAX", 2)
    for message in messages[5:9]:
        overwrite(store, message.physical_offset + BODY_START_V4, b"!")
    assert len(faults(store)) == 4
    assert store._log.rotten == {message.physical_offset for message in messages[5:7]}


def test_a_file_that_is_missing_in_the_middle_is_told_and_refused(store: FileMessageStore,
                                                                  messages: list[MessageExt]) -> None:
    store.close()
    (Path(store.config.commit_log_directory) / f"{4096:020d}").unlink()
    lost = [number for number, message in enumerate(messages) if message.physical_offset // 4096 == 1]
    again = FileMessageStore(store.config)
    assert f"{4096:020d} is missing" in str(again.open())
    (fault,) = faults(again)
    assert fault.startswith(f"{4096:020d} is missing, and the log has nothing from 4096 to 8192")
    for queue_offset in lost:
        with pytest.raises(StoreDamaged, match=f"message {queue_offset} of queue 0 of TopicA is in the log's file "
                                               f"{4096:020d}, which is missing. .* is set to {lost[-1] + 1}"):
            again.get_message("TopicA", 0, queue_offset, 32, 1 << 20, EVERYTHING)
        assert again.look_message(messages[queue_offset].physical_offset) is None
        assert again.is_missing(messages[queue_offset].physical_offset)
    assert not any(again.is_missing(place) for place in (messages[0].physical_offset, 1 << 40))
    before = again.get_message("TopicA", 0, 0, 32, 1 << 20, EVERYTHING)
    assert [before.message_count, before.next_begin_offset] == [lost[0], lost[0]]
    assert again.get_message("TopicA", 0, lost[-1] + 1, 32, 1 << 20, EVERYTHING).message_count == 2
    (told,) = again.deep_check.take_met()
    assert f"a message was to be copied from {messages[lost[0]].physical_offset} of the log, in {4096:020d}" in told
    again.close()


def test_files_that_are_deleted_are_no_gap(store: FileMessageStore) -> None:
    steps = store.deep_check.log_steps()
    assert next(steps).faults == ()
    while store.commit_log_min_offset() < 8192:
        assert store.old_files.take_log_file(store.commit_log_min_offset(), NOW)
        assert store.old_files.delete_hanging(NOW, 0)
    assert [fault for step in steps for fault in step.faults] == []
    assert store.get_message("TopicA", 0, 0, 32, 1 << 20, EVERYTHING).status is GetStatus.MESSAGE_WAS_REMOVING


def test_the_search_behind_damage_goes_in_steps_and_what_it_reads_counts(
        store: FileMessageStore, messages: list[MessageExt], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pass, "STEP_SIZE", 1000)
    monkeypatch.setattr(log_pass, "SEARCH_SIZE", 200)
    first, behind = messages[1].physical_offset, messages[8].physical_offset
    overwrite(store, first, bytes(behind - first))
    steps = list(store.deep_check.log_steps())
    (told,) = [fault for step in steps for fault in step.faults]
    assert f"damaged at {first}," in told
    assert f"goes on at {behind}:" in told
    searches = [step for step in steps if step.size == 0]
    assert len(searches) > 10
    assert {step.read for step in searches[1:]} == {200}
    assert sum(step.size for step in steps) == store.commit_log_max_offset()
    assert sum(step.read for step in searches) >= behind - first


def test_much_damage_close_together_is_not_read_over_and_over(
        store: FileMessageStore, messages: list[MessageExt]) -> None:
    for message in messages[1:9]:
        overwrite(store, message.physical_offset, b"\1\1\1\1")
    steps = list(store.deep_check.log_steps())
    assert sum(len(step.faults) for step in steps) == 8
    assert max(step.read for step in steps) <= log_pass.STEP_SIZE + log_pass.SEARCH_SIZE


def test_damage_up_to_the_end_of_what_is_looked_at_is_searched_no_further(store: FileMessageStore,
                                                                        messages: list[MessageExt]) -> None:
    overwrite(store, messages[5].physical_offset, b"\1" * 2000)
    end = messages[6].physical_offset
    steps = list(LogPass(store._log, 0, end, check_crc=True).steps())
    assert sum(step.size for step in steps) == end
    assert sum(step.read for step in steps) < end + 2 * (end - messages[5].physical_offset)
