"""An archive and a broker that no longer has all of what was archived, as one table."""

import shutil
import time

import pytest

from regulus.broker import request_table
from regulus.client.sync import Admin, Producer
from regulus.errors import DataLoss, OptionError
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.pipeline.archive.compact import CompactConfig, compact
from regulus.pipeline.range_tasks import LocalTasks
from regulus.spark.archive.history_place import HistoryPlace, TopicEpochs
from regulus.spark.archive.plan import ArchiveRange
from regulus.spark.open_place import scan_part
from regulus.spark.options import parse_options
from regulus.spark.read_bounds import batch_bounds
from regulus.spark.readers.stream_planner import StreamPlanner
from regulus.spark.table_schema import COLUMNS
from regulus.store.config import MessageStoreConfig
from regulus.testing.running_server import ServerThread
from regulus.wire.codes import RequestCode
from tests.archives import archive_store, nothing
from tests.unit.spark.conftest import FIRST_STORE_TIME, order

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]
ARCHIVED = 40


def wide(number):
    """Some of them fill a log file."""
    return order(number, properties={"PAD": "x" * 300})


class History:
    """An archive of 40 orders; a broker that lost the files with the first of them, and got 10 more."""

    def __init__(self, make_store, tmp_path, *, archived=ARCHIVED, **config):
        store = make_store([wide(number) for number in range(ARCHIVED)])
        self.archive = tmp_path / "archive"
        part = tmp_path / "part"
        shutil.copytree(store, part)
        if archived < ARCHIVED:
            shutil.rmtree(part)
            shutil.move(store, tmp_path / "whole")
            shutil.move(make_store([wide(number) for number in range(archived)]), part)
            shutil.move(tmp_path / "whole", store)
        archive_store(part, self.archive, **config)
        for path in sorted((store / "commitlog").iterdir())[:2]:
            path.unlink()
        self.server = ServerThread(store, store_config=MessageStoreConfig(
            store_path_root_dir=str(store), mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=100,
            message_index_enable=False))

    def __enter__(self):
        self.server.start()
        name_server = self.server.name_server_address
        with Admin(name_server) as admin, Producer(name_server, "app") as producer:
            admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2))
            for number in range(ARCHIVED, ARCHIVED + 10):
                producer.send(Message("orders", b"body %d" % number), queue=QUEUES[number % 2])
            until = time.monotonic() + 60
            while any(admin.max_offset(queue) < 25 for queue in QUEUES):
                assert time.monotonic() < until
            self.lows = [admin.min_offset(queue) for queue in QUEUES]
        return self

    def __exit__(self, *_):
        self.server.stop()

    def has_queues(self, count):
        """The broker's topic has so many queues from now on."""
        with Admin(self.server.name_server_address) as admin:
            admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=count, write_queue_nums=count))
            until = time.monotonic() + 60
            while len(admin.queues("orders")) != count:
                assert time.monotonic() < until

    def send(self, queue, count, end):
        name_server = self.server.name_server_address
        with Admin(name_server) as admin, Producer(name_server, "app") as producer:
            for number in range(count):
                producer.send(Message("orders", b"new %d" % number), queue=queue)
            until = time.monotonic() + 60
            while admin.max_offset(queue) < end:
                assert time.monotonic() < until

    def options(self, streaming=False, **options):
        what = {} if "assign" in options else {"topic": "orders"}
        return parse_options({"nameServer": self.server.name_server_address, "archivePath": str(self.archive),
                              **what, **options}, streaming=streaming)

    def parts(self, **options):
        place = HistoryPlace(self.options(**options))
        try:
            return place.partitions(*batch_bounds(self.options(**options), place), cores=2)
        finally:
            place.close()

    def rows(self, parts, **options):
        columns = ("queue_id", "queue_offset", "body", "message_type")
        return [tuple(row.values()) for part in parts for batch in scan_part(self.options(**options), columns, part)
                for row in batch.to_pylist()]


