import shutil
from pathlib import Path

import pytest

from regulus.model.store_result import QueueUnit
from regulus.record import batch_unit
from regulus.record.dispatch_request import DispatchRequest
from regulus.store.batch_consume_queue import BatchConsumeQueue
from regulus.store.consume_queues import ConsumeQueues
from regulus.store.mapped_file import MappedFilePool

FILE_SIZE = 4 * 46
COUNTS = (3, 1, 2, 5, 1, 1, 4, 2, 3)
BASES = (0, 3, 4, 6, 11, 12, 13, 17, 19)


def request(number: int, offset: int, count: int, size: int = 100) -> DispatchRequest:
    made = DispatchRequest(size)
    made.topic, made.queue_id = "B", 0
    made.physical_offset, made.queue_offset, made.message_count = 100 * number, offset, count
    made.store_timestamp, made.tags_code = 1000 + number // 2, number
    return made


def queues(directory: Path) -> ConsumeQueues:
    made = ConsumeQueues(directory / "consumequeue", 200, MappedFilePool(16), directory / "batchconsumequeue",
                         FILE_SIZE)
    made.batch_topics.add("B")
    return made


def filled(directory: Path, records: int = len(COUNTS)) -> BatchConsumeQueue:
    queue = queues(directory).have("B", 0)
    assert isinstance(queue, BatchConsumeQueue)
    for number, (base, count) in enumerate(zip(BASES[:records], COUNTS, strict=False)):
        assert queue.put_record(request(number, base, count))
    return queue


def reopened(directory: Path, log_bound: int = 1 << 40) -> BatchConsumeQueue:
    again = queues(directory)
    again.log_bound = log_bound
    again.load(None)
    queue = again.find("B", 0)
    assert isinstance(queue, BatchConsumeQueue)
    return queue


def test_records_lie_end_to_end_in_a_folder_of_their_own(tmp_path: Path) -> None:
    queue = filled(tmp_path)
    folder = tmp_path / "batchconsumequeue" / "B" / "0"
    assert sorted(path.name for path in folder.iterdir()) == [f"{start:020d}" for start in (0, 184, 368)]
    assert (queue.min_offset, queue.max_offset, queue.next_offset, queue.max_physical_offset) == (0, 22, 22, 900)
    assert not queue.has_gap
    assert not (tmp_path / "consumequeue").exists()


@pytest.mark.parametrize("offset", range(22))
def test_each_message_is_found_by_the_record_that_has_it(tmp_path: Path, offset: int) -> None:
    queue = filled(tmp_path)
    number = max(index for index, base in enumerate(BASES) if base <= offset)
    assert queue.unit(offset) == QueueUnit(BASES[number], 100 * number, 100, number)
    assert [unit.queue_offset for unit in queue.units(offset, 5)] == list(BASES[number:number + 5])


def test_nothing_is_behind_the_last(tmp_path: Path) -> None:
    queue = filled(tmp_path)
    assert queue.unit(22) is None
    assert queue.units(22, 3) == []


def test_what_was_built_before_is_not_built_again(tmp_path: Path) -> None:
    queue = filled(tmp_path)
    assert not queue.put_record(request(8, 19, 3))
    assert not queue.put_record(request(4, 11, 1))
    assert not queue.has_gap
    assert not queue.put_record(request(20, 5, 1))
    assert queue.max_offset == 22
    assert queue.has_gap


def test_messages_that_are_missing_leave_a_gap_that_reads_pass_over(tmp_path: Path) -> None:
    queue = filled(tmp_path, 2)
    assert queue.put_record(request(9, 10, 2))
    assert queue.has_gap
    assert [unit.queue_offset for unit, _ in queue.batch_units(7, 1000)] == [10]
    assert queue.unit(7) is None
    assert queue.max_offset == 12
    assert queue.put_record(request(10, 12, 1))
    assert queue.has_gap


def test_what_was_appended_and_is_not_built_yet_keeps_its_places(tmp_path: Path) -> None:
    queue = filled(tmp_path, 1)
    queue.next_offset = 6
    assert queue.put_record(request(1, 3, 1))
    assert (queue.next_offset, queue.max_offset) == (6, 4)


