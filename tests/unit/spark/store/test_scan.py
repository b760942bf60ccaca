import base64
import json
import mmap
import time
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from regulus.errors import DataLoss, OptionError
from regulus.model import sys_flag
from regulus.record.consume_queue_unit import FILLER, encode
from regulus.spark.columns import records as columns
from regulus.spark.options import parse_options
from regulus.spark.read_plan import ReadRange
from regulus.spark.store import files as store_files
from regulus.spark.store import scan as store_scan
from regulus.spark.store.plan import plan
from regulus.spark.store.scan import scan
from regulus.spark.table_schema import COLUMNS
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from tests.unit.spark.conftest import FIRST_STORE_TIME, GOLDEN, order, queue_ends


def table(root: Path, *columns: str, cores: int = 2, **options: object) -> list[dict[str, Any]]:
    """All rows that a read gives, part after part."""
    read = parse_options({"storePath": str(root), **{key: str(value) for key, value in options.items()}})
    batches = [batch for part in plan(read, cores) for batch in scan(read, columns or tuple(COLUMNS), part)]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def golden_messages(store: str) -> list[dict[str, Any]]:
    """What RocketMQ says of the messages that have a place in a queue, in the order of the log."""
    lines = [json.loads(line) for line in (GOLDEN / f"{store}.jsonl").read_text(encoding="utf-8").splitlines()]
    ends = queue_ends(store)
    return [line for line in lines if line["kind"] == "message"
            and line["queueOffset"] < ends.get((line["topic"], line["queueId"]), 0)]


def all_topics(store: str) -> str:
    return ",".join(sorted(path.name for path in (GOLDEN / store / "consumequeue").iterdir() if any(path.iterdir())))


def test_each_message_of_rocketmq(golden_store):
    rows = table(GOLDEN / golden_store, subscribe=all_topics(golden_store), minPartitions=3, batchRows=100)
    messages = golden_messages(golden_store)
    assert len(rows) == len(messages) == {"store-4.9.8": 733, "store-4.9.8-killed": 2429}[golden_store]
    for row, line in zip(rows, messages, strict=True):
        assert {
            "physicalOffset": row["physical_offset"], "storeSize": row["store_size"], "topic": row["topic"],
            "queueId": row["queue_id"], "queueOffset": row["queue_offset"], "sysFlag": row["sys_flag"],
            "flag": row["flag"], "bornTimestamp": round(row["born_time"].timestamp() * 1000),
            "bornHost": row["born_host"], "storeTimestamp": round(row["store_time"].timestamp() * 1000),
            "storeHost": row["store_host"], "reconsumeTimes": row["reconsume_times"],
            "preparedTransactionOffset": row["prepared_transaction_offset"], "bodyCRC": row["body_crc"],
            "bodyBase64": base64.b64encode(row["body"]).decode(), "properties": dict(row["properties"]),
            "tags": row["tags"], "uniqKey": row["message_id"], "offsetMsgId": row["offset_message_id"],
        }.items() <= line.items()


def test_kinds_of_messages_of_rocketmq():
    rows = table(GOLDEN / "store-4.9.8", "topic", "message_type", "deliver_time", "origin_topic",
                 subscribe=all_topics("store-4.9.8"))
    kinds = {(row["topic"], row["message_type"]) for row in rows}
    assert {("SRetry", "normal"), ("%RETRY%CG_retry", "retry"), ("%DLQ%CG_retry", "dead_letter"),
            ("SCHEDULE_TOPIC_XXXX", "delayed"), ("RMQ_SYS_TRANS_HALF_TOPIC", "half"), ("STrans", "transaction"),
            ("SNormal", "normal")} <= kinds
    assert {row["origin_topic"] for row in rows if row["message_type"] == "dead_letter"} == {"SRetry"}
    assert all(row["deliver_time"] is not None for row in rows if row["topic"] == "SCHEDULE_TOPIC_XXXX")


def test_rolled_back_and_prepared_messages_are_not_in_their_topic():
    rows = table(GOLDEN / "store-4.9.8", "body", "sys_flag", topic="STrans")
    assert len(rows) == 2
    assert all(row["sys_flag"] & 0xC == 8 for row in rows)


def test_compressed_bodies_of_rocketmq():
    rows = table(GOLDEN / "store-4.9.8", "body", "sys_flag", topic="SNormal", decompress="true")
    compressed = [row["body"] for row in rows if row["sys_flag"] & 1]
    assert len(compressed) == 3
    assert len(set(compressed)) == 1


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_the_rows_do_not_depend_on_the_parts(make_store, parts):
    root = make_store([order(number, queue_id=number % 3) for number in range(100)])
    read = parse_options({"storePath": str(root), "topic": "orders", "minPartitions": str(parts)})
    planned = plan(read, 1)
    assert len(planned) == parts
    rows = table(root, "body", topic="orders", minPartitions=parts)
    assert rows == [{"body": b"body %d" % number} for number in range(100)]