@pytest.fixture
def history(make_store, tmp_path):
    with History(make_store, tmp_path) as history:
        yield history


def expected(start, end):
    return sorted((number % 2, number // 2, b"body %d" % number, "normal") for number in range(start, end))


def test_history_and_tail_are_one_table_without_hole_or_overlap(history):
    assert min(history.lows) > 0
    parts = history.parts()
    assert {type(part) is ArchiveRange for part in parts} == {True, False}
    assert sorted(history.rows(parts)) == expected(0, 50)


def test_a_range_of_offsets_across_the_seam(history):
    parts = history.parts(startingOffsets='{"orders":{"0":18,"1":19}}', endingOffsets='{"orders":{"0":22,"1":21}}')
    assert [row[:2] for row in sorted(history.rows(parts))] == [(0, 18), (0, 19), (0, 20), (0, 21), (1, 19), (1, 20)]


def test_a_time_that_only_the_archive_knows(history):
    parts = history.parts(startingTimestamp=str(FIRST_STORE_TIME + 10_000))
    assert sorted(history.rows(parts)) == expected(10, 50)


class Stream:
    """A query's planning, and its batches."""

    def __init__(self, history, **options):
        self.history = history
        self.read = {"maxOffsetsPerTrigger": "16", **options}
        options = history.options(streaming=True, startingOffsets="earliest", **self.read)
        self.place = HistoryPlace(options)
        self.seconds = 0.0
        self.planner = StreamPlanner(options, self.place, lambda: self.seconds, lambda: 0, self.pause)
        self.offset = self.planner.initial()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.place.close()

    def pause(self, seconds):
        self.seconds += seconds

    def plan(self):
        """What the tasks of the next batch read."""
        self.seconds += 1
        end = self.planner.latest(self.offset, is_limited=True)
        parts = self.planner.partitions(self.offset, end) if end != self.offset else []
        self.offset = end
        return parts

    def rest(self):
        found = []
        while parts := self.plan():
            found += self.history.rows(parts, streaming=True, **self.read)
        return sorted(found)


def test_a_stream_begins_in_the_archive_and_goes_on_at_the_broker(history):
    with Stream(history) as stream:
        stream.planner.freeze()
        first = history.rows(stream.plan())
        assert 0 < len(first) <= 16
        assert sorted(first + stream.rest()) == expected(0, 50)


@pytest.mark.parametrize("options", [{}, {"minPartitions": "3"}, {"maxRecordsPerPartition": "7"}])
def test_a_batch_that_is_done_again_is_the_same_after_more_was_archived(make_store, tmp_path, options):
    """Those of its messages that brokers had come from the archive then, and small files became large ones."""
    def again(batch):
        options = history.options(streaming=True, **read)
        with Stream(history, **read) as stream:
            return [[row for rows in scan_part(options, tuple(COLUMNS), part) for row in rows.to_pylist()]
                    for part in stream.planner.partitions(*batch)]

    with History(make_store, tmp_path, archived=30, range_size=2048) as history:
        read = {**options, "failOnDataLoss": "false"}
        with Stream(history, maxOffsetsPerTrigger="100", **read) as stream:
            start = stream.offset
            batch = start, stream.planner.latest(start, is_limited=True)
        before = again(batch)
        assert len(before) >= int(options.get("minPartitions", 1))
        assert [(row["queue_id"], row["queue_offset"], row["body"], row["message_type"])
                for rows in before for row in rows] == expected(0, 50)
        more = tmp_path / "more"
        shutil.copytree(history.server.store_path, more)
        assert archive_store(more, history.archive).rows == 20
        assert again(batch) == before
        config = CompactConfig(archive_path=str(history.archive), keep_superseded_ms=0)
        assert compact(LocalTasks(), config, "run", time.time_ns() // 1_000_000 + 10**9, None, nothing).compacted
        assert again(batch) == before


def test_without_the_brokers_epochs(monkeypatch, make_store, tmp_path):
    """It knows no more requests than RocketMQ's."""
    monkeypatch.delitem(request_table.HANDLERS, int(RequestCode.BULK_PULL))
    with History(make_store, tmp_path) as history:
        assert sorted(history.rows(history.parts())) == expected(0, 50)


def test_files_that_compaction_replaces_while_a_stream_is_behind(make_store, tmp_path):
    with History(make_store, tmp_path, range_size=2048) as history, Stream(history, failOnDataLoss="false") as stream:
        found = history.rows(stream.plan())
        config = CompactConfig(archive_path=str(history.archive), keep_superseded_ms=0)
        for _ in range(2):
            report = compact(LocalTasks(), config, "run", time.time_ns() // 1_000_000, None, nothing)
        assert report.removed
        assert sorted(found + stream.rest()) == expected(0, 50)


@pytest.mark.parametrize("filtered", [{}, {"tags": "Tag1"}])
def test_what_neither_has_is_data_loss(make_store, tmp_path, filtered):
    with History(make_store, tmp_path, archived=4) as history:
        low = history.lows[0]
        assert low > 2
        with pytest.raises(DataLoss, match=f"orders/broker-a/0: messages 2 to {low - 1} are gone, no longer kept"):
            history.rows(history.parts(**filtered), **filtered)
        reported = {"failOnDataLoss": "report", **filtered}
        rows = history.rows(history.parts(**reported), **reported)
        assert [row[:2] for row in rows if row[3] == "gap"] == [(0, 2), (1, 2)]


def test_an_archive_that_is_ahead_of_the_broker_is_refused(history):
    with Admin(history.server.name_server_address) as admin:
        admin.delete_topic("orders")
        admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2))
    with pytest.raises(DataLoss, match="the archive has messages up to 19"):
        history.parts()


def made_anew(history, *, sent):
    """The topic is another one, whose queues have so many messages."""
    with Admin(history.server.name_server_address) as admin:
        admin.delete_topic("orders")
        admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2))
    for queue in QUEUES:
        history.send(queue, sent, sent)