def test_a_topic_that_was_made_anew_begins_anew(tmp_path: Path) -> None:
    queue = filled(tmp_path)
    assert queue.put_record(request(20, 0, 2))
    assert (queue.min_offset, queue.max_offset) == (0, 2)
    assert len(queue.files.files) == 1
    again = reopened(tmp_path)
    assert (again.max_offset, again.end, again.known_end) == (2, 46, 46)


def test_its_beginning_is_told_without_a_map_as_workers_ask_for_it(tmp_path: Path) -> None:
    filled(tmp_path)
    queue = reopened(tmp_path)
    assert queue.min_offset == 0
    queue.start = 4 * 46
    assert queue.min_offset == 11
    assert [file.mapping for file in queue.files.files] == [None] * 3
    queue.start = queue.end
    assert queue.min_offset == 22
    queue.start = 0
    assert queue.min_offset == 0
    queue.truncate(0)
    assert (queue.min_offset, queue.max_offset) == (0, 0)
    assert queue.put_record(request(0, 5, 2))
    assert queue.min_offset == 5
    assert queue.put_record(request(1, 0, 2))
    assert queue.min_offset == 0


def test_it_is_taken_up_as_it_was_left(tmp_path: Path) -> None:
    filled(tmp_path)
    again = reopened(tmp_path)
    assert (again.min_offset, again.max_offset, again.next_offset, again.end) == (0, 22, 22, 9 * 46)
    assert again.known_end == again.end
    assert again.put_record(request(9, 22, 4))
    assert again.max_offset == 26


def test_what_speaks_of_records_that_the_log_does_not_have_is_cut(tmp_path: Path) -> None:
    filled(tmp_path)
    again = reopened(tmp_path, log_bound=750)
    assert (again.max_offset, again.max_physical_offset) == (17, 700)
    assert again.known_end == 9 * 46
    assert reopened(tmp_path).max_offset == 17


