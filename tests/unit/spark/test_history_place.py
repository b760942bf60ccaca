"""An archive and a broker that no longer has all of what was archived, as one table."""

import shutil
import time

import pytest

from regulus.client.sync import Admin, Producer
from regulus.errors import DataLoss
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.spark.archive_plan import ArchiveRange
from regulus.spark.history_place import HistoryPlace
from regulus.spark.options import parse_options
from regulus.spark.places import scan_part
from regulus.spark.read_bounds import batch_bounds
from regulus.spark.stream_planner import StreamPlanner
from regulus.store.config import MessageStoreConfig
from regulus.testing.running_server import ServerThread
from tests.archives import archive_store
from tests.unit.spark.conftest import FIRST_STORE_TIME, order

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]
ARCHIVED = 40


def wide(number):
    """Some of them fill a log file."""
    return order(number, properties={"PAD": "x" * 300})


class History:
    """An archive of 40 orders; a broker that lost the files with the first of them, and got 10 more."""

    def __init__(self, make_store, tmp_path, *, archived=ARCHIVED):
        store = make_store([wide(number) for number in range(ARCHIVED)])
        self.archive = tmp_path / "archive"
        part = tmp_path / "part"
        shutil.copytree(store, part)
        if archived < ARCHIVED:
            shutil.rmtree(part)
            shutil.move(store, tmp_path / "whole")
            shutil.move(make_store([wide(number) for number in range(archived)]), part)
            shutil.move(tmp_path / "whole", store)
        archive_store(part, self.archive)
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
            until = time.monotonic() + 20
            while any(admin.max_offset(queue) < 25 for queue in QUEUES):
                assert time.monotonic() < until
            self.lows = [admin.min_offset(queue) for queue in QUEUES]
        return self

    def __exit__(self, *_):
        self.server.stop()

    def options(self, streaming=False, **options):
        return parse_options({"nameServer": self.server.name_server_address, "archivePath": str(self.archive),
                              "topic": "orders", **options}, streaming=streaming)

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


def test_a_stream_begins_in_the_archive_and_goes_on_at_the_broker(history):
    place = HistoryPlace(history.options(streaming=True))
    options = history.options(streaming=True, startingOffsets="earliest", maxOffsetsPerTrigger="16")
    planner = StreamPlanner(options, place, lambda: 0.0, lambda: 0)
    found, start = [], planner.initial()
    planner.freeze()
    while (end := planner.latest(start, is_limited=True)) != start:
        rows = history.rows(planner.partitions(start, end))
        assert 0 < len(rows) <= 16
        found += rows
        start = end
    place.close()
    assert sorted(found) == expected(0, 50)


def test_what_neither_has_is_data_loss(make_store, tmp_path):
    with History(make_store, tmp_path, archived=4) as history:
        low = history.lows[0]
        assert low > 2
        with pytest.raises(DataLoss, match=f"orders/broker-a/0: messages 2 to {low - 1} are gone"):
            history.rows(history.parts())
        rows = history.rows(history.parts(failOnDataLoss="report"), failOnDataLoss="report")
        assert [row[:2] for row in rows if row[3] == "gap"] == [(0, 2), (1, 2)]


def test_an_archive_that_is_ahead_of_the_broker_is_refused(history):
    with Admin(history.server.name_server_address) as admin:
        admin.delete_topic("orders")
        admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2))
    with pytest.raises(DataLoss, match="the archive has messages up to 19"):
        history.parts()
