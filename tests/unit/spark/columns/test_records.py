import zlib
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from regulus.errors import OptionError
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes, offset_message_id
from regulus.record import message_record
from regulus.spark.columns.records import BadRecord, ColumnOptions, Records, arrow_schema, found_records, record_batch
from regulus.spark.table_schema import COLUMNS, ddl
from tests.unit.spark.conftest import order

BASE = 4096


def records_of(messages: list[MessageExt], tags_codes: list[int] | None = None) -> Records:
    """The messages as they would lie in one log file from physical offset BASE on."""
    data = b""
    positions, queues = [], sorted({(message.topic, message.queue_id) for message in messages})
    for number, message in enumerate(messages):
        message.physical_offset = BASE + len(data)
        message.queue_offset = number
        positions.append(len(data))
        data += message_record.encode(message)
    return Records(
        data=data, base=BASE, positions=np.array(positions, dtype=np.int64),
        sizes=np.array([message.store_size for message in messages], dtype=np.int64),
        queue_offsets=np.arange(len(messages), dtype=np.int64),
        tags_codes=np.array(tags_codes or [0] * len(messages), dtype=np.int64),
        queue_numbers=np.array([queues.index((message.topic, message.queue_id)) for message in messages], np.int64),
        topics=[topic for topic, _ in queues], queue_ids=[queue_id for _, queue_id in queues])


def read(records: Records, *columns: str, **options: object) -> dict[str, list[object]]:
    batch = record_batch(records, ColumnOptions(columns=columns or tuple(COLUMNS), broker_name="b", **options))
    batch.validate(full=True)
    return batch.to_pydict()


def test_each_column_of_a_message():
    message = MessageExt(
        "orders", b"body", {"UNIQ_KEY": "C0", "TAGS": "TagA", "KEYS": "k1 k2", "__SHARDINGKEY": "s", "城市": "北京"},
        queue_id=3, flag=-7, sys_flag=0, born_timestamp=1700000000123, born_host=host_bytes("10.1.2.3", 1234),
        store_host=host_bytes("10.9.8.7", 10911), reconsume_times=2, prepared_transaction_offset=99,
        store_timestamp=1700000000456)
    row = {name: values[0] for name, values in read(records_of([message])).items()}
    assert row == {
        "topic": "orders", "broker_name": "b", "queue_id": 3, "queue_offset": 0, "physical_offset": BASE,
        "store_size": message.store_size, "message_id": "C0",
        "offset_message_id": offset_message_id(message.store_host, BASE), "message_type": "ordered", "keys": "k1 k2",
        "tags": "TagA", "properties": list(message.properties.items()), "body": b"body",
        "body_crc": zlib.crc32(b"body") & 0x7FFFFFFF, "flag": -7, "sys_flag": 0,
        "born_time": datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
        "store_time": datetime(2023, 11, 14, 22, 13, 20, 456000, UTC), "born_host": "10.1.2.3:1234",
        "store_host": "10.9.8.7:10911", "reconsume_times": 2, "prepared_transaction_offset": 99, "deliver_time": None,
        "sharding_key": "s", "origin_topic": None, "origin_message_id": None}


def test_what_a_message_does_not_have_is_null():
    row = read(records_of([order(0, properties={})]))
    assert [row[name] for name in ("message_id", "keys", "tags", "sharding_key", "origin_topic", "properties")] == [
        [None], [None], [None], [None], [None], [[]]]


@pytest.mark.parametrize(("changes", "kind"), [
    ({}, "normal"), ({"properties": {names.SHARDING_KEY: "s"}}, "ordered"),
    ({"properties": {names.PRIORITY: "3"}}, "priority"),
    ({"properties": {names.PRIORITY: "3", names.SHARDING_KEY: "s"}}, "ordered"),
    ({"properties": {names.DELAY_TIME_LEVEL: "3"}}, "delayed"), ({"properties": {names.TIMER_OUT_MS: "3"}}, "delayed"),
    ({"properties": {names.TRANSACTION_PREPARED: "true"}}, "transaction"), ({"sys_flag": 8}, "transaction"),
    ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "properties": {names.TRANSACTION_PREPARED: "true"}}, "half"),
    ({"topic": "%RETRY%g"}, "retry"), ({"topic": "%DLQ%g"}, "dead_letter"),
    ({"topic": "SCHEDULE_TOPIC_XXXX"}, "delayed"),
])
def test_message_type(changes, kind):
    assert read(records_of([order(0), order(1, **changes)]), "message_type") == {"message_type": ["normal", kind]}


def test_the_schedule_topic_tells_when_a_message_is_delivered():
    records = records_of([order(0, topic="SCHEDULE_TOPIC_XXXX"), order(1)], [1700000000000, 2598919])
    assert read(records, "deliver_time")["deliver_time"] == [datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), None]


def test_a_timer_message_tells_when_it_is_delivered():
    records = records_of([order(0, properties={names.TIMER_DELIVER_MS: "1700000000000"}), order(1),
                          order(2, properties={names.TIMER_OUT_MS: "soon"})])
    assert read(records, "deliver_time")["deliver_time"] == [
        datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), None, None]