def test_a_part_has_no_more_records_than_wanted(make_store):
    root = make_store([order(number) for number in range(40)])
    planned = plan(parse_options({"storePath": str(root), "topic": "orders", "maxRecordsPerPartition": "12"}), 1)
    assert len(planned) == 4
    assert max(part.rows for part in planned) <= 12


def test_parts_divide_the_log_into_ranges(make_store):
    root = make_store([order(number, queue_id=number % 3) for number in range(90)])
    read = parse_options({"storePath": str(root), "topic": "orders", "minPartitions": "4"})
    places = [[row["physical_offset"] for batch in scan(read, ("physical_offset",), part) for row in batch.to_pylist()]
              for part in plan(read, 1)]
    assert [place for part in places for place in part] == sorted(place for part in places for place in part)
    assert max(map(len, places)) <= 2 * min(map(len, places))


def test_batches_end_at_rows_at_bytes_and_at_files(make_store, monkeypatch):
    root = make_store([order(number, body=bytes(300)) for number in range(30)])
    read = parse_options({"storePath": str(root), "topic": "orders", "batchRows": "4"})
    sizes = [batch.num_rows for part in plan(read, 1) for batch in scan(read, ("queue_id",), part)]
    assert max(sizes) == 4
    assert sum(sizes) == 30
    monkeypatch.setattr(store_scan, "BATCH_BYTES_MAX", 100)
    assert [batch.num_rows for part in plan(read, 1) for batch in scan(read, ("queue_id",), part)] == [1] * 30


def test_tags(make_store):
    root = make_store([order(number) for number in range(12)])
    rows = table(root, "tags", topic="orders", tags="Tag0 || Tag2")
    assert [row["tags"] for row in rows] == ["Tag0", "Tag2"] * 4
    assert table(root, "tags", topic="orders", tags="Tag9") == []


def test_tags_with_one_hash_are_told_apart(make_store):
    root = make_store([order(number, properties={"TAGS": ("Aa", "BB")[number % 2]}) for number in range(4)])
    assert [row["tags"] for row in table(root, "tags", topic="orders", tags="BB")] == ["BB", "BB"]


def test_a_time_window(make_store):
    root = make_store([order(number) for number in range(10)])
    rows = table(root, "body", topic="orders", startingTimestamp=FIRST_STORE_TIME + 2500,
                 endingTimestamp=FIRST_STORE_TIME + 7000)
    assert [row["body"] for row in rows] == [b"body %d" % number for number in (3, 4, 5, 6)]


def test_offsets_choose_the_messages(make_store):
    root = make_store([order(number) for number in range(10)])
    rows = table(root, "queue_id", "queue_offset", topic="orders", startingOffsets='{"orders":{"0":3,"1":-2}}',
                 endingOffsets='{"orders":{"broker-a":{"0":-1,"1":2}}}')
    assert sorted((row["queue_id"], row["queue_offset"]) for row in rows) == [(0, 3), (0, 4), (1, 0), (1, 1)]


def test_a_time_beats_offsets(make_store):
    root = make_store([order(number) for number in range(4)])
    rows = table(root, "body", topic="orders", startingOffsets='{"orders":{"0":1}}',
                 startingTimestamp=FIRST_STORE_TIME + 3000)
    assert rows == [{"body": b"body 3"}]


def test_offsets_must_name_all_queues(make_store):
    root = make_store([order(number) for number in range(4)])
    with pytest.raises(OptionError, match="missing orders/broker-a/1; unknown orders/broker-a/5"):
        table(root, topic="orders", startingOffsets='{"orders":{"0":1,"5":1}}')


def test_single_queues_are_assigned(make_store):
    root = make_store([order(number) for number in range(4)])
    assert {row["queue_id"] for row in table(root, "queue_id", assign='{"orders":[1]}')} == {1}
    with pytest.raises(OptionError, match="names orders/2, which the store does not have: it has orders/broker-a/0, "):
        table(root, assign='{"orders":[1,2]}')


def test_a_topic_that_never_had_a_message_is_empty():
    assert table(GOLDEN / "store-4.9.8", topic="RMQ_SYS_TRACE_TOPIC") == []


def test_the_end_is_fixed_by_the_plan(make_store):
    root = make_store([order(number) for number in range(4)])
    read = parse_options({"storePath": str(root), "topic": "orders"})
    planned = plan(read, 1)
    assert isinstance(planned[0], ReadRange)
    make_store([order(number) for number in range(4, 9)])
    assert sum(batch.num_rows for part in planned for batch in scan(read, ("body",), part)) == 4
    assert len(table(root, "body", topic="orders")) == 9