def test_a_unit_that_does_not_follow_ends_it(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / "batchconsumequeue" / "B" / "0" / f"{368:020d}"
    path.write_bytes(batch_unit.encode(batch_unit.BatchUnit(800, 100, 8, 1004, 18, 3)) + bytes(138))
    again = reopened(tmp_path)
    assert again.max_offset == 19
    assert again.known_end == 9 * 46


@pytest.mark.parametrize(("physical_offset", "end", "max_offset"), [
    (900, 9, 22), (801, 9, 22), (800, 8, 19), (450, 5, 12), (400, 4, 11), (0, 0, 0)])
def test_a_cut_of_the_log_cuts_it(tmp_path: Path, physical_offset: int, end: int, max_offset: int) -> None:
    queue = filled(tmp_path)
    queue.truncate(physical_offset)
    assert (queue.end, queue.max_offset, queue.next_offset) == (end * 46, max_offset, max_offset)
    assert queue.max_physical_offset == (100 * end if end else -1)
    assert reopened(tmp_path).max_offset == max_offset


def test_a_cut_of_the_log_is_no_loss_of_units_and_hides_none(tmp_path: Path) -> None:
    filled(tmp_path)
    queue = reopened(tmp_path)
    queue.truncate(450)
    assert queue.known_end == queue.end == 5 * 46
    queue.known_end = 9 * 46
    queue.truncate(400)
    assert (queue.known_end, queue.end) == (9 * 46, 4 * 46)


def test_what_is_written_where_the_log_was_cut_is_built_though_the_topic_was_made_behind(tmp_path: Path) -> None:
    made = queues(tmp_path)
    made.births[("B", 0)] = 500
    queue = made.have("B", 0)
    assert isinstance(queue, BatchConsumeQueue)
    assert not queue.put_record(request(4, 0, 2))
    queue.truncate(300)
    assert queue.put_record(request(3, 0, 2))
    assert queue.max_offset == 2


@pytest.mark.parametrize(("physical_offset", "min_offset"), [(0, 0), (1, 3), (400, 11), (401, 12), (800, 19),
                                                             (900, 22)])
def test_it_begins_with_the_first_record_that_the_log_has(tmp_path: Path, physical_offset: int,
                                                          min_offset: int) -> None:
    queue = filled(tmp_path)
    assert queue.first_from(physical_offset) == min_offset
    queue.correct_start(physical_offset)
    assert (queue.min_offset, queue.max_offset) == (min_offset, 22)
    assert queue.unit(2) is None or physical_offset == 0


def test_a_file_that_is_missing_is_passed_over(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "batchconsumequeue" / "B" / "0" / f"{184:020d}").unlink()
    queue = reopened(tmp_path)
    assert list(queue.batch_units(11, 1000)) == []
    assert queue.max_offset == 11


def test_behind_a_file_that_is_missing_the_next_one_is_served(tmp_path: Path) -> None:
    """Recovery reads the last ones only."""
    queue = filled(tmp_path)
    for number in range(9, 20):
        assert queue.put_record(request(number, 22 + 2 * (number - 9), 2))
    (tmp_path / "batchconsumequeue" / "B" / "0" / f"{184:020d}").unlink()
    queue = reopened(tmp_path)
    assert (queue.min_offset, queue.max_offset) == (0, 44)
    for offset in (11, 12, 18, 19, 21):
        assert [unit.queue_offset for unit, _ in queue.batch_units(offset, 1000)] == [19, 22, 24, 26]
    assert [unit.queue_offset for unit, _ in queue.batch_units(4, 1000)] == [4, 6]
    assert [queue.unit(offset) is None for offset in (10, 11, 18, 19)] == [False, True, True, False]
    assert [queue.first_from(physical_offset) for physical_offset in (300, 301, 800, 801, 1901)] == [6, 19, 19, 22, 44]
    assert [file.mapping is None for file in queue.files.files][-1]
    queue.correct_start(301)
    assert queue.min_offset == 19


def test_what_lies_before_a_file_that_is_missing_ends_before_it(tmp_path: Path) -> None:
    queue = filled(tmp_path)
    for number in range(9, 20):
        assert queue.put_record(request(number, 22 + 2 * (number - 9), 2))
    (tmp_path / "batchconsumequeue" / "B" / "0" / f"{184:020d}").unlink()
    queue = reopened(tmp_path)
    assert [queue.offset_by_time(1001, upper=upper) for upper in (False, True)] == [4, 6]
    queue.truncate(800)
    assert (queue.end, queue.max_offset, queue.next_offset, queue.max_physical_offset) == (4 * 46, 11, 11, 400)


def test_a_record_that_lies_before_the_last_one_ends_it(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / "batchconsumequeue" / "B" / "0" / f"{368:020d}"
    path.write_bytes(batch_unit.encode(batch_unit.BatchUnit(300, 100, 8, 1004, 19, 3)) + bytes(138))
    assert reopened(tmp_path).max_offset == 19


def test_files_as_large_as_those_of_a_broker_are_taken_up(tmp_path: Path) -> None:
    """Which are read a page first, and then more at a time."""
    made = ConsumeQueues(tmp_path / "consumequeue", 200, MappedFilePool(16), tmp_path / "batchconsumequeue")
    made.batch_topics.add("B")
    queue = made.have("B", 0)
    assert isinstance(queue, BatchConsumeQueue)
    for number in range(1600):
        assert queue.put_record(request(number, 2 * number, 2))
    queue.recover(1 << 40)
    assert (queue.end, queue.known_end, queue.max_offset) == (1600 * 46, 1600 * 46, 3200)
    assert [unit.queue_offset for unit, _ in queue.batch_units(3001, 92)] == [3000, 3002]


def test_looking_twice_finds_the_same(tmp_path: Path) -> None:
    queue = filled(tmp_path)
    assert queue.min_offset == 0
    for _ in range(2):
        queue.look(1 << 40)
        assert (queue.min_offset, queue.max_offset, queue.end) == (0, 22, 9 * 46)


def test_one_that_is_emptied_begins_with_what_comes_then(tmp_path: Path) -> None:
    queue = filled(tmp_path)
    assert queue.min_offset == 0
    queue.empty()
    assert (queue.min_offset, queue.max_offset, queue.next_offset) == (0, 0, 0)
    assert queue.put_record(request(9, 5, 2))
    assert (queue.min_offset, queue.max_offset) == (5, 7)


@pytest.mark.parametrize("missing", range(1, 4))
def test_a_file_that_is_missing_is_passed_over_wherever_one_looks_from(tmp_path: Path, missing: int) -> None:
    """Of 24 records with two messages each, in six files; the last ones are looked through when a queue is opened."""
    queue = filled(tmp_path, 0)
    for number in range(24):
        queue.put_record(request(number, 2 * number, 2))
    (tmp_path / "batchconsumequeue" / "B" / "0" / f"{184 * missing:020d}").unlink()
    queue.files.load()
    there = [number for number in range(24) if number // 4 != missing]
    for offset in range(48):
        expected = next(number for number in there if 2 * number + 2 > offset)
        assert next(queue.batch_units(offset, 46))[0].queue_offset == 2 * expected
        assert queue.first_from(100 * (offset // 2)) == 2 * expected
        assert queue.offset_by_time(1000 + offset // 4, upper=False) == 2 * next(
            (number for number in there if number // 2 >= offset // 4 and offset < 44), 23)




def test_where_messages_were_lost_it_goes_on_behind_them(tmp_path: Path) -> None:
    queue = filled(tmp_path, 1)
    queue.go_on_at(7)
    assert (queue.next_offset, queue.max_offset, queue.max_physical_offset) == (7, 7, 100)
    queue.go_on_at(7)
    again = reopened(tmp_path, log_bound=100)
    assert (again.next_offset, again.max_offset, again.end, again.max_physical_offset) == (7, 7, 2 * 46, 100)
    assert again.known_end == again.end
    assert again.unit(6) is None
    assert len(again.units(0, 9)) == 1
    assert again.put_record(request(1, 7, 2))
    assert not again.has_gap
    again.truncate(100)
    assert (again.max_offset, again.max_physical_offset) == (7, 100)
    again.truncate(99)
    assert (again.max_offset, again.max_physical_offset) == (3, 100)
    again.truncate(0)
    assert (again.max_offset, again.max_physical_offset) == (0, -1)


def test_the_end_in_the_table_is_one_of_messages(tmp_path: Path) -> None:
    queue = filled(tmp_path)
    queue.know_end(30)
    assert (queue.tabled_max_offset, queue.known_end) == (30, 0)


def test_by_time(tmp_path: Path) -> None:
    # Two records each are of one time, the last one alone.
    queue = filled(tmp_path)
    assert [queue.offset_by_time(stamp, upper=False) for stamp in (0, 1000, 1001, 1003, 1004, 9999)] == [
        0, 0, 4, 13, 19, 19]
    assert [queue.offset_by_time(stamp, upper=True) for stamp in (0, 1000, 1001, 1003, 1004, 9999)] == [
        0, 3, 6, 17, 19, 19]


def test_an_empty_one_has_nothing(tmp_path: Path) -> None:
    queue = filled(tmp_path, 0)
    assert (queue.min_offset, queue.max_offset, queue.offset_by_time(0, upper=False)) == (0, 0, 0)


def test_one_that_was_built_elsewhere_is_taken_up(tmp_path: Path) -> None:
    built = filled(tmp_path / "anew", 4)
    built.go_on_at(40)
    shutil.copytree(tmp_path / "anew" / "batchconsumequeue", tmp_path / "batchconsumequeue")
    queue = queues(tmp_path).have("B", 0)
    queue.take_up(built)
    assert (queue.max_offset, queue.next_offset, queue.end) == (40, 40, 5 * 46)


def test_each_unit_is_read_with_the_begin_of_the_next_one_wherever_that_lies(tmp_path: Path) -> None:
    queue = filled(tmp_path)
    bases = [unit.queue_offset for unit in map(queue.unit_at, range(0, queue.end, 46)) if unit is not None]
    for base, behind in zip(bases, [*bases[1:], queue.max_offset], strict=True):
        unit, said = next(queue.batch_units(base, 46))
        assert (unit.queue_offset, said) == (base, behind)