def test_a_topic_made_anew_that_has_outgrown_the_archive_is_refused(history):
    made_anew(history, sent=30)
    with pytest.raises(DataLoss, match=r"orders/broker-a/0: .* up to 19, all stored before the topic was made anew"):
        history.parts()


def test_a_topic_made_anew_is_read_once_it_is_archived(history, tmp_path):
    """What a place knew of the archive may be of the topic before."""
    place = HistoryPlace(history.options())
    made_anew(history, sent=30)
    shutil.copytree(history.server.store_path, tmp_path / "copy")
    archive_store(tmp_path / "copy", history.archive)
    assert {state[:2] for state in place.states(QUEUES).values()} == {(0, 30)}
    place.close()


def test_a_queue_that_the_topic_got_later_is_read(history):
    history.has_queues(3)
    history.send(MessageQueue("orders", "broker-a", 2), 4, 4)
    rows = sorted(history.rows(history.parts()))
    assert rows[:50] == expected(0, 50)
    assert [row[:2] for row in rows[50:]] == [(2, number) for number in range(4)]


def test_what_stands_at_a_place_the_broker_says_and_the_archive_where_it_has_no_more(make_store, tmp_path):
    """The archive is of other messages, as when the log was cut after it was archived."""
    shutil.move(make_store([order(number, properties={"UNIQ_KEY": f"X{number}"}) for number in range(ARCHIVED)]),
                tmp_path / "others")
    with History(make_store, tmp_path) as history:
        shutil.rmtree(history.archive)
        archive_store(tmp_path / "others", history.archive)
        assert history.lows[0] > 0
        place = HistoryPlace(history.options())
        ids = {offset: place.marks({QUEUES[0]: offset})[QUEUES[0]].id for offset in (0, 19, 24)}
        place.close()
    assert [offset for offset, mark in ids.items() if mark.startswith("X")] == [0]


# --- queues that only the archive has --------------------------------------------------------------------------------