def test_a_timer_message_tells_it_beside_messages_of_the_schedule_topic():
    records = records_of([order(0, topic="SCHEDULE_TOPIC_XXXX"), order(1, properties={names.TIMER_OUT_MS: "0"}),
                          order(2)], [1700000000000, 0, 0])
    assert read(records, "deliver_time")["deliver_time"] == [
        datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), None]


def test_the_origin_of_dead_letters_retries_and_delayed_messages():
    records = records_of([
        order(0, properties={names.DLQ_ORIGIN_TOPIC: "a", names.DLQ_ORIGIN_MESSAGE_ID: "1", names.RETRY_TOPIC: "x"}),
        order(1, properties={names.RETRY_TOPIC: "b", names.ORIGIN_MESSAGE_ID: "2", names.REAL_TOPIC: "%RETRY%g"}),
        order(2, properties={names.REAL_TOPIC: "c"})])
    assert read(records, "origin_topic", "origin_message_id") == {
        "origin_topic": ["a", "b", "c"], "origin_message_id": ["1", "2", None]}


@pytest.mark.parametrize("v6", [(True, True), (True, False), (False, False)])
def test_hosts(v6):
    hosts = [host_bytes("2001:db8::1", 5) if is_v6 else host_bytes("10.0.0.1", 5) for is_v6 in v6]
    texts = ["[2001:db8::1]:5" if is_v6 else "10.0.0.1:5" for is_v6 in v6]
    messages = [order(number, born_host=host, store_host=host) for number, host in enumerate(hosts)]
    row = read(records_of(messages), "born_host", "store_host", "offset_message_id")
    assert row["born_host"] == row["store_host"] == texts
    assert row["offset_message_id"] == [
        offset_message_id(message.store_host, message.physical_offset) for message in messages]


def test_different_hosts():
    messages = [order(number, born_host=host_bytes("10.0.0.1", number % 3)) for number in range(7)]
    assert read(records_of(messages), "born_host")["born_host"] == [f"10.0.0.1:{number % 3}" for number in range(7)]


def test_bytes_that_are_no_utf8_are_replaced():
    records = records_of([order(0, properties={"TAGS": "bytes"}), order(1)])
    damaged = Records(**{**{name: getattr(records, name) for name in Records.__slots__},
                         "data": records.data.replace(b"bytes", b"b\xfftes")})
    assert read(damaged, "tags", "properties") == {
        "tags": ["b\ufffdtes", "Tag1"], "properties": [[("TAGS", "b\ufffdtes")], list(order(1).properties.items())]}


def test_bodies_are_as_stored_or_decompressed():
    stored = zlib.compress(b"plain" * 100)
    records = records_of([order(0, body=stored, sys_flag=0x301), order(1)])
    assert read(records, "body")["body"] == [stored, b"body 1"]
    assert read(records, "body", decompress=True)["body"] == [b"plain" * 100, b"body 1"]


def test_tags_are_compared_as_text():
    records = records_of([order(number) for number in range(6)])
    assert read(records, "queue_offset", tags=frozenset({"Tag0", "Tag2"}))["queue_offset"] == [0, 2, 3, 5]
    assert read(records, "queue_offset", tags=frozenset({"Tag9"}))["queue_offset"] == []


def test_bodies_are_verified_when_asked_for():
    records = records_of([order(0), order(1, body=b"hello")])
    damaged = Records(**{**{name: getattr(records, name) for name in Records.__slots__},
                         "data": records.data.replace(b"hello", b"hullo")})
    assert read(damaged, "body")["body"] == [b"body 0", b"hullo"]
    with pytest.raises(BadRecord, match="orders/1: message 1: body and its checksum differ") as caught:
        read(damaged, "queue_id", verify_bodies=True)
    assert caught.value.row == 1


@pytest.mark.parametrize("change", ["queue_offsets", "sizes", "queue_ids", "base"])
def test_a_record_must_be_what_its_queue_says(change):
    records = records_of([order(0), order(1)])
    values = {name: getattr(records, name) for name in Records.__slots__}
    values[change] = BASE + 1 if change == "base" else np.array(values[change]) + np.array([0, 1])
    with pytest.raises(BadRecord, match="another record") as caught:
        read(Records(**values), "queue_id")
    assert caught.value.row == (0 if change == "base" else 1)


def test_a_whole_batch_is_never_taken_for_one_message():
    records = records_of([order(0), order(1, sys_flag=0xC0)])
    with pytest.raises(OptionError, match="orders: a record has a whole batch"):
        read(records, "body")
    with pytest.raises(OptionError, match="orders: a record has a whole batch"):
        found_records(records.data, "orders", 0, 0, 8)
    assert len(found_records(records_of([order(0), order(1)]).data, "orders", 0, 0, 8).positions) == 2


def test_the_schema_in_both_languages():
    assert ddl(("topic", "properties")) == "topic string, properties map<string,string>"
    assert arrow_schema(("born_time",)).field("born_time").type == pa.timestamp("us", tz="UTC")
    with pytest.raises(OptionError, match="no column 'bodies'; it has topic"):
        ddl(("topic", "bodies"))