def test_a_store_that_is_being_written_shows_what_is_dispatched(tmp_path):
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 << 20))
    store.open(time.monotonic)
    try:
        for number in range(10):
            store.append(order(number), FIRST_STORE_TIME + number)
        store.dispatch(6)
        assert [row["body"] for row in table(tmp_path, "body", topic="orders")] == [
            b"body %d" % number for number in range(6)]
        store.dispatch(6)
        assert len(table(tmp_path, "body", topic="orders")) == 10
    finally:
        store.close()


def damaged(root: Path, body: bytes) -> Path:
    """Makes the record with that body unreadable."""
    for path in (root / "commitlog").iterdir():
        data = path.read_bytes()
        if body in data:
            start = data.index(body) - 88
            path.write_bytes(data[:start + 4] + b"\0\0\0\0" + data[start + 8:])
    return root


def test_a_damaged_record_is_data_loss(make_store):
    root = damaged(make_store([order(number) for number in range(20)]), b"body 7")
    with pytest.raises(DataLoss, match=r"orders/1: message 3: no record.*failOnDataLoss"):
        table(root, topic="orders")
    rows = table(root, "body", topic="orders", failOnDataLoss="false")
    assert [row["body"] for row in rows] == [b"body %d" % number for number in range(20) if number != 7]


def test_a_file_removed_after_the_plan_is_data_loss(make_store):
    root = make_store([order(number, body=bytes(500), queue_id=0) for number in range(30)])
    read = parse_options({"storePath": str(root), "topic": "orders"})
    lenient = parse_options({"storePath": str(root), "topic": "orders", "failOnDataLoss": "false"})
    planned = plan(read, 1)
    sorted((root / "commitlog").iterdir())[0].unlink()
    with pytest.raises(DataLoss, match=r"orders/broker-a/0: messages 0 to \d are gone, .*no file with byte 0"):
        list(scan(read, ("body",), planned[0]))
    kept = [row["queue_offset"] for batch in scan(lenient, ("queue_offset",), planned[0]) for row in batch.to_pylist()]
    assert kept == list(range(kept[0], 30))
    assert kept[0] > 0


GAPS = ("topic", "queue_id", "queue_offset", "message_type", "properties")


def gaps_of(rows):
    return sorted((row["topic"], row["queue_id"], row["queue_offset"], int(dict(row["properties"])["GAP_END"]))
                  for row in rows if row["message_type"] == "gap")


def test_a_missing_file_of_the_log_is_a_gap_of_each_queue(make_store):
    """And of no queue that has nothing in it."""
    root = make_store([*(order(number, topic="early") for number in range(2)),
                       *(order(number, body=bytes(500)) for number in range(40))])
    whole = table(root, "physical_offset", "queue_id", "queue_offset", topic="orders")
    second, third = sorted((root / "commitlog").iterdir())[1:3]
    lost = [row for row in whole if int(second.name) <= row["physical_offset"] < int(third.name)]
    second.unlink()
    assert len(table(root, topic="early")) == 2
    with pytest.raises(DataLoss, match=r"orders/broker-a/0: messages \d+ to \d+ are gone, .*no file with byte"):
        table(root, topic="orders")
    kept = [row for row in whole if row not in lost]
    assert table(root, *whole[0], topic="orders", failOnDataLoss="false") == kept
    rows = table(root, *GAPS, topic="orders", failOnDataLoss="report")
    expected = [("orders", queue_id, min(offsets), max(offsets) + 1) for queue_id in (0, 1)
                if (offsets := [row["queue_offset"] for row in lost if row["queue_id"] == queue_id])]
    assert len(expected) == 2
    assert gaps_of(rows) == expected
    assert len(rows) == len(kept) + 2


def test_all_that_lies_behind_the_last_file_is_one_gap(make_store):
    root = make_store([order(number, body=bytes(500), queue_id=0) for number in range(30)])
    read = parse_options({"storePath": str(root), "topic": "orders", "failOnDataLoss": "report"})
    planned = plan(read, 1)
    _, *others = sorted((root / "commitlog").iterdir())
    for path in others:
        path.unlink()
    rows = [row for batch in scan(read, GAPS, planned[0]) for row in batch.to_pylist()]
    [(*_, start, end)] = gaps_of(rows)
    assert (start, end, len(rows)) == (start, 30, start + 1)


