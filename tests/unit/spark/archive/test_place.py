"""What a read of an archive takes, as a batch and as a stream."""

import shutil
from dataclasses import replace

import pytest

from regulus.errors import DataLoss, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive.manifest import Manifest, Range, encode, manifest_path
from regulus.spark.archive.place import ArchivePlace, plan
from regulus.spark.marks import Mark
from regulus.spark.open_place import scan_part
from regulus.spark.options import parse_options
from regulus.spark.read_plan import UnitRange
from regulus.spark.readers.stream_planner import StreamPlanner
from tests.archives import archive_store, archived_rows
from tests.unit.spark.conftest import FIRST_STORE_TIME, order

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def archive(make_store, tmp_path):
    """40 orders in two queues and 10 retries, in ranges of about 1 kB."""
    messages = [order(number) for number in range(40)] + [order(number, topic="%RETRY%g") for number in range(10)]
    target = tmp_path / "archive"
    archive_store(make_store(messages), target, range_size=1024)
    return target


def planned(archive, cores=2, **options):
    read = parse_options({"archivePath": str(archive), **{key: str(value) for key, value in options.items()}})
    return plan(read, cores)


def offsets(archive, **options):
    rows = archived_rows(archive, "topic", "queue_id", "queue_offset", **options)
    return sorted((row["queue_id"], row["queue_offset"]) for row in rows)


def test_files_without_a_wanted_row_are_left_out(archive):
    everything = sum(len(part.parts) for part in planned(archive, topic="orders"))
    later = planned(archive, topic="orders", startingTimestamp=FIRST_STORE_TIME + 35_000)
    assert 0 < sum(len(part.parts) for part in later) < everything
    assert all(path.path.count("@orders.parquet") for part in later for path in part.parts)


def test_offsets_and_times_choose_rows_exactly(archive):
    start = '{"orders":{"broker-a":{"0":5,"1":-2}}}'
    end = '{"orders":{"broker-a":{"0":7,"1":2}}}'
    assert offsets(archive, topic="orders", startingOffsets=start, endingOffsets=end) == [
        (0, 5), (0, 6), (1, 0), (1, 1)]
    assert offsets(archive, topic="orders", startingTimestamp=FIRST_STORE_TIME + 10_000,
                   endingTimestamp=FIRST_STORE_TIME + 13_000) == [(0, 5), (0, 6), (1, 5)]
    times = f'{{"orders":{{"0":{FIRST_STORE_TIME + 38_000},"1":{FIRST_STORE_TIME + 39_000}}}}}'
    assert offsets(archive, topic="orders", startingOffsetsByTimestamp=times) == [(0, 19), (1, 19)]
    assert offsets(archive, assign='{"orders":{"broker-a":[1]}}', endingOffsets='{"orders":{"1":3}}') == [
        (1, 0), (1, 1), (1, 2)]


def test_special_topics_only_when_named(archive):
    assert len(offsets(archive, subscribePattern=".*")) == 40
    assert len(offsets(archive, topic="%RETRY%g")) == 10


@pytest.mark.parametrize(("options", "error", "text"), [
    ({"topic": "order"}, OptionError, "the archive has no topic 'order'; did you mean 'orders'"),
    ({"topic": "orders", "startingOffsets": '{"orders":{"0":5}}'}, OptionError, "missing orders/broker-a/1"),
    ({"topic": "orders", "endingOffsets": '{"orders":{"0":25,"1":1}}'}, DataLoss,
     "orders/broker-a/0: messages 20 to 24 are gone, the queue ends at 20"),
    ({"topic": "orders", "startingTimestamp": "2030-01-01", "startingOffsetsByTimestampStrategy": "error"}, OptionError,
     "no message stored at or after its starting time"),
])
def test_what_cannot_be_is_said(archive, options, error, text):
    with pytest.raises(error, match=text):
        planned(archive, **options)