def test_a_queue_that_the_topic_no_longer_has_is_read_from_the_archive(history):
    history.has_queues(1)
    rows = sorted(history.rows(history.parts()))
    assert rows == [row for row in expected(0, 50) if row[0] == 0 or row[1] < 20]
    assigned = {"assign": '{"orders":{"broker-a":[1]}}'}
    assert sorted(history.rows(history.parts(**assigned), **assigned)) == rows[25:]
    times = history.parts(startingTimestamp=str(FIRST_STORE_TIME + 35_000))
    assert sorted(history.rows(times)) == [row for row in rows if row[1] * 2 + row[0] >= 35]


def test_a_stream_reads_a_queue_that_the_topic_no_longer_has(history):
    history.has_queues(1)
    with Stream(history) as stream:
        assert stream.rest() == [row for row in expected(0, 50) if row[0] == 0 or row[1] < 20]
        history.has_queues(2)
        assert stream.rest() == [row for row in expected(0, 50) if row[0] == 1 and row[1] >= 20]


def test_a_topic_that_was_deleted_is_its_archive(history):
    with Admin(history.server.name_server_address) as admin:
        admin.delete_topic("orders")
    assert sorted(history.rows(history.parts())) == expected(0, 40)
    with pytest.raises(OptionError, match="the cluster with its archive has no topic 'order'; did you mean 'orders'"):
        history.parts(topic="order")


@pytest.fixture
def retired(make_store, tmp_path):
    """The archive has 6 orders of another broker, which is away."""
    shutil.move(make_store([order(number) for number in range(6)]), tmp_path / "other")
    with History(make_store, tmp_path) as history:
        archive_store(tmp_path / "other", history.archive, broker_name="broker-b")
        yield history


def test_a_queue_of_a_broker_that_is_away_is_data_loss(retired):
    with pytest.raises(DataLoss, match="orders/broker-b/0 is in the archive, and broker broker-b is not in"):
        retired.parts()
    with pytest.raises(DataLoss, match="start the broker, or read the archive alone, or set failOnDataLoss"):
        Stream(retired)
    assert len(retired.rows(retired.parts(assign='{"orders":{"broker-a":[0,1]}}'))) == 50


@pytest.mark.parametrize("goes_on", ["false", "report"])
def test_what_is_archived_of_a_broker_that_is_away_is_read(retired, goes_on):
    both = sorted(expected(0, 50) + expected(0, 6))
    assert sorted(retired.rows(retired.parts(failOnDataLoss=goes_on))) == both
    with Stream(retired, failOnDataLoss=goes_on) as stream:
        assert stream.rest() == both


def test_the_epoch_of_a_queue_that_vanishes_is_that_of_its_topic():
    """Of a broker that was always away nobody knows it."""
    epochs = TopicEpochs()
    other = QUEUES[0]._replace(broker_name="broker-b")
    assert (epochs.of_live(QUEUES[0], 17), epochs.of_alone(QUEUES[1])) == (17, 17)
    assert (epochs.of_alone(other), epochs.of_live(other, 23), epochs.of_alone(other)) == (0, 23, 23)


def test_a_queue_that_vanishes_while_a_stream_reads_it_is_data_loss(history):
    with Stream(history, retryTimeout="5s") as stream:
        assert stream.rest() == expected(0, 50)
        history.has_queues(1)
        assert stream.plan() == []
        with pytest.raises(DataLoss, match="orders/broker-a/1 is no longer there, where 25 is to be read next"):
            [stream.plan() for _ in range(10)]


@pytest.mark.parametrize("goes_on", ["false", "report"])
def test_a_stream_goes_on_without_a_queue_that_vanishes_and_reads_no_message_twice(history, goes_on):
    with Stream(history, retryTimeout="1s", failOnDataLoss=goes_on) as stream:
        assert stream.rest() == expected(0, 50)
        history.has_queues(1)
        history.send(QUEUES[0], 3, 28)
        rows = [row for _ in range(5) for row in stream.rest()]
        assert rows == [(0, 25 + number, b"new %d" % number, "normal") for number in range(3)]
