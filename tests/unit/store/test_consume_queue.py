import shutil
from pathlib import Path

import pytest

from regulus.errors import StoreNotWritable
from regulus.record.consume_queue_unit import FILLER, decode_all, encode
from regulus.record.consume_queue_unit import ConsumeQueueUnit as Unit
from regulus.store import disk
from regulus.store.consume_queue import ConsumeQueue
from regulus.store.consume_queues import ConsumeQueues
from regulus.store.mapped_file import MappedFilePool

FILE_SIZE = 200     # ten units


def queues(directory: Path) -> ConsumeQueues:
    return ConsumeQueues(directory, FILE_SIZE, MappedFilePool(16))


def filled(directory: Path, count: int, first: int = 0) -> ConsumeQueue:
    """Record k is at 100 * k and has 100 bytes."""
    queue = queues(directory).have("TopicA", 3)
    for number in range(first, first + count):
        assert queue.put(number * 100, 100, number + 7, number)
    return queue


def reopened(directory: Path) -> ConsumeQueue:
    again = queues(directory)
    again.load(None)
    queue = again.find("TopicA", 3)
    assert queue is not None
    return queue


def test_units_lie_end_to_end_over_files_of_one_size(tmp_path: Path) -> None:
    queue = filled(tmp_path, 25)
    folder = tmp_path / "TopicA" / "3"
    assert sorted(path.name for path in folder.iterdir()) == [f"{start:020d}" for start in (0, 200, 400)]
    assert all(path.stat().st_size == FILE_SIZE for path in folder.iterdir())
    assert next(decode_all((folder / f"{200:020d}").read_bytes())) == Unit(1000, 100, 17)
    assert (queue.min_offset, queue.max_offset, queue.max_physical_offset) == (0, 25, 2500)
    assert [unit.physical_offset for unit in queue.units(8, 5)] == [800, 900, 1000, 1100, 1200]
    assert queue.units(25, 5) == []


def test_what_was_built_before_is_not_built_again(tmp_path: Path) -> None:
    queue = filled(tmp_path, 5)
    assert not queue.put(300, 100, 0, 3)
    assert not queue.put(900, 100, 0, 2)
    assert queue.max_offset == 5


@pytest.mark.parametrize(("gap", "filled_gap"), [(9, 9), (10, 10), (11, 0)])
def test_a_gap_is_filled_up_to_the_size_of_a_file(tmp_path: Path, gap: int, filled_gap: int) -> None:
    queue = filled(tmp_path, 1)
    assert queue.put(900, 100, 0, 1 + gap)
    assert queue.max_offset == 2 + filled_gap


