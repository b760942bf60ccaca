"""A stream's batch that is done again over an archive: the same tasks, with the same rows in the same order."""

import random
import shutil

import pytest

from regulus.pipeline.archive.compact import DAY_MS, CompactConfig, compact
from regulus.pipeline.range_tasks import LocalTasks
from regulus.spark.archive import order as archive_order
from regulus.spark.archive.order import HistoryRange, OrderedFiles
from regulus.spark.archive.place import ArchivePlace
from regulus.spark.archive.plan import ArchiveRange, FilePart
from regulus.spark.open_place import scan_part
from regulus.spark.options import parse_options
from regulus.spark.read_plan import Gap, ReadRange, UnitRange
from regulus.spark.readers.stream_planner import StreamPlanner
from tests.archives import archive_store, nothing
from tests.unit.spark.conftest import order

FAR_AHEAD_MS = 1 << 42
COLUMNS = ("topic", "queue_id", "queue_offset", "body")


def pattern(archive, **options):
    return parse_options({"archivePath": str(archive), "subscribePattern": "orders.*", "startingOffsets": "earliest",
                          **options}, streaming=True)


def planner_of(options):
    return StreamPlanner(options, ArchivePlace(options), lambda: 0.0, lambda: 0, lambda seconds: None)


def tasks(archive, batch, **options):
    """The rows of each task of a batch."""
    options = pattern(archive, **options)
    return [[tuple(row.values()) for rows in scan_part(options, COLUMNS, part) for row in rows.to_pylist()]
            for part in planner_of(options).partitions(*batch)]


def first_batch(archive, **options):
    planner = planner_of(pattern(archive, **options))
    start = planner.initial()
    return start, planner.latest(start, is_limited=True)


def compacted(archive, *, range_size=1 << 20):
    config = CompactConfig(archive_path=str(archive), range_size=range_size, keep_superseded_ms=0)
    for _ in range(2):      # the second removes what the first replaced
        report = compact(LocalTasks(), config, "run", FAR_AHEAD_MS, None, nothing)
    assert report.removed


