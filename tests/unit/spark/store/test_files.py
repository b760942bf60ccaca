import shutil
from pathlib import Path

import pytest

from regulus.errors import DataLoss, OptionError, StoreDamaged
from regulus.record.consume_queue_unit import UNIT_SIZE
from regulus.spark.store.files import MappedFiles, StoreFiles
from tests.unit.spark.conftest import FIRST_STORE_TIME, GOLDEN, order, queue_ends


def test_queues_of_rocketmq_and_their_bounds(golden_store):
    files = StoreFiles(str(GOLDEN / golden_store))
    bounds = {(queue.topic, queue.queue_id): queue.bounds(files.log)
              for topic in files.topics() for queue in files.queues(topic)}
    assert bounds == {queue: (0, end) for queue, end in queue_ends(golden_store).items()}


def test_topics_are_those_with_queues_and_those_configured():
    topics = StoreFiles(str(GOLDEN / "store-4.9.8")).topics()
    assert {"SNormal", "%DLQ%CG_retry", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRACE_TOPIC"} <= topics
    assert "SDeleted" not in topics


def test_units_over_file_borders(make_store):
    root = make_store([order(number, queue_id=0) for number in range(23)])
    queue = StoreFiles(str(root)).queue("orders", 0)
    assert len(list((root / "consumequeue" / "orders" / "0").iterdir())) > 2
    assert len(queue.units(3, 21)) == 18 * UNIT_SIZE
    assert queue.units(7, 8) == queue.units(3, 21)[4 * UNIT_SIZE:5 * UNIT_SIZE]


def test_searching_by_place_and_by_time(make_store):
    files = StoreFiles(str(make_store([order(number) for number in range(20)])))
    queue = files.queue("orders", 1)
    assert queue.bounds(files.log) == (0, 10)
    for offset in range(10):
        place = queue.unit(offset).physical_offset
        assert queue.first_at_or_behind(place, 0, 10) == offset
        assert queue.first_at_or_behind(place + 1, 0, 10) == offset + 1
        stored = FIRST_STORE_TIME + 1000 * (2 * offset + 1)
        assert queue.first_stored_at_or_after(stored, 0, 10, files.log) == offset
        assert queue.first_stored_at_or_after(stored + 1, 0, 10, files.log) == offset + 1


def test_units_without_records_are_no_messages(make_store):
    """What a broker truncated without clearing it points to records that are not there."""
    root = make_store([order(number, queue_id=0) for number in range(12)])
    log = sorted((root / "commitlog").iterdir())[0]
    files = StoreFiles(str(root))
    place = files.queue("orders", 0).unit(7).physical_offset
    data = log.read_bytes()
    log.write_bytes(data[:place].ljust(len(data), b"\0"))
    files = StoreFiles(str(root))
    assert files.queue("orders", 0).bounds(files.log) == (0, 7)


def test_messages_whose_log_file_was_removed_are_not_read(make_store):
    root = make_store([order(number, queue_id=0, body=bytes(500)) for number in range(30)])
    first, second, *_ = sorted((root / "commitlog").iterdir())
    first.unlink()
    files = StoreFiles(str(root))
    queue = files.queue("orders", 0)
    start, end = queue.bounds(files.log)
    assert 0 < start < end == 30
    assert queue.unit(start).physical_offset >= int(second.name) > queue.unit(start - 1).physical_offset


def test_a_queue_that_begins_in_mid_file_is_read_from_its_first_message(make_store):
    root = make_store([order(number, queue_id=0) for number in range(8)])
    path = sorted((root / "consumequeue" / "orders" / "0").iterdir())[0]
    filler = bytes.fromhex("0000000000000000 7fffffff 0000000000000000")
    path.write_bytes(filler * 3 + path.read_bytes()[3 * UNIT_SIZE:])
    files = StoreFiles(str(root))
    assert files.queue("orders", 0).bounds(files.log) == (3, 8)


def test_a_directory_that_is_no_store_is_refused(tmp_path):
    with pytest.raises(OptionError, match="no directory 'commitlog'"):
        StoreFiles(str(tmp_path))
    (tmp_path / "commitlog").mkdir()
    with pytest.raises(OptionError, match="no directory 'consumequeue'"):
        StoreFiles(str(tmp_path))
    (tmp_path / "consumequeue").mkdir()
    with pytest.raises(OptionError, match="'commitlog' has no file of a log, and which has no directory 'config'"):
        StoreFiles(str(tmp_path))
    (tmp_path / "config").mkdir()
    assert StoreFiles(str(tmp_path)).topics() == set()


def test_a_gap_between_files_is_damage_unless_the_rest_is_wanted(tmp_path):
    for start in (0, 100, 300):
        (tmp_path / f"{start:020}").write_bytes(bytes(100))
    with pytest.raises(StoreDamaged, match="00300 does not begin where"):
        MappedFiles(tmp_path)
    files = MappedFiles(tmp_path, with_holes=True)
    assert files.spans(50, 350) == [(50, 100), (100, 200), (300, 350)]
    assert files.spans(200, 300) == files.spans(400, 500) == []
    with pytest.raises(DataLoss, match=r"has no file with byte 250: none from 200 to 300$"):
        files.piece_at(250)
    assert [files.next_start(position) for position in (0, 250, 350)] == [100, 300, 400]
    (tmp_path / f"{350:020}").write_bytes(bytes(100))
    with pytest.raises(StoreDamaged, match="00350 does not begin where"):
        MappedFiles(tmp_path, with_holes=True)


def test_searching_beside_files_that_are_missing(make_store):
    """The messages of a missing file count as stored with the next one that is there."""
    root = make_store([order(number, queue_id=0, body=bytes(500)) for number in range(30)])
    _, second, third, *_ = sorted((root / "commitlog").iterdir())
    files = StoreFiles(str(root))
    lost = range(*(files.queue("orders", 0).first_at_or_behind(int(path.name), 0, 30) for path in (second, third)))
    second.unlink()
    files = StoreFiles(str(root))
    queue = files.queue("orders", 0)
    assert queue.bounds(files.log) == (0, 30)
    for offset in range(30):
        found = queue.first_stored_at_or_after(FIRST_STORE_TIME + 1000 * offset, 0, 30, files.log)
        assert found == (lost.start if offset in lost or offset == lost.stop else offset)


def test_a_queue_whose_middle_file_is_missing_has_its_ends(make_store):
    root = make_store([order(number, queue_id=0) for number in range(23)])
    sorted((root / "consumequeue" / "orders" / "0").iterdir())[1].unlink()
    files = StoreFiles(str(root))
    queue = files.queue("orders", 0)
    assert queue.bounds(files.log) == (0, 23)
    assert queue.spans(3, 12) == [(3, 5), (10, 12)]
    assert queue.first_at_or_behind(queue.unit(4).physical_offset + 1, 0, 23) == 10
    assert queue.first_stored_at_or_after(FIRST_STORE_TIME + 7_000, 0, 23, files.log) == 5


def test_a_log_that_lies_elsewhere_makes_no_empty_queues(make_store):
    root = make_store([order(0)])
    for path in (root / "commitlog").iterdir():
        path.unlink()
    (root / "config").mkdir(exist_ok=True)
    files = StoreFiles(str(root))
    with pytest.raises(OptionError, match=r"commitlog has no file of a log, and .* has 1 units: .*storePathCommitLog"):
        files.queue("orders", 0).bounds(files.log)


def test_a_byte_that_no_file_holds_is_data_loss(tmp_path):
    (tmp_path / f"{100:020}").write_bytes(bytes(50))
    (tmp_path / "not a file of the log").write_bytes(b"x")
    files = MappedFiles(tmp_path)
    assert (files.start, files.end) == (100, 150)
    for position in (99, 150):
        with pytest.raises(DataLoss, match="no file with byte"):
            files.piece_at(position)


def test_a_file_that_vanishes_is_data_loss(tmp_path: Path):
    (tmp_path / f"{0:020}").write_bytes(bytes(50))
    files = MappedFiles(tmp_path)
    shutil.rmtree(tmp_path)
    with pytest.raises(DataLoss, match="was removed"):
        files.window(0)
    with pytest.raises(DataLoss, match="was removed"):
        files.window(0)


def test_broken_topics_are_damage(make_store):
    root = make_store([order(0)])
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text("{")
    with pytest.raises(StoreDamaged, match=r"topics\.json"):
        StoreFiles(str(root)).topics()


def test_a_topic_whose_records_may_be_batches_is_refused_and_not_empty(make_store):
    root = make_store([order(0)])
    (root / "batchconsumequeue" / "Batched" / "0").mkdir(parents=True)
    files = StoreFiles(str(root))
    assert "Batched" in files.topics()
    with pytest.raises(OptionError, match=r"topic Batched has queue\.type=BatchCQ"):
        files.queues("Batched")


def test_the_folder_in_which_a_broker_builds_queues_anew_is_no_topic(tmp_path):
    for directory in ("config", "commitlog", "consumequeue/TopicA/0", "consumequeue/.anew/TopicB/0"):
        (tmp_path / directory).mkdir(parents=True)
    assert StoreFiles(str(tmp_path)).topics() == {"TopicA"}
