import pytest

from regulus.errors import DataLoss, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark import archive_manifest
from regulus.spark.archive_manifest import Manifest, Range, encode, manifest_path
from regulus.spark.archive_plan import bounds, ends, plan
from regulus.spark.options import parse_options
from tests.archives import archive_store, archived_rows
from tests.unit.spark.conftest import FIRST_STORE_TIME, order


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


def test_where_queues_begin_and_end(archive):
    assert ends(str(archive)) == {MessageQueue("orders", "broker-a", 0): 20, MessageQueue("orders", "broker-a", 1): 20,
                                  MessageQueue("%RETRY%g", "broker-a", 0): 5,
                                  MessageQueue("%RETRY%g", "broker-a", 1): 5}


def test_a_topic_made_anew_begins_behind_its_last_restart():
    def of(start, *stretches):
        return Manifest(range=Range("b", start, start + 10), records=0, rows=0, hidden=0, rejected=0,
                        queues={("t", 0): stretches}, files=())

    assert bounds([of(0, (3, 9)), of(10, (9, 12), (0, 4)), of(20, (4, 6))]) == {MessageQueue("t", "b", 0): (0, 6)}


def test_files_without_a_wanted_row_are_left_out(archive):
    everything = sum(len(part.parts) for part in planned(archive, topic="orders"))
    later = planned(archive, topic="orders", startingTimestamp=FIRST_STORE_TIME + 35_000)
    assert 0 < sum(len(part.parts) for part in later) < everything
    assert all(path.path.count("topic=orders") for part in later for path in part.parts)


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
    ({"topic": "orders", "endingOffsets": '{"orders":{"0":25,"1":1}}'}, DataLoss, "lies beyond the queue's end 20"),
    ({"topic": "orders", "startingTimestamp": "2030-01-01", "startingOffsetsByTimestampStrategy": "error"}, OptionError,
     "no message stored at"),
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
    assert 0 < len(offsets(archive, topic="orders", failOnDataLoss="false")) < 40


def test_an_archive_of_nothing_has_no_topic(tmp_path):
    path = tmp_path / manifest_path(Range("b", 0, 10))
    path.parent.mkdir(parents=True)
    path.write_bytes(encode(Manifest(range=Range("b", 0, 10), records=0, rows=0, hidden=0, rejected=0, queues={},
                                     files=())))
    with pytest.raises(OptionError, match="it has none"):
        planned(tmp_path, topic="orders")
    assert planned(tmp_path, subscribePattern=".*") == []
