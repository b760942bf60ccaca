"""What becomes of damaged messages, of a store's files and of its broker."""

import base64
import json
from types import SimpleNamespace

import pytest

from regulus.broker import request_table
from regulus.client.administration.bulk_admin import QueueRead
from regulus.client.sync import Admin
from regulus.errors import DataLoss, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.record import message_record
from regulus.spark import data_loss as losses
from regulus.spark.live import scan as live_scan
from regulus.spark.live.brokers import LiveBrokers
from regulus.spark.options import parse_options
from regulus.spark.read_bounds import batch_bounds
from regulus.spark.read_plan import ReadRange, UnitRange
from regulus.spark.store.files import StoreFiles
from regulus.store.config import MessageStoreConfig
from regulus.testing.running_server import ServerThread
from regulus.wire.codes import RequestCode
from tests.unit.spark.conftest import order, send_orders
from tests.unit.spark.live.test_scan import QUEUES, server  # noqa: F401
from tests.unit.spark.store.test_scan import GAPS, gaps_of, table

BAD = (3, 6, 7)
GOOD = [number for number in range(12) if number not in BAD]


@pytest.fixture
def store(make_store):
    """12 messages, of which three have other bodies than when they were stored."""
    root = make_store([order(number) for number in range(12)])
    for path in (root / "commitlog").iterdir():
        data = path.read_bytes()
        for number in BAD:
            data = data.replace(b"body %d" % number, b"BODY %d" % number)
        path.write_bytes(data)
    return root


def bodies(root, **options):
    return [row["body"] for row in table(root, "body", topic="orders", verifyBodies="true", **options)]


def good(numbers):
    return [b"body %d" % number for number in numbers]


def kept(directory):
    return [json.loads(path.read_bytes()) for path in sorted(directory.iterdir())]


@pytest.mark.parametrize("options", [{}, {"badRecords": "fail", "failOnDataLoss": "false"}])
def test_a_damaged_message_fails_the_read_with_its_place(store, options):
    with pytest.raises(DataLoss, match=r"orders/broker-a/1: message 1 is gone, because it is damaged: .*body and its "
                                       r"checksum differ at \d+; set badRecords to drop or to reject"):
        bodies(store, **options)


@pytest.mark.parametrize(("policy", "gaps"), [("false", []), ("report", [(0, 3, 4), (1, 1, 2), (1, 3, 4)])])
def test_unless_it_is_said_a_damaged_message_is_like_one_that_is_gone(store, policy, gaps):
    rows = table(store, *GAPS, topic="orders", verifyBodies="true", failOnDataLoss=policy)
    assert gaps_of(rows) == [("orders", *gap) for gap in gaps]
    assert len(rows) == 9 + len(gaps)


def test_damaged_messages_are_dropped_with_their_number(store, caplog):
    assert bodies(store, badRecords="drop") == good(GOOD)
    assert "damaged messages that were dropped: 3, the first: orders/broker-a/1: message 1 is gone" in caplog.text


def test_dropping_is_for_what_is_damaged_and_not_for_what_is_gone(make_store):
    root = make_store([order(number) for number in range(30)])
    sorted((root / "consumequeue" / "orders" / "0").iterdir())[1].unlink()
    with pytest.raises(DataLoss, match="orders/broker-a/0: messages 5 to 9 are gone"):
        bodies(root, badRecords="drop")
    assert len(bodies(root, badRecords="drop", failOnDataLoss="false")) == 25


def test_damaged_messages_are_kept_with_reason_and_position(store, tmp_path, caplog):
    directory = tmp_path / "bad" / "orders"
    options = {"badRecords": "reject", "badRecordsPath": str(directory)}
    for _ in range(2):
        assert bodies(store, **options) == good(GOOD)
        lines = kept(directory)
        assert [(line["topic"], line["broker_name"], line["queue_id"], line["queue_offset"]) for line in lines] == [
            ("orders", "broker-a", 0, 3), ("orders", "broker-a", 1, 1), ("orders", "broker-a", 1, 3)]
    for line, number in zip(lines, (6, 3, 7), strict=True):
        data = base64.b64decode(line["data"])
        assert message_record.decode(data).body == b"BODY %d" % number
        assert len(data) == line["size"]
        assert "body and its checksum differ" in line["reason"]
    assert f"kept in {directory}: 3" in caplog.text


def keeper(tmp_path):
    options = parse_options({"storePath": str(tmp_path), "topic": "t", "badRecords": "reject",
                             "badRecordsPath": str(tmp_path / "bad")})
    return losses.Losses(options, ("body",))


def test_the_same_place_of_another_topic_of_the_name_is_kept_beside_it(tmp_path):
    for data in (b"first", b"of the topic made anew", b"first"):
        assert list(keeper(tmp_path).bad(MessageQueue("t", "b", 0), 7, "why", data)) == []
    assert sorted(base64.b64decode(line["data"]) for line in kept(tmp_path / "bad")) == [
        b"first", b"of the topic made anew"]


