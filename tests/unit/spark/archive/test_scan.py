import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regulus.errors import DataLoss
from regulus.model import sys_flag
from regulus.spark import read_plan
from regulus.spark.archive import scan as archive_scan
from regulus.spark.archive.place import ArchivePlace, plan
from regulus.spark.archive.plan import ArchiveRange, FilePart
from regulus.spark.archive.scan import scan
from regulus.spark.options import parse_options
from regulus.spark.read_plan import UnitRange
from tests.archives import archive_store, archived_rows
from tests.unit.spark.conftest import GOLDEN, order, queue_ends
from tests.unit.spark.store.test_scan import all_topics
from tests.unit.spark.store.test_scan import table as stored_rows


def by_place(rows):
    return sorted(rows, key=lambda row: row["physical_offset"])


def test_the_archive_of_a_store_of_rocketmq_is_its_table(golden_store, tmp_path):
    """Row for row what the store's own scan gives; the archive goes on to what is in no queue yet."""
    archive_store(GOLDEN / golden_store, tmp_path / "archive")
    topics = all_topics(golden_store)
    rows = archived_rows(tmp_path / "archive", subscribe=topics, batchRows=50)
    stored = by_place(stored_rows(GOLDEN / golden_store, subscribe=topics))
    ends = queue_ends(golden_store)
    dispatched = [row for row in rows if row["queue_offset"] < ends[row["topic"], row["queue_id"]]]
    assert by_place(dispatched) == stored
    assert len(rows) - len(dispatched) == {"store-4.9.8": 0, "store-4.9.8-killed": 11}[golden_store]


@pytest.fixture
def archive(make_store, tmp_path):
    messages = [order(number) for number in range(20)]
    messages.append(order(20, body=zlib.compress(b"long" * 100), sys_flag=sys_flag.COMPRESSED))
    archive_store(make_store(messages), tmp_path / "archive", range_size=1 << 20)
    return tmp_path / "archive"


def test_only_asked_columns_come_in_the_asked_order(archive):
    rows = archived_rows(archive, "tags", "queue_offset", topic="orders")
    assert [list(row) for row in rows] == [["tags", "queue_offset"]] * 21
    assert len(archived_rows(archive, topic="orders", columns="queue_id")) == 21


def test_tags_choose_rows(archive):
    assert {row["tags"] for row in archived_rows(archive, "tags", topic="orders", tags="Tag1||Tag2")} == {
        "Tag1", "Tag2"}
    assert len(archived_rows(archive, "queue_id", topic="orders", tags="Tag1||Tag2")) == 14


def test_bodies_are_as_stored_or_decompressed(archive):
    last = {"topic": "orders", "startingOffsets": '{"orders":{"0":10,"1":10}}'}
    assert zlib.decompress(archived_rows(archive, "body", **last)[0]["body"]) == b"long" * 100
    assert archived_rows(archive, "body", decompress=True, **last)[0]["body"] == b"long" * 100
    assert len(archived_rows(archive, "body", topic="orders", verifyBodies=True)) == 21


def test_a_file_that_went_is_named(archive):
    read = parse_options({"archivePath": str(archive), "topic": "orders"})
    gone = ArchiveRange((FilePart(str(archive / "data" / "gone.parquet"), None, 1, 1),))
    with pytest.raises(DataLoss, match=r"gone\.parquet was removed"):
        list(scan(read, ("topic",), gone))
    read = parse_options({"archivePath": str(archive), "topic": "orders", "failOnDataLoss": "false"})
    assert list(scan(read, ("topic",), gone)) == []


GAP_COLUMNS = ("queue_id", "queue_offset", "message_type", "properties")


def gaps_of(rows):
    """First and last offset of each queue's gaps, and why."""
    found = {}
    for row in rows:
        if row["message_type"] == "gap":
            properties = dict(row["properties"])
            found[row["queue_id"], row["queue_offset"], int(properties["GAP_END"])] = properties["GAP_CAUSE"]
    return found


@pytest.mark.parametrize("options", [{}, {"maxBytesPerPartition": "500"}])
def test_a_file_that_went_has_a_row_for_each_queue(archive, options):
    offsets = {"startingOffsets": '{"orders":{"0":2,"1":-2}}', "endingOffsets": '{"orders":{"0":9,"1":-1}}'}
    read = parse_options({"archivePath": str(archive), "topic": "orders", "failOnDataLoss": "report", **offsets,
                          **options})
    parts = plan(read, 2)
    for path in archive.rglob("*.parquet"):
        path.unlink()
    rows = [row for part in parts for batch in scan(read, GAP_COLUMNS, part) for row in batch.to_pylist()]
    assert len(rows) == 2
    found = gaps_of(rows)
    assert set(found) == {(0, 2, 9), (1, 0, 10)}
    assert all("was removed while it was to be read" in cause for cause in found.values())