def test_a_missing_file_of_a_queue_is_a_gap(make_store):
    root = make_store([order(number, queue_id=0) for number in range(23)])
    sorted((root / "consumequeue" / "orders" / "0").iterdir())[1].unlink()
    with pytest.raises(DataLoss, match="orders/broker-a/0: messages 5 to 9 are gone, because the consume queue has no"):
        table(root, topic="orders")
    for options in ({}, {"tags": "Tag0||Tag1||Tag2"}):
        rows = table(root, *GAPS, topic="orders", failOnDataLoss="report", **options)
        assert gaps_of(rows) == [("orders", 0, 5, 10)]
        assert [row["queue_offset"] for row in rows if row["message_type"] != "gap"] == [*range(5), *range(10, 23)]


def test_unpacked_bodies_end_a_batch(make_store, monkeypatch):
    messages = [order(number, body=zlib.compress(bytes(1000)), sys_flag=sys_flag.COMPRESSED) for number in range(10)]
    root = make_store(messages)
    monkeypatch.setattr(columns, "UNPACKED_BYTES_MAX", 2500)
    read = parse_options({"storePath": str(root), "topic": "orders", "decompress": "true", "tags": "Tag0||Tag1"})
    batches = [batch for part in plan(read, 1) for batch in scan(read, ("body", "queue_offset", "queue_id"), part)]
    assert [batch.num_rows for batch in batches] == [2, 2, 2, 1]
    assert {row["body"] for batch in batches for row in batch.to_pylist()} == {bytes(1000)}
    places = [(row["queue_offset"], row["queue_id"]) for batch in batches for row in batch.to_pylist()]
    assert places == [(number // 2, number % 2) for number in range(10) if number % 3 < 2]


@pytest.mark.parametrize("other", ["orders-b", "ordersXa", "order", "b", "o" * 126 + "p", "p" + "o" * 126])
@pytest.mark.parametrize("topic", ["orders-a", "a", "o" * 127])
def test_a_record_of_another_topic_is_not_read_as_this_ones(make_store, topic, other):
    """Its queue offset and id are the same: each topic has a queue 0 with a message 1."""
    store = make_store([order(number, topic=each, queue_id=0) for number in range(3) for each in (topic, other)])
    units = [next((store / "consumequeue" / each / "0").iterdir()) for each in (topic, other)]
    mine, others = (path.read_bytes() for path in units)
    units[0].write_bytes(mine[:20] + others[20:40] + mine[40:])
    with pytest.raises(DataLoss, match=f"{topic}.* message 1: another record lies where its consume queue points"):
        table(store, subscribe=topic)
    assert [row["queue_offset"] for row in table(store, subscribe=topic, failOnDataLoss="false")] == [0, 2]


@pytest.mark.parametrize("place", [0, 1, 4, 7, 8])
@pytest.mark.parametrize("kind", ["filler", "blank"])
def test_a_unit_that_says_nothing_hides_no_message_but_its_own(make_store, place, kind):
    """Of nine in two files; the last one, or the first, may be where the queue ends or begins."""
    store = make_store([order(number, queue_id=0) for number in range(9)])
    files = sorted((store / "consumequeue" / "orders" / "0").iterdir())
    path, at = files[place // 5], place % 5 * 20
    data = bytearray(path.read_bytes())
    good = bytes(data[at:at + 20])
    data[at:at + 20] = {"filler": encode(FILLER), "blank": good[:8] + bytes(4) + good[12:]}[kind]
    path.write_bytes(data)
    others = [number for number in range(9) if number != place]
    assert [row["queue_offset"] for row in table(store, subscribe="orders", failOnDataLoss="false")] == others
    if place in (0, 8):
        return      # there the queue begins later, or ends earlier
    with pytest.raises(DataLoss, match="message"):
        table(store, subscribe="orders")


def test_records_are_read_over_the_borders_of_what_is_mapped(tmp_path, monkeypatch):
    """Some lie across two windows, some are larger than one."""
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(tmp_path), message_index_enable=False,
                                                mapped_file_size_commit_log=1 << 17))
    store.open(time.monotonic)
    for number in range(60):
        store.append(order(number, body=bytes(100 if number % 7 else 9000)), FIRST_STORE_TIME + number)
    while store.dispatch_behind_bytes():
        store.dispatch(100)
    store.close()
    options = parse_options({"storePath": str(tmp_path), "topic": "orders"})

    def rows():
        return [row for part in plan(options, 1) for batch in scan(options, ("physical_offset", "body"), part)
                for row in batch.to_pylist()]

    whole = rows()
    assert [row["physical_offset"] for row in whole] == sorted({row["physical_offset"] for row in whole})
    assert len(whole) == 60
    monkeypatch.setattr(store_files, "WINDOW_BYTES", mmap.ALLOCATIONGRANULARITY)
    assert rows() == whole