def test_two_attempts_of_a_task_may_keep_a_message_at_the_same_time(tmp_path, monkeypatch):
    attempts = [keeper(tmp_path), keeper(tmp_path)]

    def dumps(*values, **options):
        while attempts:
            assert list(attempts.pop().bad(MessageQueue("t", "b", 0), 7, "why", b"x")) == []
        return json.dumps(*values, **options)

    monkeypatch.setattr(losses, "json", SimpleNamespace(dumps=dumps))
    assert list(attempts.pop().bad(MessageQueue("t", "b", 0), 7, "why", b"x")) == []
    assert [line["queue_offset"] for line in kept(tmp_path / "bad")] == [7]


def test_names_that_no_file_could_have_are_cut(tmp_path):
    for name in ("bröker" * 30, "bröker" * 30 + "-a"):
        assert list(keeper(tmp_path).bad(MessageQueue("%RETRY%" + "g" * 120, name, 0), 7, "why", b"x")) == []
    assert {line["broker_name"] for line in kept(tmp_path / "bad")} == {"bröker" * 30, "bröker" * 30 + "-a"}


def test_of_large_data_the_size_is_told_and_the_beginning_kept(tmp_path, make_store, monkeypatch):
    monkeypatch.setattr(losses, "DATA_MAX", 100)
    root = make_store([order(0, body=b"body" * 500)])
    [path] = (root / "commitlog").iterdir()
    data = path.read_bytes().replace(b"bodybody", b"BODYbody", 1)
    path.write_bytes(data)
    directory = tmp_path / "bad"
    assert bodies(root, badRecords="reject", badRecordsPath=str(directory)) == []
    [line] = kept(directory)
    assert (line["size"], base64.b64decode(line["data"])) == (int.from_bytes(data[:4], "big"), data[:100])


def test_no_kept_message_is_seen_before_it_is_whole(store, tmp_path, monkeypatch):
    """Spark passes over names that begin with `_`; a task may be killed while it writes."""
    directory = tmp_path / "bad"
    seen = []

    def dumps(*values, **options):
        seen.append(sum(not path.name.startswith("_") for path in directory.iterdir()))
        return json.dumps(*values, **options)

    monkeypatch.setattr(losses, "json", SimpleNamespace(dumps=dumps))
    assert bodies(store, badRecords="reject", badRecordsPath=str(directory)) == good(GOOD)
    assert seen == [0, 1, 2]


def test_more_damaged_messages_than_that_are_no_single_ones(store, monkeypatch):
    monkeypatch.setattr(losses, "BAD_RECORDS_MAX", 2)
    with pytest.raises(DataLoss, match="more than 2 messages of one task are damaged, the first of them orders/broker-a"
                                       "/1: message 1"):
        bodies(store, badRecords="drop")


def test_a_directory_that_cannot_be_written_is_named(store, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OptionError, match=r"'badRecordsPath' is '.*file/bad', where a damaged message cannot be kept"):
        bodies(store, badRecords="reject", badRecordsPath=str(tmp_path / "file" / "bad"))


@pytest.mark.parametrize(("options", "text"), [
    ({"badRecords": "reject"}, "belong together"), ({"badRecordsPath": "/bad"}, "belong together"),
    ({"badRecords": "drop", "badRecordsPath": "/bad"}, "belong together"),
    ({"badRecords": "reject", "badRecordsPath": "bad"}, "write an absolute path"),
    ({"badRecords": "skip"}, "write fail, drop or reject"),
])
def test_options_that_do_not_fit_are_refused(options, text):
    with pytest.raises(OptionError, match=text):
        parse_options({"storePath": "/store", "topic": "orders", **options})


def test_a_body_that_cannot_be_unpacked_is_damaged(make_store):
    root = make_store([order(number, sys_flag=number % 2) for number in range(4)])
    rows = table(root, "body", topic="orders", decompress="true", badRecords="drop", tags="Tag0||Tag1")
    assert [row["body"] for row in rows] == good([0])


# --- what a broker gives ---------------------------------------------------------------------------------------------


def overwrite(server, body, change):  # noqa: F811
    """Changes the stored record with this body where it lies."""
    for path in (server.store_path / "commitlog").iterdir():
        data = path.read_bytes()
        if body in data:
            start = data.index(body) - 88
            with path.open("r+b") as file:
                file.seek(start)
                file.write(change(data[start:start + 88 + len(body)]))
            return
    raise AssertionError(f"no record has the body {body!r}")


CHANGES = {"body": lambda record: record[:-4] + b"XXXX",
           "magic": lambda record: record[:4] + b"\1\2\3\4" + record[8:],
           "size": lambda record: b"\0\0\0\7" + record[4:]}


