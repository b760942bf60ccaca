import gc
from itertools import count
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged, StoreLocked, StoreNewer, StoreNotWritable
from regulus.model.java_hash import tags_code
from regulus.model.message_filter import EVERYTHING, Filter
from regulus.model.store_result import GetStatus, PutStatus
from regulus.record import layout, message_record, store_checkpoint
from regulus.record.layout import MAGIC_V1
from regulus.store import disk
from regulus.store.commit_log import GATHERED_MAX, GATHERED_RUN_MAX
from regulus.store.file_message_store import FileMessageStore
from tests.stores import NOW, a_message, bodies, dispatch, fill, open_files, open_store, small_config

BODY_LENGTH_OF_IPV4 = 84


def test_opening_makes_what_is_missing(tmp_path: Path) -> None:
    store = FileMessageStore(small_config(tmp_path / "new" / "store"))
    report = store.open(iter(count()).__next__)
    assert (report.records, report.duration_ms) == (0, 1000)
    assert (tmp_path / "new/store/lock").read_bytes() == b"lock"
    assert (tmp_path / "new/store/abort").exists()
    store.close()
    assert not (tmp_path / "new/store/abort").exists()
    store.close()


def test_only_one_may_have_it_open(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(StoreLocked):
        FileMessageStore(small_config(tmp_path)).open()
    store.close()
    open_store(tmp_path).close()


def test_a_root_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(StoreNotWritable, match="store"):
        FileMessageStore(small_config(tmp_path / "store")).open()


def test_a_store_of_a_later_format_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "consumequeue").mkdir()
    (tmp_path / "consumequeue" / "CURRENT").touch()
    with pytest.raises(StoreNewer, match="RocksDB"):
        FileMessageStore(small_config(tmp_path)).open()
    assert not (tmp_path / "abort").exists()
    (tmp_path / "consumequeue" / "CURRENT").unlink()
    open_store(tmp_path)


def read(store: FileMessageStore, offset: int, count_max: int = 32, bytes_max: int = 1 << 20,
         tags: frozenset[int] | None = None, queue_id: int = 0) -> tuple[GetStatus, int, list[bytes]]:
    result = store.get_message("TopicA", queue_id, offset, count_max, bytes_max, Filter(tags))
    found = [message.body for buffer in result.buffers for message in message_record.decode_all(buffer)]
    assert len(found) == result.message_count
    assert sum(len(buffer) for buffer in result.buffers) == result.size
    return result.status, result.next_begin_offset, found