def test_large_files_are_cut_and_small_ones_put_together(archive):
    one = planned(archive, 1, topic="orders")
    assert len(one) == 1
    many = planned(archive, 1, topic="orders", minPartitions=4)
    assert len(many) == 4
    cut = planned(archive, 1, topic="orders", maxBytesPerPartition=1000)
    assert max(piece.shares for part in cut for piece in part.parts) > 1
    assert len(offsets(archive, topic="orders", maxBytesPerPartition=500)) == 40


def test_a_part_of_the_log_that_was_never_archived_is_a_loss(archive):
    lost = archive_manifest.effective(archive_manifest.ranges(archive))[1]
    (archive / manifest_path(lost)).unlink()
    with pytest.raises(DataLoss, match="left the log before they were archived"):
        planned(archive, topic="orders")
    left = offsets(archive, topic="orders", failOnDataLoss="false")
    assert 0 < len(left) < 40
    told = archived_rows(archive, "queue_id", "queue_offset", "message_type", "properties", topic="orders",
                         failOnDataLoss="report")
    gaps = {row["queue_id"]: (row["queue_offset"], int(dict(row["properties"])["GAP_END"]))
            for row in told if row["message_type"] == "gap"}
    there = sorted((row["queue_id"], row["queue_offset"]) for row in told if row["message_type"] != "gap")
    missing = [(queue_id, offset) for queue_id, (start, end) in gaps.items() for offset in range(start, end)]
    assert there == left
    assert sorted(there + missing) == [(queue_id, offset) for queue_id in range(2) for offset in range(20)]


def test_a_message_that_was_rejected_is_a_loss(make_store, tmp_path):
    store = make_store([order(number, properties={"PAD": "x" * 300}) for number in range(40)])
    first = store / "commitlog" / f"{0:020d}"
    first.write_bytes(first.read_bytes().replace(b"body 4", b"BODY 4"))
    assert archive_store(store, tmp_path / "archive").rejected == 1
    with pytest.raises(DataLoss, match="orders/broker-a/0: message 2 is gone, as the log had no good record"):
        planned(tmp_path / "archive", topic="orders")
    assert len(offsets(tmp_path / "archive", topic="orders", failOnDataLoss="false")) == 39
    later = '{"orders":{"0":3,"1":0}}'
    assert len(offsets(tmp_path / "archive", topic="orders", startingOffsets=later)) == 37
    told = archived_rows(tmp_path / "archive", "queue_id", "queue_offset", "message_type", topic="orders",
                         failOnDataLoss="report")
    assert [tuple(row.values()) for row in told if row["message_type"] == "gap"] == [(0, 2, "gap")]
    with pytest.raises(DataLoss, match="message 2 is gone"):
        Stream(tmp_path / "archive").rest()


def test_an_archive_of_nothing_has_no_topic(tmp_path):
    path = tmp_path / manifest_path(Range("b", 0, 10))
    path.parent.mkdir(parents=True)
    path.write_bytes(encode(Manifest(range=Range("b", 0, 10), records=0, rows=0, hidden=0, rejected=0, queues={},
                                     files=())))
    with pytest.raises(OptionError, match="it has none"):
        planned(tmp_path, topic="orders")
    assert planned(tmp_path, subscribePattern=".*") == []


# --- as a place of queues --------------------------------------------------------------------------------------------


def stream_options(archive, **options):
    return parse_options({"archivePath": str(archive), "topic": "orders", **options}, streaming=True)


def place_of(archive):
    return ArchivePlace(stream_options(archive))


class Stream:
    """A query's planning, and its batches."""

    def __init__(self, archive, **options):
        self.options = stream_options(archive, startingOffsets="earliest", **options)
        self.planner = StreamPlanner(self.options, ArchivePlace(self.options), lambda: 0.0, lambda: 0,
                                     lambda seconds: None)
        self.offset = self.planner.initial()

    def batch(self):
        """Queue and offset of each row of the next batch."""
        end = self.planner.latest(self.offset, is_limited=True)
        parts = self.planner.partitions(self.offset, end) if end != self.offset else []
        self.offset = end
        return [tuple(row.values()) for part in parts
                for batch in scan_part(self.options, ("queue_id", "queue_offset"), part) for row in batch.to_pylist()]

    def rest(self):
        found = []
        while batch := self.batch():
            found += batch
        return sorted(found)