@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("filtered", [{}, {"tags": "Tag0 || Tag1 || Tag2"}])
def test_a_damaged_record_of_a_broker_stops_nothing(server, tmp_path, change, filtered):  # noqa: F811
    send_orders(server, range(200))
    overwrite(server, b"body 101", CHANGES[change])
    given = {"nameServer": server.name_server_address, "topic": "orders", "verifyBodies": "true", **filtered}

    def offsets(**options):
        read = parse_options({**given, **options})
        with LiveBrokers(read) as brokers:
            parts = brokers.partitions(*batch_bounds(read, brokers), cores=1)
        return [(row["queue_id"], row["queue_offset"]) for part in parts
                for batch in live_scan.scan(read, ("queue_id", "queue_offset"), part) for row in batch.to_pylist()]

    with pytest.raises(DataLoss, match="orders/broker-a/1: message 50 is gone"):
        offsets()
    there = [(queue_id, offset) for queue_id in range(2) for offset in range(100) if (queue_id, offset) != (1, 50)]
    assert offsets(failOnDataLoss="false") == there
    assert offsets(badRecords="reject", badRecordsPath=str(tmp_path / "bad")) == there
    [line] = kept(tmp_path / "bad")
    assert (line["queue_id"], line["queue_offset"]) == (1, 50)
    assert line["size"] == len(base64.b64decode(line["data"]))
    with LiveBrokers(parse_options(given)) as brokers:
        assert brokers.marks({QUEUES[1]: 50, QUEUES[0]: 50}).keys() >= {QUEUES[0]}
        assert brokers.record_sizes([UnitRange("orders", 1, 50, 51, "broker-a"),
                                     UnitRange("orders", 0, 0, 400, "broker-a")])


@pytest.mark.parametrize("kind", ["bulk", "pull"])
def test_what_lies_in_a_file_that_a_broker_lost_is_gone_and_not_damaged(make_store, monkeypatch, kind):
    """One gap, however many answers tell of it."""
    if kind == "pull":
        monkeypatch.delitem(request_table.HANDLERS, int(RequestCode.BULK_PULL))
    root = make_store([order(number, queue_id=0, body=b"x", properties={}) for number in range(130)])
    sorted((root / "commitlog").iterdir())[1].unlink()
    server = ServerThread(root, store_config=MessageStoreConfig(  # noqa: F811
        store_path_root_dir=str(root), mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=100,
        message_index_enable=False))
    server.start()
    try:
        with Admin(server.name_server_address) as admin:
            admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1))
        read = parse_options({"nameServer": server.name_server_address, "topic": "orders", "badRecords": "drop",
                              "failOnDataLoss": "report"})
        with LiveBrokers(read) as brokers:
            parts = brokers.partitions(*batch_bounds(read, brokers), cores=1)
        rows = [row for part in parts for batch in live_scan.scan(read, GAPS, part) for row in batch.to_pylist()]
    finally:
        server.stop()
    [(_, _, start, end)] = gaps_of(rows)
    assert [row["queue_offset"] for row in rows if row["message_type"] != "gap"] == [*range(start), *range(end, 130)]
    assert start < 64 < end
    assert end - start < 45


class Unchecked:
    """A broker that gives what lies in its log without a look, as RocketMQ does."""

    def __init__(self, root):
        data = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
        queue = StoreFiles(str(root)).queue("orders", 0)
        low, self.high = queue.bounds(StoreFiles(str(root)).log)
        units = [queue.unit(offset) for offset in range(low, self.high)]
        self.reads = 0
        self.records = [data[unit.physical_offset:unit.physical_offset + unit.size] for unit in units]

    def states(self, queues):
        return {}

    def has_bulk(self, queue):
        return False

    def begin_read(self, queue, start, end):
        return start, end

    def finish_read(self, reading, queue, start, end):
        assert reading == (start, end)
        self.reads += 1
        stop = min(end, start + 8, self.high)
        return QueueRead(b"".join(self.records[start:stop]), stop, 0, self.high)


@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("bad", [0, 5, 8, 19])
@pytest.mark.parametrize("filtered", [{}, {"tags": "Tag0 || Tag1 || Tag2"}])
def test_a_damaged_record_takes_no_other_along(make_store, tmp_path, change, bad, filtered):
    broker = Unchecked(make_store([order(number, queue_id=0) for number in range(20)]))
    body = b"body %d" % bad
    record = broker.records[bad]
    end = record.index(body) + len(body)
    broker.records[bad] = CHANGES[change](record[:end]) + record[end:]
    read = parse_options({"nameServer": "a:1", "topic": "orders", "verifyBodies": "true", "badRecords": "reject",
                          "badRecordsPath": str(tmp_path / "bad"), **filtered})
    task = live_scan._Scan(read, ("queue_offset",), broker)
    batches = task.batches(ReadRange((UnitRange("orders", 0, 0, 20, "broker-a"),)))
    assert [row["queue_offset"] for batch in batches for row in batch.to_pylist()] == [
        offset for offset in range(20) if offset != bad]
    assert [(line["queue_offset"], line["size"]) for line in kept(tmp_path / "bad")] == [(bad, len(record))]
    assert broker.reads <= 6
