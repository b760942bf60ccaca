"""Real files taken out of use and deleted, under readers, in order, with what follows them."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.model.message_filter import EVERYTHING
from regulus.model.store_result import GetStatus
from regulus.record.consume_queue_unit import FILLER, UNIT_SIZE, encode
from regulus.record.message_record import decode_all
from regulus.store import disk
from regulus.store.consume_queue import ConsumeQueue
from regulus.store.file_message_store import FileMessageStore
from regulus.store.mapped_file import MappedFilePool
from regulus.store.mapped_file_queue import MappedFileQueue
from regulus.store.old_files import first_position
from tests.stores import NOW, a_message, bodies, dispatch, fill, open_store

FILE = 4096
FORCIBLY = 120_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileMessageStore]:
    """300 messages in two queues, a dozen files of log, several of queues and index."""
    opened = open_store(tmp_path)
    fill(opened, 300, queues=2)
    opened.flush_commit_log()
    opened.flush_consume_queues(0)
    yield opened
    opened.close()


def log_names(store: FileMessageStore) -> list[str]:
    return disk.names(store.config.commit_log_directory)


def delete_log_files(store: FileMessageStore, count: int) -> None:
    for number in range(count):
        start = store.commit_log_min_offset()
        assert store.old_files.take_log_file(start, NOW + number)
        assert store.old_files.delete_hanging(NOW + number, FORCIBLY)


def follow(store: FileMessageStore) -> int:
    """How many files of queues and index went."""
    count = 0
    for trimmed in store.old_files.queue_starts():
        files = store.old_files.trim_queue(trimmed)
        store.old_files.delete_all(files)
        count += len(files)
    files = store.old_files.take_index_files()
    store.old_files.delete_all(files)
    return count + len(files)


def test_only_the_first_file_of_the_log_is_taken(store: FileMessageStore) -> None:
    names = log_names(store)
    for start in (int(names[1]), int(names[-1]), 17, -1):
        assert not store.old_files.take_log_file(start, NOW)
    assert store.commit_log_min_offset() == 0
    assert store.old_files.take_log_file(0, NOW)
    assert store.commit_log_min_offset() == int(names[1])


def test_deleted_queues_are_forgotten_with_the_last_of_their_records(store: FileMessageStore) -> None:
    second, third = (int(name) for name in log_names(store)[1:3])
    births = store.old_files._queues.births
    births.update({("Early", 0): second - 1, ("AtStart", 0): second, ("Later", 0): third - 1})
    store.delete_topic("TopicA")
    late = {("TopicA", 0): store.commit_log_max_offset(), ("TopicA", 1): store.commit_log_max_offset()}
    delete_log_files(store, 1)
    assert births == {("AtStart", 0): second, ("Later", 0): third - 1, **late}
    delete_log_files(store, 1)
    assert births == late


def test_a_deleted_queue_leaves_the_queues_to_flush_at_the_next_flush_of_any_kind(store: FileMessageStore) -> None:
    """Others with few dirty pages stay there until a flush of all, a minute later."""
    fill(store, 2, topic="Kept", first=300)
    fill(store, 2, topic="Gone", first=302)
    store.delete_topic("Gone")
    store.flush_consume_queues(2)
    assert [queue.topic for queue in store.old_files._dispatcher.dirty] == ["Kept"]


def test_the_last_file_of_a_queue_stays_though_all_its_messages_are_gone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 10, topic="Silent", size=1_000)         # exactly a file of ten units
    fill(store, 30, topic="Busy", size=1_000, first=10)
    store.flush_commit_log()
    store.flush_consume_queues(0)
    delete_log_files(store, 5)
    follow(store)
    assert disk.names(store.config.consume_queue_directory / "Silent" / "0") == [f"{0:020d}"]
    assert (store.min_offset("Silent", 0), store.max_offset("Silent", 0)) == (10, 10)
    assert fill(store, 1, topic="Silent")[0].queue_offset == 10
    store.close()
    assert open_store(tmp_path).max_offset("Silent", 0) == 11


def test_what_is_seen(store: FileMessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    names = log_names(store)
    for number, name in enumerate(names):
        os.utime(store.config.commit_log_directory / name, (number, number))
    facts = store.old_files.look(100)
    assert [(file.start, file.end, file.modified_ms) for file in facts.files] == [
        (int(name), int(name) + FILE, number * 1000) for number, name in enumerate(names[:-1])]
    assert facts.settled_offset == store.commit_log_max_offset()
    assert 0 < facts.log_ratio == facts.queue_ratio <= 1
    assert len(store.old_files.look(3).files) == 3
    fill(store, 10, first=300)
    assert store.old_files.look(1).settled_offset == store.flushed_offset < store.commit_log_max_offset()

    def broken(path: Path) -> float:
        raise disk.StoreError(f"{path} cannot be read")

    monkeypatch.setattr(disk, "used_ratio", broken)
    assert store.old_files.look(1).log_ratio == -1


def test_the_log_begins_later_and_all_else_follows(store: FileMessageStore, tmp_path: Path) -> None:
    everything = [bodies(store, queue_id=queue_id) for queue_id in (0, 1)]
    names = log_names(store)
    index_names = disk.names(store.config.index_directory)
    delete_log_files(store, 5)
    assert log_names(store) == names[5:]
    assert store.commit_log_min_offset() == 5 * FILE
    first = store.read_log(5 * FILE, 1, store.flushed_offset)
    assert first is not None
    (oldest, *_) = decode_all(first.data)
    # Before the queues follow, what is gone is passed over.
    gone = store.get_message("TopicA", 0, 0, 32, 1 << 20, EVERYTHING)
    assert gone.status is GetStatus.MESSAGE_WAS_REMOVING
    assert follow(store) > 4
    assert follow(store) == 0
    for queue_id in (0, 1):
        low = store.min_offset("TopicA", queue_id)
        assert bodies(store, queue_id=queue_id) == everything[queue_id][low:]
        assert int(everything[queue_id][low][:8]) in (int(oldest.body[:8]), int(oldest.body[:8]) + 1)
        files = disk.names(store.config.consume_queue_directory / "TopicA" / str(queue_id))
        assert int(files[0]) <= low * UNIT_SIZE < int(files[0]) + 200
        assert store.max_offset("TopicA", queue_id) == 150
        assert store.get_message("TopicA", queue_id, 0, 32, 1 << 20, EVERYTHING).status is GetStatus.OFFSET_TOO_SMALL
    assert len(disk.names(store.config.index_directory)) < len(index_names)
    assert store.query_message("TopicA", "k299", 32, 0, 1 << 62).buffers
    assert not store.query_message("TopicA", "k0", 32, 0, 1 << 62).buffers
    assert store.earliest_store_timestamp() == oldest.store_timestamp
    fill(store, 10, queues=2, first=300)
    assert [int(body[:8]) for body in bodies(store)][-1] == 308


def test_settled_is_what_is_on_disk_and_dispatched(store: FileMessageStore) -> None:
    settled = store.commit_log_max_offset()
    fill(store, 5, first=300)
    assert store.old_files.look(1).settled_offset == settled
    store.flush_commit_log()
    settled = store.commit_log_max_offset()
    assert store.old_files.look(1).settled_offset == settled
    store.append(a_message(), NOW + 305)
    store.flush_commit_log()
    assert store.old_files.look(1).settled_offset == settled


def test_an_index_file_goes_once_its_last_record_is_gone(tmp_path: Path) -> None:
    """Each record has a file of the log to itself, and one entry; an index file has 31."""
    store = open_store(tmp_path)
    for number in range(40):
        store.append(a_message(body=bytes(3800), UNIQ_KEY=f"U{number}"), NOW + number)
    dispatch(store)
    store.flush_commit_log()
    delete_log_files(store, 30)
    assert store.old_files.take_index_files() == []
    assert store.query_message("TopicA", "U30", 32, 0, 1 << 62).buffers
    delete_log_files(store, 1)
    assert len(store.old_files.take_index_files()) == 1
    store.close()


def test_a_store_opens_as_it_was_after_a_deletion(store: FileMessageStore, tmp_path: Path) -> None:
    delete_log_files(store, 7)
    follow(store)
    kept = [bodies(store, queue_id=queue_id) for queue_id in (0, 1)]
    lows = [store.min_offset("TopicA", queue_id) for queue_id in (0, 1)]
    store.close()
    again = open_store(tmp_path)
    assert again.commit_log_min_offset() == 7 * FILE
    assert [bodies(again, queue_id=queue_id) for queue_id in (0, 1)] == kept
    assert [again.min_offset("TopicA", queue_id) for queue_id in (0, 1)] == lows
    again.close()


def test_a_queue_whose_messages_are_all_gone_goes_on_counting(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 25, topic="Rare")
    fill(store, 200)
    store.flush_commit_log()
    delete_log_files(store, 6)
    follow(store)
    assert (store.min_offset("Rare", 0), store.max_offset("Rare", 0)) == (25, 25)
    assert disk.names(store.config.consume_queue_directory / "Rare" / "0") == [f"{400:020d}"]
    store.close()
    again = open_store(tmp_path)
    assert (again.min_offset("Rare", 0), again.max_offset("Rare", 0)) == (25, 25)
    assert fill(again, 1, topic="Rare")[0].queue_offset == 25
    again.close()


def test_the_last_file_never_goes(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 3)
    assert store.old_files.look(10).files == []
    assert not store.old_files.take_log_file(0, NOW)
    assert len(bodies(store)) == 3
    store.close()


def test_a_file_that_is_read_hangs_until_it_is_not(store: FileMessageStore) -> None:
    """Only the first file; the others wait behind it."""
    held = store.record_bytes(0)
    assert held is not None
    content = bytes(held)
    old_files = store.old_files
    assert old_files.take_log_file(0, NOW)
    assert not old_files.delete_hanging(NOW, FORCIBLY)
    assert store.commit_log_min_offset() == FILE
    assert len(log_names(store)[0]) == 20
    assert log_names(store)[0] == f"{0:020d}"
    assert not old_files.take_log_file(FILE, NOW)
    assert not old_files.delete_hanging(NOW + FORCIBLY - 1, FORCIBLY)
    assert held == content
    del held
    assert old_files.delete_hanging(NOW + FORCIBLY - 1, FORCIBLY)
    assert log_names(store)[0] == f"{FILE:020d}"
    assert old_files.hanging is None


def test_a_file_that_is_read_for_too_long_goes_and_its_readers_keep_their_slices(store: FileMessageStore) -> None:
    held = store.record_bytes(0)
    assert held is not None
    content = bytes(held)
    old_files = store.old_files
    assert old_files.take_log_file(0, NOW)
    assert not old_files.delete_hanging(NOW, FORCIBLY)
    assert old_files.delete_hanging(NOW + FORCIBLY, FORCIBLY)
    assert log_names(store)[0] == f"{FILE:020d}"
    assert held == content
    delete_log_files(store, 3)
    assert held == content


def test_a_slice_of_an_earlier_mapping_counts(store: FileMessageStore) -> None:
    """A file may have been unmapped to make room, and mapped again, while somebody holds a slice."""
    held = store.record_bytes(0)
    file = store._log.files.files[0]
    file.unmap()
    assert file.is_held
    file.slice(0, 1)
    assert store.old_files.take_log_file(0, NOW)
    assert not store.old_files.delete_hanging(NOW, FORCIBLY)
    del held
    assert store.old_files.delete_hanging(NOW, FORCIBLY)


def test_a_hanging_file_is_there_again_after_a_restart(store: FileMessageStore, tmp_path: Path) -> None:
    held = store.record_bytes(0)
    assert store.old_files.take_log_file(0, NOW)
    assert not store.old_files.delete_hanging(NOW, FORCIBLY)
    follow(store)
    store.close()
    again = open_store(tmp_path)
    assert again.commit_log_min_offset() == 0
    assert again.max_offset("TopicA", 0) == 150
    assert bodies(again)[-1][:8] == b"00000298"
    again.close()
    assert held is not None


def test_deleting_beside_a_reader_and_a_writer(tmp_path: Path) -> None:
    """The worker's half runs in another thread all the while."""
    store = open_store(tmp_path)
    fill(store, 200)
    store.flush_commit_log()
    stop = threading.Event()
    wanted: list[int] = []
    failures: list[Exception] = []

    def work() -> None:
        try:
            while not stop.is_set():
                store.old_files.look(10)
                store.old_files.queue_starts()
                if wanted:
                    store.old_files.delete_hanging(NOW, 0)
                    wanted.clear()
        except Exception as error:
            failures.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    expected = 0
    for first in range(200, 2000, 20):
        fill(store, 20, first=first)
        store.flush_commit_log()
        if not wanted and store.old_files.take_log_file(store.commit_log_min_offset(), NOW):
            wanted.append(1)
        for trimmed in store.old_files.queue_starts():
            store.old_files.delete_all(store.old_files.trim_queue(trimmed))
        numbers = [int(body[:8]) for body in bodies(store)]
        assert numbers == list(range(numbers[0], first + 20))
        expected = numbers[0]
    stop.set()
    worker.join()
    assert not failures
    assert expected > 0
    store.close()