def test_neighbours_in_the_log_are_one_slice(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    fill(store, 5, size=GATHERED_RUN_MAX // 2)
    result = store.get_message("TopicA", 0, 1, 3, 1 << 20, EVERYTHING)
    assert len(result.buffers) == 1
    assert (result.min_offset, result.max_offset, result.message_count) == (0, 5, 3)
    assert isinstance(result.buffers[0], memoryview)
    assert result.buffers[0].readonly


def test_short_runs_are_copied_together_and_long_ones_are_slices(tmp_path: Path) -> None:
    """Of three queues in turn, one message of each: what is short on both sides of a long one stays in order."""
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    sizes = [100, 200, GATHERED_RUN_MAX, 100, 100, 100]
    for number, size in enumerate(sizes):
        fill(store, 3, queues=3, size=size, first=3 * number)
    result = store.get_message("TopicA", 1, 0, 32, 1 << 20, EVERYTHING)
    found = [message.body for buffer in result.buffers for message in message_record.decode_all(buffer)]
    assert [len(body) for body in found] == sizes
    assert [int(body[:8]) for body in found] == [1, 4, 7, 10, 13, 16]
    assert [type(buffer) for buffer in result.buffers] == [bytes, memoryview, bytes]


def test_what_is_copied_together_is_bounded(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=4 << 20, mapped_file_size_consume_queue=20_000)
    fill(store, 1300, queues=2, size=500)
    result = store.get_message("TopicA", 0, 0, 650, 1 << 20, EVERYTHING)
    assert [type(buffer) for buffer in result.buffers] == [bytes, bytes]
    assert len(result.buffers[0]) <= GATHERED_MAX < result.size
    found = [message.body for buffer in result.buffers for message in message_record.decode_all(buffer)]
    assert [int(body[:8]) for body in found] == list(range(0, 1300, 2))


def test_interleaved_queues_are_read_in_pieces(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    messages = fill(store, 9, queues=3)
    for queue_id in range(3):
        assert read(store, 0, queue_id=queue_id) == (GetStatus.FOUND, 3,
                                                     [message.body for message in messages[queue_id::3]])


def test_reads_over_files_of_the_log_end_at_consume_queue_files(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    messages = fill(store, 25, size=900)
    assert read(store, 0)[:2] == (GetStatus.FOUND, 10)
    assert read(store, 15)[:2] == (GetStatus.FOUND, 20)
    assert bodies(store) == [message.body for message in messages]


def test_limits_of_count_and_bytes(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    size = fill(store, 8)[0].store_size
    assert read(store, 0, count_max=3)[1] == 3
    assert read(store, 0, bytes_max=3 * size)[1] == 3
    assert read(store, 0, bytes_max=3 * size - 1)[1] == 2
    assert read(store, 0, bytes_max=1)[1] == 1


def test_tags_filter_by_hash(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    messages = fill(store, 9)
    assert read(store, 0, tags=frozenset({tags_code("T1")})) == (
        GetStatus.FOUND, 9, [messages[1].body, messages[4].body, messages[7].body])
    assert read(store, 0, count_max=2, tags=frozenset({tags_code("T1")}))[1] == 5
    assert read(store, 0, tags=frozenset({1})) == (GetStatus.NO_MATCHED_MESSAGE, 9, [])


def test_a_filter_passes_over_so_many_units_and_no_more(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_consume_queue=20_000, max_filter_message_size=400,
                       mapped_file_size_commit_log=1 << 20)
    fill(store, 100)
    assert read(store, 0, count_max=5, tags=frozenset({1})) == (GetStatus.NO_MATCHED_MESSAGE, 20, [])


class FirstIs(Filter):
    """Messages of which the property N is that; looks at the properties `weight` times, as it says."""

    def __init__(self, number: int, weight: int) -> None:
        super().__init__(reads_properties=True, weight=weight, names=("N",))
        self.number = number

    def matches(self, values: list[str | None]) -> bool:
        return values == [str(self.number)]


@pytest.mark.parametrize(("weight", "passed"), [
    (1_000, 8),         # 2,100,000 of 16,000,000 for each message
    (200, 38), (10**9, 1), (1, 50)])
def test_a_filter_looks_at_so_many_properties_and_no_more(tmp_path: Path, weight: int, passed: int) -> None:
    store = open_store(tmp_path, mapped_file_size_consume_queue=20_000, mapped_file_size_commit_log=1 << 20)
    for number in range(50):
        store.append(a_message(N=f"{number}", P="x" * (2_000 - len(str(number)))), NOW)
    dispatch(store)
    seen = [store.get_message("TopicA", 0, offset, 32, 1 << 20, FirstIs(45, weight)) for offset in (0, 5)]
    status = [GetStatus.NO_MATCHED_MESSAGE, GetStatus.FOUND]
    assert [(result.status, result.next_begin_offset) for result in seen] == [
        (status[offset + passed > 45], min(50, offset + passed)) for offset in (0, 5)]


def test_what_was_found_is_given_when_a_filter_may_look_no_further(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_consume_queue=20_000, mapped_file_size_commit_log=1 << 20)
    for number in range(5):
        store.append(a_message(N=f"{number}"), NOW)
    dispatch(store)
    result = store.get_message("TopicA", 0, 1, 32, 1 << 20, FirstIs(1, 10**9))
    assert (result.status, result.message_count, result.next_begin_offset) == (GetStatus.FOUND, 1, 2)


def test_a_filter_takes_no_message_by_the_properties_of_the_one_before(tmp_path: Path) -> None:
    """Its own cannot be read: the length of its body is damaged."""
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    messages = [a_message(body=b"%d" % number, N="7") for number in range(3)]
    for message in messages:
        store.append(message, NOW)
    dispatch(store)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(messages[1].physical_offset + BODY_LENGTH_OF_IPV4)
        log.write(b"\x7f")
    result = store.get_message("TopicA", 0, 0, 32, 1 << 20, FirstIs(7, 1))
    assert [message.body for buffer in result.buffers for message in message_record.decode_all(buffer)] == [b"0", b"2"]
    assert (result.message_count, result.next_begin_offset) == (2, 3)


@pytest.mark.parametrize(("offset", "status", "next_offset"), [
    (-1, GetStatus.OFFSET_TOO_SMALL, 0), (5, GetStatus.OFFSET_OVERFLOW_ONE, 5),
    (6, GetStatus.OFFSET_OVERFLOW_BADLY, 5)])
def test_offsets_outside_the_queue(tmp_path: Path, offset: int, status: GetStatus, next_offset: int) -> None:
    store = open_store(tmp_path)
    fill(store, 5)
    assert read(store, offset) == (status, next_offset, [])


def test_a_queue_that_is_not_there_and_one_that_is_empty(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert read(store, 7) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, [])
    store.append(a_message(), NOW)
    assert read(store, 7) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, [])


def test_a_gap_in_the_log_is_told_and_what_lies_behind_it_is_read(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    messages = fill(store, 30, size=900)
    store.close()
    (tmp_path / "commitlog" / f"{4096:020d}").unlink()
    store = FileMessageStore(small_config(tmp_path))
    report = store.open()
    assert report.is_warning
    assert f"{4096:020d} is missing, the log has nothing from 4096 to 8192" in str(report)
    gone = [number for number, message in enumerate(messages) if message.physical_offset // 4096 == 1]
    with pytest.raises(StoreDamaged, match=f"{4096:020d}, which is missing"):
        read(store, gone[0], count_max=2)
    status, next_offset, found = read(store, gone[-1] + 1, count_max=2)
    assert (status, found) == (GetStatus.FOUND, [message.body for message in messages[gone[-1] + 1:gone[-1] + 3]])
    assert next_offset == gone[-1] + 3


def test_offset_by_time(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for second in (1, 2, 2, 2, 4):
        store.append(a_message(), second * 1000)
    dispatch(store)
    lower = [store.offset_by_time("TopicA", 0, time) for time in (0, 1000, 1500, 2000, 3000, 4000, 5000)]
    upper = [store.offset_by_time("TopicA", 0, time, True) for time in (0, 1000, 1500, 2000, 3000, 4000, 5000)]
    assert lower == [0, 0, 1, 1, 4, 4, 5]
    assert upper == [0, 0, 0, 3, 3, 4, 4]
    assert store.offset_by_time("Other", 0, 1000) == 0


def test_store_times(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store.earliest_store_timestamp() == -1
    fill(store, 3)
    assert [store.store_timestamp("TopicA", 0, offset) for offset in (-1, 0, 2, 3)] == [-1, NOW, NOW + 2, -1]
    assert store.store_timestamp("Other", 0, 0) == -1
    assert store.earliest_store_timestamp() == NOW


def test_a_record_is_found_at_its_own_offset_only(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    messages = fill(store, 30, size=300)
    for message in messages:
        found = store.look_message(message.physical_offset)
        assert found is not None
        assert (found.body, found.queue_offset) == (message.body, message.queue_offset)
    starts = {message.physical_offset for message in messages}
    for offset in range(-5, store.commit_log_max_offset() + 5):
        assert (store.look_message(offset) is None) == (offset not in starts)


def test_a_record_in_the_body_of_another_is_none(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    inner = fill(store, 1)[0]
    outer = a_message(body=message_record.encode(inner))
    store.append(outer, NOW)
    place = outer.physical_offset + layout.BODY_START_V4
    assert message_record.decode(store.record_bytes(outer.physical_offset)).body == message_record.encode(inner)
    assert store.look_message(place) is None


def test_a_record_that_says_to_be_longer_than_the_log_is_none(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    lie = (1000).to_bytes(4, "big") + MAGIC_V1.to_bytes(4, "big", signed=True)
    message = a_message(body=lie)
    store.append(message, NOW)
    place = message.physical_offset + layout.BODY_START_V4
    assert store.record_bytes(place) is None
    assert store.look_message(place) is None


def test_each_written_queue_is_flushed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    fill(store, 6, queues=3)
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_data", lambda path: synced.append(str(path)))
    store.flush_consume_queues(0)
    assert sorted(synced) == [str(tmp_path / "consumequeue" / "TopicA" / str(number) / f"{0:020d}")
                              for number in range(3)]
    store.flush_consume_queues(0)
    assert len(synced) == 3
    fill(store, 1, first=10)
    store.flush_consume_queues(0)
    assert synced[3:] == [str(tmp_path / "consumequeue" / "TopicA" / "0" / f"{0:020d}")]


def test_messages_are_found_by_key(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    messages = fill(store, 30, size=300)
    result = store.query_message("TopicA", "U00000003", 10, 0, NOW * 2)
    assert [bytes(buffer) for buffer in result.buffers] == [message_record.encode(messages[3])]
    assert (result.index_last_update_timestamp, result.index_last_update_physical_offset) == (
        NOW + 29, messages[29].physical_offset)
    assert len(store.query_message("TopicA", "all", 5, 0, NOW * 2).buffers) == 5
    assert store.query_message("TopicB", "U00000003", 10, 0, NOW * 2).buffers == []


def test_without_an_index_nothing_is_found_by_key(tmp_path: Path) -> None:
    store = open_store(tmp_path, message_index_enable=False)
    fill(store, 3)
    assert store.query_message("TopicA", "U00000001", 10, 0, NOW * 2).buffers == []
    assert not (tmp_path / "index").exists()


def test_deleting_a_topic_starts_it_anew(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 5)
    fill(store, 5, topic="TopicB")
    store.delete_topic("TopicA")
    assert store.queues() == [("TopicB", 0)]
    assert store.max_offset("TopicA", 0) == 0
    assert fill(store, 1)[0].queue_offset == 0
    store.flush_consume_queues(0)
    store.close()
    assert open_store(tmp_path).max_offset("TopicA", 0) == 1


@pytest.mark.parametrize("end", ["closed", "dropped"])
def test_no_descriptor_stays_when_a_store_is_no_more(tmp_path: Path, end: str) -> None:
    store = open_store(tmp_path)
    fill(store, 40, queues=4)
    assert len(open_files(tmp_path)) > 5
    if end == "closed":
        store.close()
    else:
        # As after a kill: nothing is flushed, and the next one finds `abort`.
        del store
        gc.collect()
    assert open_files(tmp_path) == []
    again = FileMessageStore(small_config(tmp_path))
    assert again.open().is_clean_stop == (end == "closed")
    again.close()


def test_slices_stay_valid_when_the_store_is_closed(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    fill(store, 3, size=GATHERED_RUN_MAX)
    buffer = store.get_message("TopicA", 0, 0, 3, 1 << 20, EVERYTHING).buffers[0]
    assert isinstance(buffer, memoryview)
    before = bytes(buffer)
    store.close()
    assert bytes(buffer) == before


def test_a_stopped_store_takes_nothing_and_says_why(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 3)
    store.stop_writes("the disk is broken")
    appended = store.append(a_message(), NOW)
    assert (appended.status, appended.remark) == (PutStatus.SERVICE_NOT_AVAILABLE, "the disk is broken")
    assert not store.is_writable
    assert len(bodies(store)) == 3


def test_documents(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store.load_config("topics") is None
    store.save_config("topics", [b"{", b"}"])
    assert store.load_config("topics") == "{}"
    assert (tmp_path / "config/topics.json").exists()


def test_messages_are_refused_while_somebody_says_so(tmp_path: Path) -> None:
    """Reads and dispatch go on; a disk that failed outlasts it."""
    store = open_store(tmp_path)
    fill(store, 3)
    assert store.append(a_message(), NOW).status is PutStatus.PUT_OK
    store.refuse_writes("the disk is too full")
    for appended in (store.append(a_message(), NOW), store.append_batch([a_message()], NOW)):
        assert (appended.status, appended.remark) == (PutStatus.SERVICE_NOT_AVAILABLE, "the disk is too full")
    assert store.fault == "the disk is too full"
    assert not store.is_writable
    assert len(store.dispatch(10)) == 1
    assert len(bodies(store)) == 4
    store.refuse_writes("")
    assert store.is_writable
    assert store.append(a_message(), NOW).status is PutStatus.PUT_OK
    store.stop_writes("the disk failed")
    store.refuse_writes("")
    assert store.append(a_message(), NOW).remark == "the disk failed"


def test_a_record_of_a_deleted_topic_is_shown_and_not_acted_on(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    (message,) = fill(store, 1)
    store.delete_topic("TopicA")
    shown = store.record_bytes(message.physical_offset)
    assert shown is not None
    assert message_record.decode(shown, 0, True).body == message.body
    assert store.look_message(message.physical_offset) is None


def test_what_cannot_be_dispatched_keeps_a_stop_from_nothing_else(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    messages = fill(store, 5)
    store.close()
    store = open_store(tmp_path)
    store.old_files._dispatcher.position = 0
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(messages[3].physical_offset)
        log.write(bytes(8))
    assert store.append(a_message("Late"), NOW + 77).status is PutStatus.PUT_OK
    with pytest.raises(StoreDamaged, match="changed under the running broker"):
        store.close()
    checkpoint = store_checkpoint.decode((tmp_path / "checkpoint").read_bytes())
    assert checkpoint.physic_msg_timestamp == NOW + 77
    assert (tmp_path / "abort").exists()
    store.close()
    again = FileMessageStore(small_config(tmp_path))
    assert not again.open().is_clean_stop       # and it is not locked any more
    again.close()



def test_a_store_whose_abort_cannot_be_read_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    fill(store, 10)
    store.close()
    (tmp_path / "abort").write_text("1\nboot\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    read_file = disk.read_file

    def read_file_badly(path: Path) -> bytes | None:
        if path.name == "abort":
            raise StoreDamaged(f"{path} cannot be read")
        return read_file(path)

    with monkeypatch.context() as context:
        context.setattr(disk, "read_file", read_file_badly)
        store = FileMessageStore(small_config(tmp_path))
        with pytest.raises(StoreDamaged, match="cannot be read"):
            store.open()
    store.close()       # as for one that was opened
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert len(bodies(open_store(tmp_path))) == 10