def test_damage_in_a_file_is_told_and_never_read_as_other_rows(make_store, tmp_path):
    """One bit at a time, all over the pages. Of the footer the manifest has the SHA-256 alone."""
    archive_store(make_store([order(number) for number in range(300)]), tmp_path / "archive")
    good = archived_rows(tmp_path / "archive", subscribe="orders")
    path = max((tmp_path / "archive").glob("messages/*/*.parquet"), key=lambda each: each.stat().st_size)
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    told = 0
    for place in range(4, footer, 23):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1:])
        try:
            rows = archived_rows(tmp_path / "archive", subscribe="orders")
        except DataLoss as error:
            told += "is damaged" in str(error)
        else:
            assert rows == good     # what nobody asked for, such as a number that is not looked at
    assert told > footer // 23 // 2
    path.write_bytes(data[:2000] + bytes(100) + data[2100:])
    assert archived_rows(tmp_path / "archive", subscribe="orders", failOnDataLoss="false") != good


def test_a_body_with_a_wrong_checksum_is_gone(archive):
    [path] = archive.rglob("*.parquet")
    table = pq.read_table(path, partitioning=None)
    bodies = [b"other" if body == b"body 6" else body for body in table.column("body").to_pylist()]
    number = table.column_names.index("body")
    pq.write_table(table.set_column(number, table.schema.field("body"), pa.array(bodies, pa.binary())), path)
    wanted = {"topic": "orders", "verifyBodies": True}
    with pytest.raises(DataLoss, match="orders/broker-a/0: message 3 is gone, because it is damaged"):
        archived_rows(archive, *GAP_COLUMNS, **wanted)
    assert len(archived_rows(archive, *GAP_COLUMNS, failOnDataLoss=False, **wanted)) == 20
    rows = archived_rows(archive, *GAP_COLUMNS, failOnDataLoss="report", **wanted)
    assert len(rows) == 21
    assert gaps_of(rows) == {(0, 3, 4): "because it is damaged: body and its checksum differ"}
    assert gaps_of(archived_rows(archive, *GAP_COLUMNS, failOnDataLoss="report", tags="Tag1", **wanted)) == {}


def test_large_rows_make_small_batches(make_store, tmp_path, monkeypatch):
    monkeypatch.setattr(archive_scan, "BATCH_BYTES_MAX", 1000)
    sizes = [10, 10, 600, 600, 600, 3000, 10, 10]
    archive_store(make_store([order(number, queue_id=0, body=bytes(size)) for number, size in enumerate(sizes)]),
                  tmp_path / "archive")
    read = parse_options({"archivePath": str(tmp_path / "archive"), "topic": "orders"})
    batches = [batch for part in plan(read, 1) for batch in scan(read, ("queue_offset", "body"), part)]
    assert [batch.column(0).to_pylist() for batch in batches] == [[0, 1, 2], [3], [4], [5], [6, 7]]
    assert [len(row["body"]) for batch in batches for row in batch.to_pylist()] == sizes
    counted = [batch for part in plan(read, 1) for batch in scan(read, ("store_time",), part)]
    assert sum(batch.num_rows for batch in counted) == 8


def test_unpacked_bodies_end_a_batch(make_store, tmp_path, monkeypatch):
    monkeypatch.setattr(archive_scan, "UNPACKED_BYTES_MAX", 2500)
    messages = [order(number, body=zlib.compress(bytes(1000)), sys_flag=sys_flag.COMPRESSED) for number in range(7)]
    archive_store(make_store(messages), tmp_path / "archive")
    read = parse_options({"archivePath": str(tmp_path / "archive"), "topic": "orders", "decompress": "true"})
    batches = [batch for part in plan(read, 1) for batch in scan(read, ("body",), part)]
    assert [batch.num_rows for batch in batches] == [3, 3, 1]
    assert {row["body"] for batch in batches for row in batch.to_pylist()} == {bytes(1000)}


def test_a_body_that_cannot_be_unpacked_is_damaged(make_store, tmp_path, caplog):
    archive_store(make_store([order(0), order(1, body=b"plain", sys_flag=sys_flag.COMPRESSED), order(2)]),
                  tmp_path / "archive")
    wanted = {"topic": "orders", "decompress": True}
    with pytest.raises(DataLoss, match="orders/broker-a/1: message 0 is gone, because it is damaged: body is no zlib"):
        archived_rows(tmp_path / "archive", "body", **wanted)
    rows = archived_rows(tmp_path / "archive", "body", badRecords="drop", **wanted)
    assert [row["body"] for row in rows] == [b"body 0", b"body 2"]
    assert "damaged messages that were dropped: 1, the first: orders/broker-a/1: message 0" in caplog.text


def test_a_task_of_a_stream_takes_few_bytes(make_store, tmp_path, monkeypatch):
    monkeypatch.setattr(read_plan, "STREAM_PARTITION_BYTES", 2000)
    archive_store(make_store([order(number, body=bytes(500)) for number in range(20)]), tmp_path / "archive",
                  range_size=2048)
    place = ArchivePlace(parse_options({"archivePath": str(tmp_path / "archive"), "topic": "orders"}))
    ranges = [UnitRange("orders", number, 0, 10, "broker-a") for number in range(2)]
    assert len(place.partitions(ranges, (), cores=None)) > 4
    assert len(place.partitions(ranges, (), cores=1)) == 1