def test_a_topic_deleted_meanwhile_does_not_matter(store: FileMessageStore) -> None:
    delete_log_files(store, 5)
    starts = store.old_files.queue_starts()
    store.delete_topic("TopicA")
    assert [store.old_files.trim_queue(trimmed) for trimmed in starts] == [[], []]
    assert store.old_files.queue_starts() == []


def test_one_queue_is_deleted(store: FileMessageStore) -> None:
    store.delete_queue("TopicA", 1)
    store.delete_queue("TopicA", 7)
    assert store.queues() == [("TopicA", 0)]
    assert disk.names(store.config.consume_queue_directory / "TopicA", directories=True) == ["0"]
    dispatch(store)
    assert len(bodies(store)) == 150


units = st.lists(st.one_of(st.none(), st.integers(1, 5)), max_size=60)


@given(gaps=units, wanted=st.integers(0, 400))
def test_where_a_queue_begins(gaps: list[int | None], wanted: int) -> None:
    """Against a walk over all units; None is a filler."""
    queue = _MemoryQueue(gaps)
    walked = next((number for number, offset in enumerate(queue.offsets)
                   if offset is not None and offset >= wanted), len(gaps))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "read_at", queue.read_at)
        assert first_position(queue.queue, wanted) == walked * UNIT_SIZE


class _MemoryQueue:
    """Units without a disk: Hypothesis tries many."""

    def __init__(self, gaps: list[int | None]) -> None:
        self.offsets: list[int | None] = []
        last = 0
        data = b""
        for gap in gaps:
            last += gap or 0
            self.offsets.append(None if gap is None else last)
            data += encode(FILLER) if gap is None else encode(FILLER._replace(physical_offset=last, size=1))
        pool = MappedFilePool(16)
        files = MappedFileQueue(Path("none"), 200, pool, "mappedFileSizeConsumeQueue")
        files.files = [files._mapped_file(Path("none") / str(start), start, 200) for start in range(0, len(data), 200)]
        self.data = data
        self.queue = ConsumeQueue("T", 0, files)
        self.queue.end = len(data)

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        start = int(Path(path).name)
        return self.data[start + offset:start + offset + size]