@pytest.fixture(params=["a clock that runs", "a clock set back over midnight by turns"])
def archive(request, make_store, tmp_path):
    """60 orders in 2 topics of 3 queues, in ranges of about 1 kB."""
    messages = [order(number, topic=f"orders{number % 2}", queue_id=number // 2 % 3) for number in range(60)]
    times = [DAY_MS * (number // 7 % 2) + number for number in range(60)] if "back" in request.param else None
    archive_store(make_store(messages, times), tmp_path / "archive", range_size=1024)
    return tmp_path / "archive"


@pytest.mark.parametrize("options", [{}, {"minPartitions": "4"}, {"maxRecordsPerPartition": "7"},
                                     {"maxOffsetsPerTrigger": "30", "minPartitions": "3"}])
def test_compaction_changes_no_task(archive, options):
    batch = first_batch(archive, **options)
    before = tasks(archive, batch, **options)
    assert len(before) >= int(options.get("minPartitions", 1))
    assert sum(map(len, before)) == int(options.get("maxOffsetsPerTrigger", 60))
    for rows in before:
        assert rows == sorted(rows)
    compacted(archive)
    assert tasks(archive, batch, **options) == before


@pytest.mark.parametrize("range_size", [2048, 4096])
def test_what_is_archived_later_changes_no_task(make_store, tmp_path, range_size):
    """Its messages are larger, so that there would be more tasks by the sizes of all."""
    archive = tmp_path / "archive"
    shutil.move(make_store([order(number) for number in range(20)]), tmp_path / "earlier")
    archive_store(tmp_path / "earlier", archive, range_size=1024)
    few = {"maxBytesPerPartition": "1000"}
    batch = first_batch(archive, **few)
    before = tasks(archive, batch, **few)
    assert sum(map(len, before)) == 20
    assert len(before) > 2
    more = [order(number) if number < 20 else order(number, body=bytes(1000)) for number in range(40)]
    archive_store(make_store(more), archive, range_size=range_size)
    assert tasks(archive, batch, **few) == before
    compacted(archive)
    assert tasks(archive, batch, **few) == before


def test_how_large_pieces_are_changes_no_order(archive, monkeypatch):
    batch = first_batch(archive)
    before = tasks(archive, batch)
    for size in (1, 700, 1500, 4000):
        monkeypatch.setattr(archive_order, "PIECE_BYTES_MAX", size)
        [part] = planner_of(pattern(archive)).partitions(*batch)
        assert isinstance(part, HistoryRange)
        assert len(part.pieces) >= min(60, 8000 // size)
        assert tasks(archive, batch) == before


def test_batches_are_as_small_as_asked(archive):
    options = pattern(archive, batchRows="7")
    [part] = planner_of(options).partitions(*first_batch(archive))
    assert max(batch.num_rows for batch in scan_part(options, COLUMNS, part)) == 7


def test_a_task_may_have_no_message_that_was_good(make_store, tmp_path):
    """Of the file's rows none is in its stretch."""
    store = make_store([order(number, properties={"PAD": "x" * 300}) for number in range(40)])
    log = store / "commitlog" / f"{0:020d}"
    log.write_bytes(log.read_bytes().replace(b"body 2", b"BODY 2"))
    assert archive_store(store, tmp_path / "archive").rejected == 1
    read = {"failOnDataLoss": "false", "maxRecordsPerPartition": "1", "maxOffsetsPerTrigger": "6"}
    found = tasks(tmp_path / "archive", first_batch(tmp_path / "archive", **read), **read)
    assert [[row[1:3] for row in rows] for rows in found] == [[(0, 0)], [], [(0, 2)], [(1, 0)], [(1, 1)], [(1, 2)]]


def test_a_batch_that_an_earlier_version_began_is_divided_as_it_was(archive):
    """By files."""
    start, end = first_batch(archive)
    for topic in end["topics"].values():
        del topic["bytes"]
    parts = planner_of(pattern(archive)).partitions(start, end)
    assert [part.by_queue for part in parts] == [False]
    assert sum(map(len, tasks(archive, (start, end)))) == 60


# --- pieces ----------------------------------------------------------------------------------------------------------


def unit(queue_id, start, end, topic="t"):
    return UnitRange(topic, queue_id, start, end, "b")


def file(path, *units, size=10):
    rows = sum(each.end - each.start for each in units)
    return FilePart(path, None, rows, rows * size, units=units)


def windows(part):
    return [(each.path, [window[:3] for window in each.wanted]) for each in part.parts]


def pieces(files, *units):
    return [windows(part) for part in OrderedFiles(files).pieces(units)]


def test_a_file_is_read_once_for_all_queues_of_a_task():
    files = [file("a", unit(0, 0, 10), unit(1, 0, 10)), file("b", unit(0, 10, 20), unit(1, 10, 20))]
    assert pieces(files, unit(0, 5, 12), unit(1, 0, 4)) == [[("a", [(0, 5, 12), (1, 0, 4)]), ("b", [(0, 5, 12)])]]
    assert pieces(files, unit(2, 0, 9), unit(1, 20, 30)) == []
    assert pieces([file("a", unit(0, 0, 9)), file("c", unit(0, 0, 9, "u"))], unit(0, 0, 9), unit(0, 0, 9, "u")) == [
        [("a", [(0, 0, 9)])], [("c", [(0, 0, 9)])]]


def test_pieces_end_where_a_file_begins_or_within_a_large_one(monkeypatch):
    monkeypatch.setattr(archive_order, "PIECE_BYTES_MAX", 100)
    small = [file("a", unit(0, 0, 6)), file("b", unit(0, 6, 12)), file("c", unit(1, 0, 4))]
    assert pieces(small, unit(0, 0, 12), unit(1, 0, 4)) == [
        [("a", [(0, 0, 6)])], [("b", [(0, 6, 12)]), ("c", [(1, 0, 4)])]]
    assert pieces([file("a", unit(0, 0, 20))], unit(0, 2, 17)) == [[("a", [(0, 2, 9)])], [("a", [(0, 9, 17)])]]


@pytest.mark.parametrize("seed", range(20))
def test_pieces_have_each_message_once_and_are_small(monkeypatch, seed):
    monkeypatch.setattr(archive_order, "PIECE_BYTES_MAX", 100)
    chance = random.Random(seed)
    files, ends = [], [0] * 3
    for number in range(9):
        begins, ends = ends, [end + chance.randrange(25) for end in ends]
        units = [unit(queue, begins[queue], ends[queue]) for queue in range(3) if begins[queue] < ends[queue]]
        files += [file(str(number), *units)] if units else []
    wanted = [unit(queue, chance.randrange(20), end) for queue, end in enumerate(ends) if end > 20]
    found = []
    for part in OrderedFiles(files).pieces(wanted):
        covered = sorted({window[:3] for each in part.parts for window in each.wanted})
        assert sum(end - start for _, start, end in covered) <= 10
        found += [(queue, offset) for queue, start, end in covered for offset in range(start, end)]
    assert found == [(each.queue_id, offset) for each in wanted for offset in range(each.start, each.end)]


def test_a_task_goes_from_the_archive_to_the_broker_and_back_queue_by_queue():
    files = OrderedFiles([file("a", unit(0, 0, 5), unit(1, 0, 9), unit(2, 0, 9))])
    parts = [ReadRange((unit(0, 0, 9), unit(1, 0, 9), unit(2, 0, 12), unit(3, 0, 4)))]
    behind = {0: 5, 1: 9, 2: 9, 3: 0}
    [task] = archive_order.in_order(parts, lambda queue: behind[queue.queue_id], files, (), ())
    first, live, second, rest = task.pieces
    assert windows(first) == [("a", [(0, 0, 5)])]
    assert live == ReadRange((unit(0, 5, 9),))
    assert windows(second) == [("a", [(1, 0, 9), (2, 0, 9)])]
    assert rest == ReadRange((unit(2, 9, 12), unit(3, 0, 4)))


def test_gaps_are_told_by_the_first_task():
    gap = Gap(unit(0, 0, 1).queue, 0, 1, "lost")
    files = OrderedFiles([file("a", unit(0, 0, 5))])

    def told(*parts, alone=()):
        return archive_order.in_order(parts, lambda queue: 5, files, alone, [gap])

    assert told() == [ReadRange((), (gap,))]
    first, second = told(ReadRange((unit(0, 0, 5),)), ReadRange((unit(0, 5, 7),)))
    assert (first.gaps, second.gaps) == ((gap,), ())
    assert isinstance(first.pieces[1], ArchiveRange)
    [nothing_behind] = told(ReadRange((unit(0, 3, 7),)), alone={unit(0, 0, 1).queue})
    assert [type(piece) for piece in nothing_behind.pieces] == [ReadRange, ArchiveRange]