def test_times_sizes_and_ends(archive):
    place = place_of(archive)
    other = QUEUE._replace(queue_id=1)
    assert place.queues() == [QUEUE, other]
    assert {queue: (state.low, state.high) for queue, state in place.states([QUEUE, other]).items()} == {
        QUEUE: (0, 20), other: (0, 20)}
    times = {QUEUE: FIRST_STORE_TIME + 11_000, other: FIRST_STORE_TIME + 60_000}
    assert place.offsets_at(times) == {QUEUE: 6, other: 20}
    assert place.marks({QUEUE: 6, other: 20}) == {QUEUE: Mark(FIRST_STORE_TIME + 12_000, f"C{12:031}")}
    (size,) = place.record_sizes([UnitRange("orders", 0, 0, 20, "broker-a")])
    assert 100 < size < 1024


def test_a_stream_reads_all_and_then_what_is_archived_later(make_store, tmp_path):
    archive = tmp_path / "archive"
    shutil.move(make_store([order(number) for number in range(20)]), tmp_path / "earlier")
    archive_store(tmp_path / "earlier", archive, range_size=1024)
    stream = Stream(archive, maxOffsetsPerTrigger="8")
    first = stream.batch()
    assert 0 < len(first) <= 8
    assert sorted(first + stream.rest()) == [(queue_id, offset) for queue_id in range(2) for offset in range(10)]
    archive_store(make_store([order(number) for number in range(40)]), archive, range_size=1024)
    assert stream.rest() == [(queue_id, offset) for queue_id in range(2) for offset in range(10, 20)]


def made_anew(make_store, tmp_path, *, within):
    """An archive of 12 orders, behind which a topic of the same name has 8: in the same range, or in the next one."""
    archive, other = tmp_path / "archive", tmp_path / "other"
    shutil.move(make_store([order(number) for number in range(12)]), tmp_path / "earlier")
    archive_store(tmp_path / "earlier", archive)
    archive_store(make_store([order(number) for number in range(8)]), other)
    (earlier,), (later,) = (archive_manifest.load(path) for path in (archive, other))
    for file in later.files:
        target = archive / f"{file.path}.later"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(other / file.path, target)
    behind = earlier.range.end
    moved = Range("broker-a", behind, behind + later.range.end)
    files = tuple(replace(file, path=f"{file.path}.later") for file in later.files)
    if not within:
        return archive, replace(later, range=moved, files=files)
    queues = {queue: (*stretches, *later.queues[queue]) for queue, stretches in earlier.queues.items()}
    both = replace(earlier, range=Range("broker-a", 0, moved.end), queues=queues, files=(*earlier.files, *files))
    return archive, both


def write(archive, manifest):
    (archive / manifest_path(manifest.range)).write_bytes(encode(manifest))


def test_a_topic_made_anew_is_its_last_one_for_a_stream_and_all_for_a_batch(make_store, tmp_path):
    archive, later = made_anew(make_store, tmp_path, within=False)
    stream = Stream(archive)
    assert len(stream.rest()) == 12
    write(archive, later)
    with pytest.raises(DataLoss, match="was deleted and made anew"):
        stream.rest()
    assert Stream(archive).rest() == [(queue_id, offset) for queue_id in range(2) for offset in range(4)]
    assert len(offsets(archive, topic="orders")) == 20


def test_topics_of_one_name_in_one_range_are_refused_as_a_stream(make_store, tmp_path):
    archive, both = made_anew(make_store, tmp_path, within=True)
    write(archive, both)
    with pytest.raises(DataLoss, match="made anew within one archived range"):
        Stream(archive).rest()
    assert len(offsets(archive, topic="orders")) == 20
