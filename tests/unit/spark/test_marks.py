"""What stands at a place of a queue: told alike by files, brokers and an archive, and changed when the log is cut."""

import shutil

import pytest

from regulus.client.sync import Admin
from regulus.errors import DataLoss
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.spark.marks import Mark
from regulus.spark.open_place import open_place, scan_part
from regulus.spark.options import parse_options
from regulus.spark.readers.stream_planner import StreamPlanner
from regulus.store.config import MessageStoreConfig
from regulus.testing.running_server import ServerThread
from tests.archives import archive_store
from tests.unit.spark.conftest import FIRST_STORE_TIME, order

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]
HOST = bytes((10, 1, 2, 3, 0, 0, 42, 159))


def test_a_mark_is_told_with_its_time():
    assert str(Mark(1_700_000_000_123, "C0")) == "C0, stored at 2023-11-14T22:13:20.123+00:00"


@pytest.fixture
def everywhere(make_store, tmp_path):
    """Options of a store's files, their archive, and a broker that serves them; one message has no key of a client."""
    store = make_store([order(0), order(1, properties={}, store_host=HOST), order(2), order(3)])
    archive_store(store, tmp_path / "archive")
    shutil.copytree(store, tmp_path / "served")
    server = ServerThread(tmp_path / "served", store_config=MessageStoreConfig(
        store_path_root_dir=str(tmp_path / "served"), mapped_file_size_commit_log=4096,
        mapped_file_size_consume_queue=100, message_index_enable=False))
    server.start()
    with Admin(server.name_server_address) as admin:
        admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2))
    yield ({"storePath": str(store)}, {"archivePath": str(tmp_path / "archive")},
           {"nameServer": server.name_server_address})
    server.stop()


def test_files_brokers_and_archive_tell_the_same(everywhere):
    found = []
    for options in everywhere:
        place = open_place(parse_options({**options, "topic": "orders"}))
        found.append(place.marks({QUEUES[0]: 1, QUEUES[1]: 0}))
        assert place.marks({QUEUES[0]: 2}) == {}
        place.close()
    assert found[0][QUEUES[0]] == Mark(FIRST_STORE_TIME + 2000, f"C{2:031}")
    assert found[0][QUEUES[1]].id[:16] == HOST.hex().upper()
    assert found[0] == found[1] == found[2]


def test_a_checkpoint_goes_on_wherever_the_messages_are(everywhere):
    for first in everywhere:
        offset = {}
        for options in (first, *everywhere):
            read = parse_options({**options, "topic": "orders", "startingOffsets": "earliest"}, streaming=True)
            place = open_place(read)
            planner = StreamPlanner(read, place, lambda: 0.0, lambda: 0, pause=int)
            offset = planner.latest(offset or planner.initial(), is_limited=True)
            assert offset["topics"]["orders"]["queues"] == {"broker-a": {"0": 2, "1": 2}}
            place.close()


class Stream:
    def __init__(self, store, **options):
        self.options = parse_options({"storePath": str(store), "topic": "orders", "startingOffsets": "earliest",
                                      **options}, streaming=True)
        self.planner = StreamPlanner(self.options, open_place(self.options), lambda: 0.0, lambda: 0, pause=int)
        self.offset = self.planner.initial()

    def bodies(self):
        """Of all that can be read now."""
        found = []
        for _ in range(3):
            end = self.planner.latest(self.offset, is_limited=True)
            for part in self.planner.partitions(self.offset, end):
                for batch in scan_part(self.options, ("body",), part):
                    found += [row["body"] for row in batch.to_pylist()]
            self.offset = end
        return sorted(found)


@pytest.fixture
def cut(make_store, tmp_path):
    """A store of 20 messages; and what takes its place, which lost the last 6 and has 16 others behind the first 14."""
    shutil.move(make_store([order(number) for number in range(20)]), tmp_path / "store")
    others = [order(number, body=b"other %d" % number, properties={"UNIQ_KEY": f"D{number:031}"})
              for number in range(14, 30)]
    times = [1000 * number for number in range(14)] + [60_000 + number for number in range(16)]
    after = make_store([*(order(number) for number in range(14)), *others], times)

    def take_its_place():
        shutil.rmtree(tmp_path / "store")
        shutil.copytree(after, tmp_path / "store")

    return tmp_path / "store", take_its_place


def test_a_store_that_lost_its_end_and_grew_again_stops_the_stream(cut):
    store, take_its_place = cut
    stream = Stream(store)
    assert len(stream.bodies()) == 20
    take_its_place()
    with pytest.raises(DataLoss, match=f"orders/broker-a/0: message 9 was C{18:031}, stored at 2023-11-14T22:13:38.*"
                                       f"now it is D{18:031}, .* from 7 to 9 was not read"):
        stream.bodies()


def test_a_stream_that_may_go_on_reads_what_took_the_place_of_what_it_read(cut):
    store, take_its_place = cut
    stream = Stream(store, failOnDataLoss="false")
    stream.bodies()
    take_its_place()
    assert stream.bodies() == [b"other %d" % number for number in range(14, 30)]