def test_a_full_disk_leaves_nothing_of_a_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queues(tmp_path).have("TopicA", 3)

    def refuse(path: str, offset: int, length: int) -> None:
        raise StoreNotWritable("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(disk, "reserve", refuse)
        with pytest.raises(StoreNotWritable):
            queue.put(900, 100, 0, 5)
    assert queue.files.files == []
    assert queue.put(900, 100, 0, 5)
    assert [unit.queue_offset for unit in queue.units(0, 10)] == [5]


def test_it_comes_back(tmp_path: Path) -> None:
    for count in (1, 9, 10, 11, 45):
        filled(tmp_path / str(count), count)
        queue = reopened(tmp_path / str(count))
        assert (queue.min_offset, queue.max_offset, queue.max_physical_offset) == (0, count, count * 100)
        assert queue.put(count * 100, 100, 0, count)
        assert queue.next_offset == count + 1


def test_a_queue_may_begin_at_any_unit(tmp_path: Path) -> None:
    queue = filled(tmp_path, 3, first=25)
    file = (tmp_path / "TopicA" / "3" / f"{400:020d}").read_bytes()
    assert file[:100] == encode(FILLER) * 5
    assert (queue.min_offset, queue.max_offset) == (25, 28)
    again = reopened(tmp_path)
    assert (again.max_offset, again.max_physical_offset) == (28, 2800)
    again.correct_start(0)
    assert again.min_offset == 25
    assert [unit.queue_offset for unit in again.units(0, 100)] == [25, 26, 27]


def test_a_gap_is_filled_so_that_each_unit_keeps_its_number(tmp_path: Path) -> None:
    queue = filled(tmp_path, 8)
    assert queue.put(1300, 100, 0, 13)
    assert queue.max_offset == 14
    assert [unit.queue_offset for unit in queue.units(6, 10)] == [6, 7, 13]
    assert reopened(tmp_path).max_offset == 14


@pytest.mark.parametrize(("physical_offset", "count"), [(0, 0), (1, 1), (700, 7), (701, 8), (2400, 24), (9999, 25)])
def test_truncating_drops_units_of_later_records(tmp_path: Path, physical_offset: int, count: int) -> None:
    queue = filled(tmp_path, 25)
    queue.truncate(physical_offset)
    assert queue.max_offset == queue.next_offset == count
    assert queue.max_physical_offset == (count * 100 if count else -1)
    assert reopened(tmp_path).max_offset == count
    assert queue.put(count * 100, 100, 0, count)


def test_stale_units_do_not_come_back_behind_the_end(tmp_path: Path) -> None:
    queue = filled(tmp_path, 25)
    queue.truncate(2200)
    queue.put(2200, 50, 0, 22)
    assert reopened(tmp_path).max_offset == 23


@pytest.mark.parametrize(("physical_offset_min", "start"), [(0, 0), (100, 1), (150, 2), (1000, 10), (2500, 25)])
def test_units_of_deleted_records_are_not_served(tmp_path: Path, physical_offset_min: int, start: int) -> None:
    queue = filled(tmp_path, 25)
    queue.correct_start(physical_offset_min)
    assert queue.min_offset == start
    assert len(queue.readable(0, 100)) == (0 if start else 100)


def test_deleted_first_files_are_tolerated(tmp_path: Path) -> None:
    filled(tmp_path, 25)
    (tmp_path / "TopicA" / "3" / f"{0:020d}").unlink()
    queue = reopened(tmp_path)
    queue.correct_start(1200)
    assert (queue.min_offset, queue.max_offset) == (12, 25)


def test_a_queue_with_a_missing_file_ends_before_it_and_knows_that_more_was_there(tmp_path: Path) -> None:
    filled(tmp_path, 25)
    (tmp_path / "TopicA" / "3" / f"{200:020d}").unlink()
    queue = reopened(tmp_path)
    assert (queue.max_offset, queue.known_end) == (10, 500)


@pytest.mark.parametrize("place", [0, 250, 399])
def test_a_queue_ends_before_a_unit_that_goes_back_in_the_log(tmp_path: Path, place: int) -> None:
    filled(tmp_path, 6)
    path = tmp_path / "TopicA" / "3" / f"{0:020d}"
    data = path.read_bytes()
    path.write_bytes(data[:80] + encode(Unit(place, 100, 0)) + data[100:])
    queue = reopened(tmp_path)
    assert (queue.max_offset, queue.known_end) == (4, 120)


def test_a_queue_with_few_messages_takes_one_page_of_the_disk(tmp_path: Path) -> None:
    queue = ConsumeQueues(tmp_path, 6_000_000, MappedFilePool(16)).have("TopicA", 0)
    for number in range(100):
        queue.put(number * 100, 100, 0, number)
    path = tmp_path / "TopicA" / "0" / f"{0:020d}"
    assert path.stat().st_size == 6_000_000
    assert path.stat().st_blocks * 512 <= 8192


def test_many_queues_are_not_all_mapped(tmp_path: Path) -> None:
    pool = MappedFilePool(16)
    all_queues = ConsumeQueues(tmp_path, FILE_SIZE, pool)
    for number in range(3):
        for queue_id in range(60):
            assert all_queues.have("TopicA", queue_id).put(number * 6000 + queue_id * 100, 100, 0, number)
    mapped = [queue for queue in all_queues.all() if queue.tail is not None and queue.tail.mapping is not None]
    assert len(mapped) <= 17
    assert all(queue.max_offset == len(queue.units(0, 10)) == 3 for queue in all_queues.all())


def test_flushing_leaves_nothing_dirty(tmp_path: Path) -> None:
    queue = filled(tmp_path, 25)
    assert queue.dirty_pages() == 3
    queue.flush()
    assert queue.dirty_pages() == 0


def test_deleting_a_topic_removes_its_folder_and_forgets_its_offsets(tmp_path: Path) -> None:
    all_queues = queues(tmp_path)
    all_queues.have("TopicA", 0).put(0, 100, 0, 0)
    all_queues.have("TopicB", 0).put(100, 100, 0, 0)
    all_queues.delete("TopicA", 200)
    assert [path.name for path in tmp_path.iterdir()] == ["TopicB"]
    assert all_queues.find("TopicA", 0) is None
    assert all_queues.have("TopicA", 0).next_offset == 0
    all_queues.delete("TopicC", 200)


@pytest.mark.parametrize("name", ["../outside", ".", "/etc", "TopicA/0"])
def test_only_queues_are_deleted_whatever_the_topic_is_called(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    all_queues = queues(tmp_path / "queues")
    all_queues.have("TopicA", 0).put(0, 100, 0, 0)
    all_queues.delete(name, 100)
    all_queues.delete_queue(name, 0, 100)
    assert (tmp_path / "outside").exists()
    assert (tmp_path / "queues" / "TopicA" / "0").exists()


def test_records_behind_in_dispatch_go_with_their_queue(tmp_path: Path) -> None:
    all_queues = queues(tmp_path)
    all_queues.have("TopicA", 0).put(0, 100, 0, 0)
    all_queues.delete("TopicA", 300)
    anew = all_queues.have("TopicA", 0)
    assert not anew.put(100, 100, 0, 1)
    assert not anew.put(200, 100, 0, 2)
    assert anew.put(300, 100, 0, 0)
    assert (anew.min_offset, anew.max_offset, anew.next_offset) == (0, 1, 1)


def test_a_first_message_behind_others_begins_its_queue_anew(tmp_path: Path) -> None:
    queue = filled(tmp_path, 25)
    end = queue.max_physical_offset
    assert not queue.put(end, 100, 0, 7)
    assert queue.put(end, 100, 0, 0)
    assert (queue.min_offset, queue.max_offset) == (0, 1)
    assert [unit.physical_offset for unit in queue.units(0, 32)] == [end]
    queue.flush()
    assert reopened(tmp_path).max_offset == 1


def test_folders_that_are_no_queues_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    (tmp_path / "TopicA" / "backup").mkdir()
    (tmp_path / "Empty").mkdir()
    assert reopened(tmp_path).max_offset == 3
    shutil.rmtree(tmp_path / "TopicA")
